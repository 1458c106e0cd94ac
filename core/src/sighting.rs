//! When a row was first seen as it is now.
//!
//! Rows bear no time. Where nobody saw the incarnation that wrote a row, its wait begins with the
//! first observation of the unchanged row. If a row was observed while its pod was proven absent, a
//! pod of that name that comes back later did not write it. Sightings are kept only for rows and
//! reservations that may be freed.

use std::{collections::BTreeMap, hash::Hash, time::Duration};

use crate::{id::hash_of, pool::Row, time::Moment};

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

/// In place of the uid of a pool, for reservations.
pub const RESERVATIONS: &str = "";

/// All sightings: by the uid of a pool and the key of a row in it. Those of reservations by their uids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sightings(BTreeMap<Box<str>, BTreeMap<Box<str>, Seen>>);

impl Sightings {
    /// Notes that a row of this pool was observed at `now`.
    pub fn see(&mut self, pool_uid: &str, row: &Row, now: Moment) -> Sighting {
        let seen = self.note(pool_uid, row.key(), row.stored(), now);
        seen.sighting
    }

    /// Notes that a row that is remembered was observed again, as it was. Others stay forgotten.
    pub fn see_again(&mut self, pool_uid: &str, row: &Row, now: Moment) {
        if self.get(pool_uid, row).is_some() {
            self.see(pool_uid, row, now);
        }
    }

    /// Notes that the pod of a row was proven absent by `now`, after the row was observed.
    pub fn see_absent(&mut self, pool_uid: &str, row: &Row, now: Moment) {
        let seen = self.note(pool_uid, row.key(), row.stored(), now);
        seen.sighting.while_absent.get_or_insert(now);
    }

    /// Notes that a reservation was observed, which says what `content` is.
    pub fn see_object(&mut self, uid: &str, content: &impl Hash, now: Moment) -> Sighting {
        self.note(RESERVATIONS, uid, content, now).sighting
    }

    /// Notes that a reservation is there yet, whatever it says. Whether it is remembered.
    pub fn keep_object(&mut self, uid: &str, now: Moment) -> bool {
        let all = self.0.get_mut(RESERVATIONS);
        let seen = all.and_then(|all| all.get_mut(uid));
        seen.map(|seen| seen.last = now).is_some()
    }

    /// Forgets a row, or one of the [`RESERVATIONS`] by its uid: its wait begins anew when it is seen again.
    pub fn forget_one(&mut self, pool_uid: &str, key: &str) {
        if let Some(all) = self.0.get_mut(pool_uid) {
            all.remove(key);
        }
    }

    /// As [`Self::see_object`], but only for a reservation that is already remembered. If it is unchanged, this does not extend the
    /// time for which it is remembered.
    pub fn recall_object(
        &mut self,
        uid: &str,
        content: &impl Hash,
        now: Moment,
    ) -> Option<Sighting> {
        let seen = self.0.get(RESERVATIONS)?.get(uid)?;
        Some(if seen.content == hash_of(content) {
            seen.sighting
        } else {
            self.see_object(uid, content, now)
        })
    }

    /// The memory of a row as it is now.
    pub fn get(&self, pool_uid: &str, row: &Row) -> Option<Sighting> {
        let seen = self.0.get(pool_uid)?.get(row.key())?;
        (seen.content == hash_of(row.stored())).then_some(seen.sighting)
    }

    /// The first observation of the row that has this key.
    pub fn first(&self, pool_uid: &str, key: &str) -> Option<Moment> {
        let seen = self.0.get(pool_uid)?.get(key)?;
        Some(seen.sighting.first)
    }

    fn note(&mut self, of: &str, key: &str, content: &impl Hash, now: Moment) -> &mut Seen {
        let new = Seen {
            content: hash_of(content),
            sighting: Sighting {
                first: now,
                while_absent: None,
            },
            last: now,
        };
        let all = self.0.entry(of.into()).or_default();
        let seen = all.entry(key.into()).or_insert(new);
        if seen.content != new.content {
            *seen = new;
        }
        seen.last = now;
        seen
    }

    /// Forgets what was not seen for `keep`.
    pub fn forget(&mut self, keep: Duration, now: Moment) {
        self.0.retain(|_, all| {
            all.retain(|_, seen| now.since(seen.last) < keep);
            !all.is_empty()
        });
    }
}
