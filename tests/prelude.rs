//! What most of these tests use.

pub use std::time::Duration;

pub use ipgc::config::Config;
pub use rstest::rstest;
pub use serde_json::{Value, json};
pub use testkit::{ChangeKind, Cut, Failure, Garble, Match, Request, Requests, Rule, Server, Verb};
pub use testkit::{fixtures, pods::Kubelet};
pub use tokio::time::{Instant, sleep, timeout};

pub use crate::common::{log::Log, nodes::*, scrape::Scrape, *};
