//! The rows and reservations that a person picked, to which a run is confined, and the fate of each.
//!
//! A row is picked as it was seen, whole; one that has changed since is none of them. It decides nothing but
//! that: what is picked is observed, proven and judged like anything else, and only a pick that is *forced*
//! need not wait. A turn tells here what became of it, and the command reads it.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::IpAddr,
    time::Duration,
};

use ipgc_core::{
    breaker::Open,
    clearance::Wait,
    judge::Stale,
    podref::PodRef,
    pool::{ObservedPool, PoolKey, Row},
    reservation::Reservation,
};
use serde_json::Value;
use tokio::sync::watch;

/// One that a person picked.
#[derive(Clone, Debug)]
pub struct Pick {
    /// The pool that it is in, or would be.
    pub pool: PoolKey,
    /// The row or the reservation.
    pub subject: Subject,
    /// Whose it is.
    pub podref: PodRef,
    /// Its address.
    pub address: IpAddr,
    /// Its wait counts as over, and the breaker lets it pass.
    pub forced: bool,
}

/// A row or a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A row.
    Row {
        /// `metadata.uid` of its pool.
        pool_uid: String,
        /// Its key in `spec.allocations`.
        key: String,
        /// The whole of it as it was seen.
        stored: Value,
    },
    /// A reservation without a row, in the namespace of the pool.
    Reservation {
        /// Its name.
        name: String,
        /// `metadata.uid` as it was seen.
        uid: String,
    },
}

/// The fate of a pick, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Fate {
    /// Nobody has looked yet.
    #[default]
    Unseen,
    /// It waits.
    Waits(Wait),
    /// The breaker stops it.
    Stopped(Open),
    /// Something failed, and is tried again.
    Retried(String),
    /// It is kept, for this reason.
    Kept(String),
    /// It was gone, or has changed, before anything was done.
    Gone,
    /// A dry run would have removed it.
    WouldGo(Stale),
    /// Its removal was asked for, and whether it was done is not known.
    Asked(Stale),
    /// The row is gone; its reservation is not done.
    Freed(Stale),
    /// The row is gone; its reservation is left, for this reason.
    Left(Stale, String),
    /// All is done.
    Done(Stale),
}

impl Fate {
    /// Whether nothing more is to be expected.
    pub fn is_final(&self) -> bool {
        match self {
            Self::Kept(_) | Self::Gone | Self::WouldGo(_) | Self::Left(..) | Self::Done(_) => true,
            Self::Unseen
            | Self::Waits(_)
            | Self::Stopped(_)
            | Self::Retried(_)
            | Self::Asked(_)
            | Self::Freed(_) => false,
        }
    }

    /// Whether it changes to `next`.
    fn changes_to(&self, next: &Self) -> bool {
        match self {
            Self::Done(_) | Self::Left(..) => false,
            // A row that we removed ourselves is gone as well.
            Self::Freed(_) => matches!(next, Self::Done(_) | Self::Left(..)),
            // That the row is gone may be told before it is known that it was by us.
            Self::Gone => matches!(next, Self::Freed(_)),
            _ => self != next,
        }
    }
}

/// All that were picked.
pub struct Picked {
    picks: Vec<Pick>,
    /// By uid of the pool and key, or by namespace and name.
    places: HashMap<(String, String), usize>,
    by_podref: HashMap<PodRef, Vec<usize>>,
    /// How long before the run the rows were seen first.
    seen_before: Duration,
    fates: watch::Sender<Vec<Fate>>,
}

impl Picked {
    /// These, which were seen so long before now. A thing that is picked twice counts once.
    pub fn new(picks: Vec<Pick>, seen_before: Duration) -> Self {
        let mut all = Self {
            picks: Vec::with_capacity(picks.len()),
            places: HashMap::new(),
            by_podref: HashMap::new(),
            seen_before,
            fates: watch::Sender::default(),
        };
        for pick in picks {
            let at = all.picks.len();
            if *all.places.entry(place_of(&pick)).or_insert(at) == at {
                let podref = pick.podref.clone();
                all.by_podref.entry(podref).or_default().push(at);
                all.picks.push(pick);
            }
        }
        all.fates.send_replace(vec![Fate::Unseen; all.picks.len()]);
        all
    }

    /// All of them.
    pub fn picks(&self) -> &[Pick] {
        &self.picks
    }

