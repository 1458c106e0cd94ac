//! Machines, the node controller, the owners of pods, and people: everything that happens to a cluster but for the life of
//! a pod. Each runs as a task of its own.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::fixtures;
use tokio::time::sleep;

use crate::{
    story::{Deed, Kind, Owner, Story},
    world::{NS, Pod, World},
};

/// A node whose Lease is not renewed for so long is not ready: `--node-monitor-grace-period`.
const SILENT: Duration = Duration::from_secs(40);

impl World {
    /// Writes what is there before the story begins.
    pub fn begin(&self) {
        for net in &*self.nets {
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
            self.server
                .put(fixtures::nad_with_ipam(NS, net.name, &ipam));
        }
        let machines = self.state().machines.len();
        for machine in 0..machines {
            self.register(machine);
        }
    }

    /// The kubelet of a machine makes its node, or tells of its boot.
    fn register(&self, machine: usize) {
        let it = self.machine(machine);
        if self.server.get("nodes", "", &it.name).is_none() {
            self.server.put(fixtures::node(&it.name, true));
        }
        self.server.edit("nodes", "", &it.name, |node| {
            node["status"]["nodeInfo"] = json!({
                "bootID": format!("boot-{machine}-{}", it.boot),
                "machineID": it.name,
                "systemUUID": it.name,
            });
        });
        self.api.renew_lease(&it.name);
    }

    /// The heartbeats of a machine's kubelet, and the node controller's look at them.
    pub async fn beat(self, machine: usize) {
        let mut silent = Duration::ZERO;
        let mut ready = true;
        loop {
            let pause = Duration::from_secs(10);
            sleep(pause).await;
            let it = self.machine(machine);
            if it.is_at_work() {
                silent = Duration::ZERO;
                if self.server.get("nodes", "", &it.name).is_none() {
                    self.register(machine);
                    ready = true;
                }
                self.api.renew_lease(&it.name);
                if !ready {
                    ready = true;
                    self.register(machine);
                    self.api.set_ready(&it.name, true);
                    self.tell("a node is ready again", || {
                        format!("node {} is ready again", it.name)
                    });
                }
                continue;
            }
            silent += pause;
            if ready && silent >= SILENT && self.nodes().contains(&it.name) {
                ready = false;
                self.api.set_ready(&it.name, false);
                self.tell("a node is not ready", || {
                    format!("node {} is not ready", it.name)
                });
            }
        }
    }

    /// An owner makes its pods, and new ones for those that are gone.
    pub async fn own(self, number: usize, owner: Owner) {
        for index in 0..owner.pods {
            sleep(self.millis(0, 4_000)).await;
            self.create(number, index, &owner);
        }
        loop {
            sleep(self.millis(500, 3_000)).await;
            if !self.state().owners_work {
                continue;
            }
            for index in 0..owner.pods {
                let is_there = |pod: &Pod| {
                    let is_alive = match owner.kind {
                        // The name is taken until the object is gone.
                        Kind::StatefulSet => !pod.gone,
                        Kind::ReplicaSet | Kind::Job => !pod.gone && !pod.marked && !pod.terminal,
                    };
                    pod.owner == (number, index) && is_alive
                };
                let is_done = owner.kind == Kind::Job && self.percent(90);
                if !is_done && !self.state().pods.values().any(is_there) {
                    self.create(number, index, &owner);
                }
            }
        }
    }

