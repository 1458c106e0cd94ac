//! The unit of work: an incarnation that ended, or rows that a sweep found, and how far they have
//! come.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use ipgc_core::{
    evidence::Ended,
    fact::Fact,
    judge::{Release, Stale},
    podref::PodRef,
    pool::{PoolKey, Row, RowContent},
};

use crate::{lock::lock, queue::Queue};

/// The queue of items, by [`Item::key`].
pub type ItemQueue = Queue<Box<str>, Arc<Item>>;

/// How a pool was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// `namespace/name` of the definition.
    pub definition: Box<str>,
    /// Its network name, which prefixes the reservations' names.
    pub network: Option<Box<str>>,
}

/// A reservation that is to go: of a row that is gone, or one that had none.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// What the row said, or would say.
    pub row: RowContent,
    /// The networks in which the reservation may be.
    pub networks: BTreeSet<Option<Box<str>>>,
    /// Whether a pod of the same name may come back.
    pub name_may_return: bool,
    /// What must be true of its pod when it goes.
    pub fact: Fact,
}

/// One item on its way through the queue. It outlives failed tries, and so does its progress.
#[derive(Debug)]
pub struct Item {
    podref: PodRef,
    ended: Option<Arc<Ended>>,
    found: Mutex<Found>,
    progress: Mutex<Progress>,
}

/// What a sweep found of a podref.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// The pools with rows that may go, and the names of reservations of the podref that have no
    /// row in their network.
    pub pools: BTreeMap<PoolKey, BTreeSet<String>>,
    /// All rows of the podref, where its pod lives and a row of it may be left of another sandbox.
    pub siblings: Option<Arc<[RowContent]>>,
}

/// What earlier tries did.
#[derive(Debug, Default)]
pub struct Progress {
    /// Rows whose removal was asked for and whose reservations are not done.
    pub removed: Vec<Removed>,
    /// Reservations without a row that were claimed and wait, each with the pool that its row would be in.
    pub claimed: Vec<(PoolKey, Wanted)>,
    /// Whether it was said already that some networks lead nowhere.
    pub unresolved_reported: bool,
}

/// A row whose removal was asked for. Made from a [`Release`] and from nothing else.
#[derive(Clone, Debug)]
pub struct Removed {
    /// The pool that it was in.
    pub pool: PoolKey,
    /// The row as it was observed.
    pub row: Row,
    /// What it said.
    pub content: RowContent,
    /// Why it had to go.
    pub stale: Stale,
    /// The incarnation that was at its end, where that was why.
    pub completed: Option<Box<str>>,
    /// How its pool was found.
    pub routes: Arc<[Route]>,
    /// The networks in which its reservation may be.
    pub networks: BTreeSet<Option<Box<str>>>,
    /// Whether it is known to be gone: the patch was answered with 200, or a later observation
    /// does not show the row.
    pub confirmed: bool,
}

impl Removed {
    /// The removal that is about to be asked for.
    #[must_use]
    pub fn attempt(pool: &PoolKey, release: &Release<'_>, routes: &Arc<[Route]>) -> Self {
        Self {
            pool: pool.clone(),
            row: release.row().clone(),
            content: release.content().clone(),
            stale: release.stale().clone(),
            routes: Arc::clone(routes),
            networks: BTreeSet::new(),
            completed: None,
            confirmed: false,
        }
    }
}

impl Item {
    /// An incarnation that nothing was done for yet.
    #[must_use]
    pub fn ended(ended: Arc<Ended>) -> Arc<Self> {
        Arc::new(Self {
            podref: ended.podref().clone(),
            ended: Some(ended),
            found: Mutex::default(),
            progress: Mutex::default(),
        })
    }

    /// What a sweep found of a podref.
    #[must_use]
    pub fn found(podref: PodRef, found: Found) -> Arc<Self> {
        Arc::new(Self {
            podref,
            ended: None,
            found: Mutex::new(found),
            progress: Mutex::default(),
        })
    }

    /// Its key in the queue: the uid of an incarnation, or the podref of what was found. A uid has
    /// no slash.
    #[must_use]
    pub fn key(&self) -> Box<str> {
        match &self.ended {
            Some(ended) => ended.last.uid.clone(),
            None => self.podref.as_str().into(),
        }
    }

    /// The owner of its rows.
    #[must_use]
    pub fn podref(&self) -> &PodRef {
        &self.podref
    }

    /// The incarnation, unless a sweep found the rows.
    #[must_use]
    pub fn incarnation(&self) -> Option<&Arc<Ended>> {
        self.ended.as_ref()
    }

    /// Whether a pod of its name may come back, as far as the item itself tells.
    #[must_use]
    pub fn name_may_return(&self) -> bool {
        self.ended.as_ref().is_none_or(|e| e.last.name_may_return)
    }

    /// What a sweep found.
    #[must_use]
    pub fn finds(&self) -> Found {
        lock(&self.found).clone()
    }

    /// A later sweep found this. Returns whether it leads to a pool that was not known.
    pub fn find_again(&self, found: Found) -> bool {
        let mut known = lock(&self.found);
        let new = found
            .pools
            .keys()
            .any(|pool| !known.pools.contains_key(pool));
        *known = found;
        new
    }

    /// What was done so far.
    pub fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }
}
