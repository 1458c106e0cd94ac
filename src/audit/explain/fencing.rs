//! How much would be free, were a node fenced: the snapshot is judged a second time, as if it were.

use ipgc_core::{
    judge::{Verdict, Word},
    node::NodeState,
};

use super::Asked;
use crate::{audit::assess::Assessor, snapshot::NOW};

impl Asked<'_> {
    /// How many of the rows and reservations that are held now would be held by no node any more.
    pub(super) fn freed_by_fencing(&self, name: &str) -> usize {
        let now = self.assessor;
        let then = now.supposing_fenced(name);
        let stays_held = |verdict: &Verdict| verdict.word() == Word::Unfenced;
        let mut freed = 0;
        for (pool, place) in now.snapshot.observed().zip(&now.index.pools) {
            let rows = pool.rows().iter();
            let rows = rows.filter(|row| {
                stays_held(&now.verdict(&pool, place, row))
                    && !stays_held(&then.verdict(&pool, place, row))
            });
            freed += rows.count();
        }
        let orphans = now.index.orphans(now.snapshot);
        let lone = orphans.iter().filter(|orphan| {
            orphan.named.is_some_and(|(_, address)| {
                stays_held(&now.verdict_on_orphan(orphan, address))
                    && !stays_held(&then.verdict_on_orphan(orphan, address))
            })
        });
        freed + lone.count()
    }
}

impl Assessor<'_> {
    /// The same, were this node fenced.
    fn supposing_fenced(&self, name: &str) -> Self {
        let mut fenced = Self::new(self.snapshot, self.policy);
        let state = NodeState {
            ready: false,
            out_of_service: true,
            ..self.snapshot.nodes.get(name).cloned().unwrap_or_default()
        };
        fenced.nodes.apply(name, state, NOW);
        fenced
    }
}
