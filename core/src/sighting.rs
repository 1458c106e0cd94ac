//! When a row was first seen as it is now.
//!
//! Rows bear no time. Where nobody saw the incarnation that wrote a row, its wait begins with the
//! first observation of the unchanged row. If a row was observed while its pod was proven absent, a
//! pod of that name that comes back later did not write it. Sightings are kept only for rows and
//! reservations that may be freed.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use crate::{pool::Row, time::Moment};

/// The memory of earlier observations of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sighting {
    /// The first observation of the row as it is.
    pub first: Moment,
    /// When its pod was proven absent after an observation, for the first time.
    pub while_absent: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Seen {
    content: u64,
    sighting: Sighting,
    last: Moment,
}

/// All sightings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sightings {
    /// By the uid of a pool and the key of a row in it.
    by_pool: BTreeMap<Box<str>, BTreeMap<Box<str>, Seen>>,
    /// Of reservations, by their uids.
    objects: BTreeMap<Box<str>, Seen>,
}

impl Sightings {
    /// Notes that a row of this pool was observed at `now`.
    pub fn see(&mut self, pool_uid: &str, row: &Row, now: Moment) -> Sighting {
        self.note(pool_uid, row, now).sighting
    }

    /// Notes that a row that is remembered was observed again, as it was. Others stay forgotten.
    pub fn see_again(&mut self, pool_uid: &str, row: &Row, now: Moment) {
        if self.get(pool_uid, row).is_some() {
            self.see(pool_uid, row, now);
        }
    }

    /// Notes that the pod of a row was proven absent by `now`, after the row was observed.
    pub fn see_absent(&mut self, pool_uid: &str, row: &Row, now: Moment) {
        let seen = self.note(pool_uid, row, now);
        seen.sighting.while_absent.get_or_insert(now);
    }

    /// Notes that an object which is no row was observed: a reservation, by its uid and what
    /// it said.
    pub fn see_object(&mut self, uid: &str, content: &impl Hash, now: Moment) -> Sighting {
        let seen = &mut self.objects;
        see(seen.entry(uid.into()), fingerprint(content), now).sighting
    }

    /// Notes that an object is there yet, whatever it says. Whether it is remembered.
    pub fn keep_object(&mut self, uid: &str, now: Moment) -> bool {
        let seen = self.objects.get_mut(uid);
        seen.map(|seen| seen.last = now).is_some()
    }

    /// The same, but only for an object that is already remembered. If the object is unchanged, this does not extend the
    /// time for which it is remembered.
    pub fn recall_object(
        &mut self,
        uid: &str,
        content: &impl Hash,
        now: Moment,
    ) -> Option<Sighting> {
        let seen = *self.objects.get(uid)?;
        let is_same = seen.content == fingerprint(content);
        Some(if is_same {
            seen.sighting
        } else {
            self.see_object(uid, content, now)
        })
    }

    /// The memory of a row as it is now.
    pub fn get(&self, pool_uid: &str, row: &Row) -> Option<Sighting> {
        let seen = self.by_pool.get(pool_uid)?.get(row.key())?;
        (seen.content == fingerprint(row.stored())).then_some(seen.sighting)
    }

    /// The first observation of the row that has this key.
    pub fn first(&self, pool_uid: &str, key: &str) -> Option<Moment> {
        let seen = self.by_pool.get(pool_uid)?.get(key)?;
        Some(seen.sighting.first)
    }

    fn note(&mut self, pool_uid: &str, row: &Row, now: Moment) -> &mut Seen {
        let rows = self.by_pool.entry(pool_uid.into()).or_default();
        see(rows.entry(row.key().into()), fingerprint(row.stored()), now)
    }

    /// Forgets what was not seen for `keep`.
    pub fn forget(&mut self, keep: Duration, now: Moment) {
        let is_kept = |seen: &Seen| now.since(seen.last) < keep;
        self.by_pool.retain(|_, rows| {
            rows.retain(|_, seen| is_kept(seen));
            !rows.is_empty()
        });
        self.objects.retain(|_, seen| is_kept(seen));
    }

    /// How many rows and reservations are remembered.
    pub fn len(&self) -> usize {
        let rows: usize = self.by_pool.values().map(BTreeMap::len).sum();
        rows + self.objects.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn see(entry: Entry<'_, Box<str>, Seen>, content: u64, now: Moment) -> &mut Seen {
    let new = Seen {
        content,
        sighting: Sighting {
            first: now,
            while_absent: None,
        },
        last: now,
    };
    let seen = entry.or_insert(new);
    if seen.content != content {
        *seen = new;
    }
    seen.last = now;
    seen
}

fn fingerprint(content: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    hasher.finish()
}
