//! Whether a row holds the address of a claimed reservation, read after the claim.
//!
//! A successor may have been given the address afresh, have accepted the reservation before it was
//! claimed, and be gone again, while its sandbox answers: then the reservation goes with that row.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
};

use futures::{StreamExt, TryStreamExt, future::try_join, stream};
use ipgc_core::{known::Overlaps, podref::PodRef, pool::PoolKey};

use super::{
    Deletion,
    steps::{Marked, Proven},
};
use crate::{
    calls::CallError,
    collect::{
        context::Context,
        gate::Access,
        released::{Left, Released},
        rows_again::read_rows_again,
    },
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
    released: &mut [Released],
) -> (Vec<Proven<'w>>, Vec<Marked<'w>>) {
    // Another sweep may end meanwhile; both questions are for the same one.
    let overlaps = context.evidence().overlaps.clone();
    // Where ranges overlap, the row may be in any pool.
    let mut anywhere = Claimed::new();
    let mut by_pool = BTreeMap::<&PoolKey, Claimed<'w>>::new();
    for marked in proven.iter().map(Proven::marked) {
        if !marked.is_claimed() {
            continue;
        }
        let Deletion { wanted, pool, .. } = marked.deletion();
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
            let is_used = |proven: &Proven<'_>| {
                let row = &proven.marked().deletion().wanted.row;
                proven.marked().is_claimed() && used.contains(&(row.address, row.podref.clone()))
            };
            let (taken, free): (Vec<_>, Vec<_>) = proven.into_iter().partition(is_used);
            (free, taken.into_iter().map(Proven::into_marked).collect())
        }
        Err(error) => {
            let left = Left::after(&context.gate, Access::Read, "read pools", &error);
            for proven in &proven {
                proven.marked().deletion().leave(released, left.clone());
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
) -> Result<HashSet<(IpAddr, PodRef)>, CallError> {
    let mut used = HashSet::new();
    if !by_pool.is_empty() {
        // Collected first, or the compiler cannot tell that the whole is Send.
        let reads: Vec<_> = by_pool
            .iter()
            .map(|(pool, claimed)| used_in(context, pool, claimed))
            .collect();
        let reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
        let reads = reads.try_collect::<Vec<_>>();
        let others = saw_all(context, overlaps, namespace);
        let (found, saw_all) = try_join(reads, others).await?;
        used.extend(found.into_iter().flatten());
        if !saw_all {
            for (of, networks) in by_pool.into_values().flatten() {
                anywhere.entry(of).or_default().extend(networks);
            }
        }
    }
    if !anywhere.is_empty() {
        let addresses = anywhere.keys().map(|(address, _)| *address).collect();
        let podrefs: HashSet<_> = anywhere.keys().map(|(_, podref)| podref.as_str()).collect();
        let wanted = |podref: &str| podrefs.contains(podref);
        let found = read_rows_again(context, Some(namespace), &addresses, wanted).await?;
        let taken = anywhere
            .into_iter()
            .filter(|((address, podref), networks)| {
                let mut networks = networks.iter();
                networks.any(|network| {
                    found.has_row(namespace, *network, *address)
                        || found.may_have_own(podref, *network, *address)
                })
            });
        used.extend(taken.map(|((address, podref), _)| (address, podref.clone())));
    }
    Ok(used)
}

/// Whether the sweep saw all the pools that there are now: one that was made since may overlap any.
async fn saw_all(
    context: &Context,
    overlaps: &Overlaps,
    namespace: &str,
) -> Result<bool, CallError> {
    let mut names = context.pool_names(namespace).await?.into_iter();
    Ok(names.all(|name| {
        overlaps.saw(&PoolKey {
            namespace: namespace.to_owned(),
            name,
        })
    }))
}

async fn used_in(
    context: &Context,
    pool: &PoolKey,
    claimed: &Claimed<'_>,
) -> Result<Vec<(IpAddr, PodRef)>, CallError> {
    let podrefs = claimed.keys().map(|(_, podref)| (*podref).clone());
    let podrefs = podrefs.collect();
    let (observed, _) = context.observe_with_permit(pool, &podrefs).await;
    let observed = observed?;
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