    /// The fate of each, in the same order.
    pub fn fates(&self) -> Vec<Fate> {
        self.fates.borrow().clone()
    }

    /// Is told of each change of a fate.
    pub fn subscribe(&self) -> watch::Receiver<Vec<Fate>> {
        self.fates.subscribe()
    }

    /// How long before the run the rows were seen first.
    pub fn seen_before(&self) -> Duration {
        self.seen_before
    }

    /// Whether something of this pod was picked.
    pub fn concerns(&self, podref: &PodRef) -> bool {
        self.by_podref.contains_key(podref)
    }

    /// The pick of a row of this pool, if the row is as it was picked.
    pub fn row(&self, pool_uid: &str, row: &Row) -> Option<&Pick> {
        let pick = &self.picks[self.at(pool_uid, row.key())?];
        let is_it = matches!(&pick.subject, Subject::Row { stored, .. } if stored == row.stored());
        // And what a person was shown is what it says.
        let content = row.content().ok()?;
        let is_as_shown = content.podref == pick.podref && content.address == pick.address;
        (is_it && is_as_shown).then_some(pick)
    }

    /// The pick of a reservation, if it is the one that was picked.
    pub fn reservation(&self, reservation: &Reservation) -> Option<&Pick> {
        let pick = &self.picks[self.at(&reservation.namespace, &reservation.name)?];
        let is_it =
            matches!(&pick.subject, Subject::Reservation { uid, .. } if *uid == reservation.uid);
        is_it.then_some(pick)
    }

    /// Something became of a row, or of a reservation: `place` is the uid of its pool, or its namespace.
    pub fn tell(&self, place: &str, name: &str, fate: Fate) {
        let mut fate = Some(fate);
        self.change(self.at(place, name), |_, _| fate.take());
    }

    /// A pool was observed by a sweep: what was picked of it and is not there as it was is gone, by whomever. Of what
    /// we have asked for, those who asked tell.
    pub fn saw(&self, observed: &ObservedPool) {
        self.saw_if(observed, |_, fate| !matches!(fate, Fate::Asked(_)));
    }

    /// The same by those who free the rows of these pods, and have told what they had asked for.
    pub fn saw_rows_of(&self, observed: &ObservedPool, podrefs: &BTreeSet<PodRef>) {
        self.saw_if(observed, |pick, _| podrefs.contains(&pick.podref));
    }

    fn saw_if(&self, observed: &ObservedPool, is_known: impl Fn(&Pick, &Fate) -> bool) {
        let rows = observed.rows().iter();
        let there: HashSet<_> = rows
            .filter_map(|row| self.row(observed.uid(), row).map(|_| row.key()))
            .collect();
        self.each(|pick, fate| match &pick.subject {
            Subject::Row { pool_uid, key, .. } => {
                let is_gone = *pool_uid == observed.uid() && !there.contains(key.as_str());
                (is_gone && is_known(pick, fate)).then_some(Fate::Gone)
            }
            Subject::Reservation { .. } => None,
        });
    }

    /// All pools were seen, or all in `namespace`, by their uids: the rows of others that were there are gone.
    pub fn saw_pools(&self, namespace: Option<&str>, uids: &HashSet<String>) {
        self.each(|pick, _| match &pick.subject {
            Subject::Row { pool_uid, .. } => {
                let was_asked = namespace.is_none_or(|asked| asked == pick.pool.namespace);
                (was_asked && !uids.contains(pool_uid)).then_some(Fate::Gone)
            }
            Subject::Reservation { .. } => None,
        });
    }

    /// Nobody looks at any other namespace than this one.
    pub fn keep_others_than(&self, namespace: &str) {
        let reason = format!("only pools in namespace {namespace} are looked at");
        let kept = Fate::Kept(reason);
        self.each(|pick, _| (pick.pool.namespace != namespace).then(|| kept.clone()));
    }

    /// There is no such pool any more.
    pub fn pool_is_gone(&self, key: &PoolKey) {
        self.each(|pick, _| {
            let is_of_it = matches!(pick.subject, Subject::Row { .. }) && pick.pool == *key;
            is_of_it.then_some(Fate::Gone)
        });
    }

