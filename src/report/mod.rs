//! What others get to see: Kubernetes Events, counters and metrics. Nothing here decides or retries.

mod counters;
mod events;
mod metrics;
mod requests;

pub use self::{
    counters::{Counter, Counters, Freed, Spread, Trigger},
    events::{COLLECTED, EventSender, Events, FAILED, channel},
    metrics::{CONTENT_TYPE as METRICS_TYPE, Metrics},
    requests::{Requests, counted},
};
