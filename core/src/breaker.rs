//! The breaker stops frees when too many rows look stale and the watch did not show the ends of their pods: then the
//! API server's data may be wrong.
//!
//! Such rows go only after a sweep found that they are few. If they are many, each goes after it was stale for
//! `--breaker-hold`, or after a person acknowledged its pool: for so long the breaker stays open. None goes before the
//! end of a sweep that began after the last list of pods.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::time::Moment;

/// Annotation on an IPPool by which a person acknowledges what the breaker found: an RFC 3339 time
/// later than the finding, and than the first sight of a row.
pub const ACK_ANNOTATION: &str = "ipgc.dev/ack";
/// An acknowledgement may be so much later than our clock. One that is later would count for findings yet to come.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// When the breaker opens, and for how long it holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// `--breaker-fraction`: more than this part of all rows.
    pub fraction: f64,
    /// `--breaker-min`: and more than so many.
    pub min: usize,
    /// `--breaker-hold`: a row that has been stale for so long goes all the same.
    pub hold: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            fraction: 0.5,
            min: 50,
            hold: Duration::from_mins(30),
        }
    }
}

/// The findings of the last sweep that concern the breaker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    assessed: Option<Moment>,
    /// Since when it is open, if it is.
    pub open_since: Option<Timestamp>,
    /// When the last sweep began that found too many.
    found: Moment,
}

/// Why a row does not go although its wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// No sweep has looked yet at how many there are.
    NotAssessed,
    /// There are too many: not before this moment, unless the finding is acknowledged.
    Until(Moment),
}

impl Breaker {
    /// The sweep that began at `begun` found `suspect` of `total` rows stale with an end that was not watched. Returns
    /// whether the breaker opened or closed.
    pub fn assess(
        &mut self,
        limits: &Limits,
        (suspect, total): (usize, usize),
        begun: Moment,
        wall: Timestamp,
    ) -> bool {
        self.assessed = Some(begun);
        #[expect(
            clippy::cast_precision_loss,
            reason = "no cluster has 2^52 addresses in use"
        )]
        let too_many =
            suspect > limits.min && suspect as f64 > limits.fraction * total.max(1) as f64;
        if too_many {
            self.found = begun;
        }
        // The rows that it holds may be few by now, since a person acknowledged or exempted others.
        let is_held = self.open_since.is_some() && begun < self.found + limits.hold;
        let is_open = too_many || is_held;
        let changes = is_open != self.open_since.is_some();
        if changes {
            self.open_since = is_open.then_some(wall);
        }
        changes
    }

    /// Whether a row whose pod's end nobody watched may go: it is known to be stale since
    /// `stale_since`, the pods were last listed at `listed`, and its pool was acknowledged at
    /// `acknowledged`. `now` is `wall` by the clock of the wall.
    ///
    /// # Errors
    /// Why not.
    pub fn check(
        &self,
        limits: &Limits,
        stale_since: Moment,
        listed: Moment,
        acknowledged: Option<Timestamp>,
        (now, wall): (Moment, Timestamp),
    ) -> Result<(), Open> {
        // Rows that nobody saw ending become many by a list and in no other way, so the count of a
        // sweep begun after the last list covers them.
        if self.assessed.is_none_or(|begun| begun < listed) {
            return Err(Open::NotAssessed);
        }
        let seen = SignedDuration::try_from(now.since(stale_since)).unwrap_or(SignedDuration::MAX);
        let counts = |ack: Timestamp, since| {
            let age = wall.duration_since(ack);
            ack > since && age < seen && age >= -AHEAD
        };
        let is_open = |since| !acknowledged.is_some_and(|ack| counts(ack, since));
        let until = stale_since + limits.hold;
        if now < until && self.open_since.is_some_and(is_open) {
            return Err(Open::Until(until));
        }
        Ok(())
    }
}
