//! From the end of a pod to its freed rows.
//!
//! ```text
//! queue ─▶ worker ─▶ resolve: networks ─▶ definitions ─▶ pools
//!   ▲                                        │ a job for each pool
//!   │ outcome                                ▼
//!   └──────────────────────────── writer: one per pool, a batch a turn
//!                                   observe ─▶ prove ─▶ judge ─▶ patch ─▶ reservations
//! ```

pub mod context;
pub mod directory;
pub mod gate;
pub mod intake;
pub mod item;
pub mod job;
pub mod jobs;
pub mod pool_api;
pub mod prover;
pub mod reservations;
pub mod resolve;
pub mod turn;
pub mod worker;
pub mod writer;
