//! The stage of a scene: two API servers on one store, of which one lags, a proxy before both, and `ipgc run` that
//! knows the proxy alone.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::proxy::Proxy;
use crate::{
    Result,
    bench::{
        seed::Heartbeats,
        stage::{Collector, Servers, Stage},
    },
    ours::{Ipgc, static_program},
    process::Process,
};

/// How many nodes there are, and how often each renews its Lease.
pub const NODES: usize = 4;
const BEAT: Duration = Duration::from_secs(2);

/// Servers, and ipgc's way to them.
pub struct Behind {
    pub proxy: Proxy,
    pub stage: Stage,
    // Until the end of the scene.
    _second: Process,
    begun: Instant,
}

impl Behind {
    /// Starts all but ipgc.
    pub async fn new() -> Result<Self> {
        let begun = Instant::now();
        let servers = Servers::start(false).await?;
        let (second, url) = servers.plane.another_api_server().await?;
        let proxy = Proxy::start(&servers.plane, &url).await?;
        // The program is given when it is started.
        let stage = Stage::on(servers.into(), Path::new("")).await?;
        Ok(Self {
            proxy,
            stage,
            _second: second,
            begun,
        })
    }

    /// Starts ipgc in calm weather, and waits for its first sweep.
    pub async fn start(&self, program: &Path, args: &[&str]) -> Result<Collector> {
        let access = self.stage.account.clone().by_way_of(self.proxy.url());
        let collector = self.stage.start_by(|settings| {
            Ipgc::start_program(program, &self.stage.cluster, &access, args, settings)
        })?;
        collector.swept(1).await?;
        self.say("ipgc has swept");
        Ok(collector)
    }

    /// The nodes' kubelets, as far as their Leases.
    pub async fn beats(&self, nodes: usize) -> Result<Heartbeats> {
        let client = self.stage.client("kubelet").await?;
        Ok(Heartbeats::start(client, nodes, BEAT))
    }

    /// Tells the person who waits what happens now.
    pub fn say(&self, what: &str) {
        eprintln!("{:>5} s  {what}", self.begun.elapsed().as_secs());
    }

    /// Ends it all. Something wrong is an error, with the end of ipgc's log.
    pub async fn end(self, collector: Collector, wrong: Vec<String>) -> Result<()> {
        if !wrong.is_empty() {
            return Err(collector.fault(wrong.join("\n")));
        }
        collector.stop().await?;
        self.stage.stop().await
    }
}

/// The ipgc that a person gave, or the static one.
pub async fn program(given: Option<PathBuf>) -> Result<PathBuf> {
    match given {
        Some(given) => Ok(given),
        None => static_program().await,
    }
}
