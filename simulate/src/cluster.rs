//! Machines and the node controller: power, boots, heartbeats, nodes that are ready or not.

use std::time::Duration;

use jiff::SignedDuration;
use serde_json::{Value, json};
use testkit::fixtures;
use tokio::time::sleep;

use crate::{
    story::Net,
    world::{NS, World, is_ready},
};

/// A node whose Lease is not renewed for so long is not ready: `--node-monitor-grace-period`.
const SILENT: Duration = Duration::from_secs(40);

impl World {
    /// Writes what is there before the story begins.
    pub fn begin(&self) {
        for (number, net) in self.nets.iter().enumerate() {
            self.define(net);
            self.cut_up(number);
        }
        let machines = self.state().machines.len();
        for machine in 0..machines {
            self.register(machine, None);
        }
    }

    /// Writes the definition of a network.
    fn define(&self, net: &Net) {
        let ranges: Vec<_> = net
            .ranges
            .iter()
            .map(|range| json!({ "range": range }))
            .collect();
        let mut ipam = json!({ "type": "whereabouts", "ipRanges": ranges });
        if let Some(name) = net.network_name {
            ipam["network_name"] = name.into();
        }
        if !net.reserves {
            ipam["enable_overlapping_ranges"] = false.into();
        }
        if !net.slices.is_empty() {
            ipam["node_slice_size"] = net.slice_size().into();
        }
        self.server
            .put(fixtures::nad_with_ipam(NS, net.name, &ipam));
    }

    /// The kubelet of a machine makes its node, or tells of its boot.
    fn register(&self, machine: usize, node: Option<Value>) {
        let it = self.machine(machine);
        if node.is_none() {
            self.server.put(fixtures::node(&it.name, true));
        }
        let info = json!({
            "bootID": format!("boot-{machine}-{}", it.boot),
            "machineID": it.name,
            "systemUUID": it.name,
        });
        if node.is_none_or(|node| node["status"]["nodeInfo"] != info) {
            self.server.edit("nodes", "", &it.name, |node| {
                node["status"]["nodeInfo"] = info;
            });
        }
        self.give_slices(&it.name);
        let now = self.server.now() + SignedDuration::from_secs(it.ahead);
        let now = format!("{now:.6}");
        self.server
            .put(fixtures::lease("kube-node-lease", &it.name, &it.name, &now));
    }

    /// The heartbeats of a machine's kubelet, and the node controller's look at them.
    pub async fn beat(self, machine: usize) {
        let mut silent = Duration::ZERO;
        loop {
            let pause = Duration::from_secs(10);
            sleep(pause).await;
            let it = self.machine(machine);
            let node = self.node(&it.name);
            let ready = node.as_ref().map(is_ready);
            if it.is_at_work() {
                silent = Duration::ZERO;
                self.register(machine, node);
                if ready == Some(false) {
                    self.api.set_ready(&it.name, true);
                    self.tell("a node is ready again", &it.name);
                }
                continue;
            }
            silent += pause;
            if ready == Some(true) && silent >= SILENT {
                self.api.set_ready(&it.name, false);
                if self.percent(50) {
                    self.after(self.millis(30_000, 120_000), move |this| {
                        if !this.machine(machine).is_at_work() {
                            this.tell("pods are evicted", format_args!("n{}", machine + 1));
                            this.delete_all(machine);
                        }
                    });
                }
                self.tell("a node is not ready", &it.name);
            }
        }
    }

    /// A machine loses its power, and is booted anew after a while.
    pub(crate) fn without_power(&self, machine: usize, time: Duration) {
        if !self.machine(machine).power {
            return;
        }
        self.tell(
            "a machine loses power",
            format_args!("n{} for {time:?}", machine + 1),
        );
        self.state().machines[machine].power = false;
        self.end_all(machine);
        self.after(time, move |this| this.boot(machine));
    }

    fn boot(&self, machine: usize) {
        {
            let mut state = self.state();
            let it = &mut state.machines[machine];
            it.power = true;
            it.kubelet = true;
            it.boot += 1;
        }
        self.tell("a machine boots", format_args!("n{}", machine + 1));
        // An old taint is known by the boot that is told under it.
        let it = self.machine(machine);
        if !it.forgets || !it.connected {
            self.take_fence_back(machine);
        }
        if self.machine(machine).connected {
            self.register(machine, self.node(&it.name));
        }
        for (uid, _) in self.pods(|pod| pod.machine == machine) {
            self.begin_life(uid);
        }
    }

    /// All machines are booted anew.
    pub fn boot_all(&self) {
        let machines = self.state().machines.len();
        for machine in 0..machines {
            self.without_power(machine, Duration::from_secs(5));
        }
    }

    /// A person who said that a machine runs nothing takes that back before it does (assumption 5).
    pub fn take_fence_back(&self, machine: usize) {
        self.server
            .edit("nodes", "", &self.machine(machine).name, |node| {
                node["metadata"]["annotations"] = json!({});
                if let Some(spec) = node["spec"].as_object_mut() {
                    spec.remove("taints");
                }
            });
    }

    /// People take back what they said of machines that have power by now (assumption 5).
    pub fn take_fences_back(&self) {
        let machines = 0..self.state().machines.len();
        for machine in machines.filter(|machine| self.machine(*machine).power) {
            self.take_fence_back(machine);
        }
    }

    /// All is well again: machines have power and connection, and nothing keeps their kubelets from work.
    pub fn heal(&self) {
        self.state().is_calm = true;
        // A restored backup may lack a definition, and may have brought an exemption back.
        for net in &*self.nets {
            let nads = "network-attachment-definitions";
            if self.server.get(nads, NS, net.name).is_none() {
                self.define(net);
            }
        }
        for pool in self.server.list("ippools") {
            let name = pool["metadata"]["name"].as_str().unwrap_or_default();
            self.exempt(name, json!({}));
        }
        let machines = self.state().machines.len();
        for machine in 0..machines {
            if !self.machine(machine).power {
                self.boot(machine);
            }
            let mut state = self.state();
            state.machines[machine].connected = true;
            state.machines[machine].kubelet = true;
        }
    }
}
