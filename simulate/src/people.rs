//! The deeds of a story, which people do to pods, nodes, pools and definitions, or which happen to machines.

use std::{net::IpAddr, time::Duration};

use ipgc_core::address::{Offset, Range, reservation_address};
use serde_json::{Value, json};
use testkit::fixtures;
use tokio::time::sleep;

use crate::{
    cni::{Del, ORIP},
    resource_claims::claim_of,
    story::{Deed, Story},
    world::{Machine, NS, Pod, Sandbox, World},
};

/// No restoration of etcd loses fewer writes.
const FEWEST_LOST: u64 = 15;

impl World {
    /// Does all deeds of a story, each at its time.
    pub async fn act(&self, story: &Story) {
        for step in &story.steps {
            tokio::time::sleep_until(self.begun() + step.at).await;
            if let Deed::Release(number) = step.deed {
                tokio::spawn(self.clone().release(number, story.policy()));
            }
            self.deed(&step.deed);
        }
    }

    fn chosen(&self, number: usize) -> Option<(u64, Pod)> {
        let mut there = self.pods(|pod| !pod.gone);
        let chosen = number.checked_rem(there.len())?;
        Some(there.swap_remove(chosen))
    }

    fn deed(&self, deed: &Deed) {
        match deed {
            Deed::Delete(number)
            | Deed::Force(number)
            | Deed::Crash(number)
            | Deed::Complete(number)
            | Deed::Plug(number)
            | Deed::Again(number, _)
            | Deed::Brief(number)
            | Deed::Second(number, _)
            | Deed::Unplug(number) => {
                if let Some((uid, pod)) = self.chosen(*number) {
                    self.to_pod(deed, uid, pod);
                }
            }
            Deed::Drain(machine) => {
                self.tell("a node is drained", format_args!("n{}", machine + 1));
                self.delete_all(*machine);
            }
            Deed::Hold(net, time) => self.hold(*net, *time),
            Deed::RemovePool(net) => self.remove_pool(*net),
            Deed::RemoveDefinition(net, time) => self.remove_definition(*net, *time),
            Deed::Restore(time) => self.restore(*time),
            Deed::Power(machine, time) => self.without_power(*machine, *time),
            Deed::Partition(machine, time) => self.partition(*machine, *time),
            Deed::NoKubelet(machine, time) => {
                let (machine, time) = (*machine, *time);
                self.tell(
                    "a kubelet stops",
                    format_args!("n{} for {time:?}", machine + 1),
                );
                self.for_a_while(machine, time, "a kubelet starts", |it, is_well| {
                    it.kubelet = is_well;
                });
            }
            Deed::Fence(machine, is_forgotten) => {
                if *is_forgotten {
                    self.tell("a taint is forgotten", format_args!("n{}", machine + 1));
                }
                self.state().machines[*machine].forgets = *is_forgotten;
                self.of_dead(*machine, "a node is fenced", |node| {
                    node["spec"]["taints"] = json!([fixtures::out_of_service_taint()]);
                });
            }
            Deed::DeclareEmpty(machine) => {
                let now = (self.server.now() + Duration::from_secs(1)).to_string();
                self.of_dead(*machine, "a node is declared empty", |node| {
                    node["metadata"]["annotations"]["ipgc.dev/no-sandboxes"] = now.into();
                });
            }
            Deed::NoNames(time) => {
                self.tell("no name is used again", format_args!("for {time:?}"));
                self.state().names_wait = self.now() + *time;
            }
            Deed::Jump(machine, by) => self.jump(*machine, *by),
            Deed::Acknowledge => self.acknowledge(),
            Deed::RemoveNode(machine) => self.remove_node(*machine),
            Deed::EndWatches => {
                self.tell("all watches end", "");
                self.deafen(Duration::ZERO);
                for resource in ["pods", "nodes", "network-attachment-definitions"] {
                    self.server.cut_watches(resource);
                }
            }
            Deed::Compact => {
                self.tell("old versions are forgotten", "");
                self.deafen(Duration::ZERO);
                self.server.compact();
            }
            Deed::Release(_) | Deed::Restart(_) | Deed::CrashAtWrite(..) | Deed::Fault(..) => {}
        }
    }

    /// A change of the node of a machine that has no power.
    fn of_dead(&self, machine: usize, kind: &str, change: impl FnOnce(&mut Value)) {
        let it = self.machine(machine);
        if !it.power && self.server.edit("nodes", "", &it.name, change) {
            self.tell(kind, &it.name);
        }
    }

