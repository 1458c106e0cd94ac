//! ipgc gives back the IP addresses that the CNI IPAM plugin whereabouts still holds for pods that
//! are gone, and never takes one from a pod that may still answer.
//!
//! Data flows one way:
//!
//! ```text
//! watch ─▶ evidence ─▶ planner ─▶ turn ─▶ report
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`api`] | the foreign kinds as Rust types, and their CRDs |
//! | [`watch`] | informers and indexes |
//! | `backoff` | waits after failures |
//! | `collect` | from the end of a pod to its freed rows |
//! | `calls`, `clock`, `lock` | one request under a deadline; moments for the core |
//! | [`access`], [`guard`] | the rights that are needed; clients that cannot write |
//! | [`leader`] | which of several copies writes |
//! | [`report`] | events and counters |
//! | [`vitals`], [`metrics`], [`admin`] | a run as it is seen from outside; its metrics; probes and metrics over HTTP |
//! | [`snapshot`] | the present state of a cluster, gathered once from the API server or from files |
//! | [`audit`] | judgement of a snapshot: reports and explanations |
//! | [`byhand`] | what a person decides: rows that are to go, reservations that are to be made |
//! | [`config`], [`run`] | settings; start, stop, and the state of a run |
//! | [`cli`] | the command line |
//!
//! What is decided, and why, lives in the crate `ipgc-core`, which has no client and no clock.

pub mod access;
pub mod admin;
pub mod api;
pub mod audit;
mod backoff;
pub mod byhand;
mod calls;
pub mod cli;
mod clock;
mod collect;
pub mod config;
pub mod guard;
mod history;
pub mod leader;
mod lock;
pub mod metrics;
mod pulse;
pub mod report;
pub mod run;
pub mod snapshot;
pub mod vitals;
pub mod watch;

pub use ipgc_core as core;
