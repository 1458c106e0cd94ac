//! Writes that the server refuses though we may make them: admission or a schema is against them.
//!
//! Such a refusal concerns one object, which backs off alone ([`BackOffs`]). Where the claims of several
//! reservations are refused, the cluster forbids claims, and no more are sent there ([`Claims`]).

use std::{
    collections::{BTreeSet, HashMap},
    hash::Hash,
    time::Duration,
};

use crate::time::Moment;

/// The first wait after a refusal; each further one is twice as long.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// No wait is longer.
pub const LONGEST: Duration = Duration::from_mins(5);
/// So many reservations whose claims are refused, and none whose claim passes, are no matter of single objects.
pub const ALIKE: usize = 3;

/// The objects that back off, each for itself: until when, and after which wait.
#[derive(Debug)]
pub struct BackOffs<K>(HashMap<K, (Moment, Duration)>);

impl<K> Default for BackOffs<K> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Eq + Hash> BackOffs<K> {
    /// Until when nothing is tried, if that is not over.
    pub fn until(&self, key: &K, now: Moment) -> Option<Moment> {
        let (until, _) = *self.0.get(key)?;
        (until > now).then_some(until)
    }

    /// It was refused: until when nothing is tried from now on.
    pub fn refused(&mut self, key: K, now: Moment) -> Moment {
        // An object that was not tried again for long is gone, or somebody else did it.
        self.0
            .retain(|_, (until, _)| now.since(*until) <= LONGEST * 2);
        let before = self.0.get(&key).map_or(Duration::ZERO, |(_, wait)| *wait);
        let wait = (before * 2).clamp(SHORTEST, LONGEST);
        let until = now + wait;
        self.0.insert(key, (until, wait));
        until
    }

    /// It was done.
    pub fn passed(&mut self, key: &K) {
        self.0.remove(key);
    }
}

/// Whether the reservations of one namespace may be claimed.
#[derive(Debug, Default)]
pub struct Claims {
    /// Those that were refused since one passed.
    refused: BTreeSet<String>,
    /// When one is tried again, once they are forbidden.
    again: Option<Moment>,
}

impl Claims {
    /// Whether a claim may be sent now. Where claims are forbidden, one may in each `interval`.
    pub fn may_begin(&mut self, now: Moment, interval: Duration) -> bool {
        let Some(again) = self.again else { return true };
        let is_due = again <= now;
        if is_due {
            // Sweeps bring them, not always after the same time.
            self.again = Some(now + interval / 4 * 3);
        }
        is_due
    }

    /// The claim of this reservation was refused. True if claims are forbidden.
    pub fn refused(&mut self, name: &str, now: Moment, interval: Duration) -> bool {
        if self.refused.len() < ALIKE {
            self.refused.insert(name.to_owned());
        }
        let is_forbidden = self.refused.len() >= ALIKE;
        if is_forbidden && self.again.is_none() {
            self.again = Some(now + interval / 4 * 3);
        }
        is_forbidden
    }

    /// Whether no claim is sent but that one.
    pub fn are_forbidden(&self) -> bool {
        self.again.is_some()
    }

    /// A claim was done.
    pub fn passed(&mut self) {
        *self = Self::default();
    }
}
