//! The life of pods as a kubelet writes it, event by event.
//!
//! The steps were taken from a real kubelet (1.34). They write to the state directly, so no fault
//! rule touches them. They do not touch pools: whether CNI ADD and DEL wrote their rows is up to
//! the test.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixtures;
use crate::server::Server;

/// From the deletion to the terminal phase, where the containers end at once.
const STOP_TIME: Duration = Duration::from_millis(300);
/// From the terminal phase to the removal.
const REMOVAL_TIME: Duration = Duration::from_millis(300);

/// Plays the kubelet, and the other components that delete pods.
#[derive(Clone, Debug)]
pub struct Kubelet {
    server: Server,
}

impl Kubelet {
    /// A kubelet for all nodes of a server.
    pub fn new(server: &Server) -> Self {
        Self {
            server: server.clone(),
        }
    }

    fn edit(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let found = self.server.edit("pods", namespace, name, change);
        assert!(found, "no pod {namespace}/{name}");
    }

    /// A pod ends by itself: terminal, containers terminated, sandbox stopped; it stays.
    pub fn complete_pod(&self, namespace: &str, name: &str, phase: &str) {
        self.edit(namespace, name, |pod| {
            pod["status"] = fixtures::ended_status(phase);
        });
    }

    /// Somebody deletes the pod gracefully: it gets its deletion timestamp and runs on.
    pub fn begin_delete(&self, namespace: &str, name: &str) {
        let server = self.server.clone();
        self.edit(namespace, name, |pod| {
            let grace = pod["spec"]["terminationGracePeriodSeconds"]
                .as_i64()
                .unwrap_or(30);
            begin_delete(pod, &server, grace);
        });
    }

    /// The kubelet is done with a pod that is being deleted: grace 0, then gone, in its last phase.
    pub fn remove_pod(&self, namespace: &str, name: &str) {
        let server = self.server.clone();
        self.edit(namespace, name, |pod| begin_delete(pod, &server, 0));
        self.server.delete("pods", namespace, name);
    }

    /// The whole graceful end: being deleted, stopped 0.3 s later (terminal phase, containers
    /// terminated), removed 0.3 s after that.
    pub async fn terminate_pod(&self, namespace: &str, name: &str) {
        self.begin_delete(namespace, name);
        tokio::time::sleep(STOP_TIME).await;
        self.complete_pod(namespace, name, "Succeeded");
        tokio::time::sleep(REMOVAL_TIME).await;
        self.remove_pod(namespace, name);
    }

    /// Somebody forces the deletion: grace 0, then gone, still Running.
    pub fn force_delete(&self, namespace: &str, name: &str) {
        self.remove_pod(namespace, name);
    }

    /// The pod garbage collector ends a pod of a lost node: phase Failed while its containers are
    /// still shown as running, then grace 0, then gone.
    pub fn collect_pod(&self, namespace: &str, name: &str) {
        self.edit(namespace, name, |pod| {
            pod["status"]["phase"] = "Failed".into();
            pod["status"]["reason"] = "PodGC".into();
        });
        self.remove_pod(namespace, name);
    }

    /// A node's kubelet reports: Ready changes, if it does, at the server's present time.
    pub fn set_ready(&self, node: &str, ready: bool) {
        let now = self.server.now().to_string();
        let found = self.server.edit("nodes", "", node, |node| {
            node["status"]["conditions"] = json!([fixtures::ready_condition(ready, &now)]);
        });
        assert!(found, "no node {node}");
    }

    /// A node's kubelet renews its lease in `kube-node-lease`.
    pub fn renew_lease(&self, node: &str) {
        let now = format!("{:.6}", self.server.now());
        self.server
            .put(fixtures::lease("kube-node-lease", node, node, &now));
    }
}

fn begin_delete(pod: &mut Value, server: &Server, grace: i64) {
    let at = server.now().as_second().saturating_add(grace);
    let at = jiff::Timestamp::from_second(at).unwrap_or(jiff::Timestamp::MAX);
    pod["metadata"]["deletionTimestamp"] = at.to_string().into();
    pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
}
