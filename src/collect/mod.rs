//! From the end of a pod, or from a row that a sweep found, to freed rows.
//!
//! ```text
//!  intake: ends ─▶ queue ─▶ worker ─▶ resolve: networks ─▶ definitions ─▶ pools
//!  sweep: rows ─────▲ ▲                                     │ a job for each pool
//!                     │ outcome                             ▼
//!                     └───────────────────────── writer: one per pool, a batch a turn
//!                                                  observe ─▶ prove ─▶ judge ─▶ patch ─▶ reservations
//! ```
//!
//! All of them know what [`knowledge`] knows; [`nodes`] keeps the part of it that concerns nodes,
//! and wakes items that wait for one.

pub mod closer;
pub mod context;
pub mod directory;
pub mod gate;
pub mod intake;
pub mod item;
pub mod job;
pub mod jobs;
pub mod knowledge;
pub mod nodes;
pub mod pool_api;
pub mod prover;
pub mod reservations;
pub mod resolve;
pub mod sweep;
pub mod turn;
pub mod worker;
pub mod writer;