    fn create(&self, number: usize, index: usize, owner: &Owner) {
        let machine = {
            let state = self.state();
            let there: Vec<_> = (0..state.machines.len())
                .filter(|it| state.machines[*it].is_at_work())
                .collect();
            drop(state);
            let nodes = self.nodes();
            let there: Vec<_> = there
                .into_iter()
                .filter(|it| nodes.contains(&self.machine(*it).name))
                .collect();
            if there.is_empty() {
                return;
            }
            self.state().dice.one(&there)
        };
        let uid = self.next();
        let name = match owner.kind {
            Kind::StatefulSet => format!("{}-{index}", owner.name),
            Kind::ReplicaSet | Kind::Job => format!("{}-{uid:05x}", owner.name),
        };
        let pod = Pod {
            name: name.clone(),
            owner: (number, index),
            kind: owner.kind,
            machine,
            nets: owner.nets.clone(),
            marked: false,
            completed: false,
            gone: false,
            terminal: false,
        };
        let asked = owner
            .nets
            .iter()
            .map(|net| format!("{NS}/{}", self.nets[*net].name));
        let asked: Vec<_> = asked.collect();
        let object = fixtures::pod(NS, &name)
            .node(&self.machine(machine).name)
            .networks(&asked.join(","));
        let object = object
            .uid(&format!("00000000-0000-4000-8000-{uid:012x}"))
            .owner(owner.kind.as_str(), &owner.name);
        self.server.put(object);
        self.state().pods.insert(uid, pod);
        self.tell("a pod is made", || {
            format!("{NS}/{name} is made for {}", self.machine(machine).name)
        });
        tokio::spawn(self.clone().live(uid));
    }

    /// Does all deeds of a story, each at its time.
    pub async fn act(&self, story: &Story, mut ours: impl FnMut(&Deed)) {
        for step in &story.steps {
            tokio::time::sleep_until(self.begun() + step.at).await;
            ours(&step.deed);
            self.deed(&step.deed);
        }
    }

    fn chosen(&self, number: usize) -> Option<(u64, Pod)> {
        let state = self.state();
        let there: Vec<_> = state.pods.iter().filter(|(_, pod)| !pod.gone).collect();
        let (uid, pod) = there.get(number.checked_rem(there.len())?)?;
        Some((**uid, (*pod).clone()))
    }

    fn set(&self, uid: u64, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.state().pods.get_mut(&uid) {
            change(pod);
        }
    }

    fn mark(&self, uid: u64, name: &str) {
        self.api.mark_pod(NS, name);
        self.set(uid, |pod| pod.marked = true);
    }

    fn deed(&self, deed: &Deed) {
        match deed {
            Deed::Delete(number) => {
                if let Some((uid, pod)) = self.chosen(*number) {
                    self.tell("a pod is deleted", || {
                        format!("somebody deletes {}", pod.podref())
                    });
                    self.mark(uid, &pod.name);
                }
            }
            Deed::Force(number) => {
                if let Some((uid, pod)) = self.chosen(*number) {
                    self.tell("a pod is deleted by force", || {
                        format!("somebody deletes {} by force", pod.podref())
                    });
                    self.remove(uid);
                }
            }
            Deed::Crash(number) => {
                let Some((uid, pod)) = self.chosen(*number) else {
                    return;
                };
                let running = self.running(uid);
                if let Some(at) = running.first() {
                    self.tell("a sandbox dies", || {
                        format!("the sandbox of {} dies", pod.podref())
                    });
                    self.end_sandbox(*at);
                    if !self.machine(pod.machine).is_at_work() {
                        return;
                    }
                    self.api_edit(uid, |object| object["status"] = fixtures::starting_status());
                }
            }
            Deed::Complete(number) => {
                let Some((uid, pod)) = self.chosen(*number) else {
                    return;
                };
                self.tell("a pod ends by itself", || {
                    format!("{} ends by itself", pod.podref())
                });
                self.set(uid, |pod| pod.completed = true);
            }
            Deed::Power(machine, time) => self.without_power(*machine, *time),
            Deed::Partition(machine, time) => {
                let (this, machine, time) = (self.clone(), *machine, *time);
                this.tell("a machine is cut off", || {
                    format!("n{} is cut off for {time:?}", machine + 1)
                });
                this.state().machines[machine].connected = false;
                tokio::spawn(async move {
                    sleep(time).await;
                    this.state().machines[machine].connected = true;
                    this.tell("a machine is connected", || {
                        format!("n{} is connected", machine + 1)
                    });
                });
            }
            Deed::NoKubelet(machine, time) => {
                let (this, machine, time) = (self.clone(), *machine, *time);
                this.tell("a kubelet stops", || {
                    format!("the kubelet of n{} stops for {time:?}", machine + 1)
                });
                this.state().machines[machine].kubelet = false;
                tokio::spawn(async move {
                    sleep(time).await;
                    this.state().machines[machine].kubelet = true;
                    this.tell("a kubelet starts", || {
                        format!("the kubelet of n{} starts", machine + 1)
                    });
                });
            }
            Deed::Fence(machine) => self.of_dead(*machine, "a node is fenced", |node| {
                node["spec"]["taints"] = json!([fixtures::out_of_service_taint()]);
            }),
            Deed::DeclareEmpty(machine) => {
                let now = (self.server.now() + Duration::from_secs(1)).to_string();
                self.of_dead(*machine, "a node is declared empty", |node| {
                    node["metadata"]["annotations"]["ipgc.dev/no-sandboxes"] = now.into();
                });
            }
            Deed::RemoveNode(machine) => self.remove_node(*machine),
            Deed::EndWatches => {
                self.tell("all watches end", || {
                    "the API server ends all watches".to_owned()
                });
                for resource in ["pods", "nodes", "network-attachment-definitions"] {
                    self.server.cut_watches(resource);
                }
            }
            Deed::Compact => {
                self.tell("old versions are forgotten", || {
                    "the API server forgets old versions".to_owned()
                });
                self.server.compact();
            }
            Deed::Restart(_) | Deed::CrashAtWrite(..) | Deed::Fault(..) => {}
        }
    }

