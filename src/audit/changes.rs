//! What changed from one look at a cluster to the next, and only that.
//!
//! Pure: two states in, changes out. It does not know when the looks were, and a state that could not be read is
//! never handed in: whoever calls keeps the last one.

use std::{cmp::Ordering, collections::BTreeMap, net::IpAddr, sync::Arc};

use ipgc_core::{judge::Held, pool::PoolKey};

use super::report::{Finding, Problem};

/// What a verdict is on. It stays the same while the verdict changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// A row.
    Row(RowId),
    /// A row again, by something that is wrong with it beside the verdict.
    OfRow(RowId, Problem),
    /// A reservation without a row, by its uid.
    Reservation(Box<str>),
    /// Something else that is found.
    Other {
        /// What is wrong.
        problem: Problem,
        /// With what.
        about: Box<str>,
        /// How many before it are alike.
        nth: u32,
    },
}

/// What tells one row from all others that there are at a time.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId {
    /// `metadata.uid` of the pool.
    pub pool_uid: Arc<str>,
    /// Its key in `spec.allocations`.
    pub key: Box<str>,
}

/// What is known of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// What it was judged to be.
    pub judged: Judged,
    /// The node of its pod, or the last one that is known of it.
    pub node: Option<Arc<str>>,
    /// Whether it has what is asked for.
    pub chosen: bool,
}

/// What a subject was judged to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Judged {
    /// Something is wrong with it.
    Finding(Box<Finding>),
    /// Nothing is.
    Kept(Kept),
}

/// A row with which nothing is wrong. Most are, so it is small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// Why it is kept.
    pub why: Why,
    /// Its pool.
    pub pool: Arc<PoolKey>,
    /// Its address, if it can be read.
    pub address: Option<IpAddr>,
    /// Its interface, if it has one.
    pub interface: Option<Box<str>>,
    /// Its pod as `namespace/name`, if it tells one.
    pub pod: Option<Box<str>>,
}

/// Why a row is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its pod may answer on it.
    Held(Held),
    /// A person said so.
    Exempt,
}

/// All subjects.
pub type State = BTreeMap<Subject, Entry>;

/// One subject that changed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change<'a> {
    /// Which one.
    pub subject: &'a Subject,
    /// What it was; nothing if it is new.
    pub before: Option<&'a Entry>,
    /// What it is; nothing if it is gone.
    pub after: Option<&'a Entry>,
}

/// All that is told when it changes. Waits and counts run on, nodes come and go by the hundred in an outage: none of
/// these is a change of a verdict.
#[derive(Debug, PartialEq)]
pub struct Told<'a> {
    verdict: &'static str,
    why: Option<&'a Why>,
    grade: Option<&'a str>,
    cause: Option<&'a str>,
    owners: Vec<&'a str>,
    chosen: bool,
}

impl Entry {
    /// The verdict in a word: a problem, `live`, `unreported` or `exempt`.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match &self.judged {
            Judged::Finding(finding) => finding.problem.as_str(),
            Judged::Kept(kept) => match kept.why {
                Why::Held(ref held) => held.word().as_str(),
                Why::Exempt => "exempt",
            },
        }
    }

    /// What is wrong with it, if something is.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        match &self.judged {
            Judged::Finding(finding) => Some(finding),
            Judged::Kept(_) => None,
        }
    }

    /// The pods as `namespace/name`.
    #[must_use]
    pub fn pods(&self) -> Vec<&str> {
        match &self.judged {
            Judged::Finding(finding) => finding.pods.iter().map(String::as_str).collect(),
            Judged::Kept(kept) => kept.pod.as_deref().into_iter().collect(),
        }
    }

    /// Namespace and name of the pool.
    #[must_use]
    pub fn pool(&self) -> Option<(&str, &str)> {
        match &self.judged {
            Judged::Finding(finding) => {
                let namespace = finding.namespace.as_deref().unwrap_or_default();
                Some((namespace, finding.pool.as_deref()?))
            }
            Judged::Kept(kept) => Some((&kept.pool.namespace, &kept.pool.name)),
        }
    }

    fn address(&self) -> Option<IpAddr> {
        match &self.judged {
            Judged::Finding(finding) => finding.address.as_ref()?.parse().ok(),
            Judged::Kept(kept) => kept.address,
        }
    }

    /// What is told of it.
    #[must_use]
    pub fn told(&self) -> Told<'_> {
        let (finding, why) = match &self.judged {
            Judged::Finding(finding) => (Some(finding), None),
            Judged::Kept(kept) => (None, Some(&kept.why)),
        };
        Told {
            verdict: self.verdict(),
            why,
            grade: finding.and_then(|finding| finding.grade.as_deref()),
            cause: finding.and_then(|finding| finding.cause.as_deref()),
            owners: self.pods(),
            chosen: self.chosen,
        }
    }

    /// In the order of a report: findings, worst first, by place; then the rest by place.
    #[must_use]
    pub fn order(&self, other: &Self) -> Ordering {
        let rank = |entry: &Self| {
            let problem = entry.finding().map(|finding| finding.problem);
            (problem.is_none(), problem)
        };
        let place = |entry: &Self| {
            (
                entry.address(),
                entry.pods().first().map(|pod| (*pod).to_owned()),
            )
        };
        let by_pool = || self.pool().cmp(&other.pool());
        let by_place = || place(self).cmp(&place(other));
        rank(self)
            .cmp(&rank(other))
            .then_with(by_pool)
            .then_with(by_place)
    }
}

