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
//! | module | what lives there |
//! |---|---|
//! | [`intake`] | where the informers' words go |
//! | [`item`], [`job`], [`jobs`] | what is in the queue, what a writer is given, a turn's batch |
//! | [`worker`], [`resolve`], [`directory`] | from an item to its pools |
//! | [`writer`], [`turn`] | the one writer of a pool, and one batch of it |
//! | [`batches`] | how jobs gather |
//! | [`prover`], [`roll`], [`names`], [`pool_api`], [`reservation_api`] | the requests |
//! | [`release`] | reservations of rows that are gone |
//! | [`sweep`], [`second_look`] | a look at everything, and one at all rows of some addresses |
//! | [`evidence`], [`nodes`] | what is known, and what keeps it up to date |
//! | [`context`], [`gate`], [`refusals`] | what a turn works with; whether we may write, and what is refused all the same |
//! | [`picked`] | what a person picked, where a run is confined to that |
//!
//! All of them know what [`evidence`] knows; [`nodes`] keeps the part of it that concerns nodes,
//! and wakes items that wait for one.

pub mod batches;
pub mod context;
pub mod directory;
pub mod evidence;
pub mod gate;
pub mod intake;
pub mod item;
pub mod job;
pub mod jobs;
pub mod names;
pub mod nodes;
pub mod picked;
pub mod pool_api;
pub mod prover;
pub mod refusals;
pub mod release;
pub mod reservation_api;
pub mod resolve;
pub mod roll;
pub mod second_look;
pub mod sweep;
pub mod turn;
pub mod worker;
pub mod writer;
