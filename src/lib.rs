//! ipgc gives back the IP addresses that the CNI IPAM plugin whereabouts still holds for pods that
//! are gone, and never takes one from a pod that may still answer.
//!
//! Data flows one way:
//!
//! ```text
//! watch ─▶ index ─▶ queue ─▶ worker ─▶ writer ─▶ report
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`api`] | the foreign kinds as Rust types, and their CRDs |
//! | [`watch`] | informers and indexes |
//! | [`queue`] | the keyed delay queue with bounded retries |
//! | [`collect`] | from the end of a pod to its freed rows |
//! | [`report`] | events and counters |
//! | [`run`] | start, stop, and the state of a run |
//! | [`cli`] | the command line |
//!
//! What is decided, and why, lives in the crate `ipgc-core`, which has no client and no clock.

pub mod api;
pub mod backoff;
pub mod calls;
pub mod cli;
pub mod clock;
pub mod collect;
pub mod config;
pub mod queue;
pub mod report;
pub mod run;
pub mod watch;

pub use ipgc_core as core;
