//! The changes from one audit of a cluster to the next: the difference of two [`State`]s as lines.
//!
//! Pure, and without memory: it knows these two audits, and no clock.

use std::{collections::BTreeMap, net::IpAddr};

use super::{
    line::{Line, Message, Place, Told, Was},
    report::{Finding, Problem},
};

/// The subject of a verdict. It stays the same while the verdict changes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subject {
    /// The problem, unless the subject is a row or a reservation itself.
    pub problem: Option<Problem>,
    /// Which row, reservation, pool or address.
    pub about: String,
    /// How many before it are alike.
    pub nth: u32,
}

/// All that is known of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The verdict in a word: a problem, `live`, `unreported` or `exempt`.
    pub verdict: &'static str,
    /// The finding, or the row with which nothing is wrong.
    pub told: Told,
    /// The node of its pod; of a pod that is gone the last known one.
    pub node: Option<String>,
    /// Whether its pod has the labels that are asked for; of a pod that is gone, whether it had them.
    pub selected: bool,
    /// Whether it has all that is asked for.
    pub chosen: bool,
}

/// All subjects.
pub type State = BTreeMap<Subject, Entry>;

impl Entry {
    /// An entry of which only the verdict is known.
    pub(super) fn new(verdict: &'static str, told: Told) -> Self {
        Self {
            verdict,
            told,
            node: None,
            selected: false,
            chosen: false,
        }
    }

    /// The finding, if something is wrong.
    #[must_use]
    pub fn finding(&self) -> Option<&Finding> {
        match &self.told {
            Told::Finding(finding) => Some(finding),
            Told::Place(_) => None,
        }
    }

    /// The pods as `namespace/name`.
    #[must_use]
    pub fn pods(&self) -> &[String] {
        match &self.told {
            Told::Finding(finding) => &finding.pods,
            Told::Place(place) => &place.pods,
        }
    }

    /// The subject, whatever its verdict.
    #[must_use]
    pub fn place(&self) -> Place {
        match &self.told {
            Told::Finding(finding) => Place::of(finding),
            Told::Place(place) => (**place).clone(),
        }
    }

    /// The part of it that makes a change. Waits, counts and the nodes that hold a row run on, and are no changes.
    fn stable(&self) -> impl PartialEq + use<'_> {
        let finding = self.finding();
        let (grade, cause) = (finding.map(|it| &it.grade), finding.map(|it| &it.cause));
        let why = match &self.told {
            Told::Finding(_) => None,
            Told::Place(place) => Some(&place.detail),
        };
        (self.verdict, why, grade, cause, self.pods(), self.chosen)
    }

    /// In the order of a report: findings, worst first, by place; then the rest by place.
    fn order(&self) -> impl Ord + use<> {
        let problem = self.finding().map(|finding| finding.problem);
        let Place {
            namespace,
            pool,
            address,
            pods,
            ..
        } = self.place();
        let address = address.and_then(|it| it.parse::<IpAddr>().ok());
        (
            problem.is_none(),
            problem,
            pool.map(|pool| (namespace, pool)),
            address,
            pods.into_iter().next(),
        )
    }

    /// The line about it, without its past.
    fn line(&self, at: &str) -> Line {
        Line {
            at: at.to_owned(),
            verdict: Some(self.verdict.to_owned()),
            was: None,
            node: self.node.clone(),
            subject: self.told.clone(),
        }
    }

    fn was(&self) -> Was {
        let finding = self.finding();
        Was {
            verdict: self.verdict.to_owned(),
            grade: finding.and_then(|finding| finding.grade.clone()),
            cause: finding.and_then(|finding| finding.cause.clone()),
            pods: self.pods().to_vec(),
            node: self.node.clone(),
        }
    }

    /// The line about it once it is no longer there.
    fn gone(&self, at: &str, subject: &Subject) -> Line {
        let mut place = self.place();
        if let Some(node) = &self.node {
            place.nodes = vec![node.clone()];
        }
        let is_row = subject.problem.is_none() && place.row.is_some();
        let detail = if is_row {
            "the row is gone"
        } else {
            "no longer found"
        };
        detail.clone_into(&mut place.detail);
        Line {
            verdict: None,
            was: Some(self.was()),
            subject: Told::Place(Box::new(place)),
            ..self.line(at)
        }
    }
}

/// The lines of a first look: what there is of interest, and of `all` also rows with which nothing is wrong.
#[must_use]
pub fn present(state: &State, at: &str, all: bool) -> Vec<Message> {
    let wanted = state
        .values()
        .filter(|it| it.chosen && (all || it.finding().is_some()));
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_by_cached_key(|entry| entry.order());
    wanted
        .iter()
        .map(|entry| Message::Present(entry.line(at)))
        .collect()
}

/// The lines that lead from one state to the next: first what went, then what came or changed, each in the order of a
/// report. Of interest are chosen subjects that enter or leave a finding, or `all`.
#[must_use]
pub fn changes(before: &State, after: &State, at: &str, all: bool) -> Vec<Message> {
    let is_wanted = |entry: &Entry| entry.chosen && (all || entry.finding().is_some());
    let gone = before
        .iter()
        .filter(|(subject, _)| !after.contains_key(subject));
    let mut gone: Vec<_> = gone.filter(|(_, entry)| is_wanted(entry)).collect();
    gone.sort_by_cached_key(|(_, entry)| entry.order());
    let mut others: Vec<_> = after
        .iter()
        .map(|(subject, entry)| (before.get(subject), entry))
        .filter(|(before, entry)| before.is_none_or(|before| before.stable() != entry.stable()))
        .filter(|(before, entry)| is_wanted(entry) || before.is_some_and(is_wanted))
        .collect();
    others.sort_by_cached_key(|(_, entry)| entry.order());
    let gone = gone
        .into_iter()
        .map(|(subject, entry)| Message::Gone(entry.gone(at, subject)));
    let others = others.into_iter().map(|(before, entry)| match before {
        None => Message::Appeared(entry.line(at)),
        Some(before) => Message::Changed(Line {
            was: Some(before.was()),
            ..entry.line(at)
        }),
    });
    gone.chain(others).collect()
}

#[cfg(test)]
mod tests;
