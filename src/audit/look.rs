//! One look at a cluster after the other: each is judged as an audit judges, and becomes a [`State`]; what the
//! last minutes knew of pods and rows that are gone is added.
//!
//! No client and no clock: snapshots and moments are handed in.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    evidence::Policy,
    judge::Verdict,
    podref::PodRef,
    pool::{ObservedPool, PoolKey, Row},
    time::Moment,
};

use super::{
    NODES,
    assess::is_kept,
    audit_each,
    changes::{Change, Entry, Judged, Kept, RowId, State, Subject, Why},
    filter::Filter,
    index::Place,
    report::{Finding, Problem, Report, Source},
};
use crate::snapshot::{Kind, Snapshot};

/// Whoever is gone is known for so long, and so are the pods of rows that are gone.
pub const REMEMBERED: Duration = Duration::from_mins(5);

/// What earlier looks saw and the present one may not.
#[derive(Debug, Default)]
pub struct History {
    /// The pods that had something, by their podrefs.
    pods: HashMap<Box<str>, Pod>,
    /// What is gone, as it was, and since when.
    gone: BTreeMap<Subject, (Entry, Moment)>,
}

#[derive(Debug)]
struct Pod {
    node: Option<Arc<str>>,
    selected: bool,
    /// When it last had a row or a finding.
    seen: Moment,
}

impl History {
    /// Something has this pod for its owner.
    fn see(&mut self, podref: &str, look: &Seeing<'_>) {
        if !self.pods.contains_key(podref) {
            let pod = Pod {
                node: None,
                selected: false,
                seen: look.now,
            };
            self.pods.insert(podref.into(), pod);
        }
        let Some(known) = self.pods.get_mut(podref) else {
            return;
        };
        known.seen = look.now;
        // One that is gone keeps what was known of it; a successor has a node and labels of its own.
        if let Some(pod) = look.snapshot.pod(podref) {
            if known.node.as_deref() != pod.node.as_deref() {
                known.node = pod.node.as_deref().map(Arc::from);
            }
            let selected = look.selected.as_ref();
            known.selected = selected.is_some_and(|selected| selected.contains(podref));
        }
    }

    fn node(&self, podref: &str) -> Option<Arc<str>> {
        self.pods.get(podref)?.node.clone()
    }

    fn was_selected(&self, podref: &str) -> bool {
        self.pods.get(podref).is_some_and(|pod| pod.selected)
    }

    /// Takes in what changed, and forgets what was gone for too long.
    pub fn advance(&mut self, changes: &[Change<'_>], now: Moment) {
        for change in changes {
            match (change.before, change.after) {
                (Some(entry), None) => {
                    let gone = (entry.clone(), now);
                    self.gone.insert(change.subject.clone(), gone);
                }
                _ => drop(self.gone.remove(change.subject)),
            }
        }
        self.gone
            .retain(|_, (_, since)| now.since(*since) <= REMEMBERED);
        self.pods.retain(|_, pod| now.since(pod.seen) <= REMEMBERED);
    }

    /// What a subject was that is new and had gone a while ago, and how long ago that was.
    #[must_use]
    pub fn former(&self, subject: &Subject, now: Moment) -> Option<(&Entry, Duration)> {
        let (entry, since) = self.gone.get(subject)?;
        Some((entry, now.since(*since)))
    }
}

/// What one look goes by.
struct Seeing<'a> {
    snapshot: &'a Snapshot,
    /// The pods that have the labels that are asked for.
    selected: Option<HashSet<PodRef>>,
    filter: &'a Filter,
    now: Moment,
}

impl Seeing<'_> {
    fn chooses(&self, entry: &Entry, history: &History) -> bool {
        if entry
            .finding()
            .is_some_and(|it| it.problem == Problem::NoPools)
        {
            // Whatever is asked for: without pools nothing was looked at.
            return true;
        }
        let pods = entry.pods();
        let finding = entry.finding();
        let nodes = finding.iter().flat_map(|finding| finding.nodes.iter());
        let nodes: Vec<_> = nodes
            .map(AsRef::as_ref)
            .chain(entry.node.as_deref())
            .collect();
        let has_labels = |selected: &HashSet<PodRef>| {
            pods.iter().any(|pod| {
                // One that is gone has no labels, but it had.
                let gone = || self.snapshot.pod(pod).is_none();
                selected.contains(*pod) || (gone() && history.was_selected(pod))
            })
        };
        self.filter.chooses(entry.pool(), &pods, &nodes)
            && self.selected.as_ref().is_none_or(has_labels)
    }
}

