//! ipgc as its users run it: applied by `kubectl apply -k`, its image on the nodes, its own account.

use std::{fs, path::Path, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::ListParams};

use super::{Tier, image};
use crate::{Cluster, Error, Result, ours};

/// The namespace of the manifests.
pub const NAMESPACE: &str = "ipgc-system";

/// The user as whom it asks; in the audit log its requests are told by it.
pub const ACCOUNT: &str = "system:serviceaccount:ipgc-system:ipgc";

/// Pods start in seconds, and become ready once all caches are complete.
const START: Duration = Duration::from_secs(120);

impl Tier {
    /// Builds ipgc's image from this static binary (none: builds that too), loads it, applies the
    /// manifests, and waits until all replicas are ready.
    pub async fn install_ipgc(&self, program: Option<&Path>) -> Result<()> {
        let built;
        let program = if let Some(program) = program {
            program
        } else {
            built = ours::static_program().await?;
            &built
        };
        self.load(image::IPGC, "ipgc", program).await?;
        let overlay = Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/image");
        let cluster = Cluster::of(self.plane()).await?;
        cluster
            .kubectl(["apply".as_ref(), "-k".as_ref(), overlay.as_os_str()])
            .await?;
        self.ipgc_ready().await
    }

    /// Waits until all replicas of ipgc are ready.
    pub async fn ipgc_ready(&self) -> Result<()> {
        let cluster = Cluster::of(self.plane()).await?;
        let patience = format!("--timeout={}s", START.as_secs());
        let words = ["rollout", "status", "deployment/ipgc", &patience];
        let waited = cluster.existing(NAMESPACE).kubectl(&words).await;
        match waited {
            Err(error) => Err(Error::Other(format!("{error}\n{}", self.ipgc_logs()?))),
            Ok(_) => Ok(()),
        }
    }

    /// The pods of ipgc that are there.
    pub async fn ipgc_pods(&self) -> Result<Vec<Pod>> {
        let api: Api<Pod> = Api::namespaced(self.plane().admin().await?, NAMESPACE);
        let pods = api.list(&ListParams::default()).await?;
        Ok(pods.items)
    }

    /// Kills every process of ipgc (SIGKILL), as the kernel would; their kubelets start them anew.
    /// Returns how many there were.
    pub async fn kill_ipgc(&self) -> Result<usize> {
        let mut killed = 0;
        for node in self.nodes() {
            // In the process namespace of a node there are no programs of that path but its pods'.
            let script = r#"for exe in /proc/[0-9]*/exe; do
                if [ "$(readlink "$exe")" = /ipgc ]; then
                  pid="${exe#/proc/}"; kill -KILL "${pid%/exe}" && echo one
                fi
              done"#;
            // One that is powered off has none.
            if let Ok(namespaces) = node.namespaces() {
                killed += namespaces.shell(script, &[]).await?.lines().count();
            }
        }
        Ok(killed)
    }

    /// The logs of the replicas, as far as the nodes still have it.
    pub fn ipgc_logs(&self) -> Result<String> {
        let mut all = String::new();
        for node in self.nodes() {
            let Ok(namespaces) = node.namespaces() else {
                continue;
            };
            let pods = namespaces.path("/var/log/pods");
            for pod in fs::read_dir(&pods)? {
                let pod = pod?;
                if !pod.file_name().to_string_lossy().starts_with(NAMESPACE) {
                    continue;
                }
                // A pod that is going takes its folder along.
                let container = pod.path().join("ipgc");
                for log in fs::read_dir(container).into_iter().flatten().flatten() {
                    all += &fs::read_to_string(log.path()).unwrap_or_default();
                }
            }
        }
        Ok(all)
    }
}
