//! The stage that all scenarios share: two nodes with ipgc, one for the scenario that runs first, and the detector.

use std::{
    path::PathBuf,
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use e2e::{
    Cluster, Error, Namespace, Result,
    node::{Machine, REGISTRY, Tier, detector::Detector},
    ours,
    process::within,
};
use rand::RngExt as _;
use serde_json::Value;
use tokio::sync::Notify;

use crate::{
    release::Artifacts,
    support::{SWEEP, witnessed},
};

/// How often the detector's book is compared with the audit log.
const COMPARE: Duration = Duration::from_secs(2);

/// An audit of a few pools takes a tenth of a second.
const AUDIT: Duration = Duration::from_secs(60);

/// Time in which ipgc is killed again and again. A killed ipgc forgets the ends that it witnessed, so no row
/// that needs a wait is freed before this time is over.
const FIRE: Duration = Duration::from_secs(240);

/// The nodes, ipgc, the detector.
pub struct Stage {
    // Dropped first: it looks into the nodes.
    pub detector: Detector,
    pub cluster: Cluster,
    /// Where whereabouts keeps pools and reservations.
    pub pools: Namespace,
    pub tier: Tier,
    /// Of a release.
    pub artifacts: Option<Artifacts>,
    /// Told by the scenario that runs first, once it has killed ipgc.
    pub others_may_begin: Notify,
    program: PathBuf,
    under_fire: AtomicBool,
}

impl Stage {
    pub async fn new(program: Option<PathBuf>) -> Result<Self> {
        let program = match program {
            Some(program) => std::path::absolute(program)?,
            None => ours::static_program().await?,
        };
        let stage = Self::with(program, None, 3).await?;
        // No pod gets there that does not ask for it.
        let taint = ["taint", "node", stage.victim().name(), "victim:NoSchedule"];
        stage.cluster.kubectl(taint).await?;
        stage.tier.install_ipgc(Some(&stage.program)).await?;
        Ok(stage)
    }

    /// With the artifacts of a release, and without ipgc: the scenario installs it.
    pub async fn of_release() -> Result<Self> {
        let artifacts = Artifacts::new().await?;
        let program = artifacts.program();
        let stage = Self::with(program, Some(artifacts), 2).await?;
        Ok(stage)
    }

    async fn with(program: PathBuf, artifacts: Option<Artifacts>, nodes: usize) -> Result<Self> {
        let tier = Tier::start(nodes, None).await?;
        if let Some(artifacts) = &artifacts {
            tier.hub().forward(REGISTRY, artifacts.port())?;
        }
        let cluster = Cluster::of(tier.plane()).await?;
        Ok(Self {
            artifacts,
            detector: Detector::start(&tier).await?,
            pools: cluster.existing("kube-system"),
            cluster,
            tier,
            others_may_begin: Notify::new(),
            program,
            under_fire: AtomicBool::new(false),
        })
    }

    /// The node that is silent while other scenarios run on the first two. ipgc does not run there.
    pub fn victim(&self) -> &Machine {
        &self.tier.nodes()[2]
    }

    /// Kills ipgc at random moments for as long as [`FIRE`], and then never returns. From now on rows may
    /// go much later.
    pub async fn fire(&self) -> Error {
        self.under_fire.store(true, Ordering::Relaxed);
        let shoot = async {
            for round in 0_usize.. {
                let pause = rand::rng().random_range(2..30);
                tokio::time::sleep(Duration::from_secs(pause)).await;
                let killed = self.tier.kill_ipgc().await?;
                println!("     fire: {killed} processes of ipgc killed");
                if round % 2 == 1 {
                    // The kubelets back off before they start what ended so often; new pods start at once.
                    self.renew_ipgc().await?;
                }
            }
            Ok::<(), Error>(())
        };
        if let Ok(Err(error)) = tokio::time::timeout(FIRE, shoot).await {
            return error;
        }
        if let Err(error) = self.renew_ipgc().await {
            return error;
        }
        println!("     fire: over");
        std::future::pending().await
    }

    /// New pods of ipgc in the place of those that are there.
    pub async fn renew_ipgc(&self) -> Result<()> {
        // One whose kubelet is dead stays.
        let all = [
            "delete",
            "pods",
            "--all",
            "--wait=false",
            "--namespace=ipgc-system",
        ];
        self.cluster.kubectl(all).await?;
        Ok(())
    }

    /// Whether ipgc is, or was, killed while the scenarios ran.
    pub fn under_fire(&self) -> bool {
        self.under_fire.load(Ordering::Relaxed)
    }

    /// How much later rows may go because of that.
    pub fn delay(&self) -> Duration {
        if self.under_fire() {
            FIRE + SWEEP + witnessed(2) * 2
        } else {
            Duration::ZERO
        }
    }

    /// Returns when ipgc has freed what it must not, never otherwise.
    pub async fn wrong_free(&self) -> Error {
        loop {
            tokio::time::sleep(COMPARE).await;
            if let Err(error) = self.detector.check().await {
                return error;
            }
        }
    }

    /// The findings of `ipgc audit` on the whole cluster.
    pub async fn audit(&self) -> Result<Vec<Value>> {
        let kubeconfig = self.tier.plane().kubeconfig()?;
        let mut command = Command::new(&self.program);
        command
            .args(["audit", "-o", "json", "--kubeconfig"])
            .arg(kubeconfig);
        let answer = within("ipgc audit", command, AUDIT).await?;
        // 1: something was found.
        if !matches!(answer.status.code(), Some(0 | 1)) {
            let said = String::from_utf8_lossy(&answer.stderr);
            return Err(Error::Other(format!(
                "ipgc audit: {}: {said}",
                answer.status
            )));
        }
        let report: Value = serde_json::from_slice(&answer.stdout)?;
        let findings = report["findings"].as_array().cloned();
        findings.ok_or_else(|| Error::Other(format!("no findings in {report}")))
    }

    /// Says what the detector saw, and takes all down.
    pub async fn end(&self) -> Result<()> {
        let findings = self.audit().await?;
        let doubles = self.detector.check().await?;
        println!("detector: {} looks", self.detector.looks());
        println!(
            "detector: {} doubles of whereabouts' own making",
            doubles.len()
        );
        for double in &doubles {
            println!(
                "  {}: {} {} and {} {}, from {}",
                double.address,
                double.first.node,
                double.first.who(),
                double.second.node,
                double.second.who(),
                double.second.from
            );
        }
        println!(
            "rows that ipgc freed: {}",
            self.detector.frees().await?.len()
        );
        println!("ipgc audit at the end: {} findings", findings.len());
        for one in &findings {
            println!("  {} {}: {}", one["problem"], one["pool"], one["detail"]);
        }
        let bad: Vec<&Value> = findings.iter().filter(|one| !harmless(one)).collect();
        if !bad.is_empty() {
            return Err(Error::Other(format!("the last audit found {bad:#?}")));
        }
        Ok(())
    }

    /// Prints the logs of ipgc after a failure.
    pub fn keep_evidence(&self) {
        let logs = self.tier.ipgc_logs().unwrap_or_default();
        let lines: Vec<&str> = logs.lines().collect();
        let end = &lines[lines.len().saturating_sub(60)..];
        println!("--- the end of ipgc's logs ---\n{}", end.join("\n"));
    }
}

/// The findings that an audit may have when every scenario is over: pools of definitions that a scenario deleted.
fn harmless(finding: &Value) -> bool {
    finding["problem"] == "pool-without-definition"
}
