//! An audit of a cluster as the [`State`] of a watch: the findings, and the rows with which nothing is wrong.
//!
//! Pure. Of the look before it takes what it may not forget: node and labels of pods that are gone, and what an object
//! hides that cannot be read.

use std::{
    collections::{HashMap, HashSet},
    mem,
};

use ipgc_core::{
    evidence::Policy,
    judge::{Unknown, Verdict},
    podref::PodRef,
    pool::{ObservedPool, Row},
};

use super::{
    assess::Assessor,
    audit_each,
    changes::{Entry, State, Subject},
    filter::Filter,
    index::Place as Pool,
    line::{Place, PlaceRow, Told},
    name_few,
    report::{Finding, Problem, Report, Source},
};
use crate::snapshot::{Kind, Snapshot};

/// An audit that becomes a state.
pub struct Look<'a> {
    snapshot: &'a Snapshot,
    filter: &'a Filter,
    /// The pods that have the labels that are asked for.
    selected: Option<HashSet<PodRef>>,
    kept: Vec<(Subject, Entry)>,
    /// All findings, whatever is asked for. They may be confirmed before they become a state.
    pub report: Report,
}

impl<'a> Look<'a> {
    /// Judges a snapshot; the report is of the moment `made`, RFC 3339.
    #[must_use]
    pub fn new(
        snapshot: &'a mut Snapshot,
        policy: &Policy,
        filter: &'a Filter,
        made: String,
    ) -> Self {
        // All is judged, and then chosen: a subject that is no longer chosen is not gone.
        let selected = mem::take(&mut snapshot.selected);
        let assessor = Assessor::new(snapshot, policy);
        let mut kept = Vec::new();
        let each_row = &mut |pool: &ObservedPool, place: &Pool, row: &Row, verdict: &Verdict| {
            kept.extend(keep(pool, place, row, verdict));
        };
        let all = Filter::default();
        let report = audit_each(assessor, &all, Source::Cluster, made, each_row);
        Self {
            snapshot,
            filter,
            selected,
            kept,
            report,
        }
    }

    /// The state, and the report without its findings, which are in the state. A subject of `before` that an unreadable
    /// object hides is still there: an error is never absence.
    #[must_use]
    pub fn into_state(mut self, before: &State) -> (State, Report) {
        let mut state = State::new();
        for finding in mem::take(&mut self.report.findings) {
            let subject = subject_of(&finding, &state);
            let entry = Entry::new(finding.problem.as_str(), Told::Finding(Box::new(finding)));
            state.insert(subject, entry);
        }
        for (subject, entry) in mem::take(&mut self.kept) {
            // The finding about a row that is held says more.
            state.entry(subject).or_insert(entry);
        }
        let mut known = HashMap::new();
        for entry in before.values() {
            if let [podref] = entry.pods() {
                known.insert(podref.as_str(), entry);
            }
        }
        for entry in state.values_mut() {
            self.complete(entry, &known);
        }
        name_few(
            state
                .values_mut()
                .filter_map(|entry| match &mut entry.told {
                    Told::Finding(finding) => Some(&mut **finding),
                    Told::Place(_) => None,
                }),
        );
        for (subject, entry) in before {
            if !state.contains_key(subject) && self.may_hide(entry) {
                state.insert(subject.clone(), entry.clone());
            }
        }
        (state, self.report)
    }

    /// Adds the node and the labels of its pod. A pod that is gone keeps those of the look before.
    fn complete(&self, entry: &mut Entry, known: &HashMap<&str, &Entry>) {
        let before = |podref: &str| known.get(podref).copied();
        if let [podref] = entry.pods() {
            entry.node = match self.snapshot.pod(podref) {
                Some(pod) => pod.node.as_deref().map(str::to_owned),
                None => before(podref).and_then(|entry| entry.node.clone()),
            };
        }
        if let Some(selected) = &self.selected {
            entry.selected = entry.pods().iter().any(|podref| {
                let is_gone = self.snapshot.pod(podref).is_none();
                let was_selected = || before(podref).is_some_and(|entry| entry.selected);
                selected.contains(podref.as_str()) || is_gone && was_selected()
            });
        }
        let node = entry.node.iter();
        match &mut entry.told {
            Told::Place(place) => place.nodes = node.cloned().collect(),
            Told::Finding(finding) if finding.nodes.is_empty() => {
                finding.nodes = node.map(|node| node.as_str().into()).collect();
            }
            Told::Finding(_) => {}
        }
        entry.chosen = self.chooses(entry);
    }

