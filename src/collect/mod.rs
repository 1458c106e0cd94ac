//! From the end of a pod, or from a row that a sweep found, to freed rows.
//!
//! ```text
//!  intake: ends ──▶ planner: cases, lanes ──▶ turn: observe ─▶ prove ─▶ judge ─▶ patch ─▶ reservations
//!  sweep: rows ──────▲  ▲        │ a batch for each pool                           │
//!  nodes: changes ───┘  └────────┴─────────────────── answers ─────────────────────┘
//! ```
//!
//! | module | what lives there |
//! |---|---|
//! | [`intake`] | where the informers' words go |
//! | [`planner`] | gives news and answers to core's planner, begins turns, tells what becomes of cases |
//! | [`turn`] | one batch of a pool |
//! | [`batches`] | how questions and reservations gather |
//! | [`prover`], [`roll`], [`names`], [`pool_api`], [`reservation_api`] | the requests |
//! | [`release`] | reservations of rows that are gone |
//! | [`sweep`], [`second_look`] | a look at everything, and one at all rows of some addresses |
//! | [`evidence`], [`nodes`] | what is known, and what keeps it up to date |
//! | [`context`], [`gate`], [`refusals`] | what a turn works with; whether we may write, and what is refused all the same |
//! | [`picked`] | what a person picked, where a run is confined to that |

pub mod batches;
pub mod context;
pub mod evidence;
pub mod gate;
pub mod intake;
pub mod names;
pub mod nodes;
pub mod picked;
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
