//! The decisions of a person: single addresses, whatever they wait for.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../common/mod.rs"]
mod common;
mod force;
mod unreadable;

use std::time::Duration;

use common::{
    NS, ORIP, POOL, RANGE,
    nodes::{Beat, live_node, silent_node},
    reporting, reservations, reserve, rows,
};
use ipgc::{
    byhand::{
        NotDone, Writer,
        force::{Forced, Subject, at},
    },
    core::{evidence::Policy, judge::Stale, work::Wanted},
    snapshot::{
        Snapshot,
        live::{self, Scan},
    },
};
use serde_json::{Value, json};
use testkit::{Match, Server, Verb, fixtures};

/// Longer than a request, and shorter than the wait is elsewhere.
const ADD_BUDGET: Duration = Duration::from_secs(20);

fn policy() -> Policy {
    Policy {
        add_budget: ADD_BUDGET,
        ..Policy::default()
    }
}

fn find(snapshot: &Snapshot, address: &str, pool: Option<&str>) -> Result<Forced, String> {
    at(snapshot, &Policy::default(), address.parse().unwrap(), pool)
}

async fn forced(server: &Server, address: &str) -> Result<Forced, String> {
    find(&look(server).await, address, None)
}

/// What is at an address, which can be judged.
async fn pick(server: &Server, address: &str) -> Forced {
    let found = forced(server, address).await.unwrap();
    assert!(found.is_readable, "{found:?}");
    found
}

/// Frees it, but for its reservation.
async fn begin(server: &Server, it: &Forced) -> Result<Option<(Stale, Wanted)>, NotDone> {
    writer(server, policy()).free(it, false).await
}

/// Frees it; how many reservations were deleted.
async fn free(server: &Server, it: &Forced) -> Result<usize, NotDone> {
    let writer = writer(server, policy());
    match writer.free(it, false).await? {
        Some((_, reservation)) => writer.release(&it.pool, reservation).await,
        None => Ok(0),
    }
}

/// A room with a row that cannot be read, and what is found of it.
async fn with_unreadable(row: Value) -> (Server, Forced) {
    let (server, _beat) = room(&[]);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"] = json!({ "5": row });
    });
    let found = forced(&server, "10.0.0.5").await.unwrap();
    assert!(!found.is_readable, "{found:?}");
    (server, found)
}

/// A server with a definition, a pool of these rows with reservations, and a node that is at work.
fn room(rows: &[(u64, &str)]) -> (Server, Beat) {
    let server = common::server();
    for (namespace, name) in [("kube-system", "dns"), (NS, "idle")] {
        let pod = fixtures::pod(namespace, name).node("node-1");
        server.put(pod.running());
    }
    common::put_pool(&server, rows);
    let beat = live_node(&server, "node-1");
    (server, beat)
}

async fn look(server: &Server) -> Snapshot {
    let (client, scan) = (server.client_named("audit"), Scan::default());
    live::read(&client, &scan).await.unwrap()
}

fn writer(server: &Server, policy: Policy) -> Writer {
    Writer::new(&server.client_named("ipgc"), policy, None)
}

/// It was not done for a reason with these words.
#[track_caller]
fn assert_kept(answer: &Result<usize, NotDone>, words: &str) {
    let says = matches!(answer, Err(NotDone::Kept(reason)) if reason.contains(words));
    assert!(says, "{answer:?}");
}

/// It was not done, since it is gone or has changed.
#[track_caller]
fn assert_gone(answer: &Result<usize, NotDone>) {
    assert!(matches!(answer, Err(NotDone::Gone)), "{answer:?}");
}

/// The numbers of rows and reservations.
fn left(server: &Server) -> (usize, usize) {
    (rows(server, POOL).len(), reservations(server).len())
}

/// The number of writes of the run, without events and access reviews.
fn writes(server: &Server) -> usize {
    server.requests().count(|request| {
        &*request.client == "ipgc"
            && !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch)
            && !["events", "selfsubjectaccessreviews"].contains(&&*request.resource)
    })
}