    /// All that can be done for a pod in a pool now is done, its reservations included, and those without a row.
    pub fn settled(&self, pool: &PoolKey, podref: &PodRef, orphans: &BTreeSet<String>) {
        self.each_of((pool, podref, orphans), |pick, fate| {
            match (&pick.subject, fate) {
                (_, Fate::Freed(stale)) | (Subject::Reservation { .. }, Fate::Asked(stale)) => {
                    Some(Fate::Done(stale.clone()))
                }
                _ => None,
            }
        });
    }

    /// All reservations were listed, these by their uids, and those of `orphans` have no row and no pod that reports
    /// them.
    pub fn saw_reservations(&self, listed: &HashSet<String>, orphans: &HashSet<String>) {
        self.each(|pick, fate| match (&pick.subject, fate) {
            (Subject::Row { .. }, _) | (_, Fate::Asked(_)) => None,
            (Subject::Reservation { uid, .. }, _) if orphans.contains(uid) => None,
            (Subject::Reservation { uid, .. }, _) if listed.contains(uid) => {
                Some(Fate::Kept("a row or a pod has its address".to_owned()))
            }
            (Subject::Reservation { .. }, _) => Some(Fate::Gone),
        });
    }

    /// A reservation of which somebody looked, after all was done, whether it is there.
    pub fn saw_at_the_end(&self, at: usize, found: Result<bool, &str>) {
        self.fates.send_modify(|fates| {
            let (Fate::Asked(stale) | Fate::Done(stale)) = fates[at].clone() else {
                return;
            };
            fates[at] = match found {
                Ok(false) => Fate::Done(stale),
                Ok(true) => {
                    Fate::Kept("it is there: its pod lives again, or it was not deleted".into())
                }
                Err(reason) => Fate::Kept(format!("whether it went could not be read: {reason}")),
            };
        });
    }

    /// Something failed for a pod in a pool; `is_given_up` when it is not tried again.
    pub fn failed(
        &self,
        pool: &PoolKey,
        podref: &PodRef,
        orphans: &BTreeSet<String>,
        reason: &str,
        is_given_up: bool,
    ) {
        self.each_of((pool, podref, orphans), |_, fate| match fate {
            _ if fate.is_final() => None,
            // The row is gone, and its reservation is an orphan that a sweep of a collector finds.
            Fate::Freed(stale) => is_given_up.then(|| Fate::Left(stale.clone(), reason.to_owned())),
            _ if is_given_up => Some(Fate::Kept(reason.to_owned())),
            _ => Some(Fate::Retried(reason.to_owned())),
        });
    }

    fn at(&self, place: &str, name: &str) -> Option<usize> {
        let place = (place.to_owned(), name.to_owned());
        self.places.get(&place).copied()
    }

    fn each_of(
        &self,
        (pool, podref, orphans): (&PoolKey, &PodRef, &BTreeSet<String>),
        next: impl Fn(&Pick, &Fate) -> Option<Fate>,
    ) {
        let picks = self.by_podref.get(podref).into_iter().flatten().copied();
        // A reservation without a row may be of no pool; the case that releases it knows its name.
        let is_in = |pick: &Pick| match &pick.subject {
            Subject::Row { .. } => pick.pool == *pool,
            Subject::Reservation { name, .. } => {
                pick.pool.namespace == pool.namespace && orphans.contains(name)
            }
        };
        self.change(picks.filter(|at| is_in(&self.picks[*at])), next);
    }

    fn each(&self, next: impl FnMut(&Pick, &Fate) -> Option<Fate>) {
        self.change(0..self.picks.len(), next);
    }

    /// Gives those of these picks their next fate that have one.
    fn change(
        &self,
        picks: impl IntoIterator<Item = usize>,
        mut next: impl FnMut(&Pick, &Fate) -> Option<Fate>,
    ) {
        self.fates.send_if_modified(|fates| {
            let mut is_news = false;
            for at in picks {
                let next = next(&self.picks[at], &fates[at]);
                if let Some(next) = next.filter(|next| fates[at].changes_to(next)) {
                    fates[at] = next;
                    is_news = true;
                }
            }
            is_news
        });
    }
}

fn place_of(pick: &Pick) -> (String, String) {
    match &pick.subject {
        Subject::Row { pool_uid, key, .. } => (pool_uid.clone(), key.clone()),
        Subject::Reservation { name, .. } => (pick.pool.namespace.clone(), name.clone()),
    }
}
