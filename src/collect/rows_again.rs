//! All pools are read again, for those who need all rows of an address or of a pod.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use ipgc_core::{
    definitions::{Networks, may_be_of},
    podref::PodRef,
    pool::{Glance, RowContent},
};
use tracing::warn;

use super::{context::Context, pool_api::first_page};
use crate::calls::CallError;

#[derive(Debug, Default)]
pub struct RowsAgain {
    /// Namespace, network and address of each row.
    taken: HashSet<(String, Option<Box<str>>, IpAddr)>,
    /// Namespaces and addresses that a person exempted, of those that were asked for.
    exempt: HashSet<(String, IpAddr)>,
    /// A pool could not be read: it may have a row of any address.
    is_blind: bool,
    /// All rows of the podrefs that were asked for.
    pub rows: HashMap<PodRef, Vec<RowContent>>,
    /// The networks of the pools in which these are.
    networks: HashMap<(PodRef, IpAddr), Vec<Networks>>,
}

impl RowsAgain {
    /// Whether a row of this network may hold the address.
    pub fn has_row(&self, namespace: &str, network: Option<&str>, address: IpAddr) -> bool {
        let place = (namespace.to_owned(), network.map(Into::into), address);
        self.is_blind || self.taken.contains(&place)
    }

    /// Whether a person exempted the address in some pool, whatever its network.
    pub fn exempts(&self, namespace: &str, address: IpAddr) -> bool {
        self.exempt.contains(&(namespace.to_owned(), address))
    }

    /// Whether this pod has a row of the address in a pool that may be of this network, or of a slice of it that no sweep
    /// saw. The pod has to be one that was asked for.
    pub fn may_have_own(&self, podref: &PodRef, network: Option<&str>, address: IpAddr) -> bool {
        let pools = self.networks.get(&(podref.clone(), address));
        let mut pools = pools.into_iter().flatten();
        pools.any(|networks| may_be_of(networks, network, true))
    }

    /// Whether a row of this network was seen that holds the address.
    pub fn saw_row(&self, namespace: &str, network: Option<&str>, address: IpAddr) -> bool {
        !self.is_blind && self.has_row(namespace, network, address)
    }
}

/// Reads all pools, or those in `namespace`, for rows of these addresses and of the podrefs that
/// `wanted` asks for.
pub async fn read_rows_again(
    context: &Context,
    namespace: Option<&str>,
    addresses: &HashSet<IpAddr>,
    wanted: impl Fn(&str) -> bool,
) -> Result<RowsAgain, CallError> {
    let mut found = RowsAgain::default();
    let mut next = Some(first_page());
    while let Some(params) = next {
        let is_wanted = |row: &Glance<'_>| {
            let is_one = |address: IpAddr| addresses.contains(&address);
            row.podref.is_some_and(&wanted) || row.address.is_some_and(is_one)
        };
        let page = context.pool_page(namespace, &params, is_wanted);
        let page = page.await?;
        context.pulse.beat();
        next = page.next;
        for pool in page.pools {
            let pool = match pool {
                Ok(pool) => pool,
                Err((_, reason)) => {
                    warn!(%reason, "pool cannot be read");
                    found.is_blind = true;
                    continue;
                }
            };
            // Few pools have exemptions, and there may be many addresses.
            if pool.has_exemptions() {
                let exempt = addresses.iter().filter(|address| pool.exempts(**address));
                let exempt = exempt.map(|address| (pool.key().namespace.clone(), *address));
                found.exempt.extend(exempt);
            }
            let networks = context.networks_of(&pool);
            for row in pool.rows() {
                // Also of a row that says nothing else.
                if let Some(address) = pool.address_of(row) {
                    for network in &networks {
                        let namespace = pool.key().namespace.clone();
                        found.taken.insert((namespace, network.clone(), address));
                    }
                }
                let Ok(row) = row.content() else { continue };
                if wanted(row.podref.as_str()) {
                    let rows = found.rows.entry(row.podref.clone()).or_default();
                    rows.push(row.clone());
                    let own = (row.podref.clone(), row.address);
                    let of_pools = found.networks.entry(own).or_default();
                    of_pools.push(networks.clone());
                }
            }
        }
    }
    Ok(found)
}
