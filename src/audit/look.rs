//! An audit of a cluster as the [`State`] of a watch: the findings, and the rows with which nothing is wrong.
//!
//! Pure. The look before gives what may not be forgotten: node and labels of pods that are gone, and subjects that an
//! object hides which cannot be read.

use std::{collections::HashMap, mem, sync::Arc};

use ipgc_core::{
    evidence::Policy,
    judge::{Unknown, Verdict},
};

use super::{
    assess::{Assessor, Judged},
    audit_each,
    changes::{Entry, State},
    filter::Filter,
    line::Line,
    name_few,
    report::{Finding, Problem, Report, RowReport, Source},
};
use crate::snapshot::{Kind, Snapshot};

/// An audit that becomes a state.
pub struct Look<'a> {
    snapshot: &'a Snapshot,
    filter: &'a Filter,
    /// The rows with which nothing is wrong unless there is a finding, each with its verdict in a word.
    kept: Vec<Entry>,
    /// All findings, whatever is asked for. They may be confirmed before they become a state.
    pub report: Report,
}

impl<'a> Look<'a> {
    /// Judges a snapshot; the report is of the moment `made`, RFC 3339.
    pub fn new(snapshot: &'a Snapshot, policy: &Policy, filter: &'a Filter, made: String) -> Self {
        let assessor = Assessor::new(snapshot, policy).at(Source::Cluster, &made);
        let (mut kept, at) = (Vec::new(), Arc::<str>::from(&*made));
        let each_row = &mut |it: &Judged<'_>| {
            let (verdict, detail) = match &it.verdict {
                Verdict::Held(held) => (held.word().as_str(), held.to_string()),
                Verdict::Unknown(Unknown::KeptOwner | Unknown::Exempt) => {
                    ("exempt", "a person exempted it".to_owned())
                }
                _ => return,
            };
            let mut finding = Finding::new(Problem::Nothing, detail);
            assessor.describe(&mut finding, it);
            kept.push(Entry::new(Arc::clone(&at), verdict.to_owned(), finding));
        };
        // All is judged, and then chosen: a subject that is no longer chosen is not gone.
        let report = audit_each(&assessor, made, each_row);
        Self {
            snapshot,
            filter,
            kept,
            report,
        }
    }

    /// The state, and the report without its findings, which are in the state. A subject of `before` that an unreadable
    /// object hides is still there: an error is never absence.
    pub fn into_state(mut self, before: &State) -> (State, Report) {
        let (mut state, at) = (State::new(), Arc::<str>::from(&*self.report.made));
        for finding in mem::take(&mut self.report.findings) {
            let mut subject = subject_of(&finding);
            while state.contains_key(&subject) {
                subject += " again";
            }
            let verdict = finding.problem.to_string();
            state.insert(subject, Entry::new(Arc::clone(&at), verdict, finding));
        }
        for entry in mem::take(&mut self.kept) {
            // The finding about a row that is held says more.
            let subject = subject_of(&entry.line.subject);
            state.entry(subject).or_insert(entry);
        }
        let mut known = HashMap::new();
        for entry in before.values() {
            if let [podref] = entry.line.subject.pods.as_slice() {
                known.insert(podref.as_str(), entry);
            }
        }
        for entry in state.values_mut() {
            self.complete(entry, &known);
        }
        name_few(state.values_mut().map(|entry| &mut entry.line.subject));
        for (subject, entry) in before {
            if !state.contains_key(subject) && self.may_hide(&entry.line.subject) {
                state.insert(subject.clone(), entry.clone());
            }
        }
        (state, self.report)
    }

    /// Adds the node and the labels of its pod. A pod that is gone keeps those of the look before.
    fn complete(&self, entry: &mut Entry, known: &HashMap<&str, &Entry>) {
        let Line {
            node,
            subject: finding,
            ..
        } = &mut entry.line;
        let before = |podref: &str| known.get(podref).copied();
        if let [podref] = finding.pods.as_slice() {
            *node = match self.snapshot.pod(podref) {
                Some(pod) => pod.node.as_deref().map(str::to_owned),
                None => before(podref).and_then(|entry| entry.line.node.clone()),
            };
        }
        if let Some(selected) = &self.snapshot.selected {
            entry.selected = finding.pods.iter().any(|podref| {
                let is_gone = self.snapshot.pod(podref).is_none();
                let was_selected = || before(podref).is_some_and(|entry| entry.selected);
                selected.contains(podref.as_str()) || is_gone && was_selected()
            });
        }
        if finding.nodes.is_empty() {
            finding.nodes = node.iter().map(|node| node.as_str().into()).collect();
        }
        // No label is asked for where there are no pools.
        let is_selected = self.snapshot.selected.is_none()
            || entry.selected
            || finding.problem == Problem::NoPools;
        entry.chosen = is_selected && self.filter.chooses(finding, node.as_deref());
    }

    /// Whether an object that is there and cannot be read may hide this.
    fn may_hide(&self, finding: &Finding) -> bool {
        let unreadable = self.snapshot.unreadable.iter();
        let mut pools = unreadable.filter(|it| it.kind == Kind::IpPool);
        let is_about_pool = matches!(
            finding.problem,
            Problem::StaticInPool
                | Problem::NearlyFull
                | Problem::PoolSuperseded
                | Problem::PoolWithoutDefinition
        );
        if finding.row.is_some() || is_about_pool {
            let name = finding.namespace.iter().chain(&finding.pool);
            let name: Vec<_> = name.map(String::as_str).collect();
            return pools.any(|it| it.name == name.join("/"));
        }
        let mut nameless = self.report.pools.iter().filter(|pool| pool.range.is_none());
        let may_have_row =
            finding.reservation.is_some() || finding.problem == Problem::InUseUnallocated;
        may_have_row && (nameless.next().is_some() || pools.next().is_some())
    }
}

/// The subject of a finding, as if no other were alike.
fn subject_of(finding: &Finding) -> String {
    let problem = finding.problem;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let pool = [text(&finding.namespace), text(&finding.pool)].join(" ");
    let address = text(&finding.address);
    let of_row = |row: &RowReport| format!("row {} {}", row.pool_uid, row.key);
    let about = match (problem, &finding.row, &finding.reservation) {
        (_, Some(row), _) if problem.is_beside_a_row() => of_row(row),
        (_, Some(row), _) => return of_row(row),
        (_, None, Some(reservation)) => return format!("reservation {}", reservation.uid),
        // Its pods change.
        (Problem::InUseTwice, ..) => address,
        (Problem::InUseUnallocated, ..) => {
            let pods = finding.pods.join(" ");
            format!("{address} {} {pods}", text(&finding.interface))
        }
        (Problem::StaticInPool, ..) => format!("{pool} {address}"),
        (Problem::NearlyFull, ..) => format!("{pool} {}", text(&finding.definition)),
        (Problem::SliceOfGoneNode, ..) => format!("{pool} {}", finding.nodes.join(" ")),
        (Problem::Unreadable, ..) => format!("{pool} {}", finding.detail),
        _ => pool,
    };
    format!("{problem} {about}")
}
