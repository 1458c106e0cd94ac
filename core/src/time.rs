//! Moments without a clock.
//!
//! A [`Moment`] is a duration since an epoch that the caller chose, usually the start of the
//! process. Nothing here reads a clock; whoever does (the runtime, a test, a model) hands in
//! moments of one epoch and never compares them with those of another.

use std::{fmt, num::NonZeroU64, ops::Add, time::Duration};

const NANOSECONDS: u64 = 1_000_000_000;

/// How long until we look again at what a moment cannot be named for.
pub const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The same for what waits for a node, which is heard more often where its `wait` is short.
pub fn look_again(wait: Duration) -> Duration {
    (wait / 20).clamp(Duration::from_secs(1), LOOK_AGAIN)
}

/// A point in time, counted from an epoch that the caller chose; the last one is 584 years after it.
// Nanoseconds plus one: moments are kept by the hundred thousand, many of them optional.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(NonZeroU64);

impl Moment {
    /// The epoch itself.
    pub const EPOCH: Self = Self(NonZeroU64::MIN);
    /// The last one.
    pub const NEVER: Self = Self(NonZeroU64::MAX);

    /// The moment that lies `since_epoch` after the epoch.
    pub const fn new(since_epoch: Duration) -> Self {
        let seconds = since_epoch.as_secs().saturating_mul(NANOSECONDS);
        let nanoseconds = seconds.saturating_add(since_epoch.subsec_nanos() as u64);
        Self(NonZeroU64::MIN.saturating_add(nanoseconds))
    }

    /// Time since the epoch.
    pub const fn since_epoch(self) -> Duration {
        Duration::from_nanos(self.0.get() - 1)
    }

    /// Time from `earlier` to `self`, zero if `earlier` is not earlier.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.get().saturating_sub(earlier.0.get()))
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates at the end of time: a wait of "for ever" stays one.
    fn add(self, wait: Duration) -> Self {
        Self::new(self.since_epoch().saturating_add(wait))
    }
}

impl Default for Moment {
    fn default() -> Self {
        Self::EPOCH
    }
}

impl fmt::Debug for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Moment").field(&self.since_epoch()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_and_end_at_the_end_of_time() {
        let end = Moment::new(Duration::MAX);
        for nanoseconds in [0, 1, 999_999_999, 1_000_000_001, u64::MAX - 1] {
            let since_epoch = Duration::from_nanos(nanoseconds);
            let moment = Moment::new(since_epoch);
            assert_eq!(moment.since_epoch(), since_epoch);
            assert_eq!(Moment::EPOCH + since_epoch, moment);
            assert_eq!(moment.since(Moment::EPOCH), since_epoch);
            assert!(moment <= end && Moment::EPOCH.since(moment).is_zero());
            assert_eq!(moment + Duration::MAX, end);
        }
        assert_eq!(size_of::<Option<Moment>>(), 8);
    }
}
