//! What would be free, were a node fenced: the snapshot is judged a second time, as if it were.

use ipgc_core::{
    judge::{Verdict, Word},
    node::NodeState,
    pool::{ObservedPool, Row},
};

use super::Asked;
use crate::audit::{
    assess::{Assessor, Sayings},
    index::{Index, Place},
};

impl Asked<'_> {
    /// How many of the rows and reservations that are held now would be held by no node any more.
    pub(super) fn freed_by_fencing(&self, name: &str) -> usize {
        let fenced = self.assessor.supposing_fenced(name);
        let pools = self.assessor.snapshot.observed();
        let stays_held = |verdict: &Verdict| verdict.word() == Word::Unfenced;
        let held = |assessor: &Assessor<'_>, pool: &ObservedPool, place: &Place, row: &Row| {
            stays_held(&assessor.verdict(pool, place, row))
        };
        let places = self.assessor.index.pools.iter().zip(&fenced.index.pools);
        let freed = pools.zip(places).map(|(pool, (now, then))| {
            let rows = pool.rows().iter();
            let freed = |row: &&Row| {
                held(self.assessor, &pool, now, row) && !held(&fenced, &pool, then, row)
            };
            rows.filter(freed).count()
        });
        let orphans = self.assessor.index.orphans(self.assessor.snapshot);
        let lone = orphans.iter().filter(|orphan| {
            orphan.named.is_some_and(|(_, address)| {
                stays_held(&self.assessor.verdict_on_orphan(orphan, address))
                    && !stays_held(&fenced.verdict_on_orphan(orphan, address))
            })
        });
        freed.sum::<usize>() + lone.count()
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
        nodes.take_stock(crate::snapshot::NOW);
        Self {
            index: Index::of(self.snapshot),
            nodes,
            sayings: Sayings::new(self.sayings.named),
            ..*self
        }
    }
}