impl<'a> Change<'a> {
    /// Whether it is of interest: of what was chosen, what enters or leaves a finding, or `all`.
    #[must_use]
    pub fn is_wanted(&self, all: bool) -> bool {
        let wanted = |entry: &Entry| entry.chosen && (all || entry.finding().is_some());
        self.before.is_some_and(wanted) || self.after.is_some_and(wanted)
    }

    fn entry(&self) -> Option<&'a Entry> {
        self.after.or(self.before)
    }
}

/// What leads from one state to the next: what went first, then what came or changed, each in the order of a
/// report.
#[must_use]
pub fn changes<'a>(before: &'a State, after: &'a State) -> Vec<Change<'a>> {
    let gone = before
        .iter()
        .filter(|(subject, _)| !after.contains_key(subject));
    let gone = gone.map(|(subject, entry)| Change {
        subject,
        before: Some(entry),
        after: None,
    });
    let others = after.iter().filter_map(|(subject, entry)| {
        let former = before.get(subject);
        let same = former.is_some_and(|former| former.told() == entry.told());
        (!same).then_some(Change {
            subject,
            before: former,
            after: Some(entry),
        })
    });
    let mut all: Vec<_> = gone.chain(others).collect();
    all.sort_by(|a, b| {
        let by_entry = || match (a.entry(), b.entry()) {
            (Some(a), Some(b)) => a.order(b),
            _ => Ordering::Equal,
        };
        let came = |change: &Change<'_>| change.after.is_some();
        came(a).cmp(&came(b)).then_with(by_entry)
    });
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::{collection::btree_map, option, prelude::*};
    use rstest::rstest;

    use super::*;

    fn row(key: u8) -> Subject {
        Subject::Row(RowId {
            pool_uid: "pool".into(),
            key: key.to_string().into(),
        })
    }

    fn kept(why: Why, pod: &str) -> Entry {
        let pool = PoolKey {
            namespace: "default".to_owned(),
            name: "10.0.0.0-24".to_owned(),
        };
        Entry {
            judged: Judged::Kept(Kept {
                why,
                pool: Arc::new(pool),
                address: Some("10.0.0.1".parse().unwrap()),
                interface: None,
                pod: Some(pod.into()),
            }),
            node: Some("n1".into()),
            chosen: true,
        }
    }

    fn live() -> Entry {
        kept(Why::Held(Held::Reported), "default/web-1")
    }

    fn found(problem: Problem, change: impl FnOnce(&mut Finding)) -> Entry {
        let mut finding = Finding::new(problem, "because");
        finding.pods = vec!["default/web-1".to_owned()];
        finding.grade = Some("unwitnessed".into());
        finding.cause = Some("deleted".into());
        change(&mut finding);
        Entry {
            judged: Judged::Finding(Box::new(finding)),
            ..live()
        }
    }

    fn stale() -> Entry {
        found(Problem::Stale, |_| {})
    }

    fn state(entries: impl IntoIterator<Item = (u8, Entry)>) -> State {
        entries
            .into_iter()
            .map(|(key, entry)| (row(key), entry))
            .collect()
    }

    /// A state after changes.
    fn apply(state: &State, changes: &[Change<'_>]) -> State {
        let mut state = state.clone();
        for change in changes {
            assert_eq!(state.get(change.subject), change.before);
            match change.after {
                Some(entry) => state.insert(change.subject.clone(), entry.clone()),
                None => state.remove(change.subject),
            };
        }
        state
    }

    #[rstest]
    #[case::verdict(live(), stale())]
    #[case::problem(stale(), found(Problem::HeldUnfenced, |_| {}))]
    #[case::grade(stale(), found(Problem::Stale, |it| it.grade = Some("fenced".into())))]
    #[case::cause(stale(), found(Problem::Stale, |it| it.cause = Some("completed".into())))]
    #[case::owner(live(), kept(Why::Held(Held::Reported), "default/web-2"))]
    #[case::owner_of_a_finding(stale(), found(Problem::Stale, |it| it.pods[0].push('0')))]
    #[case::reason(live(), kept(Why::Held(Held::Young), "default/web-1"))]
    #[case::exemption(live(), kept(Why::Exempt, "default/web-1"))]
    #[case::selection(live(), Entry { chosen: false, ..live() })]
    fn whatever_a_verdict_has_is_a_change(#[case] before: Entry, #[case] after: Entry) {
        let (before, after) = (state([(1, before)]), state([(1, after)]));
        let expected = Change {
            subject: &row(1),
            before: before.get(&row(1)),
            after: after.get(&row(1)),
        };
        assert_eq!(changes(&before, &after), [expected]);
    }

    #[rstest]
    #[case::wait(found(Problem::Stale, |it| it.wait_seconds = Some(1)))]
    #[case::words(found(Problem::Stale, |it| it.detail = "otherwise".into()))]
    #[case::nodes(found(Problem::Stale, |it| it.nodes = ["n2"].into_iter().collect()))]
    #[case::node(Entry { node: None, ..stale() })]
    fn what_runs_on_is_no_change(#[case] after: Entry) {
        let (before, after) = (state([(1, stale())]), state([(1, after)]));
        assert_ne!(before, after);
        assert_eq!(changes(&before, &after), []);
    }

    #[test]
    fn what_went_comes_first_then_what_is_worst() {
        let before = state([(1, live()), (2, stale()), (3, live())]);
        let after = state([
            (3, stale()),
            (4, live()),
            (5, found(Problem::InUseTwice, |_| {})),
        ]);
        let all = changes(&before, &after);
        let order: Vec<_> = all.iter().map(|change| change.subject.clone()).collect();
        assert_eq!(order, [2, 1, 5, 3, 4].map(row));
    }

    #[test]
    fn wanted_is_what_is_chosen_and_enters_or_leaves_a_finding() {
        let (subject, other) = (row(1), |entry: &Entry| Entry {
            chosen: false,
            ..entry.clone()
        });
        let (live, stale) = (live(), stale());
        let change = |before, after| Change {
            subject: &subject,
            before,
            after,
        };
        for (before, after) in [
            (Some(&live), Some(&stale)),
            (Some(&stale), Some(&live)),
            (Some(&stale), None),
        ] {
            assert!(
                change(before, after).is_wanted(false) && change(before, after).is_wanted(true)
            );
        }
        for (before, after) in [(Some(&live), None), (None, Some(&live))] {
            assert!(
                !change(before, after).is_wanted(false) && change(before, after).is_wanted(true)
            );
        }
        let (unchosen_live, unchosen_stale) = (other(&live), other(&stale));
        assert!(!change(Some(&unchosen_live), Some(&unchosen_stale)).is_wanted(true));
        assert!(change(Some(&stale), Some(&unchosen_live)).is_wanted(false));
        assert!(!change(Some(&live), Some(&unchosen_stale)).is_wanted(false));
    }

    fn any_entry() -> impl Strategy<Value = Entry> {
        let why = prop_oneof![
            Just(Why::Held(Held::Reported)),
            Just(Why::Held(Held::Young)),
            Just(Why::Exempt)
        ];
        let pod = "default/web-[12]";
        let problem = prop_oneof![
            Just(Problem::Stale),
            Just(Problem::HeldUnfenced),
            Just(Problem::InUseTwice)
        ];
        let grade = option::of("(fenced|unwitnessed)");
        let finding =
            (problem, pod, grade, option::of(0..3_u64)).prop_map(|(problem, pod, grade, wait)| {
                found(problem, |it| {
                    it.pods = vec![pod];
                    it.grade = grade.map(Into::into);
                    it.wait_seconds = wait;
                })
            });
        let kept = (why, pod).prop_map(|(why, pod)| kept(why, &pod));
        (
            prop_oneof![kept, finding],
            any::<bool>(),
            option::of("n[12]"),
        )
            .prop_map(|(entry, chosen, node)| Entry {
                chosen,
                node: node.map(Into::into),
                ..entry
            })
    }

    fn any_state() -> impl Strategy<Value = State> {
        btree_map((0..12_u8).prop_map(row), any_entry(), 0..10)
    }

    fn told(state: &State) -> Vec<(&Subject, Told<'_>)> {
        state
            .iter()
            .map(|(subject, entry)| (subject, entry.told()))
            .collect()
    }

    proptest! {
        #[test]
        fn changes_lead_from_one_state_to_the_next(before in any_state(), after in any_state()) {
            let all = changes(&before, &after);
            let applied = apply(&before, &all);
            prop_assert_eq!(told(&applied), told(&after));
        }

        #[test]
        fn nothing_else_is_told(before in any_state(), after in any_state()) {
            for change in changes(&before, &after) {
                prop_assert_ne!(change.before.map(Entry::told), change.after.map(Entry::told));
            }
            prop_assert_eq!(changes(&after, &after), []);
        }
    }
}