    fn chooses(&self, entry: &Entry) -> bool {
        // No filter applies: without pools nothing was looked at.
        if entry.verdict == Problem::NoPools.as_str() {
            return true;
        }
        let place = entry.place();
        let nodes = entry
            .finding()
            .into_iter()
            .flat_map(|it| &*it.nodes)
            .map(AsRef::as_ref);
        let nodes: Vec<_> = nodes.chain(entry.node.as_deref()).collect();
        self.filter
            .chooses((&place.namespace, &place.pool), &place.pods, &nodes)
            && (self.selected.is_none() || entry.selected)
    }

    /// Whether an object that is there and cannot be read may hide this.
    fn may_hide(&self, entry: &Entry) -> bool {
        let unreadable = self.snapshot.unreadable.iter();
        let mut pools = unreadable.filter(|it| it.kind == Kind::IpPool);
        let Place {
            namespace,
            pool,
            row,
            ..
        } = &entry.place();
        let finding = entry.finding();
        if row.is_some() || finding.is_some_and(|finding| is_about_pool(finding.problem)) {
            let name = namespace.iter().chain(pool).map(String::as_str);
            let name = name.collect::<Vec<_>>().join("/");
            return pools.any(|it| it.name == name);
        }
        let mut nameless = self.report.pools.iter().filter(|pool| pool.range.is_none());
        let may_have_row = finding.is_some_and(|finding| {
            finding.reservation.is_some() || finding.problem == Problem::InUseUnallocated
        });
        may_have_row && (nameless.next().is_some() || pools.next().is_some())
    }
}

fn is_about_pool(problem: Problem) -> bool {
    matches!(
        problem,
        Problem::StaticInPool
            | Problem::NearlyFull
            | Problem::PoolSuperseded
            | Problem::PoolWithoutDefinition
    )
}

/// A row with which nothing is wrong unless there is a finding.
fn keep(pool: &ObservedPool, of: &Pool, row: &Row, verdict: &Verdict) -> Option<(Subject, Entry)> {
    let (verdict, detail) = match verdict {
        Verdict::Held(held) => (held.word().as_str(), held.to_string()),
        Verdict::Unknown(Unknown::KeptOwner | Unknown::Exempt) => {
            ("exempt", "a person exempted it".to_owned())
        }
        _ => return None,
    };
    let content = row.content().ok();
    let podref = row.podref_text().filter(|podref| !podref.is_empty());
    let place = Place {
        detail,
        row: Some(PlaceRow {
            pool_uid: pool.uid().to_owned(),
            key: row.key().to_owned(),
            stored: None,
        }),
        namespace: Some(of.key.namespace.clone()),
        pool: Some(of.key.name.clone()),
        address: pool.address_of(row).map(|address| address.to_string()),
        interface: content.and_then(|content| Some(content.interface.as_deref()?.to_owned())),
        pods: podref.map(str::to_owned).into_iter().collect(),
        nodes: Vec::new(),
    };
    let subject = Subject {
        problem: None,
        about: format!("row {} {}", pool.uid(), row.key()),
        nth: 0,
    };
    Some((subject, Entry::new(verdict, Told::Place(Box::new(place)))))
}

/// The subject of a finding, which `state` does not have yet.
fn subject_of(finding: &Finding, state: &State) -> Subject {
    let mut problem = Some(finding.problem);
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let pool = [text(&finding.namespace), text(&finding.pool)].join(" ");
    let address = text(&finding.address);
    let is_beside = matches!(
        finding.problem,
        Problem::OutOfRange | Problem::ReservationMissing
    );
    let about = match (finding.problem, &finding.row, &finding.reservation) {
        (_, Some(row), _) => {
            // The row itself may have another finding.
            problem = problem.filter(|_| is_beside);
            format!("row {} {}", row.pool_uid, row.key)
        }
        (_, None, Some(reservation)) => {
            problem = None;
            format!("reservation {}", reservation.uid)
        }
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
    let named = |nth| Subject {
        problem,
        about: about.clone(),
        nth,
    };
    let mut all = (0..u32::MAX).map(named);
    let free = all.find(|subject| !state.contains_key(subject));
    free.unwrap_or_else(|| named(u32::MAX))
}
