//! How a word of a command line may go on: names of pools, addresses and pods of the cluster that kubectl uses.
//!
//! It only reads. A cluster that does not answer soon has no candidates, and no error is said: a person is typing.

use std::{collections::BTreeSet, ffi::OsStr, time::Duration};

use clap::{Args as _, FromArgMatches as _};
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use ipgc_core::pool::ObservedPool;
use kube::{Api, api::ListParams};
use tokio::time::timeout;

use super::{block_on, cluster};
use crate::{api::IpPool, guard::read_only, snapshot::NOW};

/// A person does not wait longer.
const SOON: Duration = Duration::from_secs(3);

/// Pools that are looked at, and candidates: more of them nobody reads.
const MOST: u32 = 500;

#[derive(Clone, Copy)]
pub enum Wanted {
    /// As `namespace/name` or by the name alone.
    Pools,
    /// Those that have a row.
    Addresses,
    /// Both, and the pods in rows.
    All,
}

impl Wanted {
    pub fn completer(self) -> ArgValueCompleter {
        ArgValueCompleter::new(move |word: &OsStr| candidates(word, self))
    }
}

/// Flags by which the line names another cluster, or files. Names of the wrong cluster are worse than none.
const OTHERS: [&str; 5] = [
    "--kubeconfig",
    "--context",
    "--pool-namespace",
    "--file",
    "-f",
];

fn candidates(word: &OsStr, wanted: Wanted) -> Vec<CompletionCandidate> {
    let mut line = std::env::args_os();
    let names_another = |word: &str| OTHERS.iter().any(|flag| word.starts_with(flag));
    if line.any(|word| names_another(&word.to_string_lossy())) {
        return Vec::new();
    }
    let Some(word) = word.to_str() else {
        return Vec::new();
    };
    let found = block_on(async {
        let found = timeout(SOON, found(word, wanted)).await;
        found.map_err(|_| "the cluster does not answer".to_owned())?
    });
    let found = found.unwrap_or_default().into_iter();
    let found = found.take(MOST as usize);
    found.map(CompletionCandidate::new).collect()
}

/// The cluster as the variables of the flags name it.
fn of_variables() -> Result<cluster::Args, clap::Error> {
    let flags = cluster::Args::augment_args(clap::Command::new("ipgc"));
    cluster::Args::from_arg_matches(&flags.try_get_matches_from(["ipgc"])?)
}

/// Those that begin with the word.
async fn found(word: &str, wanted: Wanted) -> Result<BTreeSet<String>, String> {
    let cluster = of_variables().map_err(|error| error.to_string())?;
    let client = read_only(cluster.client().await?);
    let api = match cluster.pool_namespace() {
        Some(namespace) => Api::<IpPool>::namespaced(client, &namespace),
        None => Api::all(client),
    };
    let pools = api.list(&ListParams::default().limit(MOST)).await;
    let mut found = BTreeSet::new();
    let mut add = |name: String| {
        if name.starts_with(word) {
            found.insert(name);
        }
    };
    for pool in pools.map_err(|error| error.to_string())? {
        let text = serde_json::to_string(&pool).map_err(|error| error.to_string())?;
        let Ok(pool) = ObservedPool::parse(&text, NOW, |_| true) else {
            continue;
        };
        if !matches!(wanted, Wanted::Addresses) {
            add(pool.key().to_string());
            add(pool.key().name.clone());
        }
        if matches!(wanted, Wanted::Pools) {
            continue;
        }
        for row in pool.rows() {
            if let Some(address) = pool.address_of(row) {
                add(address.to_string());
            }
            // A text that names no pod may be anything.
            if let (Wanted::All, Ok(row)) = (wanted, row.content()) {
                add(row.podref.to_string());
            }
        }
    }
    Ok(found)
}
