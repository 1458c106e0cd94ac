//! One read of all reservations and all pools.
//!
//! Reservations are read first. A pod's row exists before its reservation, so a reservation whose row is not found
//! later has none. Most rows need no verdict: a live pod reports them.

mod again;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    net::IpAddr,
    time::Duration,
};

use ipgc_core::{
    address::{Range, pool_name},
    cases::CaseKey,
    definitions::{Definitions, Networks, Scope, may_be_reserved},
    id::is_uid,
    ipam::{Span, handed_out, hands_out},
    judge::{Held, Stale, Unknown, Verdict, Word, in_use},
    known::{Known, Overlaps},
    names::KnownNetworks,
    networks::StatusEntry,
    podref::PodRef,
    pool::{KEEP_ANNOTATION, ObservedPool, PoolKey, RowContent, RowCount},
    reservation::Reservation,
    text::excerpt,
    work::Work,
};
use tracing::warn;

use crate::{
    calls::CallError,
    collect::{context::Context, pool_api::first_page},
    report::{PoolTally, SweepReport},
};

/// The read of a sweep.
pub struct SweepRead<'l> {
    context: &'l Context,
    namespace: Option<&'l str>,
    found: BTreeMap<CaseKey, Work>,
    report: SweepReport,
    /// Reservations that no pod reports, by namespace.
    lone: HashMap<String, Vec<Reservation>>,
    /// The texts that say whose these are, each with the rows seen later (index in `places`, address).
    owners: HashMap<Box<str>, Vec<(usize, IpAddr)>>,
    /// Rows, with their pools, that may be left of an earlier sandbox of a pod that lives.
    left: HashMap<PodRef, Vec<(PoolKey, RowContent)>>,
    /// All pools that were read.
    places: Vec<ReadPool>,
    candidates: Vec<Candidate>,
    /// Pods whose ends rows of others wait for.
    awaited: HashSet<PodRef>,
    /// Pools that are one node's slice by name, and that no row disproves.
    slices: HashMap<PoolKey, Box<str>>,
}

struct ReadPool {
    tally: PoolTally,
    uid: String,
    range: Option<Range>,
    /// The networks of its reservations.
    networks: Networks,
    /// Stale rows whose pod's end nobody watched.
    suspect: usize,
}

/// Rows are judged together: when there are so many, at the end of a pool, and the rest after the last pool.
const CANDIDATES: usize = 20_000;

/// A row that nobody needs for its own pod.
struct Candidate {
    /// Which of the places it is in.
    place: usize,
    row: RowContent,
    stale: Stale,
    known_for: Duration,
}

impl<'l> SweepRead<'l> {
    /// `slices` are the pools that are one node's slice by their names.
    pub fn new(
        context: &'l Context,
        namespace: Option<&'l str>,
        slices: HashMap<PoolKey, Box<str>>,
    ) -> Self {
        Self {
            context,
            namespace,
            found: BTreeMap::new(),
            report: SweepReport::default(),
            lone: HashMap::new(),
            owners: HashMap::new(),
            left: HashMap::new(),
            places: Vec::new(),
            candidates: Vec::new(),
            awaited: HashSet::new(),
            slices,
        }
    }

