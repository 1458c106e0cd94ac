//! Reads the addresses in all pods' network namespaces, several times a second, as long as the tier is up.
//!
//! An address is in use as long as it is in some namespace, even if the API has no such pod. ipgc must never let
//! such an address be given out twice. Two namespaces with one address are a *double*. When ipgc removed
//! the address's row after the first had it and before the second was seen with it, the double is of our
//! making, and the run fails. All others are whereabouts' own (a same-name successor adopts the row of a
//! sandbox that still lives, DEL frees the row before the interface is gone): counted and shown.
//!
//! The networks of the scenarios do not overlap, so an address by itself names its network.

mod holding;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs::{self, DirEntry},
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use jiff::Timestamp;
use kube::Client;

pub use self::holding::{Bearer, Double, Holding};
use super::{
    Machine, Tier,
    frees::{self, Free},
    namespaces::enter_network,
};
use crate::{
    Error, Result,
    audit::{AuditLog, Mark},
    process::lock,
};

/// Between two looks: a sandbox lives for a second at the least, and a look costs milliseconds.
const PERIOD: Duration = Duration::from_millis(150);

/// A detector that has not looked for so long sees nothing any more.
const BLIND: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
struct Seen {
    addresses: BTreeMap<IpAddr, Vec<Holding>>,
    /// Doubles by address, namespace and namespace; each once, however long it lasts.
    doubles: BTreeMap<(IpAddr, String, String), Double>,
    /// A look that failed: the detector must not go blind unnoticed.
    failure: Option<String>,
    /// The last look, and how many there were.
    looked: Option<Timestamp>,
    looks: u64,
}

/// The detector. It looks until it is dropped.
pub struct Detector {
    seen: Arc<Mutex<Seen>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    client: Client,
    audit: AuditLog,
    /// The rows that were freed so far, and how far the audit log has been read.
    book: tokio::sync::Mutex<(Vec<Free>, Mark)>,
}

