//! All that is known of one address, pod, pool or node: the verdict on each row that it concerns, why, and what
//! would change it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`report`] | the answer, as plain data with a schema |
//! | `parts` | each row, reservation, pod and node of an answer |
//! | `fencing` | what would be free, were a node fenced |
//! | `outlook` | what would change a verdict, and when |
//! | `text` | the answer for people |

mod fencing;
mod outlook;
mod parts;
pub mod report;
mod text;

use std::{collections::BTreeSet, net::IpAddr};

use ipgc_core::{
    address::may_reserve,
    evidence::Policy,
    judge::{Verdict, Word},
    pod::PodState,
    podref::PodRef,
    reservation::Reservation,
};

pub use self::text::text;
use self::{
    parts::pod_report,
    report::{EXPLANATION_VERSION, Explanation, SubjectKind},
};
use super::{
    assess::{Assessor, holding},
    filter::is_named,
    index::Place,
    report::{Source, Split},
    words,
};
use crate::snapshot::{Kind, Snapshot};

/// The subject that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// An address.
    Address(IpAddr),
    /// A node.
    Node(String),
    /// A pod as `namespace/name`, or a pool, by its name or by `namespace/name`.
    Name(String),
}

impl Subject {
    /// Reads the words of a person.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Self::Address(address.to_canonical());
        }
        match text.strip_prefix("node/") {
            Some(node) => Self::Node(node.to_owned()),
            None => Self::Name(text.to_owned()),
        }
    }
}

/// Explains it.
///
/// # Errors
/// One line, when nothing is known of it.
pub fn explain(
    snapshot: &Snapshot,
    policy: &Policy,
    subject: &Subject,
    source: Source,
    made: String,
) -> Result<Explanation, String> {
    let assessor = Assessor::new(snapshot, policy);
    let asked = Asked {
        assessor: &assessor,
        source,
        made,
    };
    match subject {
        Subject::Address(address) => asked.address(*address),
        Subject::Node(node) => asked.node(node),
        Subject::Name(name) => asked.name(name),
    }
}

struct Asked<'a> {
    assessor: &'a Assessor<'a>,
    source: Source,
    made: String,
}

