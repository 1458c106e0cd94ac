//! One look at all reservations and all pools.
//!
//! Reservations first: whoever has one has written its row by then, so one that is seen without a
//! row afterwards has none. Most rows and reservations are passed over at a glance, because a pod
//! that lives reports them; only the others are kept for a judgement by what the watch tells.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use ipgc_core::{
    address::{Range, excerpt, reservation_address, split_reservation_name},
    judge::{Held, Verdict, judge, lives_elsewhere},
    podref::PodRef,
    pool::{Glance, ObservedPool, PoolKey, Row, RowContent},
    reservation::Reservation,
};
use kube::api::ListParams;
use tracing::warn;

use super::report::SweepReport;
use crate::{
    collect::{
        context::Context,
        item::Found,
        knowledge::{Known, lock},
        pool_api::ObserveError,
        reservations::PAGE,
    },
    watch::Presumed,
};

/// Text of pools to a page, about: kube holds a page three times.
const PAGE_BYTES: usize = 2_000_000;
/// Pools on the first page, before it is known how large they are.
const FIRST_PAGE: u32 = 2;
/// Most pools to a page.
const LARGEST_PAGE: u32 = 500;

/// One look.
pub struct Look<'l> {
    context: &'l Context,
    namespace: Option<&'l str>,
    found: HashMap<PodRef, Found>,
    report: SweepReport,
    /// Reservations that no pod reports, by namespace.
    lone: HashMap<String, Vec<Lone>>,
    /// Rows that may be left of an earlier sandbox of a pod that lives.
    left: HashMap<PodRef, Vec<Left>>,
    /// All pools that were read.
    places: Vec<Place>,
}

/// A reservation that no pod reports.
struct Lone {
    reservation: Reservation,
    owner: PodRef,
}

/// A row that its pod does not report.
struct Left {
    pool: PoolKey,
    pool_uid: String,
    row: Row,
}

/// Where a pool is.
struct Place {
    key: PoolKey,
    range: Range,
    /// The networks of its reservations.
    networks: Vec<Option<Box<str>>>,
}

impl<'l> Look<'l> {
    pub fn new(context: &'l Context, namespace: Option<&'l str>) -> Self {
        Self {
            context,
            namespace,
            found: HashMap::new(),
            report: SweepReport::default(),
            lone: HashMap::new(),
            left: HashMap::new(),
            places: Vec::new(),
        }
    }

