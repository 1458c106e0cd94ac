//! The open work of one owner in one pool: what led to it, and how far it has come.
//!
//! Plain records. They outlive failed tries, so that a lost answer loses nothing. No decision is taken here.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    address::{may_reserve, reservation_names},
    definitions::Networks,
    evidence::Ended,
    fact::Fact,
    judge::{Release, Stale},
    podref::PodRef,
    pool::RowContent,
    time::Moment,
};

/// How a pool was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `namespace/name` of the definition.
    pub definition: Box<str>,
    /// Its network name, which prefixes the reservations' names.
    pub network: Option<Box<str>>,
}

/// Open work.
#[derive(Debug, Default)]
pub struct Work {
    /// The incarnations whose end opened it, in the order of their ends. None where a sweep did.
    pub ended: Vec<Arc<Ended>>,
    /// Other ends that were known at the last look, and are not settled.
    pub noted: Vec<Arc<Ended>>,
    /// When the list of pods ended that was the last one at the last look.
    pub listed_at: Moment,
    /// How the pool was found.
    pub routes: Vec<Route>,
    /// Names of reservations of the owner that had no row in the network of the pool.
    pub orphans: BTreeSet<String>,
    /// All rows of the owner, where its pod lives and a row of it may be left of another sandbox; and the number of the
    /// sweep that found them. A later sweep knows better.
    pub siblings: Option<(u64, Arc<[RowContent]>)>,
    /// Rows whose removal was asked for, and of which it is not known whether they are gone.
    pub removed: Vec<Removed>,
    /// Reservations that are not done: of rows that are gone, and those without a row that were claimed and wait.
    pub wanted: Vec<Wanted>,
}

/// The open work of several owners in one pool.
pub type Works = BTreeMap<PodRef, Work>;

/// A row whose removal was asked for. Made from a [`Release`] and from nothing else.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The key of the row.
    pub key: Box<str>,
    /// Why it had to go.
    pub stale: Stale,
    /// `namespace/name` of the definition that led to its pool.
    pub definition: Option<Box<str>>,
    /// Its reservation, with the row as it was observed.
    pub wanted: Wanted,
}

/// A reservation that is to go: of a row that is gone, or one that had none.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The content of the row, or of the row that it would belong to.
    pub row: Arc<RowContent>,
    /// The networks in which the reservation may be.
    pub networks: Arc<Networks>,
    /// Whether a pod of the same name may come back.
    pub name_may_return: bool,
    /// The fact about its pod that must hold when it goes.
    pub fact: Fact,
}

impl Work {
    /// Whether there are reservations to release.
    pub fn has_reservations(&self) -> bool {
        !(self.orphans.is_empty() && self.wanted.is_empty())
    }

    /// Whether a reservation of this name may be one that is being released for a row that is gone, or was claimed.
    pub fn releases(&self, reservation: &str) -> bool {
        let removed = self.removed.iter().map(|removed| &removed.wanted);
        let mut all = removed.chain(&self.wanted);
        all.any(|wanted| may_reserve(reservation, wanted.row.address))
    }

    /// Whether a pod of the name may come back, as far as these ends and those that opened the case tell.
    pub fn name_may_return(&self, ends: &[Arc<Ended>]) -> bool {
        let ends = || ends.iter().chain(&self.ended);
        ends().next().is_none() || ends().any(|end| end.last.name_may_return)
    }

    /// Takes note of the ends of the owner, and of when the last list of pods ended. A list means that another incarnation
    /// may have come and gone unseen.
    pub fn look(&mut self, ends: &[Arc<Ended>], listed_at: Moment) {
        self.note(ends);
        if self.listed_at != listed_at && self.name_may_return(ends) {
            self.give_up(|_| true);
        }
        self.listed_at = listed_at;
    }

    /// Takes note of these ends of the owner. Where one is not settled and was not known, the sandbox of its incarnation may
    /// run on. Its last status may be that of a sandbox before, and tell other addresses.
    fn note(&mut self, ends: &[Arc<Ended>]) {
        let is_known = |end: &Ended| {
            let mut known = self.noted.iter().chain(&self.ended);
            known.any(|known| known.last.uid == end.last.uid)
        };
        let ends = ends.iter().filter(|it| !it.settled && !is_known(it));
        let ended: Vec<_> = ends.cloned().collect();
        self.give_up(|fact| {
            let mut ends = ended.iter();
            ends.any(|end| end.last.has_network() && !fact.is_of(&end.last.uid))
        });
        self.noted.extend(ended);
    }

    /// Another incarnation may have taken over the addresses that are being released by these facts: their reservations
    /// are judged anew.
    fn give_up(&mut self, is_in_doubt: impl Fn(&Fact) -> bool) {
        let removed = &mut self.removed;
        let removed = removed.extract_if(.., |it| is_in_doubt(&it.wanted.fact));
        let wanted = self.wanted.extract_if(.., |it| is_in_doubt(&it.fact));
        for Wanted { row, networks, .. } in removed.map(|it| it.wanted).chain(wanted) {
            let networks = networks.iter().map(Option::as_deref);
            let names = networks.flat_map(|network| reservation_names(row.address, network));
            self.orphans.extend(names);
        }
    }

    /// Takes in work of the same owner and pool that came later.
    pub fn add(&mut self, later: Self) {
        self.note(&later.ended);
        for end in later.ended {
            self.ended.retain(|known| known.last.uid != end.last.uid);
            self.ended.push(end);
        }
        self.ended.sort_by_key(|end| end.at);
        for route in later.routes {
            if !self.routes.contains(&route) {
                self.routes.push(route);
            }
        }
        let found = later.orphans.into_iter();
        let found: Vec<_> = found.filter(|name| !self.releases(name)).collect();
        self.orphans.extend(found);
        self.siblings = later.siblings.or(self.siblings.take());
        self.removed.extend(later.removed);
        self.wanted.extend(later.wanted);
    }

    /// Notes a removal that is about to be asked for. `networks` are those that the pool itself tells, `ends` the known
    /// ends of the owner. Its live pod has the uid `living`.
    pub fn note_attempt(
        &mut self,
        release: &Release<'_>,
        networks: &Arc<Networks>,
        ends: &[Arc<Ended>],
        living: Option<&str>,
    ) {
        let mut networks = Arc::clone(networks);
        for route in &self.routes {
            if !networks.contains(&route.network) {
                Arc::make_mut(&mut networks).insert(route.network.clone());
            }
        }
        let removed = Removed {
            key: release.row().key().into(),
            stale: release.stale().clone(),
            definition: self.routes.first().map(|route| route.definition.clone()),
            wanted: Wanted {
                row: Arc::new(release.content().clone()),
                networks,
                name_may_return: self.name_may_return(ends),
                fact: Fact::of(release.stale().cause, living),
            },
        };
        // Mostly it is the only one, and there are thousands of cases.
        self.removed.reserve_exact(1);
        self.removed.push(removed);
    }
}
