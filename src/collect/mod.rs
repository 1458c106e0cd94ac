//! The collector: frees the rows of pods that ended, and the rows that a sweep found.
//!
//! ```text
//!  intake: ends ──▶ planner: cases, lanes ──▶ turn: observe ─▶ prove ─▶ judge ─▶ patch ─▶ reservations
//!  sweep: rows ──────▲  ▲        │ a batch for each pool                           │
//!  nodes: changes ───┘  └────────┴─────────────────── answers ─────────────────────┘
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`intake`] | takes the events of the informers in |
//! | [`planner`] | gives news and answers to core's planner, begins turns, tells what becomes of cases |
//! | [`turn`] | the work on one batch of a pool: observe, prove, judge, patch |
//! | [`batches`] | puts requests of several turns together |
//! | [`prover`], [`roll`], [`names`] | requests that prove whether pods exist: GETs, a LIST, a table of names |
//! | [`pool_api`], [`reservation_api`] | requests on IPPools and reservations |
//! | [`release`] | deletes the reservations of rows that are gone |
//! | [`sweep`], [`second_look`] | reads all pools; reads all rows of some addresses again |
//! | [`nodes`] | keeps nodes and their Leases up to date |
//! | [`context`] | clients, evidence behind its lock, and settings that all of these share |
//! | [`gate`], [`refusals`] | whether this copy may write; the writes that the server refuses |

pub mod batches;
pub mod context;
pub mod gate;
pub mod intake;
pub mod names;
pub mod nodes;
pub mod planner;
pub mod pool_api;
pub mod prover;
pub mod refusals;
pub mod release;
pub mod reservation_api;
pub mod roll;
pub mod second_look;
pub mod sweep;
pub mod turn;
