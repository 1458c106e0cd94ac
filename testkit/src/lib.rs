//! An in-process Kubernetes API server for tests: deterministic, with faults on demand.
//!
//! A [`Server`] stands behind kube's `Client` as a plain HTTP service. It keeps objects as JSON
//! under one global revision counter, answers reads, writes and watches as a real API server
//! (1.34) does, and puts faults into chosen requests: errors, delays, cut connections.
//! Time is tokio's: under a paused clock a test that covers hours takes milliseconds and repeats exactly.
//!
//! ```
//! use testkit::{Failure, Match, Server, fixtures};
//! use k8s_openapi::api::core::v1::Pod;
//! use kube::Api;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), kube::Error> {
//! let server = Server::new();
//! server.put(fixtures::pod("shop", "cart-0").node("n1").build());
//! let pods: Api<Pod> = Api::namespaced(server.client_named("ipgc"), "shop");
//! assert_eq!(pods.list(&Default::default()).await?.items.len(), 1);
//!
//! let rule = server.on(Match::get("pods").client("ipgc")).once().answer(Failure::too_many_requests(1));
//! assert!(pods.get("cart-0").await.is_err());
//! assert!(pods.get("cart-0").await.is_ok());
//! assert_eq!(rule.hits(), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Modules: [`Server`] is the handle (options, direct state access, rules, log, history);
//! [`Match`] and [`RuleBuilder`] define faults; [`fixtures`] builds the usual objects; [`pods`]
//! simulates the kubelet; [`conformance`] has checks that must pass here and on a real server alike.
//!
//! It opens no socket, starts no thread and reads no file, and it runs no controller: nothing
//! schedules pods, removes orphans or evicts unless the test does it itself.

#![allow(
    clippy::missing_panics_doc,
    reason = "a name that the server does not know is a mistake of the test, and ends it"
)]
#![allow(
    clippy::must_use_candidate,
    reason = "types whose values do nothing by themselves are marked instead"
)]

mod access;
mod admission;
mod body;
mod clock;
pub mod conformance;
mod delete;
mod direct;
mod discovery;
mod events;
mod faults;
pub mod fixtures;
mod garble;
mod handlers;
mod history;
mod log;
mod object;
mod patch;
pub mod pods;
mod read;
mod request;
mod resources;
mod schema;
mod selectors;
mod server;
mod service;
mod status;
mod store;
mod watch;
mod watch_faults;
mod write;

pub use faults::{Garble, Match, Rule, RuleBuilder};
pub use history::Write;
pub use log::Requests;
pub use request::{Request, Verb};
pub use resources::Resource;
pub use server::{Server, ServerBuilder};
pub use service::ApiService;
pub use status::{Cause, Failure};
pub use store::{Backup, ChangeKind};
pub use watch_faults::{Cut, EventRuleBuilder};
