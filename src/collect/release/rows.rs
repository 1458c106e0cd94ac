//! Whether a row holds the address of a claimed reservation, read after the claim.
//!
//! A successor may have been given the address afresh, have accepted the reservation before it was
//! claimed, and be gone again, while its sandbox answers: then the reservation goes with that row.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
};

use futures::{StreamExt, TryStreamExt, future::try_join, stream};
use ipgc_core::{podref::PodRef, pool::PoolKey};

use super::{Marked, Outcomes, Proven, Work};
use crate::collect::{
    context::Context, knowledge::Overlaps, pool_api::ObserveError, second_look::second_look,
};

/// Pools read at a time: a full one is more than a megabyte.
const CONCURRENCY: usize = 2;

/// Addresses of pods with claimed reservations, and the networks that these may be of.
type Claimed<'w> = HashMap<(IpAddr, &'w PodRef), BTreeSet<Option<&'w str>>>;

/// Those of which no row of the same pod has the address; and the others.
pub(super) async fn without_row<'w>(
    context: &Context,
    namespace: &str,
    proven: Vec<Proven<'w>>,
    outcomes: &mut Outcomes,
) -> (Vec<Proven<'w>>, Vec<Marked<'w>>) {
    // Another sweep may end meanwhile; both questions are for the same one.
    let overlaps = context.knowledge.overlaps();
    // Where ranges overlap, the row may be in any pool.
    let mut anywhere = Claimed::new();
    let mut by_pool = BTreeMap::<&PoolKey, Claimed<'w>>::new();
    for Proven(marked) in proven.iter().filter(|Proven(marked)| marked.claimed) {
        let Work { wanted, pool, .. } = marked.work;
        let claimed = if overlaps.may_overlap(pool) {
            &mut anywhere
        } else {
            by_pool.entry(pool).or_default()
        };
        let of = (wanted.row.address, &wanted.row.podref);
        let networks = wanted.networks.iter().map(Option::as_deref);
        claimed.entry(of).or_default().extend(networks);
    }
    match used(context, &overlaps, namespace, by_pool, anywhere).await {
        Ok(used) => {
            let is_used = |Proven(marked): &Proven<'_>| {
                let row = &marked.work.wanted.row;
                marked.claimed && used.contains(&(row.address, row.podref.clone()))
            };
            let (taken, free): (Vec<_>, Vec<_>) = proven.into_iter().partition(is_used);
            let taken = taken.into_iter().map(|Proven(marked)| marked);
            (free, taken.collect())
        }
        Err(ObserveError::Call(error)) => {
            for Proven(marked) in &proven {
                outcomes.fail(marked.work, &error);
            }
            (Vec::new(), Vec::new())
        }
        Err(error @ ObserveError::Unreadable(_)) => {
            for Proven(marked) in &proven {
                outcomes.fail_for(marked.work, error.to_string());
            }
            (Vec::new(), Vec::new())
        }
    }
}

/// Those of these addresses of pods that a row may hold.
async fn used<'w>(
    context: &Context,
    overlaps: &Overlaps,
    namespace: &str,
    by_pool: BTreeMap<&'w PoolKey, Claimed<'w>>,
    mut anywhere: Claimed<'w>,
) -> Result<HashSet<(IpAddr, PodRef)>, ObserveError> {
    let (used, is_all) = {
        let reads: Vec<_> = by_pool
            .iter()
            .map(|(pool, claimed)| used_in(context, pool, claimed))
            .collect();
        let reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
        let reads = reads.try_collect::<Vec<_>>();
        if by_pool.is_empty() {
            (Vec::new(), true)
        } else {
            try_join(reads, no_other_pool(context, overlaps, namespace)).await?
        }
    };
    if !is_all {
        for (of, networks) in by_pool.into_values().flatten() {
            anywhere.entry(of).or_default().extend(networks);
        }
    }
    let mut used: HashSet<_> = used.into_iter().flatten().collect();
    if !anywhere.is_empty() {
        let addresses = anywhere.keys().map(|(address, _)| *address).collect();
        let found = second_look(context, Some(namespace), &addresses, |_| false).await?;
        let taken = anywhere.into_iter().filter(|((address, _), networks)| {
            let mut networks = networks.iter();
            networks.any(|network| found.has_row(namespace, *network, *address))
        });
        used.extend(taken.map(|((address, podref), _)| (address, podref.clone())));
    }
    Ok(used)
}

/// Whether the sweep saw all the pools that there are now: one that was made since may overlap any.
async fn no_other_pool(
    context: &Context,
    overlaps: &Overlaps,
    namespace: &str,
) -> Result<bool, ObserveError> {
    let names = context.pools.names(namespace).await?.into_iter();
    let keys = names.map(|name| PoolKey {
        namespace: namespace.to_owned(),
        name,
    });
    Ok(overlaps.saw(keys))
}

async fn used_in(
    context: &Context,
    pool: &PoolKey,
    claimed: &Claimed<'_>,
) -> Result<Vec<(IpAddr, PodRef)>, ObserveError> {
    let podrefs = claimed.keys().map(|(_, podref)| (*podref).clone());
    let observed = context.pools.observe(pool, &podrefs.collect()).await?;
    let rows = observed
        .iter()
        .flat_map(|pool| pool.rows().iter().map(move |row| (pool, row)));
    let rows: HashSet<_> = rows
        .filter_map(|(pool, row)| Some((pool.address_of(row)?, row.podref_text()?)))
        .collect();
    let used = claimed.keys();
    let used = used.filter(|(address, podref)| rows.contains(&(*address, podref.as_str())));
    let used = used.map(|(address, podref)| (*address, (*podref).clone()));
    Ok(used.collect())
}
