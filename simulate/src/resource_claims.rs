//! ResourceClaims: pods that get a network as a device of DRANET. Its rows bear the uid of the claim as their id, and one
//! podref for all; no pod reports their addresses.

use serde_json::json;
use tokio::time::sleep;

use crate::{
    story::Net,
    world::{NS, Sandbox, World},
};

const CLAIMS: &str = "resourceclaims";
/// The podref that DRANET 1.4 writes.
pub(crate) const PLACEHOLDER: &str = "default/pod-whereabouts";

/// The uid of the claim of a pod.
pub(crate) fn claim_of(uid: u64) -> String {
    format!("00000000-0000-4000-8001-{uid:012x}")
}

/// The id and the podref in the rows of a network that are written for a sandbox.
pub(crate) fn writer(net: &Net, sandbox: &Sandbox) -> (String, String) {
    if net.of_claims {
        (claim_of(sandbox.uid), PLACEHOLDER.to_owned())
    } else {
        (sandbox.id.clone(), sandbox.podref.clone())
    }
}

impl World {
    /// Whether a network of the cluster is given by claims.
    pub(crate) fn has_resource_claims(&self) -> bool {
        self.nets.iter().any(|net| net.of_claims)
    }

    /// A claim is made with its pod.
    pub(crate) fn claim(&self, uid: u64) {
        if self.has_resource_claims() {
            self.server.put(json!({
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": { "namespace": NS, "name": format!("claim-{uid:x}"), "uid": claim_of(uid) },
            }));
        }
    }

    /// The controller of claims: those whose pods are gone are deleted, some time later.
    pub(crate) async fn control_claims(self) {
        loop {
            sleep(self.millis(1_000, 20_000)).await;
            let pods = self.server.list("pods");
            for claim in self.server.list(CLAIMS) {
                let uid = claim["metadata"]["uid"].as_str().unwrap_or_default();
                let number = uid.rsplit('-').next().unwrap_or_default();
                let is_its = |uid: &str| uid.rsplit('-').next() == Some(number);
                let mut uids = pods
                    .iter()
                    .filter_map(|pod| pod["metadata"]["uid"].as_str());
                if !uids.any(is_its) {
                    let name = claim["metadata"]["name"].as_str().unwrap_or_default();
                    self.server.delete(CLAIMS, NS, name);
                    self.tell("a claim is deleted", uid);
                }
            }
        }
    }

    /// The rows of claims that are gone.
    pub(crate) fn rows_of_no_claim(&self) -> Vec<String> {
        let claims = self.server.list(CLAIMS);
        let mut left = Vec::new();
        for (pool, rows) in self.all_rows() {
            for (key, row) in rows {
                let mut uids = claims.iter().map(|claim| &claim["metadata"]["uid"]);
                if row["podref"] == PLACEHOLDER && !uids.any(|uid| *uid == row["id"]) {
                    left.push(format!("{pool}/{key} of {}", row["id"]));
                }
            }
        }
        left
    }
}
