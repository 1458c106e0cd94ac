//! What others get to see: Kubernetes Events and counters. Nothing here decides or retries.

mod counters;
mod events;

pub use self::{
    counters::{Counter, Counters},
    events::{COLLECTED, EventSender, Events, FAILED, channel},
};