    /// Somebody removes the node of a machine without power, and its pods are collected.
    fn remove_node(&self, machine: usize) {
        let it = self.machine(machine);
        if it.power || self.server.delete("nodes", "", &it.name).is_none() {
            return;
        }
        self.tell("a node is removed", &it.name);
        self.take_slices(&it.name);
        for (uid, pod) in self.pods(|pod| pod.machine == machine && !pod.gone) {
            self.server.edit("pods", NS, &pod.name, |pod| {
                pod["status"]["phase"] = "Failed".into();
                pod["status"]["reason"] = "PodGC".into();
            });
            self.remove(uid);
        }
    }

    /// Does a deed to a pod.
    fn to_pod(&self, deed: &Deed, uid: u64, pod: Pod) {
        match deed {
            Deed::Delete(_) => {
                self.tell("a pod is deleted", pod.podref());
                self.begin_delete(uid, &pod.name);
            }
            Deed::Force(_) => {
                self.tell("a pod is deleted by force", pod.podref());
                self.remove(uid);
            }
            Deed::Crash(_) => {
                let Some(at) = self.running(uid).first().copied() else {
                    return;
                };
                self.tell("a sandbox dies", pod.podref());
                self.end_sandbox(at);
                if self.machine(pod.machine).is_at_work() {
                    self.api_edit(uid, |object| object["status"] = fixtures::starting_status());
                }
            }
            Deed::Complete(_) => {
                let kind = if pod.is_static {
                    "a manifest is removed"
                } else {
                    "a pod ends by itself"
                };
                self.tell(kind, pod.podref());
                self.set(uid, |pod| pod.completed = true);
            }
            Deed::Plug(_) => {
                tokio::spawn(self.clone().plug(uid, pod));
            }
            Deed::Again(_, time) => {
                tokio::spawn(self.clone().again(uid, pod, *time));
            }
            Deed::Brief(_) => {
                tokio::spawn(self.clone().brief(uid, pod));
            }
            Deed::Second(_, is_boot) => {
                tokio::spawn(self.clone().second(uid, pod, *is_boot));
            }
            _ => self.unplug(uid, &pod),
        }
    }

    fn partition(&self, machine: usize, time: Duration) {
        self.tell(
            "a machine is cut off",
            format_args!("n{} for {time:?}", machine + 1),
        );
        self.for_a_while(machine, time, "a machine is connected", |it, is_well| {
            it.connected = is_well;
        });
    }

    /// A pod keeps a network on a machine that is cut off. Its successor runs elsewhere without that network, and is
    /// deleted.
    async fn again(self, uid: u64, pod: Pod, time: Duration) {
        let machine = pod.machine;
        self.clone().plug(uid, pod.clone()).await;
        sleep(self.millis(500, 3_000)).await;
        self.partition(machine, time);
        sleep(self.millis(500, 3_000)).await;
        self.remove(uid);
        let has_run = |next: u64| self.pod(next).is_some_and(|it| it.has_run);
        if let Some(next) = self.successor(uid, &pod, has_run).await {
            self.tell("a successor is deleted", pod.podref());
            self.begin_delete(next, &pod.name);
        }
    }

    /// A pod ends, and its successor is gone before the watch shows it.
    async fn brief(self, uid: u64, pod: Pod) {
        self.begin_delete(uid, &pod.name);
        let has_address = |next: u64| {
            let is_its = |it: &Sandbox| it.uid == next && !it.addresses.is_empty();
            self.state().sandboxes.iter().any(is_its)
        };
        if let Some(next) = self.successor(uid, &pod, has_address).await {
            self.tell("a successor is deleted by force", pod.podref());
            self.remove(next);
        }
    }

    /// The next pod of this one's name, once it is so.
    async fn successor(&self, uid: u64, pod: &Pod, is_so: impl Fn(u64) -> bool) -> Option<u64> {
        for _ in 0..1_200 {
            sleep(Duration::from_millis(50)).await;
            let there = self.pods(|other| other.name == pod.name && !other.gone);
            let mut next = there.iter().filter(|(next, _)| *next != uid);
            if let Some((next, _)) = next.find(|(next, _)| is_so(*next)) {
                return Some(*next);
            }
        }
        None
    }

    /// Something of a machine does not work for so long.
    fn for_a_while(
        &self,
        machine: usize,
        time: Duration,
        end: &'static str,
        set: fn(&mut Machine, bool),
    ) {
        set(&mut self.state().machines[machine], false);
        self.after(time, move |this| {
            set(&mut this.state().machines[machine], true);
            this.tell(end, format_args!("n{}", machine + 1));
        });
    }

