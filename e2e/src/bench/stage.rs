//! The stage of a scene: servers, the account of the manifests, and `ipgc` as a process that
//! is measured from outside.

use std::{
    cell::Cell,
    fs,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use k8s_openapi::jiff::Timestamp;
use kube::{Client, Config};

use super::{
    measure::Meter, population::Population, raw, requests::Ours, seed::Seeder, watch::Emptied,
};
use crate::{
    Cluster, ControlPlane, Error, Namespace, Options, Result,
    access::Access,
    audit::{AuditLog, Mark},
    node::install::NAMESPACE,
    nodes::Heartbeats,
    ours::{self, Ipgc},
    wait::{self, Probe},
};

/// A hundred thousand pods are listed in seconds; this is for a machine that does something else as well.
const START: Duration = Duration::from_secs(180);

/// Promised time from SIGTERM to the end, twice.
const STOP: Duration = Duration::from_secs(20);

/// Running servers, the manifests applied, and what a scene needs on them.
pub struct Stage {
    pub plane: ControlPlane,
    pub cluster: Cluster,
    pub namespace: Namespace,
    pub seeder: Seeder,
    /// The way of ipgc to the API server.
    pub access: Access,
    program: PathBuf,
    /// Populations so far.
    populations: Cell<usize>,
}

impl Stage {
    /// Starts servers, for this binary.
    pub async fn new(program: &Path) -> Result<Self> {
        let plane = ControlPlane::start(Options::default()).await?;
        let cluster = Cluster::of(&plane).await?;
        cluster.apply_manifests().await?;
        Ok(Self {
            access: ours::account(&plane).await?,
            seeder: Seeder::of(&plane).await?,
            namespace: cluster.namespace("bench").await?,
            plane,
            cluster,
            program: program.to_owned(),
            populations: Cell::default(),
        })
    }

    /// A population of so many pods in the stage's namespace.
    pub fn population(&self, pods: usize) -> Population {
        self.population_in(&self.namespace, pods)
    }

    /// The same in another namespace. No two populations on the same servers share addresses.
    pub fn population_in(&self, namespace: &Namespace, pods: usize) -> Population {
        let mut population = Population::new(&namespace.name, pods);
        population.block += self.populations.get();
        self.populations.update(|number| number + 1);
        population
    }

    /// A new client with all rights, under a name of its own.
    pub async fn client(&self, user_agent: &str) -> Result<Client> {
        self.cluster.client_named(user_agent).await
    }

    /// The API server's costs.
    pub fn api_server(&self) -> Meter {
        Meter::of(&self.plane.api_server())
    }

    /// The kubelets of nodes, as far as their Leases, of which each is renewed so often.
    pub async fn beats(&self, nodes: usize, interval: Duration) -> Result<Heartbeats> {
        let names = (0..nodes).map(Population::node).collect();
        let client = self.client("kubelet").await?;
        Ok(Heartbeats::start(client, names, interval))
    }

    /// Starts `ipgc run` with these flags.
    pub fn start(&self, args: &[&str]) -> Result<Collector> {
        let begun = Timestamp::now();
        // As the manifests run it, on a port that is free.
        let admin = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr())?;
        let settings = [
            ("LEADER_ELECT", "true"),
            ("LEASE_NAMESPACE", NAMESPACE),
            ("LISTEN", &admin.to_string()),
        ];
        let (program, cluster) = (&self.program, &self.cluster);
        Ok(Collector {
            process: Ipgc::start_program(program, cluster, &self.access, args, &settings)?,
            admin,
            begun,
            audit: self.plane.audit(),
        })
    }

    /// Starts it and waits until it is ready and its first sweep has ended.
    pub async fn started(&self, args: &[&str]) -> Result<Collector> {
        let collector = self.start(args)?;
        collector.swept(1).await?;
        Ok(collector)
    }

    /// Ends the servers.
    pub async fn stop(self) -> Result<()> {
        self.plane.stop().await
    }
}

/// A running `ipgc`.
pub struct Collector {
    process: Ipgc,
    admin: SocketAddr,
    begun: Timestamp,
    audit: AuditLog,
}

impl Collector {
    /// Its costs.
    pub fn meter(&self) -> Meter {
        Meter::of(self.process.process())
    }

    /// Reads its metrics, as Prometheus does.
    pub async fn scrape(&self) -> Result<String> {
        let url = format!("http://{}", self.admin);
        let config = Config::new(url.parse()?);
        let client = Client::try_from(config)?;
        raw::get(&client, "/metrics").await
    }

    /// Waits for its word that it is ready. Returns how long after its start it said so.
    pub async fn ready(&self) -> Result<Duration> {
        let line = self.line(": ready", 1).await?;
        let stamp = line.split_whitespace().next().unwrap_or_default();
        let time: Timestamp = stamp.parse()?;
        Ok(Duration::try_from(time.duration_since(self.begun)).unwrap_or_default())
    }

    /// Waits until so many sweeps have ended since the start. Returns the line of the last of them.
    pub async fn swept(&self, times: usize) -> Result<String> {
        self.line(": sweep ended", times).await
    }

    /// How many sweeps have ended.
    pub fn sweeps(&self) -> Result<usize> {
        Ok(self.log()?.matches(": sweep ended").count())
    }

    /// Its requests since a mark, watches and events apart.
    pub fn requests(&self, mark: Mark) -> Result<Ours> {
        Ours::since(&self.audit, mark)
    }

    /// Waits until its log has so many lines with these words, and returns the last of them.
    async fn line(&self, words: &str, times: usize) -> Result<String> {
        let what = format!("ipgc to say {words:?} {times} times");
        let waited = wait::until(&what, START, || async {
            let log = self.log()?;
            let mut found = log.lines().filter(|line| line.contains(words));
            if let Some(line) = found.nth(times.saturating_sub(1)) {
                return Ok(Probe::Done(line.to_owned()));
            }
            self.process.still_up()?;
            Ok(Probe::NotYet("it did not".to_owned()))
        });
        self.process.process().started(waited.await)
    }

    /// The error for something that it did not do in time, with the end of its log.
    fn late(&self, what: &str) -> Error {
        self.fault(format!("it did not {what} in time"))
    }

    /// The error for something that is wrong with it, with the end of its log.
    pub fn fault(&self, why: String) -> Error {
        self.process.process().start_error(why)
    }

    /// Waits for something that it is to do, and fails with the end of its log.
    pub async fn within<T>(
        &self,
        deadline: Duration,
        what: &str,
        done: impl Future<Output = T>,
    ) -> Result<T> {
        let done = tokio::time::timeout(deadline, done).await;
        done.map_err(|_| self.late(what))
    }

    /// Waits until rows or reservations are gone, and returns when that was.
    pub async fn freed(&self, emptied: Emptied, deadline: Duration) -> Result<Instant> {
        let freed = emptied.within(deadline).await;
        freed.map_err(|error| self.late(&format!("free all: {error}")))
    }

    /// Ends it in order, and returns the end of its log, which has all counters.
    pub async fn stop(self) -> Result<String> {
        let (status, _, log) = self.process.terminate(STOP).await?;
        if status.success() {
            return Ok(log);
        }
        Err(Error::Other(format!("ipgc run failed ({status}):\n{log}")))
    }

    fn log(&self) -> Result<String> {
        let path = self.process.process().log();
        Ok(fs::read_to_string(path)?)
    }
}
