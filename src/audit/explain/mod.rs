//! All that is known of one address, pod, pool or node: the verdict on each row that it concerns, why, and what
//! would change it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`report`] | the answer, as plain data with a schema |
//! | `outlook` | what would change a verdict, and when |
//! | `text` | the answer for people |

mod outlook;
pub mod report;
mod text;

use std::{collections::BTreeSet, net::IpAddr};

use ipgc_core::{
    address::reservation_names,
    evidence::Policy,
    judge::{Cause, Held, Unknown, Verdict},
    networks::Status,
    node::NodeState,
    pod::PodState,
    podref::PodRef,
    pool::{ObservedPool, Row},
    proof::Presence,
};

use self::report::{
    EXPLANATION_VERSION, Explanation, NodeReport, OrphanExplained, PodReport, RowExplained,
    SubjectKind,
};
pub use self::text::text;
use super::{
    assess::{Assessor, holding, is_held, owner, reported},
    filter::is_named,
    index::{Index, Orphan, Place},
    report::{Source, Split, Stored},
    words,
};
use crate::snapshot::{Kind, Snapshot, Unreadable};

/// What is asked about.
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

    /// What the snapshot does not tell.
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
        notes
    }

    /// What may be in objects that cannot be read.
    fn unreadable(&self) -> Option<String> {
        let all = self.assessor.snapshot.unreadable.iter();
        let name = |it: &Unreadable| format!("{} {}", it.kind.type_of().1, it.name);
        let names: Vec<_> = all.map(name).collect();
        (!names.is_empty())
            .then(|| format!("what cannot be read may say more: {}", words::names(&names)))
    }

    /// Nothing is known, as far as the snapshot tells.
    fn nothing(&self, what: &str) -> String {
        let snapshot = self.assessor.snapshot;
        let kinds = [Kind::Reservation, Kind::Pod].into_iter();
        let missing = kinds.filter(|kind| !snapshot.kinds.contains(kind));
        let missing = missing.map(|kind| format!("the input has no {kind}"));
        let all: Vec<_> = [what.to_owned()]
            .into_iter()
            .chain(missing)
            .chain(self.unreadable())
            .collect();
        all.join("; ")
    }

    /// Whether it is known that there is no such pod.
    fn is_absent(&self, podref: &str) -> bool {
        match podref.parse::<PodRef>() {
            Ok(podref) => matches!(self.assessor.snapshot.presence(&podref), Presence::Absent),
            // No pod has a name that is none.
            Err(_) => true,
        }
    }

    /// The rows that are asked for, each explained.
    fn rows(&self, wanted: impl Fn(&ObservedPool, &Row, &Verdict) -> bool) -> Vec<RowExplained> {
        let mut rows = Vec::new();
        let pools = self.assessor.snapshot.observed();
        for (pool, place) in pools.zip(&self.assessor.index.pools) {
            for row in pool.rows() {
                let verdict = self.assessor.verdict(&pool, place, row);
                if wanted(&pool, row, &verdict) {
                    rows.push(self.row(&pool, place, row, &verdict));
                }
            }
        }
        rows
    }

    fn orphans(&self, wanted: impl Fn(&Orphan<'_>, IpAddr) -> bool) -> Vec<OrphanExplained> {
        let all = self.assessor.index.orphans(self.assessor.snapshot);
        let named = all
            .iter()
            .filter_map(|orphan| Some((orphan, orphan.named?)));
        let wanted = named.filter(|(orphan, (_, address))| wanted(orphan, *address));
        wanted
            .map(|(orphan, (network, address))| self.orphan(orphan, network, address))
            .collect()
    }

    fn orphan(
        &self,
        orphan: &Orphan<'_>,
        network: Option<&str>,
        address: IpAddr,
    ) -> OrphanExplained {
        let verdict = self.assessor.verdict_on_orphan(orphan, address);
        OrphanExplained {
            namespace: orphan.reserved.namespace.as_ref().to_owned(),
            network: network.map(str::to_owned),
            address: address.to_string(),
            reservation: reported(orphan.reserved),
            verdict: word(&verdict).to_owned(),
            reason: reason(&verdict),
            grade: grade(&verdict),
            wait_seconds: wait_seconds(&verdict),
            pod: self.pod(owner(orphan.reserved)),
            pod_is_absent: self.is_absent(owner(orphan.reserved)),
        }
    }

    fn row(
        &self,
        pool: &ObservedPool,
        place: &Place,
        row: &Row,
        verdict: &Verdict,
    ) -> RowExplained {
        let snapshot = self.assessor.snapshot;
        let content = row.content().ok();
        let podref = row.podref_text().unwrap_or_default();
        let pod = self.pod(podref);
        let node = pod.as_ref().and_then(|pod| pod.node.clone());
        let node = node.or_else(|| place.slice.as_deref().map(str::to_owned));
        let address = pool.address_of(row);
        let reservation = address.and_then(|address| {
            let names = place
                .networks
                .iter()
                .flat_map(|network| reservation_names(address, network.as_deref()));
            let mut found =
                names.filter_map(|name| snapshot.reservation(&place.key.namespace, &name));
            found.next().map(|at| reported(&snapshot.reservations[at]))
        });
        let waits_for = match verdict {
            Verdict::Stale(stale) => holding(&stale.clearance.wait),
            _ => &[],
        };
        RowExplained {
            namespace: place.key.namespace.clone(),
            pool: place.key.name.clone(),
            pool_uid: pool.uid().to_owned(),
            range: place.range.map(|range| range.to_string()),
            networks: place
                .networks
                .iter()
                .flatten()
                .map(|network| network.as_ref().to_owned())
                .collect(),
            key: row.key().to_owned(),
            address: address.map(|address| address.to_string()),
            interface: content.and_then(|content| Some(content.interface.as_deref()?.to_owned())),
            stored: Stored::new(row.stored()),
            podref: podref.to_owned(),
            verdict: word(verdict).to_owned(),
            rule: rule(
                verdict,
                content.is_some_and(|content| self.is_mirror(&content.podref)),
            ),
            reason: reason(verdict),
            grade: grade(verdict),
            cause: match verdict {
                Verdict::Stale(stale) => Some(stale.cause.as_str().to_owned()),
                _ => None,
            },
            wait_seconds: wait_seconds(verdict),
            waits_for: waits_for
                .iter()
                .map(|node| node.as_ref().to_owned())
                .collect(),
            node: node.map(|node| self.node_report(&node)),
            pod,
            pod_is_absent: self.is_absent(podref),
            reservation,
            changes: outlook::changes(self.assessor, row, verdict),
        }
    }

    /// Where the name alone tells a mirror: the kubelet appends its node's.
    fn is_mirror(&self, podref: &PodRef) -> bool {
        let nodes = self.assessor.snapshot.nodes.keys();
        let mut ends = nodes.filter_map(|node| podref.name().strip_suffix(&**node));
        self.assessor.snapshot.pod(podref.as_str()).is_none()
            && ends.any(|rest| rest.ends_with('-'))
    }

    fn pod(&self, podref: &str) -> Option<PodReport> {
        self.assessor.snapshot.pod(podref).map(pod_report)
    }

    fn node_report(&self, name: &str) -> NodeReport {
        let snapshot = self.assessor.snapshot;
        let state = snapshot.nodes.get(name);
        NodeReport {
            name: name.to_owned(),
            state: match state {
                None if !snapshot.knows_nodes() => "unknown",
                None => "gone",
                Some(state) if state.is_fenced() => "fenced",
                Some(state) if state.ready => "ready",
                Some(_) => "not-ready",
            }
            .to_owned(),
            out_of_service: state.is_some_and(|state| state.out_of_service),
            declared_empty: state.is_some_and(|state| state.declared_empty),
        }
    }

    fn address(&self, address: IpAddr) -> Result<Explanation, String> {
        let mut explanation = self.empty(address.to_string(), SubjectKind::Address);
        explanation.rows = self.rows(|pool, row, _| pool.address_of(row) == Some(address));
        explanation.reservations = self.orphans(|_, reserved| reserved == address);
        let reports = |pod: &&PodState| pod.status.has_address(address);
        let pods = self.assessor.snapshot.pods.iter().filter(reports);
        explanation.reported_by = pods.map(pod_report).collect();
        let is_known = !(explanation.rows.is_empty()
            && explanation.reservations.is_empty()
            && explanation.reported_by.is_empty());
        if is_known {
            Ok(explanation)
        } else {
            Err(self.nothing(&format!(
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
            return Err(self.nothing(&format!(
                "no pool {name} is known; asked for are an address, NAMESPACE/POD, a pool or node/NAME"
            )));
        };
        let mut explanation = self.empty(name.to_owned(), SubjectKind::Pod);
        explanation.pod = self.pod(name);
        explanation.rows = self.rows(|_, row, _| row.podref_text() == Some(podref.as_str()));
        explanation.reservations = self.orphans(|orphan, _| owner(orphan.reserved) == name);
        explanation.pod_is_absent = self.is_absent(name);
        // Those beside a row of another pod are told with that row only.
        let told = explanation
            .reservations
            .iter()
            .map(|orphan| &orphan.reservation.name);
        let told = told.chain(
            explanation
                .rows
                .iter()
                .filter_map(|row| Some(&row.reservation.as_ref()?.name)),
        );
        let told: BTreeSet<_> = told.cloned().collect();
        let all = self.assessor.snapshot.reservations.iter();
        let others = all.filter(|it| owner(it) == name && !told.contains(&*it.name));
        let others: Vec<_> = others
            .map(|it| {
                format!(
                    "reservation {}/{} is its own, and the row of that address is another's",
                    it.namespace, it.name
                )
            })
            .collect();
        let is_known = explanation.pod.is_some()
            || !others.is_empty()
            || !explanation.rows.is_empty()
            || !explanation.reservations.is_empty();
        explanation.notes.extend(others);
        if is_known {
            Ok(explanation)
        } else {
            Err(self.nothing(&format!(
                "nothing is known of {name}: there is no such pod or pool, and no row or reservation of it"
            )))
        }
    }

    /// Of a pool those rows are told that do not live.
    fn pool(&self, name: &str) -> Explanation {
        let mut explanation = self.empty(name.to_owned(), SubjectKind::Pool);
        let split = std::cell::Cell::new(Split::default());
        explanation.rows = self.rows(|pool, _, verdict| {
            let is_it = is_named(name, &pool.key().namespace, &pool.key().name);
            if is_it {
                let mut all = split.get();
                *all.of(verdict) += 1;
                split.set(all);
            }
            is_it && !matches!(verdict, Verdict::Held(_))
        });
        explanation.split = Some(split.get());
        explanation
    }

    /// Of a node those rows are told that it holds, and all of those how many it would free to fence it.
    fn node(&self, name: &str) -> Result<Explanation, String> {
        let snapshot = self.assessor.snapshot;
        let on_it = |pod: &&PodState| pod.node.as_deref() == Some(name);
        let holds = |verdict: &Verdict| match verdict {
            Verdict::Stale(stale) => holding(&stale.clearance.wait)
                .iter()
                .any(|node| **node == *name),
            _ => false,
        };
        let mut explanation = self.empty(format!("node/{name}"), SubjectKind::Node);
        let report = self.node_report(name);
        let split = std::cell::Cell::new(Split::default());
        explanation.rows = self.rows(|_, row, verdict| {
            let pod = row.podref_text().and_then(|podref| snapshot.pod(podref));
            if pod.as_ref().is_some_and(on_it) || holds(verdict) {
                let mut all = split.get();
                *all.of(verdict) += 1;
                split.set(all);
            }
            holds(verdict)
        });
        let mut pods = snapshot.pods.iter();
        let mut slices = snapshot.slices.iter();
        let is_known = snapshot.nodes.contains_key(name)
            || pods.any(|pod| on_it(&pod))
            || slices.any(|slice| *slice.node == *name);
        if !is_known {
            return Err(format!(
                "nothing is known of node {name}: it is no node, and no pod is on it"
            ));
        }
        explanation.split = Some(split.get());
        if !explanation.rows.is_empty() {
            explanation.fencing_frees = Some(self.freed_by_fencing(name));
        }
        explanation.node = Some(report);
        Ok(explanation)
    }

    /// How many of the rows that are held now would be held by no node any more.
    fn freed_by_fencing(&self, name: &str) -> usize {
        let fenced = self.assessor.supposing_fenced(name);
        let pools = self.assessor.snapshot.observed();
        let held =
            |assessor: &Assessor<'_>, pool: &ObservedPool, place: &Place, row: &Row| match assessor
                .verdict(pool, place, row)
            {
                Verdict::Stale(stale) => is_held(&stale.clearance.wait),
                _ => false,
            };
        let places = self.assessor.index.pools.iter().zip(&fenced.index.pools);
        let freed = pools.zip(places).map(|(pool, (now, then))| {
            let rows = pool.rows().iter();
            let freed = |row: &&Row| {
                held(self.assessor, &pool, now, row) && !held(&fenced, &pool, then, row)
            };
            rows.filter(freed).count()
        });
        freed.sum()
    }
}

impl Assessor<'_> {
    /// The same, were this node fenced.
    fn supposing_fenced(&self, name: &str) -> Self {
        let mut nodes = self.snapshot.present_nodes();
        let fenced = NodeState {
            ready: false,
            out_of_service: true,
            ..self.snapshot.nodes.get(name).cloned().unwrap_or_default()
        };
        nodes.apply(name, fenced, crate::snapshot::NOW);
        Self {
            index: Index::of(self.snapshot),
            nodes,
            ..*self
        }
    }
}

fn pod_report(pod: &PodState) -> PodReport {
    let entries = pod.status.entries().iter();
    let reports = entries.flat_map(|entry| {
        let addresses = entry.addresses.iter();
        addresses.map(|address| format!("{} on {} of {}", address, entry.interface, entry.network))
    });
    PodReport {
        podref: pod.podref.to_string(),
        uid: pod.uid.as_ref().to_owned(),
        phase: format!("{:?}", pod.phase),
        deleting: pod.deleting,
        node: pod.node.as_deref().map(str::to_owned),
        network_status: match &pod.status {
            Status::Missing => "missing".to_owned(),
            Status::Malformed(reason) => format!("cannot be read: {reason}"),
            Status::Valid(_) if pod.status.is_complete_for(&pod.request) => "complete".to_owned(),
            Status::Valid(_) => "incomplete".to_owned(),
        },
        reports: reports.collect(),
    }
}

/// The word of a verdict, by which rows are counted too.
fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Held(_) => "live",
        Verdict::Stale(stale) if is_held(&stale.clearance.wait) => "held",
        Verdict::Stale(_) => "stale",
        Verdict::Unknown(_) => "unknown",
    }
}

