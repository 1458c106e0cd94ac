//! What a sweep reads again: reservations without a row, and rows that may be left of another sandbox.
//!
//! Both need all rows of an address or of a pod, and these are read once more.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use ipgc_core::{
    address::may_reserve,
    definitions::may_be_of,
    judge::runs_in_other_sandbox,
    names::{Reading, split},
    podref::PodRef,
    pool::{PoolKey, RowContent},
    reservation::Reservation,
};

use super::SweepRead;
use crate::{calls::CallError, collect::rows_again::read_rows_again};

/// The name of a pool that does not exist: none is named so by whereabouts.
const NO_POOL: &str = "no-pool";

/// A reservation without a row.
struct Orphan {
    pool: PoolKey,
    network: Option<Box<str>>,
    address: IpAddr,
    reservation: Reservation,
}

impl SweepRead<'_> {
    /// Reads the pools again, for those that need all rows of a pod or of an address.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn again(&mut self) -> Result<(), CallError> {
        let mut orphans = self.orphans();
        // A reservation that was claimed is looked at once more, to be given back to its row.
        orphans.retain(|orphan| orphan.reservation.is_claimed() || !self.saw_row_of(orphan));
        if orphans.is_empty() && self.left.is_empty() {
            return Ok(());
        }
        let addresses = orphans.iter().map(|orphan| orphan.address).collect();
        let left = |podref: &str| self.left.contains_key(podref);
        let found = read_rows_again(self.context, self.namespace, &addresses, left).await?;
        let now = self.context.clock.now();
        for orphan in orphans {
            let namespace = &orphan.pool.namespace;
            let (network, address) = (orphan.network.as_deref(), orphan.address);
            // A claim that was never ended is given back where a row holds the address, so that it is as it was before.
            let gives_back =
                orphan.reservation.is_claimed() && found.saw_row(namespace, network, address);
            // A row holds the address: whosever it is, the reservation stays as long as it does.
            if !gives_back && found.has_row(namespace, network, address) {
                continue;
            }
            let Ok(owner) = orphan.reservation.pod() else {
                self.report.reservations_unreadable += 1;
                continue;
            };
            *self.report.orphans.get_or_insert_default() += 1;
            if found.exempts(namespace, address) && !orphan.reservation.is_claimed() {
                continue;
            }
            // A reservation that waits longer than from sweep to sweep must not be forgotten meanwhile.
            self.context
                .evidence()
                .see_reservation_again(&orphan.reservation, now);
            let key = (orphan.pool, owner);
            let orphans = &mut self.found.entry(key).or_default().orphans;
            orphans.insert(orphan.reservation.name);
        }
        self.add_leftovers(found.rows);
        Ok(())
    }

    /// Whether the sweep saw a row of the same owner for this reservation. A pool that was a slice is not known as one,
    /// so slices of the network count too.
    fn saw_row_of(&self, orphan: &Orphan) -> bool {
        let rows = self.owners.get(orphan.reservation.whose());
        let rows = rows.into_iter().flatten();
        let mut rows = rows.filter(|(_, address)| *address == orphan.address);
        rows.any(|(place, _)| {
            let place = &self.places[*place];
            let is_near = place.tally.key.namespace == orphan.pool.namespace;
            is_near && may_be_of(&place.networks, orphan.network.as_deref(), true)
        })
    }

    /// Whether a row of its owner has been seen since that this reservation may belong to.
    fn may_have_row(&self, reservation: &Reservation) -> bool {
        let rows = self.owners.get(reservation.whose()).into_iter().flatten();
        rows.map(|(_, address)| *address)
            .any(|address| may_reserve(&reservation.name, address))
    }

    /// The reservations without a row, each with the pool that its row would be in. Those that fit no pool share one
    /// pool name that does not exist, so that all pools are read once for them.
    fn orphans(&mut self) -> Vec<Orphan> {
        let known = self.context.evidence().known_networks();
        let mut orphans = Vec::new();
        for (namespace, lone) in std::mem::take(&mut self.lone) {
            let places: Vec<_> = self
                .places
                .iter()
                .filter(|place| place.tally.key.namespace == namespace)
                .collect();
            for reservation in lone {
                let name = &reservation.name;
                let (network, address) = match split(name, &known) {
                    Reading::One(network, address) => (network.map(Into::into), address),
                    Reading::Ambiguous if self.may_have_row(&reservation) => continue,
                    Reading::Ambiguous | Reading::None => {
                        self.report.reservations_unreadable += 1;
                        continue;
                    }
                };
                let pool = places.iter().find(|place| {
                    let fits = place.range.is_some_and(|range| range.contains(address));
                    fits && place.networks.contains(&network)
                });
                let none = || PoolKey {
                    namespace: namespace.clone(),
                    name: NO_POOL.to_owned(),
                };
                orphans.push(Orphan {
                    pool: pool.map_or_else(none, |place| place.tally.key.clone()),
                    network,
                    address,
                    reservation,
                });
            }
        }
        orphans
    }

    fn add_leftovers(&mut self, mut siblings: HashMap<PodRef, Vec<RowContent>>) {
        for (podref, left) in std::mem::take(&mut self.left) {
            let siblings: Arc<[_]> = siblings.remove(&podref).unwrap_or_default().into();
            let evidence = self.context.evidence();
            let live = evidence.pods.live(podref.as_str());
            let pod = live.map(|live| live.state.clone());
            drop(evidence);
            let Some(pod) = pod else { continue };
            for (pool, row) in left {
                if runs_in_other_sandbox(&pod, &row, Some(&*siblings)) {
                    let work = self.found.entry((pool, podref.clone())).or_default();
                    // The planner fills in the number of the sweep.
                    work.siblings = Some((0, Arc::clone(&siblings)));
                }
            }
        }
    }
}