    /// A machine loses its power, and is booted anew after a while.
    fn without_power(&self, machine: usize, time: Duration) {
        if !self.machine(machine).power {
            return;
        }
        self.tell("a machine loses power", || {
            format!("n{} loses power for {time:?}", machine + 1)
        });
        self.state().machines[machine].power = false;
        self.end_all(machine);
        let this = self.clone();
        tokio::spawn(async move {
            sleep(time).await;
            this.boot(machine);
        });
    }

    fn boot(&self, machine: usize) {
        {
            let mut state = self.state();
            let it = &mut state.machines[machine];
            it.power = true;
            it.kubelet = true;
            it.boot += 1;
            it.since = tokio::time::Instant::now();
        }
        self.tell("a machine boots", || format!("n{} boots", machine + 1));
        // Whoever fenced it takes that back before.
        self.server
            .edit("nodes", "", &self.machine(machine).name, |node| {
                if let Some(spec) = node["spec"].as_object_mut() {
                    spec.remove("taints");
                }
            });
        if self.machine(machine).connected {
            self.register(machine);
        }
        let of: Vec<_> = {
            let state = self.state();
            let of = state.pods.iter().filter(|(_, pod)| pod.machine == machine);
            of.map(|(uid, _)| *uid).collect()
        };
        for uid in of {
            tokio::spawn(self.clone().live(uid));
        }
    }

    /// A change of the node of a machine that has no power.
    fn of_dead(&self, machine: usize, kind: &str, change: impl FnOnce(&mut Value)) {
        let it = self.machine(machine);
        if !it.power && self.server.edit("nodes", "", &it.name, change) {
            self.tell(kind, || format!("{kind}: {}", it.name));
        }
    }

    /// Somebody removes the node of a machine without power, and its pods are collected.
    fn remove_node(&self, machine: usize) {
        let it = self.machine(machine);
        if it.power || self.server.delete("nodes", "", &it.name).is_none() {
            return;
        }
        self.tell("a node is removed", || {
            format!("somebody removes node {}", it.name)
        });
        let of: Vec<_> = {
            let state = self.state();
            let of = state
                .pods
                .iter()
                .filter(|(_, pod)| pod.machine == machine && !pod.gone);
            of.map(|(uid, pod)| (*uid, pod.name.clone())).collect()
        };
        for (uid, name) in of {
            self.server.edit("pods", NS, &name, |pod| {
                pod["status"]["phase"] = "Failed".into();
                pod["status"]["reason"] = "PodGC".into();
            });
            self.remove(uid);
        }
    }

    /// All is well again: machines have power and connection, and nothing keeps their kubelets from work.
    pub fn heal(&self) {
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
