//! The audit of the addresses of a cluster: pure judgement of a [`Snapshot`].
//!
//! ```text
//! Snapshot ─▶ Assessor ─▶ Judged ─▶ Finding ─▶ Report ─▶ table or JSON
//!                            │                   └────▶ changes from one look to the next (watch)
//!                            └────▶ Explanation ─▶ text or JSON
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`report`] | the findings as plain data with a schema |
//! | `index` | one pass over all rows, before any is judged |
//! | `assess` | the verdict on each row, and on each reservation without a row, by core's `judge` |
//! | `found`, `unreported` | makes a finding of a verdict |
//! | `definitions` | which definition leads to which pool |
//! | `pods`, `pools` | findings about pods that live, and about whole pools |
//! | [`explain`] | all that is known of one address, pod, pool or node |
//! | [`changes`](mod@changes) | how the findings change from one look to the next |
//! | [`filter`], [`table`], [`words`] | which findings are shown, and how |
//! | [`grid`], [`pool_table`] | pools as pictures of signs |
//! | [`html`] | the report as a page |
//!
//! No clock, no client, no file; nothing is written anywhere. No address is freed because of an audit: the collector judges again.

pub(crate) mod assess;
pub mod changes;
mod definitions;
pub mod explain;
pub mod filter;
pub(crate) mod found;
pub mod grid;
pub mod html;
mod index;
pub(crate) mod pods;
pub mod pool_table;
mod pools;
pub mod report;
pub mod table;
mod unreported;
pub mod words;

use std::{
    cmp::{Ordering, Reverse},
    collections::HashSet,
    net::IpAddr,
    sync::Arc,
};

use ipgc_core::{
    breaker::Limits,
    evidence::Policy,
    judge::{Unknown, Verdict},
    node::NO_SANDBOXES_ANNOTATION,
};

pub(crate) use self::pools::unreferenced;
use self::{
    assess::{Assessor, Judged},
    definitions::Definitions,
    filter::Filter,
    index::Place,
    report::{Finding, Problem, REPORT_VERSION, Report, Split, Totals},
};
use crate::snapshot::{Kind, Snapshot, Source};

/// So many nodes are named in a finding: in an outage a thousand may hold each of many thousand rows.
const NODES: usize = 16;

/// Judges all of a snapshot, and reports what passes `filter`.
pub fn audit(snapshot: &Snapshot, policy: &Policy, filter: &Filter) -> Report {
    report_of(&Assessor::new(snapshot, policy), filter)
}

fn report_of(assessor: &Assessor<'_>, filter: &Filter) -> Report {
    let mut report = audit_all(assessor);
    let snapshot = assessor.snapshot;
    report.findings.retain(|it| filter.passes(it, snapshot));
    report.pools.retain(|pool| filter.passes_pool(pool));
    name_few(&mut report.findings);
    report
}

/// Keeps the first nodes of each finding. The same nodes hold all rows of an outage: such a list is shared.
fn name_few(findings: &mut [Finding]) {
    let mut last = None;
    for finding in findings.iter_mut().filter(|it| it.nodes.len() > NODES) {
        let all = Arc::clone(&finding.nodes);
        finding.nodes = match &last {
            Some((known, few)) if Arc::ptr_eq(known, &all) => Arc::clone(few),
            _ => all[..NODES].into(),
        };
        last = Some((all, Arc::clone(&finding.nodes)));
    }
}

/// The report of all that there is.
fn audit_all(assessor: &Assessor<'_>) -> Report {
    let snapshot = assessor.snapshot;
    let mut audit = Audit {
        assessor,
        findings: pods::findings(assessor),
        exempt: 0,
        unordered: 0,
        unwatched: 0,
        unproven: 0,
    };
    let mut pools = Vec::new();
    let mut split = Split::default();
    let of_no_pool = assessor.each_pool(|place, rows, lone| {
        for it in rows {
            audit.row(place, it);
        }
        audit.reservations(lone);
        let usage = pools::usage(assessor, place, rows);
        let found = pools::findings(assessor, place, &usage);
        audit.findings.extend(found);
        split.add(usage.split);
        pools.push(usage);
    });
    audit.reservations(&of_no_pool);
    let gone = pools::gone_slices(assessor, &pools);
    audit.findings.extend(gone);
    audit.about_all();
    audit.leave_out_what_has_no_order();
    let notes = audit.notes(split.rows());
    let mut findings = audit.findings;
    if snapshot.source == Source::Files {
        findings.iter_mut().for_each(leave_out_command);
    }
    findings.sort_unstable_by(order);
    pools.sort_by_key(|pool| {
        let size = pool.size.unwrap_or(u64::MAX).max(1);
        Reverse(u128::from(u64::MAX) * pool.filling().rows() as u128 / u128::from(size))
    });
    Report {
        version: REPORT_VERSION,
        made: snapshot.made.clone(),
        source: snapshot.source,
        totals: Totals {
            pools: snapshot.pools.len(),
            rows: split.rows(),
            split,
            reservations: snapshot.reservations.len(),
            pods: snapshot.pods.len(),
            nodes: snapshot.nodes.len(),
        },
        notes,
        pools,
        findings,
    }
}