/// A look: what an audit finds, and the rows with which nothing is wrong.
pub struct Look<'a> {
    seeing: Seeing<'a>,
    /// All findings, whatever is asked for. They may be confirmed before they become a state.
    pub report: Report,
    kept: Vec<(Subject, Entry)>,
}

/// The rows of one pool.
#[derive(Default)]
struct Rows {
    owners: HashSet<Box<str>>,
    kept: Vec<(Subject, Entry)>,
    /// Uid and name of the pool.
    of_pool: Option<(Arc<str>, Arc<PoolKey>)>,
}

/// Judges a snapshot, which was read at `now`; the report is of the moment `made`, RFC 3339.
pub fn look<'a>(
    snapshot: &'a mut Snapshot,
    policy: &Policy,
    filter: &'a Filter,
    history: &mut History,
    (now, made): (Moment, String),
) -> Look<'a> {
    // All is judged, and then chosen: what goes out of sight is not gone.
    let selected = mem::take(&mut snapshot.selected);
    let seeing = Seeing {
        snapshot,
        selected,
        filter,
        now,
    };
    let each_row = |rows: &mut Rows, pool: &_, place: &Place, row: &Row, verdict: &_| {
        rows.owners.extend(row.podref_text().map(Into::into));
        if !is_kept(verdict) {
            return;
        }
        let of_pool = rows.of_pool.take().unwrap_or_else(|| {
            let uid = ObservedPool::uid(pool);
            (uid.into(), Arc::new(place.key.clone()))
        });
        rows.kept.push(keep(pool, &of_pool, row, verdict));
        rows.of_pool = Some(of_pool);
    };
    let all = Filter::default();
    // Whether a node is the one that is asked for is not known before all are.
    let named = match filter.node {
        Some(_) => usize::MAX,
        None => NODES,
    };
    let source = Source::Cluster;
    let (report, rows) = audit_each(snapshot, policy, &all, source, made, named, Some(&each_row));
    for podref in rows.iter().flat_map(|rows| &rows.owners) {
        history.see(podref, &seeing);
    }
    let kept = rows.into_iter().flat_map(|rows| rows.kept).collect();
    Look {
        seeing,
        report,
        kept,
    }
}

fn keep(
    pool: &ObservedPool,
    (uid, key): &(Arc<str>, Arc<PoolKey>),
    row: &Row,
    verdict: &Verdict,
) -> (Subject, Entry) {
    let interface = row
        .content()
        .ok()
        .and_then(|content| content.interface.as_deref());
    let kept = Kept {
        why: match verdict {
            Verdict::Held(held) => Why::Held(held.clone()),
            _ => Why::Exempt,
        },
        pool: Arc::clone(key),
        address: pool.address_of(row),
        interface: interface.map(Into::into),
        pod: row
            .podref_text()
            .filter(|podref| !podref.is_empty())
            .map(Into::into),
    };
    let id = RowId {
        pool_uid: Arc::clone(uid),
        key: row.key().into(),
    };
    let entry = Entry {
        judged: Judged::Kept(kept),
        node: None,
        chosen: false,
    };
    (Subject::Row(id), entry)
}

