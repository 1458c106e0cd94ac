//! Counters of what happened. An outcome is counted where it is known, never where it is hoped for.

use std::time::Duration;

use ipgc_core::{
    evidence::Grade,
    judge::{Cause, Stale},
};
pub use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::{family::Family, histogram::Histogram};

use super::requests::{self, Requests};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Monotone counters of one process.
        #[derive(Debug)]
        pub struct Counters {
            $($(#[$doc])* pub $name: Counter,)*
            /// Rows that we removed, by grade, cause and trigger.
            pub freed: Family<[(&'static str, &'static str); 3], Counter>,
            /// Requests that the API server answered, or did not.
            pub requests: Requests,
            /// Seconds until rows were gone, by trigger.
            pub time_to_free:
                Family<[(&'static str, &'static str); 1], Histogram, fn() -> Histogram>,
            /// Seconds that each sweep took which came to its end.
            pub sweep_duration: Histogram,
            /// Rows to each patch that was sent.
            pub patch_rows: Histogram,
        }

        impl Default for Counters {
            fn default() -> Self {
                let counters = Self {
                    $($name: Counter::default(),)*
                    freed: Family::default(),
                    requests: requests::seeded(),
                    time_to_free: Family::new_with_constructor(|| Histogram::new(UNTIL_FREE)),
                    sweep_duration: Histogram::new(SWEEP),
                    patch_rows: Histogram::new(ROWS),
                };
                counters.seed();
                counters
            }
        }

        impl Counters {
            /// All plain counters by name, in the order of their declaration.
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
    /// Reservations without a row that a dry run would have removed.
    reservations_would_free,
    /// Rows that are held because their node is silent, counted when that is found.
    rows_held,
    /// Rows that the breaker stopped, counted when that is found.
    frees_stopped,
    /// Reservations that we removed.
    reservations_freed,
    /// Rows that were judged Unknown.
    rows_unknown,
    /// Rows and reservations whose removal the server refuses though we may remove them.
    frees_refused,
    /// Reservations that are left because the server refuses claims, counted when that is found.
    claims_forbidden,
    /// Pods whose rows could not be freed within the retries.
    retries_exhausted,
    /// Ends of pods and finds of a sweep for which too much work was open.
    queue_overflows,
    /// Pods with a network that could not be followed to a pool.
    left_to_sweep,
    /// Sweeps that ended.
    sweeps_ended,
    /// Sweeps that failed.
    sweeps_failed,
    /// Warnings about the cluster when the run began.
    start_warnings,
    /// How often the API server's data went back in time.
    history_went_back,
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

/// The origins of a case, for labels: the end of a pod, as the watch told it; and a sweep, which found rows that may go.
pub const TRIGGERS: [&str; 2] = ["watch", "sweep"];

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
    /// All labels that there can be are there from the start, so that a rate is zero before it is anything else.
    fn seed(&self) {
        for trigger in TRIGGERS {
            drop(self.time_to_free.get_or_create(&[("trigger", trigger)]));
            for grade in Grade::ALL {
                for cause in Cause::ALL {
                    let kind = kind_of_free(grade, cause, trigger);
                    drop(self.freed.get_or_create(&kind));
                }
            }
        }
    }

    /// A row is gone, by one of the [`TRIGGERS`]; so long after it was known that it may go some day, if that is known.
    pub fn free(&self, stale: &Stale, trigger: &'static str, after: Option<Duration>) {
        self.rows_freed.inc();
        let kind = kind_of_free(stale.clearance.grade, stale.cause, trigger);
        self.freed.get_or_create(&kind).inc();
        if let Some(after) = after {
            let taken = self.time_to_free.get_or_create(&[("trigger", trigger)]);
            taken.observe(after.as_secs_f64());
        }
    }

    /// A patch of so many rows is sent.
    pub fn patch(&self, rows: usize) {
        self.patches_sent.inc();
        #[expect(clippy::cast_precision_loss, reason = "no patch has 2^52 rows")]
        self.patch_rows.observe(rows as f64);
    }
}

fn kind_of_free(
    grade: Grade,
    cause: Cause,
    trigger: &'static str,
) -> [(&'static str, &'static str); 3] {
    [
        ("grade", grade.as_str()),
        ("cause", cause.as_str()),
        ("trigger", trigger),
    ]
}
