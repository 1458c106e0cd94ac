//! Leader election: when a copy of the program may take a Lease, and until when it may rely on it.
//!
//! client-go's algorithm (`tools/leaderelection`): the holder renews the Lease. Another copy takes it if it has not
//! changed for its duration, by that copy's own clock. A write replaces the version that was read, so of two writers
//! one fails. A copy that hears of none of its own writes stops writing, so that another copy can take the Lease.
//! Nothing here writes or reads: the caller tells what it read and when its writes began.

use std::time::Duration;

use crate::time::Moment;

/// A Lease that did not change for so long may be taken.
pub const LEASE_DURATION: Duration = Duration::from_secs(15);
/// A leader relies on the Lease for so long after its last renewal began. Shorter than [`LEASE_DURATION`]: it has
/// stepped down before anybody else may take the Lease.
const RENEW_DEADLINE: Duration = Duration::from_secs(10);
/// Time between two looks at the Lease.
pub const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// A Lease as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'r> {
    /// Its resourceVersion, which any write changes.
    pub version: &'r str,
    /// The copy that holds it; none, if that is empty.
    pub holder: &'r str,
    /// For how long after a change it is held.
    pub duration: Duration,
}

/// The next step after a Lease was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Somebody else holds it.
    Wait,
    /// Write it in our name for the first time: it is free, or its holder is gone.
    Take,
    /// It is ours: write it again.
    Renew,
}

/// One who would lead.
#[derive(Clone, Debug)]
pub struct Candidate {
    identity: Box<str>,
    /// While we hold the Lease, the version that we know to have written; else its version as it was read, and when it was
    /// first seen to have it.
    seen: Option<(Box<str>, Moment)>,
    held_until: Option<Moment>,
    /// Until when our Lease is written again though other writes in our name are not known to have been done.
    tries_until: Option<Moment>,
}

impl Candidate {
    /// A candidate who leads nothing yet. Its identity must not be anybody else's, a former run of the
    /// same copy included.
    pub fn new(identity: &str) -> Self {
        Self {
            identity: identity.into(),
            seen: None,
            held_until: None,
            tries_until: None,
        }
    }

    /// The name in which the Lease is held.
    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Takes in what the Lease says, `None` where there is none, as read by an answer that came at
    /// `now`. Steps down if it is not ours.
    pub fn note_read(&mut self, record: Option<Record<'_>>, now: Moment) -> Step {
        let Some(record) = record.filter(|record| !record.holder.is_empty()) else {
            self.step_down();
            return Step::Take;
        };
        let seen = self.seen.as_ref();
        let seen = seen.filter(|(version, _)| **version == *record.version);
        let is_ours = record.holder == &*self.identity;
        if is_ours {
            // Ours also after a write whose answer was lost. That one may hold for less long than it could,
            // which is why only `wrote` says until when.
            let is_last_write = self.held_until.is_some() && seen.is_some();
            // From when a write is seen that nobody told us of: a time without any answer is no try.
            let until = || now + RENEW_DEADLINE;
            if is_last_write || now < *self.tries_until.get_or_insert_with(until) {
                return Step::Renew;
            }
        } else {
            self.tries_until = None;
        }
        self.held_until = None;
        let Some((_, since)) = seen else {
            self.seen = Some((record.version.into(), now));
            return Step::Wait;
        };
        // A leader that was told longer times relies on them.
        let mut lease = record.duration.max(LEASE_DURATION);
        if is_ours {
            // The others come first.
            lease *= 2;
        }
        if now.since(*since) < lease {
            Step::Wait
        } else {
            Step::Take
        }
    }

    /// A write in our name was accepted, by a request that began at `begun`, and gave the Lease this version. What lies
    /// between the two may be long, and the others' clocks began no earlier than that.
    pub fn wrote(&mut self, version: &str, begun: Moment) {
        self.seen = Some((version.into(), begun));
        self.held_until = Some(begun + RENEW_DEADLINE);
        self.tries_until = None;
    }

    /// Relies on the Lease no more.
    pub fn step_down(&mut self) {
        *self = Self::new(&self.identity);
    }

    /// Until when the Lease may be relied on; `None` where it is not ours.
    pub fn held_until(&self) -> Option<Moment> {
        self.held_until
    }
}