/// Files may be old: a command of theirs might end what is in use by now. Those of ipgc look at the cluster themselves.
fn leave_out_command(finding: &mut Finding) {
    let command = &mut finding.command;
    if command.take_if(|it| !it.starts_with("ipgc ")).is_some() {
        finding.detail += "; look again at the cluster for the command";
    }
}

/// Whether the order of the reads may make a finding.
fn is_of_order(problem: Problem) -> bool {
    matches!(
        problem,
        Problem::InUseTwice | Problem::InUseUnallocated | Problem::ReservationMissing
    )
}

/// Whether a second look has to confirm a finding: what a pod reports was read after rows and reservations.
fn is_surprising(finding: &Finding) -> bool {
    // The own pod of a row or reservation that is held for another one is gone.
    let is_held = finding.row.is_some() || finding.reservation.is_some();
    is_of_order(finding.problem) && !(finding.problem == Problem::InUseTwice && is_held)
}

/// Whether a report has findings that want [`confirm`].
pub fn wants_confirmation(report: &Report) -> bool {
    report.findings.iter().any(is_surprising)
}

/// Drops the surprising findings that an audit of what was read again does not have: those of the same problem, the same
/// address and one of its pods.
pub fn confirm(report: &mut Report, again: &Snapshot, policy: &Policy) {
    let assessor = Assessor::new(again, policy);
    // A pool that cannot be read any more proves no row.
    let is_blind = !assessor.blind.is_empty();
    let second = audit_all(&assessor);
    let of_pods = |it: &Finding| {
        let pods = it.pods.clone().into_iter();
        let (problem, address) = (it.problem, it.address.clone());
        pods.map(move |pod| (problem, address.clone(), pod))
    };
    let found = second.findings.iter();
    let found = found.filter(|it| is_of_order(it.problem));
    let found: HashSet<_> = found.flat_map(of_pods).collect();
    report.findings.retain(|it| {
        !is_surprising(it)
            || of_pods(it).any(|of_pod| found.contains(&of_pod))
            || is_blind && it.problem == Problem::InUseUnallocated
    });
}

/// Worst first; then by place, addresses as addresses.
fn order(a: &Finding, b: &Finding) -> Ordering {
    fn rank(it: &Finding) -> impl Ord {
        let address = it.address.as_ref().map(|it| it.parse::<IpAddr>().ok());
        let key = it.row.as_ref().map(|row| &row.key);
        let place = (&it.namespace, &it.pool, address.flatten());
        // The row and the detail are for findings without an address, so that the order is the same each time.
        (it.problem, place, &it.pods, key, &it.detail)
    }
    rank(a).cmp(&rank(b))
}

struct Audit<'a> {
    assessor: &'a Assessor<'a>,
    findings: Vec<Finding>,
    // Rows that notes tell of.
    exempt: usize,
    unordered: usize,
    unwatched: usize,
    unproven: usize,
}

