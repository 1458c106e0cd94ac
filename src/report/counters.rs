//! What happened, in numbers. Counted where the outcome is known, never where it is hoped for.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Monotone counters of one process.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
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
    ends_seen,
    /// Rows that we removed, seen as removed.
    rows_freed,
    /// Rows that a dry run would have removed.
    rows_would_free,
    /// Rows that are held because their node is silent, counted when that is found.
    rows_held,
    /// Rows that the breaker stopped, counted when that is found.
    frees_stopped,
    /// Reservations that we removed.
    reservations_freed,
    /// Rows that were judged Unknown.
    rows_unknown,
    /// Rows whose removal the server refuses although they are unchanged.
    frees_refused,
    /// Pods whose rows could not be freed within the retries.
    retries_exhausted,
    /// Pods that did not fit into the queue.
    queue_overflows,
    /// Pods with a network that could not be followed to a pool.
    left_to_sweep,
    /// Sweeps that ended.
    sweeps_ended,
    /// Sweeps that failed.
    sweeps_failed,
    /// Pools that are not readable as such.
    pools_unreadable,
    /// network-status or networks annotations that do not parse.
    annotations_unreadable,
    /// Patches on pools that were sent.
    patches_sent,
    /// Events that were sent.
    events_sent,
    /// Events that were not: budget, namespace gone, or refused.
    events_dropped,
    /// Longest time from the begin of a proof to a DELETE of a reservation that it let go, in
    /// milliseconds.
    longest_proof_age_ms,
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
