//! Time as the server tells it: a fixed start plus the tokio time that went by.
//!
//! Under a paused tokio clock every timestamp is therefore reproducible.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Turns tokio time into wall-clock text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Timestamp,
    origin: Instant,
}

impl Clock {
    pub(crate) fn starting_at(start: Timestamp) -> Self {
        Self {
            start,
            origin: Instant::now(),
        }
    }

    pub(crate) fn now(self) -> Timestamp {
        let elapsed = SignedDuration::try_from(self.origin.elapsed());
        let elapsed = elapsed.unwrap_or(SignedDuration::MAX);
        self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX)
    }

    /// Whole seconds, the precision of `metav1.Time`.
    pub(crate) fn seconds_text(self, offset: i64) -> String {
        let seconds = self.now().as_second().saturating_add(offset);
        Timestamp::from_second(seconds)
            .unwrap_or(Timestamp::MAX)
            .to_string()
    }
}