impl Detector {
    /// Begins to look at all nodes of the tier.
    pub async fn start(tier: &Tier) -> Result<Self> {
        let nodes = tier.nodes().to_vec();
        let seen = Arc::new(Mutex::new(Seen {
            looked: Some(Timestamp::now()),
            ..Seen::default()
        }));
        let stop = Arc::<AtomicBool>::default();
        let thread = {
            let (seen, stop) = (Arc::clone(&seen), Arc::clone(&stop));
            // A thread of its own: it goes from namespace to namespace and never comes back.
            thread::Builder::new()
                .name("detector".into())
                .spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        look(&nodes, &seen);
                        thread::sleep(PERIOD);
                    }
                })?
        };
        let audit = tier.plane().audit();
        Ok(Self {
            seen,
            stop,
            thread: Some(thread),
            client: tier.plane().admin().await?,
            book: tokio::sync::Mutex::new((Vec::new(), audit.mark()?)),
            audit,
        })
    }

    /// How often it has looked.
    pub fn looks(&self) -> u64 {
        self.seen().looks
    }

    /// The pods' namespaces that have an address now.
    pub fn holders(&self, address: IpAddr) -> Vec<Holding> {
        let mut holders = self
            .seen()
            .addresses
            .get(&address)
            .cloned()
            .unwrap_or_default();
        holders.retain(|holding| holding.there);
        holders
    }

    /// All rows that ipgc freed since the beginning.
    pub async fn frees(&self) -> Result<Vec<Free>> {
        let mut book = self.book.lock().await;
        let (new, mark) = frees::follow(&self.client, &self.audit, book.1).await?;
        book.0.extend(new);
        book.1 = mark;
        Ok(book.0.clone())
    }

    /// The doubles that whereabouts made by itself; an error for the first one of our making, or when an
    /// address was freed that a sandbox still had.
    pub async fn check(&self) -> Result<Vec<Double>> {
        let frees = self.frees().await?;
        let (doubles, failure, looked) = {
            let seen = self.seen();
            let all: Vec<Double> = seen.doubles.values().cloned().collect();
            (all, seen.failure.clone(), seen.looked)
        };
        let age = looked.map(|looked| Timestamp::now().duration_since(looked).unsigned_abs());
        if let Some(age) = age.filter(|age| *age > BLIND) {
            return Err(Error::Other(format!(
                "the detector is blind: it looked {age:?} ago"
            )));
        }
        if let Some(failure) = failure {
            return Err(Error::Other(format!("the detector is blind: {failure}")));
        }
        for double in &doubles {
            let ours = frees.iter().find(|free| double.is_made_by(free));
            if let Some(free) = ours {
                return Err(Error::Other(format!(
                    "{} is doubled after a free of ours:\n{}",
                    double.address,
                    self.timeline(double.address, &frees, Some(free))
                )));
            }
        }
        // A free while the address answers is wrong even if nobody was given it yet.
        for free in &frees {
            let holdings = self.seen().addresses.get(&free.address).cloned();
            let mut holdings = holdings.into_iter().flatten();
            let answering = holdings.find(|holding| holding.is_wronged_by(free));
            if let Some(holding) = answering {
                return Err(Error::Other(format!(
                    "{} was freed while {holding:?} answered:\n{}",
                    free.address,
                    self.timeline(free.address, &frees, Some(free))
                )));
            }
        }
        Ok(doubles)
    }

    /// The history of an address, in order.
    pub fn timeline(&self, address: IpAddr, frees: &[Free], culprit: Option<&Free>) -> String {
        let mut lines = BTreeSet::new();
        if let Some(holdings) = self.seen().addresses.get(&address) {
            for one in holdings {
                let who = format!("{} {} {}", one.node, one.namespace, one.who());
                lines.insert((one.from, format!("appears in {who}")));
                if !one.there {
                    lines.insert((one.to, format!("last seen in {who}")));
                }
            }
        }
        for free in frees.iter().filter(|free| free.address == address) {
            let wrong = culprit.is_some_and(|culprit| culprit.at == free.at);
            let mark = if wrong { "  <== wrong" } else { "" };
            let line = format!("ipgc frees it in {}: {}{mark}", free.pool, free.row);
            lines.insert((free.at, line));
        }
        let mut text = String::new();
        for (at, line) in lines {
            // Writing to a String does not fail.
            writeln!(text, "  {at} {line}").ok();
        }
        text
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.seen)
    }
}