impl Audit<'_> {
    /// The findings about reservations without a row. In a pool that cannot be read, they may have one.
    fn reservations(&mut self, lone: &[Judged<'_>]) {
        let blind = &self.assessor.blind;
        let lone = lone.iter().filter(|it| !blind.contains(it.namespace()));
        let found = lone.filter_map(|it| self.assessor.finding(it));
        self.findings.extend(found);
    }

    fn row(&mut self, place: &Place, it: &Judged<'_>) {
        match &it.verdict {
            Verdict::Stale(stale) if !stale.clearance.watched => self.unwatched += 1,
            Verdict::Unknown(Unknown::Exempt | Unknown::KeptOwner) => self.exempt += 1,
            Verdict::Unknown(Unknown::NoProof(_)) => self.unproven += 1,
            _ => {}
        }
        self.findings.extend(self.assessor.finding(it));
        self.findings.extend(self.assessor.unreserved(it));
        let range = place.pool.range.zip(it.content.as_ref());
        if range.is_some_and(|(range, content)| !range.contains(content.address)) {
            let detail = "the address is not in the range of its pool";
            let mut finding = Finding::new(Problem::OutOfRange, detail);
            self.assessor.describe(&mut finding, it);
            self.findings.push(finding);
        }
    }

    /// The findings about objects that cannot be read, and about pools that are missing.
    fn about_all(&mut self) {
        let snapshot = self.assessor.snapshot;
        for unreadable in &snapshot.unreadable {
            let (_, kind) = unreadable.kind.type_of();
            let detail = format!("{kind} {}: {}", unreadable.name, unreadable.reason);
            let mut finding = Finding::new(Problem::Unreadable, detail);
            if let Some((namespace, name)) = unreadable.name.split_once('/') {
                finding.namespace = Some(namespace.to_owned());
                finding.pool = (unreadable.kind == Kind::IpPool).then(|| name.to_owned());
            }
            self.findings.push(finding);
        }
        let mut unreadable = snapshot.unreadable.iter();
        if snapshot.pools.is_empty() && !unreadable.any(|it| it.kind == Kind::IpPool) {
            let place = match &snapshot.pools_of {
                Some(namespace) => format!("in namespace {namespace}"),
                None => "at all".to_owned(),
            };
            let detail = format!(
                "there are no IPPools {place}: whereabouts keeps them elsewhere, or has given no address yet"
            );
            self.findings.push(Finding::new(Problem::NoPools, detail));
        }
    }

    /// In a cluster a second look confirms these findings, since the order of the reads may make them. Where the order is not
    /// known, nothing does.
    fn leave_out_what_has_no_order(&mut self) {
        if !self.assessor.snapshot.is_unordered {
            return;
        }
        let before = self.findings.len();
        self.findings.retain(|it| !is_of_order(it.problem));
        self.unordered = before - self.findings.len();
    }

    fn notes(&self, rows: usize) -> Vec<String> {
        let snapshot = self.assessor.snapshot;
        let mut notes = snapshot.notes.clone();
        let matters = self.unproven > 0 || snapshot.no_proof.is_some();
        notes.extend(snapshot.gap().filter(|_| matters));
        let definitions = self.assessor.definitions.as_ref();
        let hidden = definitions.map(Definitions::blind).unwrap_or_default();
        if !hidden.is_empty() {
            notes.push(format!(
                "of what these definitions give, duplicates, addresses in use without a row and missing reservations are \
                 not looked for, since they do not tell all of their ranges: {}",
                words::names(&hidden)
            ));
        }
        let pools = self.assessor.unreadable();
        let pools = pools.filter(|(kind, _)| *kind == Kind::IpPool);
        let pools: Vec<_> = pools.map(|(_, name)| name).collect();
        if !pools.is_empty() {
            notes.push(format!(
                "reservations without a row, addresses in use without a row and missing reservations are not looked for in the \
                 namespaces of these pools, which cannot be read: {}",
                words::names(&pools)
            ));
        }
        let all = snapshot.nodes.iter();
        let ahead = all.filter(|(_, node)| node.declared_ahead);
        let ahead: Vec<_> = ahead.map(|(name, _)| name).collect();
        if !ahead.is_empty() {
            notes.push(format!(
                "{NO_SANDBOXES_ANNOTATION} is in the future, and does not count: {}",
                words::names(&ahead)
            ));
        }
        if self.unordered > 0 {
            notes.push(format!(
                "{} findings of duplicates, addresses in use without a row and missing reservations are left out: they may come \
                 of the order in which the input was read; look again at the cluster",
                self.unordered
            ));
        }
        if self.exempt > 0 {
            notes.push(format!("{} rows are exempted by a person", self.exempt));
        }
        let pools = self.assessor.index.pools.iter();
        notes.extend(pools.filter_map(Place::note_of_exemption));
        let limits = Limits::default();
        #[expect(clippy::cast_precision_loss, reason = "a share of some millions")]
        let share = self.unwatched as f64 / rows.max(1) as f64;
        if self.unwatched > limits.min && share > limits.fraction {
            notes.push(format!(
                "{} of {rows} rows have lost their pods without anybody seeing it: a collector that begins now \
                 opens its breaker",
                self.unwatched
            ));
        }
        notes
    }
}
