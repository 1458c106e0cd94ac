//! All that a node holds, for a person who says that nothing answers on it any more.

use std::{collections::BTreeSet, time::Duration};

use ipgc_core::judge::{Stale, Verdict};

use crate::{
    audit::assess::{Assessor, holding},
    collect::picked::{Pick, Picked, Subject},
    core::evidence::Policy,
    snapshot::Snapshot,
};

/// The rows, and the reservations without one, that a node holds.
pub struct HeldBy {
    /// All of them, forced.
    pub picked: Picked,
    /// The other nodes that hold some of them as well.
    pub others: BTreeSet<Box<str>>,
}

/// What this node holds. A pod that is there keeps what it has.
#[must_use]
pub fn held_by(snapshot: &Snapshot, policy: &Policy, node: &str) -> HeldBy {
    let assessor = Assessor::new(snapshot, policy);
    let mut others = BTreeSet::new();
    let mut is_held = |stale: &Stale| {
        let nodes = holding(&stale.clearance.wait);
        let is_held = nodes.iter().any(|name| **name == *node);
        if is_held {
            others.extend(nodes.iter().filter(|name| ***name != *node).cloned());
        }
        is_held
    };
    let mut picks = Vec::new();
    for (pool, place) in snapshot.observed().zip(&assessor.index.pools) {
        for row in pool.rows() {
            if let (Verdict::Stale(stale), Ok(content)) =
                (assessor.verdict(&pool, place, row), row.content())
                && is_held(&stale)
            {
                picks.push(Pick {
                    pool: place.key.clone(),
                    subject: Subject::Row {
                        pool_uid: pool.uid().to_owned(),
                        key: row.key().to_owned(),
                        stored: row.stored().clone(),
                    },
                    podref: content.podref.clone(),
                    address: content.address,
                    forced: true,
                });
            }
        }
    }
    for orphan in assessor.index.orphans(snapshot) {
        if let (Some((_, address)), Some(place), Ok(podref)) =
            (orphan.named, orphan.place, orphan.reserved.owner().parse())
            && let Verdict::Stale(stale) = assessor.verdict_on_orphan(&orphan, address)
            && is_held(&stale)
        {
            picks.push(Pick {
                pool: place.key.clone(),
                subject: Subject::Reservation {
                    name: orphan.reserved.name.clone(),
                    uid: orphan.reserved.uid.clone(),
                },
                podref,
                address,
                forced: true,
            });
        }
    }
    HeldBy {
        picked: Picked::new(picks, Duration::ZERO),
        others,
    }
}
