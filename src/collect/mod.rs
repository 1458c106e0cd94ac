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
//! | [`groups`] | puts requests of several turns together |
//! | [`prover`], [`roll`] | requests that prove whether pods exist: GETs, a LIST of names |
//! | [`pool_api`], [`reservation_api`] | requests on IPPools and reservations |
//! | [`release`], [`released`] | deletes the reservations of rows that are gone; the results |
//! | [`sweep`], [`rows_again`] | reads all pools; reads all rows of some addresses again |
//! | [`nodes`] | keeps nodes and their Leases up to date |
//! | [`context`] | the client, the evidence behind its lock, and the settings that all of these share |
//! | [`gate`] | whether there are the rights to write, and the writes that the server refuses |

pub mod context;
pub mod gate;
pub mod groups;
pub mod intake;
pub mod nodes;
pub mod planner;
pub mod pool_api;
pub mod prover;
pub mod release;
pub mod released;
pub mod reservation_api;
pub mod roll;
pub mod rows_again;
pub mod sweep;
pub mod turn;
