//! All that is known of one address, pod, pool or node: the verdict on each row that it concerns, why, and what
//! would change it.
//!
//! | module | content |
//! |---|---|
//! | [`report`] | the answer, as plain data with a schema |
//! | `parts` | each row, reservation, pod and node of an answer, and what would change a verdict |
//! | `text` | the answer for people |

mod parts;
pub mod report;
mod text;

use std::net::IpAddr;

use ipgc_core::{
    address::{Range, may_reserve},
    evidence::Policy,
    ipam::hands_out,
    judge::Word,
    names::Reading,
    node::NodeState,
    pod::PodState,
    podref::PodRef,
};

pub use self::text::text;
use self::{
    parts::pod_report,
    report::{EXPLANATION_VERSION, Explanation, RowExplained, SubjectKind},
};
use super::{
    assess::{Assessor, Item, Judged},
    filter::is_named,
    grid::Grid,
    index::Place,
    report::Split,
    words,
};
use crate::snapshot::{Kind, NOW, Snapshot};

/// Explains an address, `node/NAME`, a pod as `namespace/name`, or a pool, by its name, its range or `namespace/name`.
///
/// # Errors
/// One line, when nothing is known of it.
pub fn explain(snapshot: &Snapshot, policy: &Policy, subject: &str) -> Result<Explanation, String> {
    let assessor = Assessor::new(snapshot, policy);
    let told = match (subject.parse::<IpAddr>(), subject.strip_prefix("node/")) {
        (Ok(address), _) => assessor.explain_address(address.to_canonical()),
        (_, Some(node)) => assessor.explain_node(node),
        _ => assessor.explain_name(subject),
    };
    told.map(|told| Explanation {
        version: EXPLANATION_VERSION,
        made: snapshot.made.clone(),
        source: snapshot.source,
        notes: [assessor.notes(), told.notes].concat(),
        knows_reservations: snapshot.kinds.contains(&Kind::Reservation),
        ..told
    })
}

/// Whether these words name a pool, or are its range.
fn is_asked(words: &str, place: &Place) -> bool {
    let pool = &place.pool;
    let is_range = |range| pool.range.is_some_and(|its| its.masked() == range);
    let asked = Range::parse(words).map(Range::masked);
    is_named(words, &pool.key().namespace, &pool.key().name) || asked.is_some_and(is_range)
}

/// Whether an explanation tells anything of its subject.
fn is_known(told: &Explanation) -> bool {
    told.pod.is_some()
        || !told.rows.is_empty()
        || !told.reservations.is_empty()
        || !told.reported_by.is_empty()
        || !told.notes.is_empty()
}

fn about(subject: String, kind: SubjectKind) -> Explanation {
    Explanation {
        subject,
        kind,
        ..Explanation::default()
    }
}

