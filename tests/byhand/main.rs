//! The decisions of a person: single addresses, whatever they wait for.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../common/mod.rs"]
mod common;
mod force;

use std::time::Duration;

use common::{
    NS, POOL, RANGE,
    nodes::{Beat, live_node, silent_node},
    reporting, reserve,
};
use ipgc::{
    byhand::{NotDone, Writer},
    core::evidence::Policy,
    snapshot::{
        Snapshot,
        live::{self, Scan},
    },
};
use serde_json::{Value, json};
use testkit::{Match, Server, Verb, fixtures};

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

/// Whether something was not done for a reason with these words.
fn says<T>(answer: &Result<T, NotDone>, words: &str) -> bool {
    matches!(answer, Err(NotDone::Kept(reason)) if reason.contains(words))
}

/// Keys of the rows of [`POOL`].
fn rows(server: &Server) -> Vec<String> {
    let pool = server.get("ippools", NS, POOL).unwrap();
    let rows = pool["spec"]["allocations"].as_object().unwrap();
    rows.keys().cloned().collect()
}

fn reservations(server: &Server) -> Vec<String> {
    let all = server.list("overlappingrangeipreservations");
    let names = all
        .iter()
        .map(|it| it["metadata"]["name"].as_str().unwrap());
    names.map(str::to_owned).collect()
}

/// The number of writes of the run, without events and access reviews.
fn writes(server: &Server) -> usize {
    server.requests().count(|request| {
        &*request.client == "ipgc"
            && !matches!(request.verb, Verb::Get | Verb::List | Verb::Watch)
            && !["events", "selfsubjectaccessreviews"].contains(&&*request.resource)
    })
}