    /// All reservations. Without them the rows are swept all the same.
    pub async fn at_reservations(&mut self) {
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = self
                .context
                .reservations
                .page(self.namespace, &params)
                .await;
            let (page, next) = match page {
                Ok(page) => page,
                Err(error) => {
                    warn!(%error, "reservations cannot be listed, those without a row are left to the next sweep");
                    self.lone.clear();
                    return;
                }
            };
            for (namespace, reservation) in page {
                self.report.reservations += 1;
                let Ok(owner) = reservation.owner().parse::<PodRef>() else {
                    self.report.reservations_unreadable += 1;
                    continue;
                };
                if !reservation.is_claimed() && self.is_reported(&owner, &reservation.name) {
                    continue;
                }
                let lone = Lone { reservation, owner };
                self.lone.entry(namespace).or_default().push(lone);
            }
            match next {
                Some(next) => params = next,
                None => return,
            }
        }
    }

    /// Whether a pod that lives reports the address of a reservation's name, whatever the network.
    fn is_reported(&self, owner: &PodRef, name: &str) -> bool {
        match lock(&self.context.knowledge.pods).presumed(owner.as_str()) {
            Presumed::Absent => false,
            Presumed::Other => true,
            Presumed::Live(pod, _) => {
                let mut addresses = pod.status.entries().iter().flat_map(|e| &e.addresses);
                !pod.phase.is_terminal()
                    && addresses.any(|address| {
                        // The name ends in the address; what stands before it is the network.
                        ipgc_core::address::reservation_names(*address, None)
                            .iter()
                            .any(|bare| name.ends_with(bare.as_str()))
                    })
            }
        }
    }

    /// All pools, a few to a page.
    ///
    /// # Errors
    /// When a page cannot be read. What was found so far is good; the rest is not known.
    pub async fn at_pools(&mut self) -> Result<(), ObserveError> {
        let context = self.context;
        let mut params = ListParams::default().limit(FIRST_PAGE);
        loop {
            let now = context.clock.now();
            let fresh = context.knowledge.freshness.is_fresh();
            let mut held = 0;
            let page = context.pools.page(self.namespace, &params, |row| {
                let keep = closer_look(context, row, fresh, now);
                held += usize::from(!keep);
                keep
            });
            let page = page.await?;
            self.report.held += held;
            let count = page.pools.len().max(1);
            for pool in page.pools {
                match pool {
                    Ok(pool) => self.at_pool(&pool),
                    Err((text, reason)) => {
                        self.report.pools_unreadable += 1;
                        context.counters.pools_unreadable.increment();
                        warn!(pool = excerpt(&text), %reason, "pool cannot be read");
                    }
                }
            }
            match page.next {
                Some(next) => {
                    let size = PAGE_BYTES / (page.bytes / count).max(1);
                    let size = u32::try_from(size).unwrap_or(LARGEST_PAGE);
                    params = next.limit(size.clamp(1, LARGEST_PAGE));
                }
                None => return Ok(()),
            }
        }
    }

    fn at_pool(&mut self, pool: &ObservedPool) {
        let knowledge = &self.context.knowledge;
        self.report.pools += 1;
        self.report.rows += pool.total_rows();
        if let Some(range) = pool.range() {
            let networks = self.context.networks_of(pool).into_iter().collect();
            self.places.push(Place {
                key: pool.key().clone(),
                range,
                networks,
            });
        }
        let mut rows = HashMap::<&str, usize>::new();
        for podref in pool.rows().iter().filter_map(Row::podref_text) {
            *rows.entry(podref).or_default() += 1;
        }
        let mut known = HashMap::<PodRef, Known>::new();
        let mut suspect = 0;
        let now = self.context.clock.now();
        for row in pool.rows() {
            let Ok(content) = row.content() else {
                let verdict = self.judge_unreadable(pool, row);
                self.report.count(&verdict);
                continue;
            };
            let podref = &content.podref;
            let known = known.entry(podref.clone()).or_insert_with(|| {
                let here = rows.get(podref.as_str()).copied().unwrap_or(0);
                knowledge.of(podref, &[], here)
            });
            let policy = &self.context.policy;
            let presence = known.presumption();
            let verdict = knowledge.with_facts(pool, row, known, |facts| {
                judge(pool, row, &presence, facts, policy, now)
            });
            self.report.count(&verdict);
            match verdict {
                Verdict::Stale(stale) => {
                    lock(&knowledge.sightings).see(pool.uid(), row, now);
                    suspect += usize::from(!stale.clearance.watched);
                    let found = self.found.entry(podref.clone()).or_default();
                    found.pools.entry(pool.key().clone()).or_default();
                }
                Verdict::Held(Held::Drift) => {
                    let left = self.left.entry(podref.clone()).or_default();
                    left.push(Left {
                        pool: pool.key().clone(),
                        pool_uid: pool.uid().to_owned(),
                        row: row.clone(),
                    });
                }
                Verdict::Unknown(reason) => self.context.report_unknown(pool, row, &reason),
                Verdict::Held(_) => {}
            }
        }
        if suspect > 0 {
            self.report.suspect += suspect;
            let place = (pool.key().clone(), pool.uid().to_owned(), suspect);
            self.report.suspect_pools.push(place);
        }
    }

    fn judge_unreadable(&self, pool: &ObservedPool, row: &Row) -> Verdict {
        let reason = row.content().err().cloned();
        let reason = reason.unwrap_or(ipgc_core::pool::Unreadable::Shape);
        let reason = ipgc_core::judge::Unknown::Unreadable(reason);
        self.context.report_unknown(pool, row, &reason);
        Verdict::Unknown(reason)
    }

    /// A second look at the pools, for those that need all rows of a pod or of an address.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn closer(&mut self) -> Result<(), ObserveError> {
        let orphans = self.orphans();
        if orphans.is_empty() && self.left.is_empty() {
            return Ok(());
        }
        let context = self.context;
        let addresses: HashSet<IpAddr> = orphans.iter().map(|orphan| orphan.address).collect();
        let mut siblings = HashMap::<PodRef, Vec<RowContent>>::new();
        let mut taken = HashMap::<(String, Option<Box<str>>, IpAddr), PodRef>::new();
        let mut params = ListParams::default().limit(FIRST_PAGE);
        loop {
            let left = &self.left;
            let page = context.pools.page(self.namespace, &params, |row| {
                row.podref.is_some_and(|podref| left.contains_key(podref))
                    || row.address().is_some_and(|a| addresses.contains(&a))
            });
            let page = page.await?;
            let count = page.pools.len().max(1);
            for pool in page.pools.into_iter().flatten() {
                let networks = context.networks_of(&pool);
                for row in pool.rows().iter().filter_map(|row| row.content().ok()) {
                    for network in &networks {
                        let namespace = pool.key().namespace.clone();
                        let place = (namespace, network.clone(), row.address);
                        taken.insert(place, row.podref.clone());
                    }
                    if left.contains_key(&row.podref) {
                        siblings
                            .entry(row.podref.clone())
                            .or_default()
                            .push(row.clone());
                    }
                }
            }
            match page.next {
                Some(next) => {
                    let size = PAGE_BYTES / (page.bytes / count).max(1);
                    let size = u32::try_from(size).unwrap_or(LARGEST_PAGE);
                    params = next.limit(size.clamp(1, LARGEST_PAGE));
                }
                None => break,
            }
        }
        for orphan in orphans {
            let place = (
                orphan.pool.namespace.clone(),
                orphan.network,
                orphan.address,
            );
            // A row holds the address: whosever it is, the reservation stays as long as it does. A
            // claim that was never ended is given back to its row.
            let claimed = orphan.reservation.is_claimed();
            match taken.get(&place) {
                Some(owner) if !(claimed && *owner == orphan.owner) => continue,
                _ => {}
            }
            self.report.orphans += 1;
            // Its wait may be longer than from sweep to sweep: it must not be forgotten meanwhile.
            context
                .knowledge
                .see_reservation(&orphan.reservation, context.clock.now());
            let found = self.found.entry(orphan.owner).or_default();
            found
                .pools
                .entry(orphan.pool)
                .or_default()
                .insert(orphan.reservation.name);
        }
        self.add_leftovers(siblings);
        Ok(())
    }

    /// The lone reservations, each with the pool that its row would be in; one that no pool could
    /// hold goes with a pool that does not exist.
    fn orphans(&mut self) -> Vec<Orphan> {
        let mut orphans = Vec::new();
        for (namespace, lone) in std::mem::take(&mut self.lone) {
            let places: Vec<_> = self
                .places
                .iter()
                .filter(|place| place.key.namespace == namespace)
                .collect();
            for Lone { reservation, owner } in lone {
                let name = &reservation.name;
                let in_pool = places.iter().find_map(|place| {
                    place.networks.iter().find_map(|network| {
                        let address = reservation_address(name, network.as_deref())?;
                        let fits = place.range.contains(address);
                        fits.then(|| (place.key.clone(), network.clone(), address))
                    })
                });
                let alone = || {
                    let (network, address) = split_reservation_name(name)?;
                    let key = PoolKey {
                        namespace: namespace.clone(),
                        name: name.clone(),
                    };
                    Some((key, network.map(Into::into), address))
                };
                let Some((pool, network, address)) = in_pool.or_else(alone) else {
                    self.report.reservations_unreadable += 1;
                    continue;
                };
                orphans.push(Orphan {
                    pool,
                    network,
                    address,
                    reservation,
                    owner,
                });
            }
        }
        orphans
    }

    fn add_leftovers(&mut self, mut siblings: HashMap<PodRef, Vec<RowContent>>) {
        for (podref, left) in std::mem::take(&mut self.left) {
            let siblings: Arc<[_]> = siblings.remove(&podref).unwrap_or_default().into();
            let presumed = lock(&self.context.knowledge.pods).presumed(podref.as_str());
            let Presumed::Live(pod, _) = presumed else {
                continue;
            };
            let is_left = |left: &Left| {
                let content = left.row.content();
                content.is_ok_and(|row| lives_elsewhere(&pod, row, Some(&siblings)))
            };
            let left: Vec<_> = left.into_iter().filter(is_left).collect();
            if left.is_empty() {
                continue;
            }
            let found = self.found.entry(podref).or_default();
            found.siblings = Some(siblings);
            let now = self.context.clock.now();
            for Left {
                pool,
                pool_uid,
                row,
            } in left
            {
                // Its wait is longer than from sweep to sweep: it must not be forgotten meanwhile.
                lock(&self.context.knowledge.sightings).see(&pool_uid, &row, now);
                found.pools.entry(pool).or_default();
            }
        }
    }

    /// What was found, and the numbers.
    pub fn end(self) -> (BTreeMap<PodRef, Found>, SweepReport) {
        (self.found.into_iter().collect(), self.report)
    }
}

/// A reservation without a row.
struct Orphan {
    pool: PoolKey,
    network: Option<Box<str>>,
    address: IpAddr,
    reservation: Reservation,
    owner: PodRef,
}

/// Whether a row is not passed over at a glance.
fn closer_look(
    context: &Context,
    row: &Glance<'_>,
    fresh: bool,
    now: ipgc_core::time::Moment,
) -> bool {
    let Some(podref) = row.podref else {
        return true;
    };
    let sandbox = row.sandbox.filter(|_| fresh);
    let mut pods = lock(&context.knowledge.pods);
    pods.glance(podref, row.address(), sandbox, now).is_none()
}
