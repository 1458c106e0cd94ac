//! The properties of a pod that a scenario asks for.

use std::collections::BTreeMap;

use e2e::node::Machine;
use serde_json::{Value, json};

/// A pod that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: String,
    networks: Vec<String>,
    node: Option<String>,
    args: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl Wanted {
    /// A pod of one container, with these network attachments.
    pub fn pod(name: &str, networks: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            networks: networks.iter().map(ToString::to_string).collect(),
            node: None,
            args: Vec::new(),
            annotations: BTreeMap::new(),
        }
    }

    pub fn on(mut self, node: &Machine) -> Self {
        self.node = Some(node.name().to_owned());
        self
    }

    /// The arguments of the program (e2e/tools/pause).
    pub fn args(mut self, args: &[&str]) -> Self {
        self.args = args.iter().map(ToString::to_string).collect();
        self
    }

    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.annotations.insert(key.to_owned(), value.to_owned());
        self
    }

    /// Metadata and spec, as a template has them.
    pub fn template(&self) -> Value {
        let mut annotations = self.annotations.clone();
        if !self.networks.is_empty() {
            annotations.insert(
                "k8s.v1.cni.cncf.io/networks".into(),
                self.networks.join(","),
            );
        }
        let selector = self
            .node
            .iter()
            .map(|node| ("kubernetes.io/hostname", node))
            .collect::<BTreeMap<_, _>>();
        // A pod of a node that is away is ended by the scenario, not by a taint. Only a pod that asks for the victim gets there.
        let mut tolerated = json!({"operator": "Exists"});
        if self.node.is_none() {
            tolerated["effect"] = "NoExecute".into();
        }
        json!({
            "metadata": {"annotations": annotations, "labels": {"app": self.name}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "dnsPolicy": "Default",
                "nodeSelector": selector,
                "tolerations": [tolerated],
                "containers": [{
                    "name": "main", "image": Machine::image(), "imagePullPolicy": "Never",
                    "args": self.args,
                }],
            },
        })
    }
}
