//! The life of a pod on its machine, as its kubelet and multus make it: sandbox, ADDs, status, DELs, the last status, the
//! removal of the object. One task for each pod.

use serde_json::Value;
use testkit::fixtures;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    cni::Del,
    world::{NS, Pod, Sandbox, World},
};

/// So often a kubelet looks what is to be done, in milliseconds.
pub const LOOK: u64 = 1_000;

impl World {
    /// A kubelet begins to live the life of a pod, unless it does already, until the object and the sandboxes of the pod
    /// are gone or its machine has no power.
    pub fn begin_life(&self, uid: u64) {
        // One task for each pod.
        if self.state().lives.insert(uid) {
            let this = self.clone();
            tokio::spawn(async move {
                let machine = |pod: &Pod| this.machine(pod.machine);
                while let Some(pod) = this.pod(uid)
                    && machine(&pod).power
                {
                    let boot = machine(&pod).boot;
                    if pod.is_static {
                        this.live_static(uid, boot).await;
                    } else {
                        this.live(uid, boot).await;
                    }
                }
                this.state().lives.remove(&uid);
            });
        }
    }

    async fn live(&self, uid: u64, boot: u64) {
        let mut set_up: Option<JoinHandle<bool>> = None;
        loop {
            sleep(self.millis(LOOK / 2, LOOK)).await;
            let Some(pod) = self.pod(uid) else { return };
            let machine = self.machine(pod.machine);
            if machine.boot != boot || !machine.power {
                return;
            }
            if !machine.kubelet {
                continue;
            }
            // Without the API server a kubelet knows no wish of anybody.
            let is_over = pod.completed || machine.connected && (pod.deleting || pod.gone);
            let is_in_set_up = set_up.as_ref().is_some_and(|it| !it.is_finished());
            if is_over && is_in_set_up {
                // A kubelet waits for it, or cuts it off and does not know of the sandbox for a while.
                if machine.connected && !pod.gone && self.percent(40) {
                    self.cut_off(uid, &pod).await;
                }
                continue;
            }
            if pod.fails && !is_over && !is_in_set_up {
                self.stop_broken(uid, &pod).await;
                continue;
            }
            if is_over {
                self.stop_all(uid, &pod).await;
                if !self.running(uid).is_empty() || !self.machine(pod.machine).power {
                    continue;
                }
                if self.report_end(uid).await {
                    return;
                }
                continue;
            }
            let is_begun = is_in_set_up || !self.running(uid).is_empty();
            if pod.gone || pod.terminal || !machine.connected || is_begun {
                continue;
            }
            self.begin_set_up(uid, pod, &mut set_up).await;
        }
    }

    /// Begins a set-up; or waits, if the one before failed.
    pub(crate) async fn begin_set_up(
        &self,
        uid: u64,
        pod: Pod,
        set_up: &mut Option<JoinHandle<bool>>,
    ) {
        if let Some(last) = set_up.take()
            && !last.await.unwrap_or_default()
        {
            return sleep(self.millis(1_000, 15_000)).await;
        }
        let this = self.clone();
        *set_up = Some(tokio::spawn(async move {
            let is_done = this.set_up(uid, &pod).await;
            this.set(uid, |pod| pod.unseen = None);
            is_done
        }));
    }

    /// The set-up of a sandbox is cut off: the pod is reported as at its end, and its object goes, though ADD may still be at
    /// work. The sandbox is stopped later, like that of a pod that is gone.
    async fn cut_off(&self, uid: u64, pod: &Pod) {
        self.tell("a set-up is cut off", pod.podref());
        self.end_unseen(uid, pod);
        let has_run = pod.has_run;
        self.api_edit(uid, |object| {
            object["status"] = fixtures::ended_status("Failed");
            if !has_run {
                // Its containers never started: the kubelet makes their ends up.
                let state = &mut object["status"]["containerStatuses"][0]["state"]["terminated"];
                state["startedAt"] = Value::Null;
            }
        });
        self.set(uid, |pod| pod.terminal = true);
        sleep(self.millis(50, 1_000)).await;
        if self.pod(uid).is_some_and(|pod| pod.deleting) && self.machine(pod.machine).is_at_work() {
            self.remove(uid);
        }
    }

    /// Makes a sandbox with all its networks, and reports them; or what was begun is taken back.
    pub(crate) async fn set_up(&self, uid: u64, pod: &Pod) -> bool {
        if pod.unseen.is_none() {
            self.api_edit(uid, |object| object["status"] = fixtures::starting_status());
        }
        let at = {
            let number = self.next();
            let mut state = self.state();
            state.sandboxes.push(Sandbox {
                id: fixtures::sandbox(number),
                uid,
                podref: pod.podref(),
                machine: pod.machine,
                addresses: Vec::new(),
                reported: None,
                until: None,
            });
            state.sandboxes.len() - 1
        };
        for (number, net) in pod.nets.iter().enumerate() {
            sleep(self.millis(20, 800)).await;
            // A machine that lost its power took the sandbox along.
            if !self.state().sandboxes[at].runs() {
                return false;
            }
            let interface = format!("net{}", number + 1);
            if !self.add(at, *net, &interface).await {
                self.tell("ADD fails", format_args!("{} {interface}", pod.podref()));
                self.stop(at, pod).await;
                return false;
            }
        }
        let longest = if pod.unseen.is_some() { 40_000 } else { 1_500 };
        sleep(self.millis(20, longest)).await;
        let is_wanted = || {
            let is_there = self.pod(uid).is_some_and(|pod| !pod.gone && !pod.terminal);
            is_there && self.machine(pod.machine).is_at_work() && self.state().sandboxes[at].runs()
        };
        if !is_wanted() {
            return true;
        }
        self.report(uid, at);
        sleep(self.millis(10, 1_000)).await;
        if is_wanted() {
            self.api_edit(uid, |object| object["status"] = fixtures::running_status());
            self.set(uid, |pod| pod.has_run = true);
            self.tell("a pod runs", pod.podref());
        }
        true
    }

