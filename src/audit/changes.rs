//! The difference of two looks at a cluster: the findings that came, changed or went.
//!
//! Pure: no clock, and no memory but the look before.

use std::collections::{BTreeMap, BTreeSet};

use ipgc_core::{definitions::Definition, evidence::Policy};
use serde::Serialize;

use super::{
    assess::Assessor,
    filter::Filter,
    is_of_order, order,
    report::{Finding, Problem, Report},
    report_of,
};
use crate::snapshot::{Snapshot, Unreadable};

/// The findings of one look.
pub struct Audited {
    /// The report, as `ipgc audit` makes it.
    pub report: Report,
    /// The namespaces in which an object cannot be read, or the range of a pool.
    blind: BTreeSet<String>,
    /// The definitions that can be read, or could be in an earlier look.
    read: BTreeSet<Box<str>>,
    /// Those that cannot be read. Of their networks nobody knows which pods share an address.
    broken: BTreeSet<Box<str>>,
}

/// A change of one finding: a line of `ipgc watch`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change<'a> {
    /// The time of the look that shows it, RFC 3339.
    pub at: &'a str,
    /// `present` at the first look; later `appeared`, `changed` or `gone`.
    pub event: &'static str,
    /// The problem before, of a finding that changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub was: Option<Problem>,
    /// The finding; if it is gone, as it was last known.
    #[serde(flatten)]
    pub finding: &'a Finding,
}

impl Audited {
    /// Judges a snapshot of a cluster, and takes what passes `filter`.
    pub fn new(snapshot: &Snapshot, policy: &Policy, filter: &Filter) -> Self {
        let assessor = Assessor::new(snapshot, policy);
        let unreadable = snapshot.unreadable.iter().map(Unreadable::namespace);
        let mut blind = assessor.blind.clone();
        blind.extend(unreadable.map(str::to_owned));
        let report = report_of(&assessor, filter);
        let names = |of_whole| {
            let all = snapshot.definitions.iter();
            all.filter(move |(_, it)| is_whole(it) == of_whole)
                .map(|(name, _)| name.clone())
        };
        Self {
            report,
            blind,
            read: names(true).collect(),
            broken: names(false).collect(),
        }
    }

    /// Adds the findings of the look before that an unreadable object may hide. Else an error would be told as `gone`.
    pub fn keep(&mut self, before: &Self) {
        let lost = self.broken.intersection(&before.read).cloned();
        self.read.extend(lost.collect::<Vec<_>>());
        let mut kept = by_subject(&before.report);
        kept.retain(|_, finding| self.may_hide(finding));
        for subject in by_subject(&self.report).keys() {
            kept.remove(subject);
        }
        let kept = kept.into_values().cloned();
        self.report.findings.extend(kept);
        self.report.findings.sort_by(order);
    }

    fn may_hide(&self, finding: &Finding) -> bool {
        match &finding.namespace {
            _ if is_of_order(finding.problem) && !self.read.is_disjoint(&self.broken) => true,
            // Of an address in use, any pool may have the row.
            Some(namespace) if finding.problem != Problem::InUseUnallocated => {
                self.blind.contains(namespace)
            }
            _ => !self.blind.is_empty(),
        }
    }
}

/// Whether nothing of a definition is unknown.
fn is_whole(definition: &Definition) -> bool {
    let sections = definition.as_ref();
    sections.is_ok_and(|all| all.iter().all(|section| section.problems.is_empty()))
}

/// The changes since the look before, in the order of a report. Waits, details and nodes run on, and are no changes.
pub fn changes<'a>(before: Option<&'a Audited>, audited: &'a Audited) -> Vec<Change<'a>> {
    let mut known = before.map_or_else(BTreeMap::new, |it| by_subject(&it.report));
    let mut changes = Vec::new();
    let mut tell = |event, was, finding| {
        let at = audited.report.made.as_str();
        changes.push(Change {
            at,
            event,
            was,
            finding,
        });
    };
    for (subject, finding) in by_subject(&audited.report) {
        match known.remove(&subject) {
            None if before.is_none() => tell("present", None, finding),
            None => tell("appeared", None, finding),
            Some(was) if verdict(was) == verdict(finding) => {}
            Some(was) => tell("changed", Some(was.problem), finding),
        }
    }
    for finding in known.into_values() {
        tell("gone", None, finding);
    }
    changes.sort_by(|a, b| order(a.finding, b.finding));
    changes
}

/// The part of a finding that makes a change.
fn verdict(it: &Finding) -> impl PartialEq + use<'_> {
    (it.problem, &it.grade, &it.cause, &it.pods)
}

/// The findings, each by a text that stays the same while the verdict on its row changes.
fn by_subject(report: &Report) -> BTreeMap<String, &Finding> {
    let mut findings = BTreeMap::new();
    for finding in &report.findings {
        let mut subject = subject_of(finding);
        while findings.contains_key(&subject) {
            subject += " again";
        }
        findings.insert(subject, finding);
    }
    findings
}

/// The subject of a finding, as if no other were alike.
fn subject_of(it: &Finding) -> String {
    let problem = it.problem;
    // These are found beside the verdict on their row.
    let is_beside = matches!(problem, Problem::OutOfRange | Problem::ReservationMissing);
    match (&it.row, &it.reservation) {
        (Some(row), _) if is_beside => format!("{problem} {} {}", row.pool_uid, row.key),
        (Some(row), _) => format!("row {} {}", row.pool_uid, row.key),
        (None, Some(reservation)) => format!("reservation {}", reservation.uid),
        (None, None) => {
            let more = match problem {
                Problem::InUseUnallocated => it.pods.join(" "),
                Problem::SliceOfGoneNode => it.nodes.join(" "),
                // Kind and name, without the fault.
                Problem::Unreadable => it.detail.split(": ").take(1).collect(),
                _ => String::new(),
            };
            let place = (&it.namespace, &it.pool, &it.definition);
            let (address, interface) = (&it.address, &it.interface);
            format!("{problem} {place:?} {address:?} {interface:?} {more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn stale() -> Finding {
        Finding::new(Problem::Stale, "its pod is gone")
    }

    #[rstest]
    #[case::problem(true, Finding { problem: Problem::HeldUnfenced, ..stale() })]
    #[case::grade(true, Finding { grade: Some("fenced".to_owned()), ..stale() })]
    #[case::cause(true, Finding { cause: Some("completed".to_owned()), ..stale() })]
    #[case::owner(true, Finding { pods: vec!["default/web-1".to_owned()], ..stale() })]
    #[case::wait(false, Finding { wait_seconds: Some(1), ..stale() })]
    #[case::words(false, Finding { detail: "otherwise".to_owned(), ..stale() })]
    #[case::nodes(false, Finding { nodes: ["n2".into()].into(), ..stale() })]
    fn each_part_of_a_verdict_makes_a_change(#[case] is_one: bool, #[case] after: Finding) {
        assert_eq!(verdict(&stale()) != verdict(&after), is_one);
    }
}
