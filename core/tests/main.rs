//! The decisions, by tables and properties.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blockers;
mod breaker;
mod byhand;
mod cases;
mod clearance;
mod common;
mod election;
mod endless;
mod foreign;
mod former;
mod history;
mod judge;
mod judge_props;
mod monotone;
mod nodes;
mod orphan;
mod others;
mod patch;
mod refusal;
mod reservation;
mod resource_claims;
mod routes;
mod rules;
mod second_sandbox;
mod sighting;
mod stuck;
mod trail;
mod unseen;
