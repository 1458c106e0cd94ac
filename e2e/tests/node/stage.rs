//! What all scenarios share: two nodes, ipgc on them, and the detector.

use std::{path::PathBuf, time::Duration};

use e2e::{
    Cluster, Error, Namespace, Result,
    control_plane::ADMIN,
    node::{Tier, detector::Detector},
    ours,
};
use serde_json::Value;
use tokio::process::Command;

/// How often the detector's book is compared with the audit log.
const COMPARE: Duration = Duration::from_secs(2);

/// An audit of a few pools takes a tenth of a second.
const AUDIT: Duration = Duration::from_secs(60);

/// Two nodes, ipgc, the detector.
pub struct Stage {
    // Dropped first: it looks into the nodes.
    pub detector: Detector,
    pub cluster: Cluster,
    /// Where whereabouts keeps pools and reservations.
    pub pools: Namespace,
    pub tier: Tier,
    program: PathBuf,
}

impl Stage {
    pub async fn new(program: Option<PathBuf>) -> Result<Self> {
        let program = match program {
            Some(program) => std::path::absolute(program).map_err(Error::io("find ipgc"))?,
            None => ours::static_program().await?,
        };
        let tier = Tier::start(2, None).await?;
        tier.install_ipgc(Some(&program)).await?;
        let cluster = Cluster::of(tier.plane()).await?;
        Ok(Self {
            detector: Detector::start(&tier).await?,
            pools: cluster.existing("kube-system")?,
            cluster,
            tier,
            program,
        })
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
        let kubeconfig = self.tier.plane().kubeconfig(ADMIN, "default")?;
        let mut command = Command::new(&self.program);
        command
            .args(["audit", "-o", "json", "--kubeconfig"])
            .arg(kubeconfig)
            .kill_on_drop(true);
        let answer = tokio::time::timeout(AUDIT, command.output())
            .await
            .map_err(|_| Error::Deadline {
                what: "ipgc audit".into(),
                after: AUDIT,
                state: "it still ran".into(),
            })?
            .map_err(Error::io("start ipgc audit"))?;
        // 1: something was found.
        if !matches!(answer.status.code(), Some(0 | 1)) {
            return Err(Error::Command {
                what: "ipgc audit".into(),
                status: answer.status.to_string(),
                output: String::from_utf8_lossy(&answer.stderr).into_owned(),
            });
        }
        let report: Value =
            serde_json::from_slice(&answer.stdout).map_err(Error::malformed("ipgc's audit"))?;
        let findings = report["findings"].as_array().cloned();
        findings.ok_or_else(|| Error::Malformed {
            what: "ipgc's audit".into(),
            why: format!("no findings in {report}"),
        })
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
                double.first.pod,
                double.second.node,
                double.second.pod,
                double.second.from
            );
        }
        println!(
            "rows that ipgc freed: {}",
            self.detector.frees().await?.len()
        );
        println!("ipgc audit at the end: {} findings", findings.len());
        let bad: Vec<&Value> = findings.iter().filter(|one| !harmless(one)).collect();
        if !bad.is_empty() {
            return Err(Error::Unsupported(format!("the last audit found {bad:#?}")));
        }
        Ok(())
    }

    /// After a failure: what ipgc said.
    pub fn keep_evidence(&self) {
        let logs = self.tier.ipgc_logs().unwrap_or_default();
        let lines: Vec<&str> = logs.lines().collect();
        let end = &lines[lines.len().saturating_sub(60)..];
        println!("--- the end of ipgc's logs ---\n{}", end.join("\n"));
    }
}

/// What an audit may find when every scenario is over: pools of definitions that a scenario deleted.
fn harmless(finding: &Value) -> bool {
    finding["problem"] == "pool-without-definition"
}