impl Drop for Detector {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Looks once into all namespaces of all nodes.
fn look(nodes: &[Arc<Machine>], seen: &Mutex<Seen>) {
    // The time of the beginning: an address that is gone by the end of the look was seen no later than this.
    let now = Timestamp::now();
    let mut found = Vec::new();
    let mut failure = None;
    for node in nodes {
        // One that is powered off has nothing that could answer.
        let Ok(namespaces) = node.namespaces() else {
            continue;
        };
        let root = namespaces.path("");
        let listed = fs::read_dir(root.join("run/netns")).and_then(Iterator::collect);
        let entries: Vec<DirEntry> = match listed {
            Ok(entries) => entries,
            // No pod yet, or the node is being powered off.
            Err(error) if coming_or_going(&error) => continue,
            Err(error) => {
                failure = Some(format!("{}: {error}", root.display()));
                continue;
            }
        };
        for entry in entries {
            let path = entry.path();
            match addresses(&path) {
                Ok(addresses) => {
                    let name = entry.file_name().to_string_lossy().into_owned();
                    found.push((node.name(), root.clone(), name, addresses));
                }
                Err(error) if error.io().is_some_and(coming_or_going) => {}
                Err(error) => failure = Some(format!("{}: {error}", path.display())),
            }
        }
    }
    let mut seen = lock(seen);
    seen.looked = Some(now);
    seen.looks += 1;
    for holding in seen.addresses.values_mut().flatten() {
        holding.there = false;
    }
    let mut pods = BTreeMap::new();
    for (node, root, namespace, addresses) in found {
        for address in addresses {
            let holdings = seen.addresses.entry(address).or_default();
            let known = holdings
                .iter_mut()
                .find(|one| one.namespace == namespace && one.node == node);
            let mut pod = || {
                pods.entry(root.clone())
                    .or_insert_with(|| pods_of(&root))
                    .get(&namespace)
                    .cloned()
            };
            if let Some(known) = known {
                known.to = now;
                known.there = true;
                if known.pod.is_none() {
                    known.pod = pod();
                }
            } else {
                holdings.push(Holding {
                    node: node.to_owned(),
                    namespace: namespace.clone(),
                    pod: pod(),
                    from: now,
                    to: now,
                    there: true,
                });
            }
        }
    }
    let mut doubles = Vec::new();
    for (address, holdings) in &seen.addresses {
        let mut there: Vec<&Holding> = holdings.iter().filter(|one| one.there).collect();
        there.sort_by_key(|one| one.from);
        for pair in there.windows(2) {
            doubles.push(Double {
                address: *address,
                first: pair[0].clone(),
                second: pair[1].clone(),
            });
        }
    }
    for double in doubles {
        let key = (
            double.address,
            double.first.namespace.clone(),
            double.second.namespace.clone(),
        );
        seen.doubles.insert(key, double);
    }
    if let Some(failure) = failure {
        seen.failure.get_or_insert(failure);
    }
}

/// The addresses of a namespace, but for those that every one has. Moves the thread into it.
fn addresses(namespace: &Path) -> Result<BTreeSet<IpAddr>> {
    enter_network(namespace)?;
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    let mut found = BTreeSet::new();
    // The routing table of what is local: an address on one line, `/32 host LOCAL` on the next.
    let table = read("fib_trie")?;
    let mut last = "";
    for line in table.lines().map(str::trim) {
        if line == "/32 host LOCAL"
            && let Some(address) = last
                .strip_prefix("|-- ")
                .and_then(|text| text.parse::<Ipv4Addr>().ok())
            && !address.is_loopback()
        {
            found.insert(IpAddr::V4(address));
        }
        last = line;
    }
    let table = match read("if_inet6") {
        // No IPv6 in this kernel.
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        table => table?,
    };
    // 32 hex digits without colons, then index, prefix, scope, flags, device.
    for line in table.lines() {
        let digits = line.split_whitespace().next().unwrap_or_default();
        if let Ok(bits) = u128::from_str_radix(digits, 16) {
            let address = Ipv6Addr::from_bits(bits);
            if !address.is_loopback() && !address.is_unicast_link_local() {
                found.insert(IpAddr::V6(address));
            }
        }
    }
    Ok(found)
}

/// Whether this is what a namespace's file gives before it is mounted (an empty file) or after (none), and
/// the folder of a node that is gone.
fn coming_or_going(error: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    const EINVAL: i32 = 22;
    error.kind() == io::ErrorKind::NotFound || matches!(error.raw_os_error(), Some(ESRCH | EINVAL))
}

/// Pods by the name of their namespace, as the runtime describes their sandboxes. One that is still being
/// set up is not described yet.
fn pods_of(root: &Path) -> BTreeMap<String, Bearer> {
    let sandboxes = root.join("run/containerd/io.containerd.runtime.v2.task/k8s.io");
    let mut pods = BTreeMap::new();
    for entry in fs::read_dir(sandboxes).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path().join("config.json")).unwrap_or_default();
        let Ok(described) = serde_json::from_str::<serde_json::Value>(&text) else {
            continue;
        };
        let note = |name: &str| {
            let note = described["annotations"][format!("io.kubernetes.cri.{name}")].as_str();
            note.unwrap_or_default()
        };
        if note("container-type") != "sandbox" {
            continue;
        }
        let mut namespaces = described["linux"]["namespaces"]
            .as_array()
            .into_iter()
            .flatten();
        let network = namespaces.find(|one| one["type"] == "network");
        let path = network.and_then(|one| one["path"].as_str());
        if let Some(name) = path.and_then(|path| path.rsplit('/').next()) {
            let pod = Bearer {
                pod: format!("{}/{}", note("sandbox-namespace"), note("sandbox-name")),
                sandbox: note("sandbox-id").to_owned(),
            };
            pods.insert(name.to_owned(), pod);
        }
    }
    pods
}