impl Asked<'_> {
    fn empty(&self, subject: String, kind: SubjectKind) -> Explanation {
        Explanation {
            version: EXPLANATION_VERSION,
            made: self.made.clone(),
            source: self.source,
            subject,
            kind,
            notes: self.notes(),
            split: None,
            pod: None,
            pod_is_absent: false,
            knows_reservations: self.assessor.snapshot.kinds.contains(&Kind::Reservation),
            node: None,
            rows: Vec::new(),
            reservations: Vec::new(),
            reported_by: Vec::new(),
            fencing_frees: None,
        }
    }

    /// The gaps of the snapshot, one sentence each.
    fn notes(&self) -> Vec<String> {
        let snapshot = self.assessor.snapshot;
        let mut notes = snapshot.notes.clone();
        notes.extend(
            snapshot
                .no_proof
                .as_deref()
                .map(|reason| format!("{reason}, so the absence of a pod proves nothing")),
        );
        if let (Some(namespaces), None) = (&snapshot.confined, &snapshot.no_proof) {
            let namespaces: Vec<_> = namespaces.iter().collect();
            notes.push(format!(
                "all pods are of namespace {}: of others nothing is known",
                words::names(&namespaces)
            ));
        }
        notes.extend(self.unreadable());
        let pools = self.assessor.index.pools.iter();
        notes.extend(pools.filter_map(Place::note_of_exemption));
        notes
    }

    /// The note about objects that cannot be read.
    fn unreadable(&self) -> Option<String> {
        let all = self.assessor.snapshot.unreadable.iter();
        let names = all.map(|it| format!("{} {}", it.kind.type_of().1, it.name));
        let names: Vec<_> = names.collect();
        (!names.is_empty())
            .then(|| format!("what cannot be read may say more: {}", words::names(&names)))
    }

    /// The error that nothing is known, and what the snapshot lacks.
    fn nothing(&self, what: String) -> String {
        let mut all = vec![what];
        for kind in [Kind::Reservation, Kind::Pod] {
            if !self.assessor.snapshot.kinds.contains(&kind) {
                all.push(format!("the input has no {kind}"));
            }
        }
        all.extend(self.unreadable());
        all.join("; ")
    }

    fn address(&self, address: IpAddr) -> Result<Explanation, String> {
        let mut explanation = self.empty(address.to_string(), SubjectKind::Address);
        explanation.rows = self.rows(|pool, row, _| pool.address_of(row) == Some(address));
        explanation.reservations = self.orphans(|_, reserved| reserved == address);
        let pods = self.assessor.snapshot.pods.iter().map(AsRef::as_ref);
        let pods = pods.filter(|pod: &&PodState| pod.status.has_address(address));
        explanation.reported_by = pods.map(pod_report).collect();
        let ambiguous = self.ambiguous(|it| may_reserve(&it.name, address));
        let is_known = !(explanation.rows.is_empty()
            && explanation.reservations.is_empty()
            && ambiguous.is_empty()
            && explanation.reported_by.is_empty());
        let said = ambiguous.into_iter().map(|(_, said)| said);
        explanation.notes.extend(said);
        if is_known {
            Ok(explanation)
        } else {
            Err(self.nothing(format!(
                "nothing is known of {address}: no row, no reservation and no pod has it"
            )))
        }
    }

    fn name(&self, name: &str) -> Result<Explanation, String> {
        let is_it = |place: &Place| is_named(name, &place.key.namespace, &place.key.name);
        if self.assessor.index.pools.iter().any(is_it) {
            return Ok(self.pool(name));
        }
        let Ok(podref) = name.parse::<PodRef>() else {
            return Err(self.nothing(format!(
                "no pool {name} is known; asked for are an address, NAMESPACE/POD, a pool or node/NAME"
            )));
        };
        let mut explanation = self.empty(name.to_owned(), SubjectKind::Pod);
        explanation.pod = self.pod(name);
        explanation.rows = self.rows(|_, row, _| row.podref_text() == Some(podref.as_str()));
        explanation.reservations = self.orphans(|orphan, _| orphan.reserved.owner() == name);
        explanation.pod_is_absent = self.is_absent(name);
        // A reservation beside a row of its pod is told with the row.
        let of_rows = explanation
            .rows
            .iter()
            .filter_map(|row| row.reservation.as_ref());
        let of_orphans = explanation
            .reservations
            .iter()
            .map(|orphan| &orphan.reservation);
        let told: BTreeSet<_> = of_rows.chain(of_orphans).map(|it| it.uid.clone()).collect();
        let is_other = |it: &Reservation| it.owner() == name && !told.contains(&*it.uid);
        let ambiguous = self.ambiguous(is_other);
        let mut others = Vec::new();
        for it in self
            .assessor
            .snapshot
            .reservations
            .iter()
            .filter(|it| is_other(it))
        {
            if !ambiguous.iter().any(|(other, _)| other.uid == it.uid) {
                others.push(format!(
                    "reservation {}/{} is its own, and the row of that address is not",
                    it.namespace, it.name
                ));
            }
        }
        others.extend(ambiguous.into_iter().map(|(_, said)| said));
        let is_known = explanation.pod.is_some()
            || !others.is_empty()
            || !explanation.rows.is_empty()
            || !explanation.reservations.is_empty();
        explanation.notes.extend(others);
        if is_known {
            Ok(explanation)
        } else {
            Err(self.nothing(format!(
                "nothing is known of {name}: there is no such pod or pool, and no row or reservation of it"
            )))
        }
    }

    /// Of a pool those rows are told that do not live.
    fn pool(&self, name: &str) -> Explanation {
        let mut explanation = self.empty(name.to_owned(), SubjectKind::Pool);
        let mut split = Split::default();
        explanation.rows = self.rows(|pool, _, verdict| {
            let is_it = is_named(name, &pool.key().namespace, &pool.key().name);
            *split.of(verdict.word()) += usize::from(is_it);
            is_it && verdict.word() != Word::Live
        });
        explanation.split = Some(split);
        explanation
    }

    /// Of a node those rows and reservations are told that it holds, and all of those how many it would free to fence it.
    fn node(&self, name: &str) -> Result<Explanation, String> {
        let snapshot = self.assessor.snapshot;
        let on_it = |pod: &PodState| pod.node.as_deref() == Some(name);
        let holds = |verdict: &Verdict| match verdict {
            Verdict::Stale(stale) => holding(&stale.clearance.wait)
                .iter()
                .any(|node| **node == *name),
            _ => false,
        };
        let mut explanation = self.empty(format!("node/{name}"), SubjectKind::Node);
        let report = self.node_report(name);
        let mut split = Split::default();
        explanation.rows = self.rows(|_, row, verdict| {
            let pod = row.podref_text().and_then(|podref| snapshot.pod(podref));
            let is_its = pod.is_some_and(on_it) || holds(verdict);
            *split.of(verdict.word()) += usize::from(is_its);
            holds(verdict)
        });
        let mut pods = snapshot.pods.iter();
        let mut slices = snapshot.slices.iter();
        let is_known = snapshot.nodes.contains_key(name)
            || pods.any(|pod| on_it(pod))
            || slices.any(|slice| *slice.node == *name);
        if !is_known {
            return Err(format!(
                "nothing is known of node {name}: it is no node, and no pod is on it"
            ));
        }
        explanation.reservations = self
            .orphans(|orphan, address| holds(&self.assessor.verdict_on_orphan(orphan, address)));
        let knows_pods = snapshot.kinds.contains(&Kind::Pod);
        explanation.split = knows_pods.then_some(split);
        if !(explanation.rows.is_empty() && explanation.reservations.is_empty()) {
            explanation.fencing_frees = Some(self.freed_by_fencing(name));
        }
        explanation.node = Some(report);
        Ok(explanation)
    }
}