    /// All pods of a machine are to be deleted.
    pub(crate) fn delete_all(&self, machine: usize) {
        // Static pods tolerate everything.
        let is_meant =
            |pod: &Pod| pod.machine == machine && !pod.gone && !pod.deleting && !pod.is_static;
        for (uid, pod) in self.pods(is_meant) {
            self.begin_delete(uid, &pod.name);
        }
    }

    fn may_be_plugged(&self, pod: &Pod) -> bool {
        self.machine(pod.machine).is_at_work() && !pod.deleting && !pod.is_static
    }

    /// A pod that runs gets one more network, as a hotplug controller gives it.
    async fn plug(self, uid: u64, pod: Pod) {
        let running = self.running(uid);
        let spare = (0..self.nets.len()).find(|net| !pod.nets.contains(net));
        let (Some(at), Some(net)) = (running.first().copied(), spare) else {
            return;
        };
        if !self.may_be_plugged(&pod) || pod.nets.len() > 1 {
            return;
        }
        self.tell(
            "a network is plugged in",
            format_args!("{} gets {}", pod.podref(), self.nets[net].name),
        );
        self.set(uid, |pod| pod.nets.push(net));
        self.ask_for_networks(uid);
        let interface = format!("net{}", pod.nets.len() + 1);
        if self.add(at, net, &interface).await && self.machine(pod.machine).is_at_work() {
            self.report(uid, at);
        }
    }

    /// A pod that runs loses its last network; its DEL may be lost.
    fn unplug(&self, uid: u64, pod: &Pod) {
        let running = self.running(uid);
        let (Some(at), Some(net)) = (running.first().copied(), pod.nets.last().copied()) else {
            return;
        };
        if !self.may_be_plugged(pod) || pod.nets.len() < 2 {
            return;
        }
        self.tell(
            "a network is unplugged",
            format_args!("{} loses {}", pod.podref(), self.nets[net].name),
        );
        let del = if self.percent(50) {
            Del::Lost
        } else {
            Del::Done
        };
        self.del(at, net, &format!("net{}", pod.nets.len()), del);
        self.set(uid, |pod| {
            pod.nets.pop();
        });
        self.ask_for_networks(uid);
        self.report(uid, at);
    }

    fn ask_for_networks(&self, uid: u64) {
        let nets = self.pod(uid).map(|pod| pod.nets).unwrap_or_default();
        let asked = self.asked(&nets);
        self.api_edit(uid, |object| {
            object["metadata"]["annotations"][fixtures::NETWORKS] = asked.into();
        });
    }

    /// Somebody exempts the pools of a network for a while.
    fn hold(&self, net: usize, time: Duration) {
        let pools: Vec<_> = self.places(net).into_iter().map(|it| it.0).collect();
        self.tell("a pool is exempted", format_args!("{pools:?} for {time:?}"));
        for pool in &pools {
            self.exempt(pool, json!({ "ipgc.dev/hold": "" }));
        }
        self.after(time, move |this| {
            for pool in &pools {
                this.exempt(pool, json!({}));
            }
        });
    }

    /// Somebody acknowledges what the breaker stops, by a clock that is right.
    fn acknowledge(&self) {
        self.tell("the breaker is acknowledged", "");
        let now = self.server.now().to_string();
        for pool in self.server.list("ippools") {
            let name = pool["metadata"]["name"].as_str().unwrap_or_default();
            self.exempt(name, json!({ "ipgc.dev/ack": now }));
        }
    }

    /// Sets the annotations of a pool.
    pub(crate) fn exempt(&self, pool: &str, annotations: Value) {
        self.server.edit("ippools", NS, pool, |pool| {
            pool["metadata"]["annotations"] = annotations;
        });
    }

    /// Somebody deletes the pools of a network; whereabouts makes new ones, without rows.
    fn remove_pool(&self, net: usize) {
        for (pool, _) in self.places(net) {
            if self.server.delete("ippools", NS, &pool).is_some() {
                self.tell("a pool is deleted", pool);
            }
        }
        self.lose_rows();
    }

    /// The rows of sandboxes that are not there any more give their addresses to others: whereabouts' decision.
    pub(crate) fn lose_rows(&self) {
        let (now, pools) = (self.now(), self.all_rows());
        let mut state = self.state();
        for sandbox in &mut state.sandboxes {
            let claim = claim_of(sandbox.uid);
            for address in sandbox.addresses.iter_mut().filter(|it| it.until.is_none()) {
                let row = pools.get(&address.pool).and_then(|it| it.get(&address.key));
                let of = &self.nets[address.net];
                let id = if of.of_claims { &claim } else { &sandbox.id };
                if row.is_none_or(|row| row["id"] != id.as_str()) {
                    address.until = Some(now);
                }
            }
        }
    }

