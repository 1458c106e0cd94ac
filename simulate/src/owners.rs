//! The owners of pods: they make their pods, and others in place of those that are gone. A task for each.

use serde_json::json;
use testkit::fixtures;
use tokio::time::sleep;

use crate::{
    story::{Kind, Owner},
    world::{NS, Pod, World},
};

impl World {
    /// An owner makes its pods, and new ones for those that are gone.
    pub async fn own(self, number: usize, owner: Owner) {
        for index in 0..owner.pods {
            sleep(self.millis(0, 4_000)).await;
            self.create(number, index, &owner);
        }
        loop {
            sleep(self.millis(500, 3_000)).await;
            for index in 0..owner.pods {
                let is_there = |pod: &Pod| {
                    let is_alive = match owner.kind {
                        // The name is taken until the object is gone.
                        _ if owner.kind.names_return() => !pod.gone,
                        _ => !pod.gone && !pod.marked && !pod.terminal,
                    };
                    pod.owner == (number, index) && is_alive
                };
                let there: Vec<_> = {
                    let state = self.state();
                    let there = state.pods.iter().filter(|(_, pod)| is_there(pod));
                    there.map(|(uid, pod)| (*uid, pod.clone())).collect()
                };
                match (&there[..], owner.kind) {
                    ([], Kind::Job | Kind::Bare) if self.state().is_calm || self.percent(90) => {}
                    ([], _) => self.create(number, index, &owner),
                    ([(uid, pod)], Kind::StatefulSet) if pod.terminal && !pod.marked => {
                        self.mark(*uid, &pod.name);
                    }
                    ([(uid, _)], Kind::VirtualMachine)
                        if self.percent(1) && !self.state().is_calm =>
                    {
                        self.migrate(*uid, number, index, &owner);
                    }
                    _ => {}
                }
            }
        }
    }

    fn create(&self, number: usize, index: usize, owner: &Owner) {
        let machines = self.state().machines.clone();
        let mut ready = Vec::new();
        for (machine, it) in machines.iter().enumerate() {
            if it.is_at_work() && self.is_ready(&it.name) == Some(true) {
                ready.push(machine);
            }
        }
        if ready.is_empty() {
            return;
        }
        let machine = self.state().dice.one(&ready);
        let uid = self.next();
        let name = if owner.kind.names_return() {
            format!("{}-{index}", owner.name)
        } else {
            format!("{}-{uid:05x}", owner.name)
        };
        let pod = Pod {
            name: name.clone(),
            owner: (number, index),
            machine,
            nets: owner.nets.clone(),
            marked: false,
            completed: false,
            gone: false,
            terminal: false,
            has_run: false,
        };
        let asked = owner
            .nets
            .iter()
            .map(|net| format!("{NS}/{}", self.nets[*net].name));
        let asked: Vec<_> = asked.collect();
        let object = fixtures::pod(NS, &name)
            .node(&self.machine(machine).name)
            .networks(&asked.join(","));
        let object = object.uid(&format!("00000000-0000-4000-8000-{uid:012x}"));
        let object = object.with(|object| {
            if let Some((version, kind)) = owner.kind.controller() {
                object["metadata"]["ownerReferences"] = json!([{
                    "apiVersion": version,
                    "kind": kind,
                    "name": owner.name,
                    "uid": "00000000-0000-4000-8000-ffffffffffff",
                    "controller": true,
                }]);
            }
        });
        self.server.put(object);
        self.state().pods.insert(uid, pod);
        self.tell("a pod is made", || {
            format!("{NS}/{name} is made for {}", self.machine(machine).name)
        });
        self.begin_life(uid);
        if owner.kind == Kind::Job {
            let (this, time) = (self.clone(), self.millis(30_000, 300_000));
            tokio::spawn(async move {
                sleep(time).await;
                this.set(uid, |pod| pod.completed = true);
                sleep(time).await;
                if let Some(pod) = this.pod(uid).filter(|pod| !pod.gone && !pod.marked) {
                    this.mark(uid, &pod.name);
                }
            });
        }
    }

    /// A virtual machine moves to another pod: the new one runs, then the old one ends.
    fn migrate(&self, old: u64, number: usize, index: usize, owner: &Owner) {
        self.tell("a virtual machine migrates", || {
            format!("the machine of pod {old} migrates")
        });
        self.create(number, index, owner);
        let this = self.clone();
        tokio::spawn(async move {
            sleep(this.millis(5_000, 30_000)).await;
            this.set(old, |pod| pod.completed = true);
            sleep(this.millis(5_000, 60_000)).await;
            if let Some(pod) = this.pod(old).filter(|pod| !pod.gone && !pod.marked) {
                this.mark(old, &pod.name);
            }
        });
    }
}
