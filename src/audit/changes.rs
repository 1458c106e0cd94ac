//! The changes from one audit of a cluster to the next: the difference of two [`State`]s as lines.
//!
//! Pure, and without memory: it knows these two audits, and no clock.

use std::collections::BTreeMap;

use super::{
    line::{Line, Message, Was},
    order,
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
    /// The finding, or a row with which [nothing](Problem::Nothing) is wrong.
    pub finding: Finding,
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
    pub fn new(verdict: &'static str, finding: Finding) -> Self {
        Self {
            verdict,
            finding,
            node: None,
            selected: false,
            chosen: false,
        }
    }

    /// The part of it that makes a change. Waits, counts and the nodes that hold a row run on, and are no changes.
    fn stable(&self) -> impl PartialEq + use<'_> {
        let Finding {
            problem,
            grade,
            cause,
            detail,
            pods,
            ..
        } = &self.finding;
        let why = problem.is_nothing().then_some(detail);
        (self.verdict, why, grade, cause, pods, self.chosen)
    }

    /// The line about it, without its past.
    fn line(&self, at: &str) -> Line {
        Line {
            at: at.to_owned(),
            verdict: Some(self.verdict.to_owned()),
            was: None,
            node: self.node.clone(),
            subject: self.finding.clone(),
        }
    }

    fn was(&self) -> Was {
        Was {
            verdict: self.verdict.to_owned(),
            grade: self.finding.grade.clone(),
            cause: self.finding.cause.clone(),
            pods: self.finding.pods.clone(),
            node: self.node.clone(),
        }
    }

    /// The line about it once it is no longer there.
    fn gone(&self, at: &str, subject: &Subject) -> Line {
        let found = self.finding.clone();
        let is_row = subject.problem.is_none() && found.row.is_some();
        let detail = if is_row {
            "the row is gone"
        } else {
            "no longer found"
        };
        let node = self.node.as_deref().map(|node| [node.into()].into());
        Line {
            verdict: None,
            was: Some(self.was()),
            subject: Finding {
                row: found.row,
                namespace: found.namespace,
                pool: found.pool,
                address: found.address,
                interface: found.interface,
                pods: found.pods,
                nodes: node.unwrap_or(found.nodes),
                ..Finding::new(Problem::Nothing, detail)
            },
            ..self.line(at)
        }
    }
}

/// The lines of a first look: what there is of interest, and of `all` also rows with which nothing is wrong.
pub fn present(state: &State, at: &str, all: bool) -> Vec<Message> {
    let wanted = state
        .values()
        .filter(|it| it.chosen && (all || !it.finding.problem.is_nothing()));
    let mut wanted: Vec<_> = wanted.collect();
    wanted.sort_by(|a, b| order(&a.finding, &b.finding));
    wanted
        .iter()
        .map(|entry| Message::Present(entry.line(at)))
        .collect()
}

/// The lines that lead from one state to the next: first what went, then what came or changed, each in the order of a
/// report. Of interest are chosen subjects that enter or leave a finding, or `all`.
pub fn changes(before: &State, after: &State, at: &str, all: bool) -> Vec<Message> {
    let is_wanted = |entry: &Entry| entry.chosen && (all || !entry.finding.problem.is_nothing());
    let gone = before
        .iter()
        .filter(|(subject, _)| !after.contains_key(subject));
    let mut gone: Vec<_> = gone.filter(|(_, entry)| is_wanted(entry)).collect();
    gone.sort_by(|(_, a), (_, b)| order(&a.finding, &b.finding));
    let mut others: Vec<_> = after
        .iter()
        .map(|(subject, entry)| (before.get(subject), entry))
        .filter(|(before, entry)| before.is_none_or(|before| before.stable() != entry.stable()))
        .filter(|(before, entry)| is_wanted(entry) || before.is_some_and(is_wanted))
        .collect();
    others.sort_by(|(_, a), (_, b)| order(&a.finding, &b.finding));
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