/// The rule of docs/safety.md.
fn rule(verdict: &Verdict, is_mirror: bool) -> Option<u8> {
    match verdict {
        Verdict::Unknown(Unknown::NoProof(_)) | Verdict::Held(Held::Present) => None,
        Verdict::Unknown(_) => Some(1),
        Verdict::Held(Held::Mirror) => Some(2),
        Verdict::Held(Held::Reported) => Some(5),
        Verdict::Held(Held::Young) => Some(7),
        Verdict::Held(Held::Drift) => Some(9),
        Verdict::Stale(stale) => Some(match stale.cause {
            Cause::Deleted if is_mirror => 2,
            Cause::Deleted => 3,
            Cause::Completed => 4,
            Cause::Predecessor => 6,
            Cause::Leftover => 8,
        }),
    }
}

fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Held(held) => held.to_string(),
        Verdict::Unknown(unknown) => unknown.to_string(),
        Verdict::Stale(stale) => words::stale(stale),
    }
}

fn grade(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Stale(stale) => Some(stale.grade().as_str().to_owned()),
        _ => None,
    }
}

fn wait_seconds(verdict: &Verdict) -> Option<u64> {
    match verdict {
        Verdict::Stale(stale) => {
            let moment = stale.clearance.wait.moment()?;
            Some(moment.since(crate::snapshot::NOW).as_secs())
        }
        _ => None,
    }
}
