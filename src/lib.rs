//! ipgc gives back the IP addresses that the CNI IPAM plugin whereabouts still holds for pods that
//! are gone, and never takes one from a pod that may still answer.
//!
//! The way of one address, from the end of its pod to the freed row:
//!
//! ```text
//!  watch::follow           the API server tells that the pod was deleted
//!  PodSink::delete         its end goes into the evidence, and to the planner
//!  Planner::take_end       its case is to be opened
//!  Routes::of              its networks lead to pools                         (core)
//!  Cases::open             a case for each pool waits for its first look      (core)
//!  Lanes::ready            the cases of a pool that gathered are one batch    (core)
//!  turn::work              observes the pool, then proves whether its pods are there
//!  Turn::judge             asks for each row, with the evidence of that moment
//!  Proof::release          the only way to a row that may go                  (core)
//!  Context::free           the guarded patch; then release: the reservations
//! ```
//!
//! The answers go back to the planner, which closes the case or looks at it again.
//!
//! | module | content |
//! |---|---|
//! | [`api`] | the foreign kinds as Rust types, and their CRDs |
//! | [`watch`] | informers: what the API server tells, stripped while it is read |
//! | `backoff` | waits after failures |
//! | `collect` | from the end of a pod to its freed rows |
//! | `calls`, `clock`, `lock` | one request under a deadline; moments for the core |
//! | [`access`], [`guard`] | the rights that are needed; clients that cannot write |
//! | [`leader`] | which of several copies writes |
//! | [`report`] | events and counters |
//! | `pulse`, `vitals`, [`metrics`], [`admin`] | a run as it is seen from outside; its metrics; probes and metrics over HTTP |
//! | [`snapshot`] | the present state of a cluster, gathered once from the API server or from files |
//! | [`audit`] | judgement of a snapshot: reports and explanations |
//! | [`byhand`] | frees a row or reservation that a person forced |
//! | [`empty_pools`] | deletes pools that nobody needs |
//! | [`config`], [`run`], [`once`] | settings; start, stop, and the state of a run; a run that ends by itself |
//! | [`cli`] | the command line |
//!
//! All decisions live in the crate `ipgc-core`, which has no client and no clock.

pub mod access;
pub mod admin;
pub mod api;
pub mod audit;
mod backoff;
pub mod byhand;
mod calls;
pub mod chance;
pub mod cli;
pub mod clock;
mod collect;
pub mod config;
pub mod empty_pools;
pub mod guard;
mod history;
pub mod leader;
mod lock;
pub mod metrics;
pub mod once;
mod pulse;
pub mod report;
pub mod run;
pub mod snapshot;
mod vitals;
pub mod watch;

pub use ipgc_core as core;