    /// Somebody deletes a definition, and makes it again.
    fn remove_definition(&self, net: usize, time: Duration) {
        let name = self.nets[net].name;
        let Some(definition) = self
            .server
            .delete("network-attachment-definitions", NS, name)
        else {
            return;
        };
        self.tell(
            "a definition is deleted",
            format_args!("{name} for {time:?}"),
        );
        self.after(time, move |this| {
            this.server.put(definition);
        });
    }

    /// Etcd is backed up now, and restored after a while: pods that were made are gone, and others are there again.
    fn restore(&self, time: Duration) {
        let (backup, before) = (self.server.back_up(), self.server.revision());
        let pods = self.state().pods.clone();
        self.tell("etcd is backed up", "");
        self.after(time, move |this| {
            // After fewer writes etcd may catch up before watches begin anew (assumption 1).
            if this.server.revision() < before + FEWEST_LOST {
                return;
            }
            this.server.restore(backup);
            this.deafen(Duration::ZERO);
            this.tell("etcd is restored", format_args!("from {time:?} ago"));
            // The backup may have brought fences back.
            this.take_fences_back();
            let mut again = Vec::new();
            {
                let mut state = this.state();
                for (uid, pod) in &mut state.pods {
                    if pod.is_static {
                        let mirror = this.server.get("pods", NS, &pod.name);
                        pod.gone = mirror.is_none();
                        pod.deleting |= mirror
                            .is_some_and(|it| it["metadata"]["deletionTimestamp"].is_string());
                    } else {
                        pod.gone |= pods.get(uid).is_none_or(|before| before.gone);
                    }
                }
                for (uid, mut before) in pods.into_iter().filter(|(_, pod)| !pod.gone) {
                    if before.is_static {
                        if state.pods.values().any(|pod| pod.name == before.name) {
                            continue;
                        }
                        // The mirror of a manifest that is gone by now.
                        before.completed = true;
                    }
                    let completed = state.pods.get(&uid).is_some_and(|pod| pod.completed);
                    let nets = state.pods.get(&uid).map(|pod| pod.nets.clone());
                    let pod = Pod {
                        completed: before.completed || completed,
                        nets: nets.unwrap_or(before.nets.clone()),
                        ..before
                    };
                    state.pods.insert(uid, pod);
                    again.push(uid);
                }
            }
            this.lose_rows();
            for uid in again {
                this.begin_life(uid);
            }
        });
    }

    /// Two ADDs that raced for one address of overlapping ranges leave two rows and one reservation. Where that is of a pod
    /// that is gone or has another address by now, the other pod can never start, since whereabouts keeps its row and refuses the address. A person
    /// deletes the reservation: ipgc leaves it as long as any row has the address.
    pub(crate) fn delete_foreign_reservations(&self) {
        let reports = |podref: &str, ip: IpAddr| {
            let name = podref
                .strip_prefix(NS)
                .and_then(|name| name.strip_prefix('/'));
            let pod = name.and_then(|name| self.server.get("pods", NS, name));
            let pod = pod.unwrap_or_default();
            let status = pod["metadata"]["annotations"][fixtures::NETWORK_STATUS].as_str();
            let is_over =
                pod["status"]["phase"] == "Succeeded" || pod["status"]["phase"] == "Failed";
            !is_over && status.is_some_and(|status| status.contains(&format!("\"{ip}\"")))
        };
        let pools = self.all_rows();
        for reserved in self.server.list(ORIP) {
            let name = reserved["metadata"]["name"].as_str().unwrap_or_default();
            let owner = reserved["spec"]["podref"].as_str().unwrap_or_default();
            let mut owners = Vec::new();
            let mut is_needed = false;
            for (number, net) in self.nets.iter().enumerate().filter(|it| it.1.reserves) {
                let Some(ip) = reservation_address(name, net.network_name) else {
                    continue;
                };
                is_needed |= reports(owner, ip);
                for (pool, range) in self.places(number) {
                    let range = Range::parse(range);
                    let address = |key: &str| range?.address_at(Offset::parse(key)?);
                    let rows = pools.get(&pool).into_iter().flatten();
                    let rows = rows.filter(|(key, _)| address(key) == Some(ip));
                    owners.extend(rows.map(|(_, row)| row["podref"].clone()));
                }
            }
            let is_foreign = !owners.is_empty() && owners.iter().all(|it| it != owner);
            if is_foreign && !is_needed && self.server.delete(ORIP, NS, name).is_some() {
                self.tell(
                    "a person deletes a foreign reservation",
                    format_args!("{name} of {owner}, whose address is in another pod's row"),
                );
            }
        }
    }
}
