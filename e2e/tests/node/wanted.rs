//! The properties of a pod that a scenario asks for.

use e2e::{node::Machine, pods::NETWORKS};
use serde_json::{Value, json};

/// A pod that is wanted.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: String,
    /// Metadata and spec, as a template has them.
    pub template: Value,
}

impl Wanted {
    /// A pod of one container, with these network attachments.
    pub fn pod(name: &str, networks: &[&str]) -> Self {
        // A pod of a node that is away is ended by the scenario, not by a taint.
        let tolerated = json!({"operator": "Exists", "effect": "NoExecute"});
        let template = json!({
            "metadata": {"annotations": {}, "labels": {"app": name}},
            "spec": {
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": false,
                "enableServiceLinks": false,
                "dnsPolicy": "Default",
                "tolerations": [tolerated],
                "containers": [{
                    "name": "main", "image": Machine::image(), "imagePullPolicy": "Never",
                }],
            },
        });
        let wanted = Self {
            name: name.to_owned(),
            template,
        };
        if networks.is_empty() {
            return wanted;
        }
        wanted.annotated(NETWORKS, &networks.join(","))
    }

    /// On this node. Only a pod that asks for the victim gets there.
    pub fn on(mut self, node: &Machine) -> Self {
        let spec = &mut self.template["spec"];
        spec["nodeSelector"] = json!({"kubernetes.io/hostname": node.name()});
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        self
    }

    /// The arguments of the program (e2e/tools/pause).
    pub fn args(mut self, args: &[&str]) -> Self {
        self.template["spec"]["containers"][0]["args"] = json!(args);
        self
    }

    pub fn annotated(mut self, key: &str, value: &str) -> Self {
        self.template["metadata"]["annotations"][key] = value.into();
        self
    }
}
