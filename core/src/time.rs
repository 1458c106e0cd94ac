//! Moments without a clock.
//!
//! A [`Moment`] is a duration since an epoch that the caller chose, usually the start of the
//! process. Nothing here reads a clock; whoever does (the runtime, a test, a model) hands in
//! moments of one epoch and never compares them with those of another.

use std::{fmt, ops::Add, time::Duration};

/// A point in time, counted from an epoch that the caller chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(Duration);

impl Moment {
    /// The epoch itself.
    pub const EPOCH: Self = Self(Duration::ZERO);

    /// The moment that lies `since_epoch` after the epoch.
    #[must_use]
    pub const fn new(since_epoch: Duration) -> Self {
        Self(since_epoch)
    }

    /// Time since the epoch.
    #[must_use]
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// Time from `earlier` to `self`, zero if `earlier` is not earlier.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Self;

    /// Saturates at the end of time: a wait of "for ever" stays one.
    fn add(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:.3}s", self.0.as_secs_f64())
    }
}
