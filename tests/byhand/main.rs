//! The decisions of a person: rows of a report, and single addresses.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../common/mod.rs"]
mod common;
mod force;
mod reading;
mod report;
mod reservations;

use std::{future::pending, sync::Arc, time::Duration};

use common::{
    NS, POOL, RANGE,
    nodes::{Beat, W, live_node, silent_node},
    reporting, reserve, seconds,
};
use ipgc::{
    audit::{
        audit,
        filter::Filter,
        report::{Report, Source},
    },
    byhand::{Fate, NotDone, Pick, Picked, release::release, report::picks},
    config::Config,
    core::{breaker::Limits, evidence::Policy, judge::Cause, time::Moment},
    snapshot::{
        Snapshot,
        live::{self, Scan},
    },
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use testkit::{Failure, Match, Server, Verb, fixtures};
use tokio::time::Instant;

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

/// The report of `ipgc audit`, as if it had been made so long ago.
async fn reported(server: &Server, ago: Duration) -> Report {
    let made = Timestamp::now() - SignedDuration::try_from(ago).unwrap();
    let (policy, all) = (Policy::default(), Filter::default());
    let snapshot = look(server).await;
    audit(&snapshot, &policy, &all, Source::Cluster, made.to_string())
}

/// A release that has ended.
struct Released {
    picked: Arc<Picked>,
    result: Result<(), String>,
    /// The results that were reported, in their order.
    told: Vec<(String, Fate)>,
    took: Duration,
}

impl Released {
    /// The fates by address.
    fn fates(&self) -> Vec<(String, Fate)> {
        let picks = self.picked.picks().iter();
        let address = picks.map(|pick| pick.address.to_string());
        address.zip(self.picked.fates()).collect()
    }

    /// The only fate.
    fn only(&self) -> Fate {
        let [(_, fate)] = &self.fates()[..] else {
            panic!("{:?}", self.fates());
        };
        fate.clone()
    }
}

/// Without the wait for ADDs that are at work, which is not the subject here.
fn config() -> Config {
    let mut config = Config {
        sweep_interval: Duration::from_mins(1),
        ..Config::default()
    };
    config.policy.add_budget = Duration::from_secs(1);
    config
}

async fn run(server: &Server, picked: Picked, config: Config) -> Released {
    run_for(server, picked, config, Duration::from_mins(20)).await
}

async fn run_for(server: &Server, picked: Picked, config: Config, most: Duration) -> Released {
    let client = server.client_named("ipgc");
    let picked = Arc::new(picked);
    let mut told = Vec::new();
    let begun = Instant::now();
    let tell = |pick: &Pick, fate: &Fate, _: Moment| {
        told.push((pick.address.to_string(), fate.clone()));
    };
    let clients = (client.clone(), client);
    let result = release(clients, config, &picked, most, pending(), tell).await;
    Released {
        picked,
        result,
        told,
        took: begun.elapsed(),
    }
}

fn is_freed(fate: &Fate) -> bool {
    matches!(fate, Fate::Done(_))
}

/// Whether something was not done for a reason with these words.
fn says<T>(answer: &Result<T, NotDone>, words: &str) -> bool {
    matches!(answer, Err(NotDone::Kept(reason)) if reason.contains(words))
}

/// Why it was kept.
fn why_kept(fate: &Fate) -> &str {
    match fate {
        Fate::Kept(reason) => reason,
        other => panic!("{other:?}"),
    }
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