impl Look<'_> {
    /// The state that was seen, and the report without its findings, which are in it. What an object that cannot be
    /// read hides of `before` is still there: an error is never absence.
    #[must_use]
    pub fn into_state(self, before: &State, history: &mut History) -> (State, Report) {
        let Self {
            seeing,
            mut report,
            kept,
        } = self;
        let findings = mem::take(&mut report.findings);
        for podref in findings.iter().flat_map(|finding| &finding.pods) {
            history.see(podref, &seeing);
        }
        let mut state = State::new();
        for finding in findings {
            let subject = subject_of(&finding, &state);
            let judged = Judged::Finding(Box::new(finding));
            let entry = Entry {
                judged,
                node: None,
                chosen: false,
            };
            state.insert(subject, entry);
        }
        for (subject, entry) in kept {
            // A row that is held and has a finding is told by that.
            state.entry(subject).or_insert(entry);
        }
        for entry in state.values_mut() {
            entry.node = match entry.pods().as_slice() {
                [podref] => history.node(podref),
                _ => None,
            };
            if let (Judged::Finding(finding), Some(node)) = (&mut entry.judged, &entry.node)
                && finding.nodes.is_empty()
            {
                finding.nodes = [Arc::clone(node)].into_iter().collect();
            }
            entry.chosen = seeing.chooses(entry, history);
            if let Judged::Finding(finding) = &mut entry.judged {
                finding.nodes.truncate(NODES);
            }
        }
        let hidden = Hidden::of(seeing.snapshot, &report);
        for (subject, entry) in before {
            if !state.contains_key(subject) && hidden.may_be(subject, entry) {
                for podref in entry.pods() {
                    history.see(podref, &seeing);
                }
                state.insert(subject.clone(), entry.clone());
            }
        }
        (state, report)
    }
}

/// What is hidden by objects that are there and cannot be read.
struct Hidden<'a> {
    /// Pools, by `namespace/name`.
    pools: HashSet<&'a str>,
    /// Whether rows may be unseen, so that whatever has none may have one.
    rows: bool,
}

impl<'a> Hidden<'a> {
    fn of(snapshot: &'a Snapshot, report: &Report) -> Self {
        let unreadable = snapshot.unreadable.iter();
        let pools: HashSet<_> = unreadable
            .filter(|it| it.kind == Kind::IpPool)
            .map(|it| it.name.as_str())
            .collect();
        let nameless = report.pools.iter().any(|pool| pool.range.is_none());
        Self {
            rows: nameless || !pools.is_empty(),
            pools,
        }
    }

    /// Whether something that is not seen may be there as it was.
    fn may_be(&self, subject: &Subject, entry: &Entry) -> bool {
        match subject {
            Subject::Row(_) | Subject::OfRow(..) => {
                let pool = entry
                    .pool()
                    .map(|(namespace, name)| format!("{namespace}/{name}"));
                pool.is_some_and(|pool| self.pools.contains(&*pool))
            }
            Subject::Reservation(_) => self.rows,
            Subject::Other { problem, .. } => match problem {
                Problem::InUseUnallocated => self.rows,
                Problem::StaticInPool
                | Problem::NearlyFull
                | Problem::PoolSuperseded
                | Problem::PoolWithoutDefinition => {
                    let pool = entry
                        .pool()
                        .map(|(namespace, name)| format!("{namespace}/{name}"));
                    pool.is_some_and(|pool| self.pools.contains(&*pool))
                }
                _ => false,
            },
        }
    }
}

/// What a finding is about, which `state` does not have yet.
fn subject_of(finding: &Finding, state: &State) -> Subject {
    let problem = finding.problem;
    if let Some(row) = &finding.row {
        let id = RowId {
            pool_uid: (*row.pool_uid).into(),
            key: row.key.as_str().into(),
        };
        return match problem {
            Problem::OutOfRange | Problem::ReservationMissing => Subject::OfRow(id, problem),
            _ => Subject::Row(id),
        };
    }
    if let Some(reservation) = &finding.reservation {
        return Subject::Reservation(reservation.uid.as_str().into());
    }
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let address = text(finding.address.as_deref());
    let namespace = text(finding.namespace.as_deref());
    let mut about = vec![namespace, text(finding.pool.as_deref())];
    match problem {
        // Who holds the address changes.
        Problem::InUseTwice => about = vec![address],
        Problem::InUseUnallocated => {
            about = vec![address, text(finding.interface.as_deref())];
            about.extend(finding.pods.iter().cloned());
        }
        Problem::StaticInPool => about.push(address),
        Problem::NearlyFull => about.push(text(finding.definition.as_deref())),
        Problem::SliceOfGoneNode => about.extend(finding.nodes.iter().map(ToString::to_string)),
        Problem::Unreadable => about.push(finding.detail.to_string()),
        _ => {}
    }
    let about: Box<str> = about.join(" ").into();
    let named = |nth| Subject::Other {
        problem,
        about: about.clone(),
        nth,
    };
    let free = (0..u32::MAX)
        .map(named)
        .find(|subject| !state.contains_key(subject));
    free.unwrap_or_else(|| named(u32::MAX))
}
