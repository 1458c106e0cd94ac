//! What a person decides: which rows and reservations are to go, and which reservations are to be made.
//!
//! | module | what lives there |
//! |---|---|
//! | [`report`] | the stale rows of a report of `ipgc audit` |
//! | [`force`] | the rows and reservations of single addresses |
//! | [`held`] | all that a node holds |
//! | [`release`] | a run of the collector that touches nothing but what was picked |
//! | [`repair`] | reservations that rows of live pods lack |
//!
//! A person picks, and may say that no sandbox answers. Whether a pod is there who needs an address is never
//! theirs to say: that is proven, after the row was observed, and rows are removed by the same patches as ever.
//! Nothing here asks anybody or prints.

pub mod force;
pub mod held;
pub mod release;
pub mod repair;
pub mod report;

pub use crate::collect::picked::{Fate, Pick, Picked, Subject};