    /// All reservations.
    ///
    /// # Errors
    /// When a page cannot be read. The rows can be swept all the same.
    pub async fn at_reservations(&mut self) -> Result<(), CallError> {
        let context = self.context;
        let is_lone = |it: &Reservation| {
            let evidence = context.evidence();
            let is_of = |address, entry: StatusEntry<'_>| {
                may_be_reserved(&evidence.definitions, entry, address, &it.name)
            };
            it.is_claimed() || !evidence.pods.reports(it.whose(), is_of)
        };
        let take = |page: Vec<Reservation>| {
            context.pulse.beat();
            {
                let pods = &mut context.evidence().pods;
                for reservation in &page {
                    pods.note_reservation(reservation.owner());
                }
            }
            for reservation in page.into_iter().filter(is_lone) {
                let whose = reservation.whose().into();
                self.owners.entry(whose).or_default();
                let namespace = reservation.namespace.clone();
                let lone = self.lone.entry(namespace).or_default();
                lone.push(reservation);
            }
        };
        let read = context.each_page_of_reservations(self.namespace, take);
        let read = read.await;
        if read.is_err() {
            self.lone.clear();
            self.owners.clear();
        } else {
            self.report.orphans = Some(0);
        }
        read
    }

    /// All pools, a few to a page.
    ///
    /// # Errors
    /// When a page cannot be read. The findings so far are good; the rest is not known.
    pub async fn at_pools(&mut self) -> Result<(), CallError> {
        let context = self.context;
        let spans = spans(&context.evidence().definitions);
        let spans_of = |pool: &PoolKey| spans.get(&pool.name).map_or(&[][..], Vec::as_slice);
        let mut next = Some(first_page());
        while let Some(params) = next {
            // Asked once for the page, when its first row is there: rows are seen no earlier than that.
            let mut asked = None;
            // The networks of the pool whose rows are read.
            let mut networks: Option<(PoolKey, Networks, &[Span])> = None;
            // How many rows of each pool take no room.
            let mut outside = HashMap::<PoolKey, usize>::new();
            let (slices, owners) = (&mut self.slices, &self.owners);
            let page = context.pool_page(self.namespace, &params, |row| {
                let pool = row.pool;
                let mut evidence = context.evidence();
                if let Some(node) = evidence.slices_by_name.get(pool)
                    && !evidence.shared_slices.contains(pool)
                    && let Some((podref, address)) = row.podref.zip(row.address)
                    && let Some(is_reported) =
                        evidence.pods.disproves_slice(podref, node, address)
                {
                    if slices.remove(pool).is_some() {
                        warn!(%pool, node = &**node, "pool counts as no node's slice: pods of other nodes have rows in it");
                    }
                    if is_reported {
                        evidence.shared_slices.insert(pool.clone());
                    }
                }
                let ask = || (context.freshness.is_fresh(), context.clock.now());
                let (fresh, now) = *asked.get_or_insert_with(ask);
                if networks.as_ref().is_none_or(|(key, ..)| key != pool) {
                    let of_pool = evidence.networks_of(pool, row.range);
                    networks = Some((pool.clone(), of_pool, spans_of(pool)));
                }
                // The report of a pod says nothing of a ResourceClaim.
                let is_of_claim = context.config.resource_claims && row.sandbox.is_some_and(is_uid);
                let mut whose = row.podref.into_iter().chain(row.sandbox);
                let owns_lone = whose.any(|it| owners.contains_key(it));
                networks.as_ref().is_none_or(|(key, it, spans)| {
                    let place = row.range.zip(row.address);
                    if !place.is_some_and(|(range, address)| hands_out(range, *spans, address)) {
                        *outside.entry(key.clone()).or_default() += 1;
                    }
                    let evidence = &mut *evidence;
                    let scope = Scope {
                        networks: it,
                        range: row.range,
                        definitions: &evidence.definitions,
                    };
                    let notes = fresh && !evidence.pods.listing;
                    // The index counts rows too, so each is shown to it.
                    let is_live = evidence.pods.glance(row, scope, notes, now);
                    !is_live || is_of_claim || owns_lone
                })
            });
            let page = page.await?;
            context.pulse.beat();
            next = page.next;
            for pool in page.pools {
                match pool {
                    Ok(pool) => {
                        let outside = outside.remove(pool.key()).unwrap_or_default();
                        self.at_pool(&pool, spans_of(pool.key()), outside);
                    }
                    Err((text, reason)) => {
                        self.report.pools_unreadable += 1;
                        context.counters.pools_unreadable.inc();
                        warn!(pool = excerpt(&text), %reason, "pool cannot be read");
                    }
                }
            }
        }
        self.judge_candidates();
        Ok(())
    }

    fn at_pool(&mut self, pool: &ObservedPool, spans: &[Span], outside: usize) {
        let now = self.context.clock.now();
        {
            let mut evidence = self.context.evidence();
            // By now all of its rows were seen at a glance.
            match self.slices.get(pool.key()) {
                Some(node) => evidence.slices.insert(pool.key().clone(), node.clone()),
                None => evidence.slices.remove(pool.key()),
            };
        }
        self.report.pools += 1;
        self.report.rows += pool.total_rows;
        self.tell_unclear_exemption(pool);
        let at = self.places.len();
        let size = |range| handed_out(range, spans).unwrap_or(0);
        let mut tally = PoolTally {
            key: pool.key().clone(),
            size: pool.range.map(size),
            taken: pool.total_rows.saturating_sub(outside),
            words: [0; Word::ALL.len()],
            oldest_stale: Duration::ZERO,
        };
        // The others were passed over, since a pod that lives reports them.
        tally.words[Word::Live as usize] = pool.total_rows - pool.rows().len();
        let rows = RowCount::by_podref(pool.rows());
        let mut known = HashMap::<PodRef, Known>::new();
        for row in pool.rows() {
            let content = match row.content() {
                Ok(content) => content,
                Err(reason) => {
                    let reason = Unknown::Unreadable(reason.clone());
                    self.context.report_unknown(pool, row, &reason);
                    tally.count(&Verdict::Unknown(reason), Duration::ZERO);
                    continue;
                }
            };
            let podref = &content.podref;
            for whose in [podref.as_str(), &content.sandbox] {
                if let Some(rows) = self.owners.get_mut(whose) {
                    rows.push((at, content.address));
                }
            }
            let known = known.entry(podref.clone()).or_insert_with(|| {
                let here = rows.get(podref.as_str()).copied().unwrap_or_default();
                self.context.known(podref, &[], here)
            });
            let verdict = self.context.presume(pool, row, known, now);
            match &verdict {
                Verdict::Stale(stale) => {
                    let seen = self.context.evidence().first_seen.see(pool.uid(), row, now);
                    self.candidates.push(Candidate {
                        place: at,
                        row: content.clone(),
                        stale: stale.clone(),
                        known_for: now.since(seen.first),
                    });
                    continue;
                }
                Verdict::Held(held) => {
                    // A row that waits longer than from sweep to sweep must not be forgotten.
                    self.context.see_held(pool.uid(), row, content, now);
                    if matches!(held, Held::Drift | Held::Unused) {
                        // A look at all of its rows may tell more.
                        let left = self.left.entry(podref.clone()).or_default();
                        left.push((pool.key().clone(), content.clone()));
                    }
                }
                Verdict::Unknown(reason) => self.context.report_unknown(pool, row, reason),
            }
            tally.count(&verdict, Duration::ZERO);
        }
        self.places.push(ReadPool {
            tally,
            uid: pool.uid().to_owned(),
            range: pool.range,
            networks: self.context.networks_of(pool),
            suspect: 0,
        });
        if self.candidates.len() >= CANDIDATES {
            self.judge_candidates();
        }
    }

    /// A row that its own pod does not need may be another pod's address. This check goes through all pods, so it takes
    /// many rows at a time.
    fn judge_candidates(&mut self) {
        let context = self.context;
        let candidates = std::mem::take(&mut self.candidates);
        let rows = candidates.iter().map(|candidate| &candidate.row);
        let others = context.evidence().pods.others(rows);
        for it in candidates {
            let (place, row) = (&mut self.places[it.place], it.row);
            let held = {
                let evidence = context.evidence();
                let scope = Scope {
                    networks: &place.networks,
                    range: place.range,
                    definitions: &evidence.definitions,
                };
                let others = others.of(&row);
                let ends = others.iter().filter(|other| other.end.is_some());
                self.awaited
                    .extend(ends.map(|other| other.pod.podref.clone()));
                in_use(&row, &others, &scope)
            };
            let key = &place.tally.key;
            if let Some(held) = &held {
                context.report_in_use(key, &place.uid, &row, held);
            }
            let verdict = held.map_or(Verdict::Stale(it.stale), Verdict::Held);
            if let Verdict::Stale(stale) = &verdict {
                self.report.count_stale(stale);
                place.suspect += usize::from(!stale.clearance.watched);
                let key = (key.clone(), row.podref.clone());
                self.found.entry(key).or_default();
            }
            place.tally.count(&verdict, it.known_for);
        }
    }

    fn tell_unclear_exemption(&self, pool: &ObservedPool) {
        if let Some(word) = pool.unclear_exemption()
            && self.context.is_to_be_told(pool.uid(), KEEP_ANNOTATION)
        {
            let pool = pool.key();
            let word = excerpt(word);
            warn!(%pool, word, "all rows of the pool are kept: in its annotation {KEEP_ANNOTATION} this is neither an address nor a key");
        }
    }

    /// All pools that were read.
    pub fn pools(&self) -> impl Iterator<Item = &PoolKey> {
        self.places.iter().map(|place| &place.tally.key)
    }

    /// The networks that the pools name.
    pub fn networks(&self) -> KnownNetworks {
        let mut networks = KnownNetworks::default();
        for place in &self.places {
            networks.add_pool(&place.networks, place.range);
        }
        networks
    }

    /// All pools, and whether their range overlaps another's in the same network.
    pub fn overlaps(&self) -> Overlaps {
        let places = self.places.iter();
        Overlaps::of(places.map(|place| (&place.tally.key, place.range, &place.networks)))
    }

    /// Counts the addresses that live pods use.
    pub fn usage(&mut self) {
        let context = self.context;
        let unranged = self.places.iter().filter(|place| place.range.is_none());
        self.report.pools_without_range = unranged.count();
        let mut swept = HashMap::<_, Vec<Range>>::new();
        for place in &self.places {
            for network in &place.networks {
                let ranges = swept.entry(network.as_deref()).or_default();
                ranges.extend(place.range);
            }
        }
        let is_swept = |network: Option<&str>, address: IpAddr| {
            let mut ranges = swept.get(&network).into_iter().flatten();
            self.namespace.is_none() || ranges.any(|range| range.contains(address))
        };
        let evidence = &mut *context.evidence();
        let usage = evidence.pods.usage(&evidence.definitions, is_swept);
        // Two pods report one address whatever the pools say. But a pool that cannot be read may have the row that
        // seems to be missing: then their count is not known.
        self.report.duplicates = usage.duplicates;
        self.report.unallocated = (self.report.blind() == 0).then_some(usage.unallocated);
    }

    /// The findings, and the numbers.
    pub fn end(mut self) -> (BTreeMap<CaseKey, Work>, SweepReport) {
        let awaited = std::mem::take(&mut self.awaited);
        self.context.evidence().pods.awaited = awaited;
        for place in self.places {
            if place.suspect > 0 {
                let suspect = (place.tally.key.clone(), place.uid, place.suspect);
                self.report.suspect_pools.push(suspect);
                self.report.suspect += place.suspect;
            }
            for word in Word::ALL {
                self.report.words[word as usize] += place.tally.words[word as usize];
            }
            self.report.by_pool.push(place.tally);
        }
        (self.found, self.report)
    }
}

/// What definitions hand out, by the name of the pool: of a range only that can be given out which some definition neither
/// leaves out nor excludes.
fn spans(definitions: &Definitions) -> HashMap<String, Vec<Span>> {
    let mut spans = HashMap::<_, Vec<_>>::new();
    let sections = definitions.values().flatten().flatten();
    // A slice of a node is given out as a whole.
    for section in sections.filter(|section| section.slices.is_none()) {
        let network = section.network_name.as_deref();
        for span in &section.spans {
            let name = pool_name(network, None, span.range);
            spans.entry(name).or_default().push(span.clone());
        }
    }
    spans
}
