//! The decisions of ipgc.
//!
//! Nothing here has a client, a clock, a runtime or a log. A result depends only on the arguments and on the state in
//! the value. The collector, the audit and `ipgc release` call this crate, and nothing else decides.
//!
//! ```text
//!  IPPool text ──▶ pool::ObservedPool ──▶ proof::Ticket ──▶ proof::Proof ──▶ judge ──▶ patch
//!                       (rows)            (begun after)     (pods' presence)           │
//!  pod states ───▶ evidence::Trail ───▶ evidence::Ended ───▶ clearance ────▲           ▼
//!  node states, Leases ───▶ node::Nodes ──────────────────────▲            API server's answer
//! ```

/// Lists all variants of an enum, each with its word in logs, reports and labels of metrics.
macro_rules! words {
    ($name:ident: $($variant:ident $word:literal),+) => {
        impl $name {
            /// All of them, in the order of their declaration.
            pub const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word for logs, reports and labels of metrics.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }
        }
    };
}

pub mod address;
pub mod batch;
pub mod breaker;
pub mod cases;
pub mod clearance;
pub mod definitions;
pub mod election;
pub mod evidence;
pub mod fact;
pub mod history;
pub mod id;
pub mod ipam;
pub mod judge;
pub mod known;
pub mod lanes;
pub mod names;
pub mod networks;
pub mod node;
mod operation;
pub mod patch;
pub mod plan;
pub mod pod;
pub mod podref;
pub mod pods;
pub mod pool;
pub mod proof;
pub mod refusal;
pub mod reservation;
pub mod routes;
pub mod sighting;
pub mod text;
pub mod time;
pub mod wait;
pub mod work;