impl Assessor<'_> {
    /// The gaps of the snapshot, one sentence each.
    fn notes(&self) -> Vec<String> {
        let snapshot = self.snapshot;
        let mut notes = snapshot.notes.clone();
        notes.extend(snapshot.gap());
        notes.extend(self.note_of_unreadable());
        let pools = self.index.pools.iter();
        notes.extend(pools.filter_map(Place::note_of_exemption));
        notes
    }

    /// The note about what cannot be read.
    fn note_of_unreadable(&self) -> Option<String> {
        let all = self.unreadable();
        let names = all.map(|(kind, name)| format!("{} {name}", kind.type_of().1));
        let names: Vec<_> = names.collect();
        (!names.is_empty())
            .then(|| format!("what cannot be read may say more: {}", words::names(&names)))
    }

    /// That nothing is known, and what the snapshot lacks.
    fn nothing(&self, what: String) -> String {
        let mut all = vec![what];
        for kind in [Kind::Reservation, Kind::Pod] {
            if !self.snapshot.kinds.contains(&kind) {
                all.push(format!("the input has no {kind}"));
            }
        }
        all.extend(self.note_of_unreadable());
        all.join("; ")
    }

    /// Adds a row or reservation, explained; of a reservation that several networks may have, a note. The uid of the
    /// reservation that is told of.
    fn add(&self, explanation: &mut Explanation, it: &Judged<'_>) -> Option<String> {
        match &it.item {
            Item::Row(..) => {
                let row = self.explain_row(it);
                let reserved = row.reservation.as_ref().map(|it| it.uid.clone());
                explanation.rows.push(row);
                reserved
            }
            Item::Reservation(reserved, Reading::One(..)) => {
                explanation.reservations.push(self.explain_row(it));
                Some(reserved.uid.clone())
            }
            Item::Reservation(reserved, Reading::Ambiguous) => {
                let (namespace, name) = (&reserved.namespace, &reserved.name);
                let reason = self.reason_of(&it.verdict);
                let note = format!("reservation {namespace}/{name} stays: {reason}");
                explanation.notes.push(note);
                Some(reserved.uid.clone())
            }
            Item::Reservation(_, Reading::None) => None,
        }
    }

    fn explain_address(&self, address: IpAddr) -> Result<Explanation, String> {
        let mut explanation = about(address.to_string(), SubjectKind::Address);
        self.each(|it| {
            let is_of = match &it.item {
                Item::Reservation(reserved, Reading::Ambiguous) => {
                    may_reserve(&reserved.name, address)
                }
                _ => it.address == Some(address),
            };
            if is_of {
                self.add(&mut explanation, it);
            }
        });
        let pods = self.snapshot.pods.iter().map(AsRef::as_ref);
        let pods = pods.filter(|pod: &&PodState| pod.status.has_address(address));
        explanation.reported_by = pods.map(pod_report).collect();
        if self.note_of_unreadable().is_none() && !is_known(&explanation) {
            for place in &self.index.pools {
                if let Some(range) = place.pool.range.filter(|range| range.contains(address)) {
                    let leading = self.leading(place);
                    let is_given = hands_out(range, None, address)
                        && !leading.is_some_and(|it| it.hands_out_none(address, address));
                    let and = if is_given {
                        ""
                    } else {
                        ", and no definition hands it out"
                    };
                    explanation.notes.push(self.nothing(format!(
                        "no row has it in pool {} ({range}), and nothing else that was read{and}",
                        place.pool.key()
                    )));
                }
            }
        }
        self.if_known(explanation, "no row, no reservation and no pod has it")
    }

    /// The explanation, unless it tells nothing of its subject.
    fn if_known(&self, told: Explanation, reason: &str) -> Result<Explanation, String> {
        if is_known(&told) {
            return Ok(told);
        }
        Err(self.nothing(format!("nothing is known of {}: {reason}", told.subject)))
    }

    fn explain_name(&self, name: &str) -> Result<Explanation, String> {
        if self.index.pools.iter().any(|place| is_asked(name, place)) {
            return Ok(self.explain_pool(name));
        }
        if !PodRef::is_valid(name) {
            return Err(self.nothing(format!(
                "no pool {name} is known; asked for are an address, NAMESPACE/POD, a pool, its range or node/NAME"
            )));
        }
        let mut explanation = about(name.to_owned(), SubjectKind::Pod);
        explanation.pod = self.pod(name);
        explanation.pod_is_absent = self.is_absent(name);
        let mut told = Vec::new();
        self.each(|it| {
            if it.owner() == name {
                told.extend(self.add(&mut explanation, it));
            }
        });
        for it in &self.snapshot.reservations {
            if it.owner() == name && !told.contains(&it.uid) {
                explanation.notes.push(format!(
                    "reservation {}/{} is its own, and the row of that address is not",
                    it.namespace, it.name
                ));
            }
        }
        self.if_known(
            explanation,
            "there is no such pod or pool, and no row or reservation of it",
        )
    }

    /// Tells those rows of a pool that do not live.
    fn explain_pool(&self, name: &str) -> Explanation {
        let mut explanation = about(name.to_owned(), SubjectKind::Pool);
        let mut split = Split::default();
        self.each_pool(|place, rows, lone| {
            if !is_asked(name, place) {
                return;
            }
            for it in rows {
                let word = it.verdict.word();
                *split.of(word) += 1;
                if word != Word::Live {
                    self.add(&mut explanation, it);
                }
            }
            explanation.grids.extend(Grid::of(self, place, rows, lone));
        });
        explanation.split = Some(split);
        let address = |row: &RowExplained| row.address.as_deref()?.parse::<IpAddr>().ok();
        explanation.rows.sort_by_key(address);
        explanation
    }

    /// Tells the rows and reservations that a node holds, and how many of all that are held a fence of it would free.
    fn explain_node(&self, name: &str) -> Result<Explanation, String> {
        let snapshot = self.snapshot;
        if !snapshot.knows_node(name) {
            return Err(format!(
                "nothing is known of node {name}: it is no node, and no pod is on it"
            ));
        }
        let mut explanation = about(format!("node/{name}"), SubjectKind::Node);
        let mut split = Split::default();
        self.each(|it| {
            let is_held = it.holding().iter().any(|node| **node == *name);
            if let Item::Row(..) = &it.item {
                let is_its = self.node_of(it.owner()) == Some(name) || is_held;
                *split.of(it.verdict.word()) += usize::from(is_its);
            }
            if is_held {
                self.add(&mut explanation, it);
            }
        });
        let knows_pods = snapshot.kinds.contains(&Kind::Pod);
        explanation.split = knows_pods.then_some(split);
        if !(explanation.rows.is_empty() && explanation.reservations.is_empty()) {
            explanation.fencing_frees = Some(self.freed_by_fencing(name));
        }
        explanation.node = Some(self.node_report(name));
        Ok(explanation)
    }

    /// How many of the rows and reservations that nodes hold now no node would hold any more, were this one fenced: all
    /// is judged once more, as if it were.
    fn freed_by_fencing(&self, name: &str) -> usize {
        let mut then = Assessor::new(self.snapshot, self.policy);
        let state = NodeState {
            ready: false,
            declared_empty: true,
            // An annotation that the node has already may be of before.
            declaration: None,
            ..self.snapshot.nodes.get(name).cloned().unwrap_or_default()
        };
        then.nodes.apply(name, state, NOW);
        let are_held = |assessor: &Assessor<'_>| {
            let mut all = Vec::new();
            assessor.each(|it| all.push(it.verdict.word() == Word::Unfenced));
            all
        };
        let both = are_held(self).into_iter().zip(are_held(&then));
        both.filter(|(now, then)| *now && !then).count()
    }
}
