//! How a word of a command line may go on: names of pools, addresses, pods, nodes and namespaces of the cluster that kubectl
//! uses.
//!
//! It only reads. A cluster that does not answer soon has no candidates, and no error is said: a person is typing.

use std::{collections::BTreeSet, ffi::OsStr, time::Duration};

use clap::{Args as _, FromArgMatches as _};
use clap_complete::{ArgValueCompleter, CompletionCandidate};
use ipgc_core::pool::ObservedPool;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::{Client, Resource, api::Request};
use tokio::time::timeout;

use super::{block_on, cluster};
use crate::{
    collect::{context::Context, pool_api::first_page},
    config::Config,
    guard::read_only,
    history::History,
    watch::Lean,
};

/// A person does not wait longer.
const SOON: Duration = Duration::from_secs(3);

/// More candidates nobody reads.
const MOST: usize = 500;

/// What `ipgc explain` takes for a node.
const NODE: &str = "node/";

#[derive(Clone, Copy)]
pub enum Wanted {
    /// As `namespace/name` or by the name alone.
    Pools,
    /// Those that have a row.
    Addresses,
    Nodes,
    Namespaces,
    /// Pools, addresses, the pods in rows, and nodes as `node/NAME`.
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
    let found = found.filter(|name| name.starts_with(word)).take(MOST);
    found.map(CompletionCandidate::new).collect()
}

/// The cluster as the variables of the flags name it.
fn of_variables() -> Result<cluster::Args, clap::Error> {
    let flags = cluster::Args::augment_args(clap::Command::new("ipgc"));
    cluster::Args::from_arg_matches(&flags.try_get_matches_from(["ipgc"])?)
}

/// Those that begin with the word, and maybe others.
async fn found(word: &str, wanted: Wanted) -> Result<BTreeSet<String>, String> {
    let cluster = of_variables().map_err(|error| error.to_string())?;
    let client = read_only(cluster.client().await?);
    let mut found = BTreeSet::new();
    match wanted {
        Wanted::Nodes => found.extend(names::<Node>(&client).await?),
        Wanted::Namespaces => found.extend(names::<Namespace>(&client).await?),
        Wanted::All if word.starts_with(NODE) => {
            let nodes = names::<Node>(&client).await?.into_iter();
            found.extend(nodes.map(|node| NODE.to_owned() + &node));
        }
        Wanted::All | Wanted::Pools | Wanted::Addresses => {
            found.extend(matches!(wanted, Wanted::All).then(|| NODE.to_owned()));
            let namespace = cluster.pool_namespace();
            let context = Context::new(client, Config::default());
            let mut next = Some(first_page());
            while let Some(page) = next.filter(|_| found.len() < MOST) {
                let page = context.pool_page(namespace.as_deref(), &page, |_| true);
                let page = page.await.map_err(|error| error.to_string())?;
                let readable = page.pools.iter().flatten();
                let words = readable.flat_map(|pool| words_of(pool, wanted));
                found.extend(words.filter(|it| it.starts_with(word)));
                next = page.next;
            }
        }
    }
    Ok(found)
}

async fn names<K>(client: &Client) -> Result<Vec<String>, String>
where
    K: Resource<DynamicType = ()> + Clone,
{
    let mut names = Vec::new();
    let add = |it: Lean| names.extend(it.metadata.name);
    let history = History::default();
    let read = history.read::<K, _>(client, None, Request::list_metadata, add);
    read.await.map_err(|error| error.to_string())?;
    Ok(names)
}

fn words_of(pool: &ObservedPool, wanted: Wanted) -> Vec<String> {
    let mut words = Vec::new();
    if !matches!(wanted, Wanted::Addresses) {
        words.extend([pool.key().to_string(), pool.key().name.clone()]);
    }
    if matches!(wanted, Wanted::Pools) {
        return words;
    }
    for row in pool.rows() {
        words.extend(pool.address_of(row).map(|address| address.to_string()));
        // A text that names no pod may be anything.
        if let (Wanted::All, Ok(row)) = (wanted, row.content()) {
            words.push(row.podref.to_string());
        }
    }
    words
}
