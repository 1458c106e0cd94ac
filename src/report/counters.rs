//! What happened, in numbers. Counted where the outcome is known, never where it is hoped for.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ipgc_core::{
    evidence::Grade,
    judge::{Cause, Stale},
};
use prometheus_client::metrics::histogram::Histogram;

use super::requests::Requests;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident: $kind:ty),* $(,)?) => {
        /// Monotone counters of one process.
        #[derive(Debug)]
        pub struct Counters {
            $($(#[$doc])* pub $name: $kind,)*
            /// Requests that the API server answered, or did not.
            pub requests: Arc<Requests>,
            time_to_free: [Histogram; Trigger::ALL.len()],
            /// Seconds that each sweep took which came to its end.
            pub sweep_duration: Histogram,
            /// Rows to each patch that was sent.
            pub patch_rows: Histogram,
        }

        impl Default for Counters {
            fn default() -> Self {
                Self {
                    $($name: <$kind>::default(),)*
                    requests: Arc::default(),
                    time_to_free: Trigger::ALL.map(|_| Histogram::new(UNTIL_FREE)),
                    sweep_duration: Histogram::new(SWEEP),
                    patch_rows: Histogram::new(ROWS),
                }
            }
        }

        impl Counters {
            /// All counters by name, in the order of their declaration.
            #[must_use]
            pub fn snapshot(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.get()),)*]
            }
        }
    };
}

counters! {
    /// Pods whose end was seen and that could have rows.
    ends_seen: Counter,
    /// Rows that we removed, seen as removed.
    rows_freed: Freed,
    /// Rows that a dry run would have removed.
    rows_would_free: Counter,
    /// Rows that are held because their node is silent, counted when that is found.
    rows_held: Counter,
    /// Rows that the breaker stopped, counted when that is found.
    frees_stopped: Counter,
    /// Reservations that we removed.
    reservations_freed: Counter,
    /// Rows that were judged Unknown.
    rows_unknown: Counter,
    /// Rows and reservations whose removal the server refuses though we may remove them.
    frees_refused: Counter,
    /// Reservations that are left because the server refuses claims, counted when that is found.
    claims_forbidden: Counter,
    /// Pods whose rows could not be freed within the retries.
    retries_exhausted: Counter,
    /// Ends of pods and finds of a sweep for which too much work was open.
    queue_overflows: Counter,
    /// Pods with a network that could not be followed to a pool.
    left_to_sweep: Counter,
    /// Sweeps that ended.
    sweeps_ended: Counter,
    /// Sweeps that failed.
    sweeps_failed: Counter,
    /// How often the API server's data went back in time.
    history_went_back: Counter,
    /// Pools that are not readable as such.
    pools_unreadable: Counter,
    /// network-status or networks annotations that do not parse.
    annotations_unreadable: Counter,
    /// Patches on pools that were sent.
    patches_sent: Counter,
    /// Events that were sent.
    events_sent: Counter,
    /// Events that were not: budget, namespace gone, or refused.
    events_dropped: Counter,
    /// Longest time from the begin of a proof to a DELETE of a reservation that it let go, in
    /// milliseconds.
    longest_proof_age_ms: Counter,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, more: usize) {
        self.0.fetch_add(more as u64, Ordering::Relaxed);
    }

    /// This, where it is the most so far.
    pub fn raise_to(&self, value: u128) {
        let value = u64::try_from(value).unwrap_or(u64::MAX);
        self.0.fetch_max(value, Ordering::Relaxed);
    }

    /// How many so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What made an item of work: the label of metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The end of a pod, as the watch told it.
    Watch,
    /// A sweep, which found rows that may go.
    Sweep,
}

impl Trigger {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Watch, Self::Sweep];

    /// The word for metric labels.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Watch => "watch",
            Self::Sweep => "sweep",
        }
    }
}

/// Rows that were freed: by grade, cause and trigger.
#[derive(Debug, Default)]
pub struct Freed([[[Counter; Trigger::ALL.len()]; Cause::ALL.len()]; Grade::ALL.len()]);

impl Freed {
    /// One more.
    pub fn increment(&self, stale: &Stale, trigger: Trigger) {
        self.of(stale.grade(), stale.cause, trigger).increment();
    }

    /// Those of one kind.
    #[must_use]
    pub fn of(&self, grade: Grade, cause: Cause, trigger: Trigger) -> &Counter {
        // Each is its own place in its `ALL`: a test says so.
        &self.0[grade as usize][cause as usize][trigger as usize]
    }

    /// How many so far, of all kinds.
    #[must_use]
    pub fn get(&self) -> u64 {
        let all = self.0.iter().flatten().flatten();
        all.map(Counter::get).sum()
    }
}

/// Seconds from the end of a pod, or from when a sweep first saw the row stale, until it was gone: from the cooldown, over
/// W, to the day on which somebody removes the dead node.
const UNTIL_FREE: [f64; 13] = [
    2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 240.0, 480.0, 900.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0,
];
/// Seconds of a sweep: a small cluster takes milliseconds, a million rows seconds, a server in distress minutes.
const SWEEP: [f64; 10] = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0];
/// Rows of a patch.
const ROWS: [f64; 7] = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0];

impl Counters {
    /// A row is gone, so long after it was known that it may go some day.
    pub fn freed_after(&self, trigger: Trigger, after: Duration) {
        self.time_to_free(trigger).observe(after.as_secs_f64());
    }

    /// How long it took until rows were gone.
    #[must_use]
    pub fn time_to_free(&self, trigger: Trigger) -> &Histogram {
        &self.time_to_free[trigger as usize]
    }

    /// A patch of so many rows is sent.
    pub fn patch(&self, rows: usize) {
        #[expect(clippy::cast_precision_loss, reason = "no patch has 2^52 rows")]
        self.patch_rows.observe(rows as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_a_free_has_its_place() {
        assert!(
            (0..)
                .zip(Grade::ALL)
                .all(|(at, grade)| at == grade as usize)
        );
        assert!(
            (0..)
                .zip(Cause::ALL)
                .all(|(at, cause)| at == cause as usize)
        );
        assert!(
            (0..)
                .zip(Trigger::ALL)
                .all(|(at, trigger)| at == trigger as usize)
        );
    }
}
