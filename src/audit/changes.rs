//! The changes from one audit of a cluster to the next: the difference of two [`State`]s as lines.
//!
//! Pure, and without memory: it knows these two audits, and no clock.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    line::{Line, Message},
    order,
    report::{Finding, Problem},
};

/// All that is known of a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The line about it, without its past. The verdict is a problem, `live`, `unreported` or `exempt`.
    pub line: Line,
    /// Whether its pod has the labels that are asked for; of a pod that is gone, whether it had them.
    pub selected: bool,
    /// Whether it has all that is asked for.
    pub chosen: bool,
}

/// All subjects, each by a text that stays the same while the verdict on it changes.
pub type State = BTreeMap<String, Entry>;

impl Entry {
    /// An entry of which only the verdict at this moment is known.
    pub fn new(at: Arc<str>, verdict: String, subject: Finding) -> Self {
        let line = Line {
            at,
            verdict: Some(verdict),
            was: None,
            node: None,
            subject,
        };
        Self {
            line,
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
        } = &self.line.subject;
        let why = problem.is_nothing().then_some(detail);
        (&self.line.verdict, why, grade, cause, pods, self.chosen)
    }

    /// Whether it is of interest: chosen, and a finding unless `all` is wanted.
    fn is_wanted(&self, all: bool) -> bool {
        self.chosen && (all || !self.line.subject.problem.is_nothing())
    }

    /// The line about it, with what it `was`.
    fn told(&self, was: Option<&Self>) -> Line {
        Line {
            was: was.map(|was| was.line.clone().into()),
            ..self.line.clone()
        }
    }

    /// The line about it once it is no longer there.
    fn gone(&self, at: &str) -> Line {
        let told = self.told(Some(self));
        let found = told.subject;
        let detail = if found.row.is_some() && !found.problem.is_beside_a_row() {
            "the row is gone"
        } else {
            "no longer found"
        };
        let node = told.node.as_deref().map(|node| [node.into()].into());
        Line {
            at: at.into(),
            verdict: None,
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
            ..told
        }
    }
}

/// In the order of a report.
fn sorted<T>(mut all: Vec<T>, entry: impl Fn(&T) -> &Entry) -> Vec<T> {
    all.sort_by(|a, b| order(&entry(a).line.subject, &entry(b).line.subject));
    all
}

/// The lines of a first look: what there is of interest, and of `all` also rows with which nothing is wrong.
pub fn present(state: &State, all: bool) -> Vec<Message> {
    let wanted = state.values().filter(|it| it.is_wanted(all));
    let wanted = sorted(wanted.collect(), |it| it);
    let lines = wanted.iter().map(|it| it.told(None));
    lines.map(Message::Present).collect()
}

/// The lines that lead from one state to the next: first what went, then what came or changed, each in the order of a
/// report. Told are chosen subjects that enter or leave a finding, or `all` that are chosen.
pub fn changes(before: &State, after: &State, at: &str, all: bool) -> Vec<Message> {
    let gone = before
        .iter()
        .filter(|(subject, it)| !after.contains_key(*subject) && it.is_wanted(all));
    let gone = sorted(gone.map(|(_, it)| it).collect(), |it| it);
    let gone = gone.into_iter().map(|it| Message::Gone(it.gone(at)));
    let others = after
        .iter()
        .map(|(subject, it)| (before.get(subject), it))
        .filter(|(was, it)| was.is_none_or(|was| was.stable() != it.stable()))
        .filter(|(was, it)| it.is_wanted(all) || was.is_some_and(|was| was.is_wanted(all)));
    let others = sorted(others.collect(), |(_, it)| *it);
    let others = others.into_iter().map(|(was, it)| match was {
        None => Message::Appeared(it.told(None)),
        Some(_) => Message::Changed(it.told(was)),
    });
    gone.chain(others).collect()
}

#[cfg(test)]
mod tests;
