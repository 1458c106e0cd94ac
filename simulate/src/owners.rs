//! The owners of pods: they make their pods, and others in place of those that are gone. A task for each.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use testkit::{Match, Request, fixtures};
use tokio::time::sleep;

use crate::{
    faults::is_work,
    story::{Fault, Kind, Owner, Returns},
    world::{NS, Pod, World, is_ready},
};

impl World {
    /// An owner makes its pods, and new ones for those that are gone.
    pub async fn own(self, number: usize, owner: Owner) {
        for index in 0..owner.pods {
            sleep(self.millis(0, 4_000)).await;
            if !self.has_pod(number, index) {
                self.create(number, index, &owner);
            }
        }
        loop {
            sleep(self.millis(500, 3_000)).await;
            for index in 0..owner.pods {
                let is_there = |pod: &Pod| {
                    let is_alive = match owner.kind {
                        // Its manifest is there, whatever became of its mirror.
                        Kind::Static => true,
                        // The name is taken until the object is gone.
                        _ if owner.kind.names_return() => !pod.gone,
                        _ => !pod.gone && !pod.deleting && !pod.terminal,
                    };
                    pod.owner == (number, index) && is_alive
                };
                match (&self.pods(is_there)[..], owner.kind) {
                    ([], kind) if kind.names_return() && self.state().names_wait > self.now() => {}
                    ([], Kind::Job | Kind::Bare | Kind::Static)
                        if self.state().is_calm || self.percent(90) => {}
                    ([], _) => self.create(number, index, &owner),
                    ([(uid, pod)], Kind::StatefulSet) if pod.terminal && !pod.deleting => {
                        self.begin_delete(*uid, &pod.name);
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

    /// At a request of ipgc the names of pods that are gone are used again, and the request waits meanwhile.
    pub(crate) fn return_names(&self, owners: &[Owner], returns: Returns) {
        let sent = AtomicUsize::new(0);
        let at = move |it: &Request| {
            is_work(it) && sent.fetch_add(1, Ordering::Relaxed) + 1 == returns.at
        };
        let (world, owners) = (self.clone(), owners.to_vec());
        let request = self.server.on(Match::any().filter(at));
        request.before(move |_| {
            world.use_names(&owners);
            if returns.is_brief {
                world.take_back();
            }
            sleep(returns.pause)
        });
    }

    fn use_names(&self, owners: &[Owner]) {
        self.tell("names return at a request", "");
        self.state().names_wait = Duration::ZERO;
        let returning = |owner: &Owner| owner.kind.names_return() && owner.kind != Kind::Static;
        for (number, owner) in owners.iter().enumerate().filter(|it| returning(it.1)) {
            for index in 0..owner.pods {
                if !self.has_pod(number, index) {
                    self.create(number, index, owner);
                }
            }
        }
    }

    /// The pods that were made just now are deleted by force while their ADDs are at work. The watch shows them later, though
    /// within the cooldown (assumption 4 of docs/safety.md).
    fn take_back(&self) {
        let lag = Fault::Lag(1_800).begin(&self.server, 0);
        let made = self.pods(|pod| !pod.gone && !pod.has_run);
        let this = self.clone();
        this.state().names_wait = Duration::MAX;
        tokio::spawn(async move {
            sleep(this.millis(1_000, 1_500)).await;
            for (uid, _) in made {
                this.remove(uid);
            }
            sleep(Duration::from_secs(90)).await;
            lag.iter().for_each(testkit::Rule::remove);
            this.state().names_wait = Duration::ZERO;
        });
    }

    fn has_pod(&self, number: usize, index: usize) -> bool {
        let state = self.state();
        let mut pods = state.pods.values();
        pods.any(|pod| pod.owner == (number, index) && !pod.gone)
    }

    fn create(&self, number: usize, index: usize, owner: &Owner) {
        let machines = self.state().machines.clone();
        let mut ready = Vec::new();
        for (machine, it) in machines.iter().enumerate() {
            let may_be_its = owner.kind != Kind::Static || machine == index;
            if may_be_its && it.is_at_work() && self.node(&it.name).as_ref().is_some_and(is_ready) {
                ready.push(machine);
            }
        }
        if ready.is_empty() {
            return;
        }
        let machine = self.state().dice.one(&ready);
        let uid = self.next();
        let name = match owner.kind {
            Kind::Static => format!("{}-{}", owner.name, machines[machine].name),
            _ if owner.kind.names_return() => format!("{}-{index}", owner.name),
            _ => format!("{}-{uid:05x}", owner.name),
        };
        let pod = Pod {
            name,
            owner: (number, index),
            machine,
            nets: owner.nets.clone(),
            is_static: owner.kind == Kind::Static,
            ..Pod::default()
        };
        self.put_pod(uid, &pod, owner.kind.controller(), &owner.name);
        self.state().pods.insert(uid, pod);
        self.begin_life(uid);
        if owner.kind == Kind::Job {
            let (this, time) = (self.clone(), self.millis(30_000, 300_000));
            tokio::spawn(async move {
                sleep(time).await;
                this.set(uid, |pod| pod.completed = true);
                sleep(time).await;
                if let Some(pod) = this.pod(uid).filter(|pod| !pod.gone && !pod.deleting) {
                    this.begin_delete(uid, &pod.name);
                }
            });
        }
    }

    /// Makes the object of a pod.
    pub(crate) fn put_pod(&self, uid: u64, pod: &Pod, controller: Option<&str>, owner: &str) {
        let node = self.machine(pod.machine).name;
        let mut object = fixtures::pod(NS, &pod.name)
            .node(&node)
            .networks(&self.asked(&pod.nets))
            .uid(&format!("00000000-0000-4000-8000-{uid:012x}"));
        if let Some(kind) = controller {
            object = object.owner(kind, owner);
        }
        if pod.is_static {
            object = object.mirror();
        }
        self.server.put(object);
        self.claim(uid);
        self.tell("a pod is made", format_args!("{} on {node}", pod.podref()));
    }

    /// The text by which a pod asks for networks.
    pub(crate) fn asked(&self, nets: &[usize]) -> String {
        let asked = nets.iter().filter(|net| !self.nets[**net].of_claims);
        let asked = asked.map(|net| format!("{NS}/{}", self.nets[*net].name));
        asked.collect::<Vec<_>>().join(",")
    }

    /// A virtual machine moves to another pod: the new one runs, then the old one ends.
    fn migrate(&self, old: u64, number: usize, index: usize, owner: &Owner) {
        self.tell("a virtual machine migrates", old);
        self.create(number, index, owner);
        let this = self.clone();
        tokio::spawn(async move {
            sleep(this.millis(5_000, 30_000)).await;
            this.set(old, |pod| pod.completed = true);
            sleep(this.millis(5_000, 60_000)).await;
            if let Some(pod) = this.pod(old).filter(|pod| !pod.gone && !pod.deleting) {
                this.begin_delete(old, &pod.name);
            }
        });
    }
}