    /// Writes the network-status of a sandbox.
    pub(crate) fn report(&self, uid: u64, at: usize) {
        let (status, now) = (Value::from(self.entries(at)).to_string(), self.now());
        self.state().sandboxes[at].reported = Some(now);
        self.api_edit(uid, |object| {
            object["metadata"]["annotations"][fixtures::NETWORK_STATUS] = status.into();
        });
    }

    fn entries(&self, at: usize) -> Vec<Value> {
        let state = self.state();
        let sandbox = &state.sandboxes[at];
        let mut entries = Vec::<Value>::new();
        let reported = sandbox.answering();
        for address in reported.filter(|it| !self.nets[it.net].of_claims) {
            let name = format!("{NS}/{}", self.nets[address.net].name);
            let ip = address.ip.to_string();
            let known = entries
                .iter_mut()
                .find(|it| it["interface"] == address.interface.as_str());
            match known.and_then(|it| it["ips"].as_array_mut()) {
                Some(ips) => ips.push(ip.into()),
                None => entries.push(fixtures::network(&name, &address.interface, &[&ip])),
            }
        }
        entries
    }

    pub(crate) async fn stop_all(&self, uid: u64, pod: &Pod) {
        let running = self.running(uid);
        if running.is_empty() {
            return;
        }
        // The containers end within the grace of the pod; an orphan is found a little later.
        let pause = if pod.gone {
            self.millis(200, 90_000)
        } else {
            self.millis(50, 20_000)
        };
        sleep(pause).await;
        for at in running {
            self.stop(at, pod).await;
        }
    }

    /// The DELs of a sandbox, and its end.
    pub(crate) async fn stop(&self, at: usize, pod: &Pod) {
        for (number, net) in pod.nets.iter().enumerate().rev() {
            let machine = self.machine(pod.machine);
            if !machine.power || !machine.kubelet {
                return;
            }
            let is_calm = self.state().is_calm;
            let del = match self.state().dice.below(100) {
                _ if !machine.connected => Del::Lost,
                _ if is_calm => Del::Done,
                0..25 => Del::Lost,
                25..30 => Del::Half,
                _ => Del::Done,
            };
            let pause = if del == Del::Lost {
                self.millis(50, 40_000)
            } else {
                self.millis(20, 2_000)
            };
            sleep(pause).await;
            if !self.state().sandboxes[at].runs() {
                return;
            }
            self.del(at, *net, &format!("net{}", number + 1), del);
        }
        sleep(self.millis(5, 200)).await;
        self.end_sandbox(at);
    }

    /// Reports the end of a pod whose sandboxes are stopped; true when nothing is left of it.
    async fn report_end(&self, uid: u64) -> bool {
        let Some(pod) = self.pod(uid) else {
            return true;
        };
        if pod.gone {
            self.state().pods.remove(&uid);
            return true;
        }
        sleep(self.millis(20, 800)).await;
        if !self.machine(pod.machine).is_at_work() {
            return false;
        }
        if !pod.terminal {
            let phase = if pod.completed { "Succeeded" } else { "Failed" };
            self.api_edit(uid, |object| {
                object["status"] = fixtures::ended_status(phase);
            });
            self.set(uid, |pod| pod.terminal = true);
            self.tell("a pod is at its end", pod.podref());
        }
        let is_deleting = self.pod(uid).is_some_and(|pod| pod.deleting || pod.gone);
        if !is_deleting {
            return false;
        }
        sleep(self.millis(50, 1_000)).await;
        if !self.machine(pod.machine).is_at_work() {
            return false;
        }
        self.remove(uid);
        self.state().pods.remove(&uid);
        true
    }

    /// Changes the object of a pod, if it is still this pod's.
    pub fn api_edit(&self, uid: u64, change: impl FnOnce(&mut Value)) {
        if let Some(pod) = self.pod(uid)
            && !pod.gone
        {
            self.server.edit("pods", NS, &pod.name, change);
        }
    }

    /// The object of a pod goes.
    pub fn remove(&self, uid: u64) {
        let Some(pod) = self.pod(uid).filter(|pod| !pod.gone) else {
            return;
        };
        self.api.remove_pod(NS, &pod.name);
        self.set(uid, |pod| pod.gone = true);
        self.tell("a pod's object goes", pod.podref());
    }
}
