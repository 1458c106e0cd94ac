//! Second sandboxes that no state shows. A kubelet sends only the newest state of a pod, and a deletion may cut off the
//! second set-up: then the kubelet ends the pod by the first sandbox, and the second one is stopped later. What ipgc needs
//! to tell the two from each other is shown (assumption 3 of docs/safety.md).

use std::time::Duration;

use testkit::{Request, Verb, fixtures};
use tokio::time::{Instant, sleep};

use crate::world::{Pod, World};

/// So long after a fault each watch is fresh again: kube's pause, and a bookmark.
const RECOVERY: Duration = Duration::from_secs(100);
/// So long after a report the watch has shown it.
const LAG: Duration = Duration::from_secs(2);
/// A sweep begins with a list of these.
const SLICES: &str = "nodeslicepools";
/// A sweep that began so long ago has read all pools, where nothing fails.
const SWEEP: Duration = Duration::from_secs(5);

impl World {
    /// A copy of ipgc may not hear or read everything for so long.
    pub(crate) fn deafen(&self, time: Duration) {
        let end = self.now() + time + RECOVERY;
        let mut state = self.state();
        state.heard_from = state.heard_from.max(end);
    }

    /// The sandbox of a pod breaks, or its machine is booted at once.
    pub(crate) async fn second(self, uid: u64, pod: Pod, is_boot: bool) {
        let Some(first) = self.running(uid).first().copied() else {
            return;
        };
        if pod.is_static || pod.deleting || !pod.has_run || pod.fails {
            return;
        }
        if is_boot {
            let unseen = self.can_tell(first, true).then(|| self.now());
            self.set(uid, |pod| pod.unseen = unseen);
            self.without_power(pod.machine, self.millis(5_000, 20_000));
        } else {
            self.tell("a sandbox breaks", pod.podref());
            self.set(uid, |pod| pod.fails = true);
        }
        let has_another = || {
            let state = self.state();
            let mut later = state.sandboxes.iter().skip(first + 1);
            later.any(|it| it.uid == uid && !it.addresses.is_empty())
        };
        let is_deleted = self.percent(80);
        for _ in 0..2_400 {
            sleep(Duration::from_millis(50)).await;
            if has_another() && is_deleted {
                sleep(self.millis(0, 30_000)).await;
                return self.begin_delete(uid, &pod.name);
            }
        }
    }

    /// Whether ipgc would tell a second sandbox from this first one: each copy has seen the nodes, if a boot tells, or in a
    /// sweep the rows that the pod reports, and has heard all since.
    fn can_tell(&self, first: usize, is_boot: bool) -> bool {
        let (clients, seen) = {
            let state = self.state();
            let first = &state.sandboxes[first];
            let mut rows = first.answering();
            let has_rows = rows.any(|it| !self.nets[it.net].of_claims);
            let seen = match first.reported {
                _ if is_boot => Duration::ZERO,
                Some(reported) if has_rows => reported,
                _ => return false,
            };
            (state.clients.clone(), seen.max(state.heard_from))
        };
        let since = self.begun() + seen;
        let (requests, now) = (self.server.requests(), Instant::now());
        clients.values().all(|client| {
            let lists = requests.iter();
            let mut lists = lists.filter(|it| *it.client == **client && it.verb == Verb::List);
            // The watch begins anew with all pods, and ipgc may forget what it saw.
            let is_sweep = lists
                .clone()
                .any(|it| it.resource == SLICES && since + LAG <= it.at && it.at + SWEEP <= now);
            let is_all = |it: &Request| it.resource == "pods" && it.namespace.is_empty();
            is_sweep && !lists.any(|it| is_all(it) && !it.metadata_only && since <= it.at)
        })
    }

    /// A kubelet stops the broken sandbox of a pod, to make another.
    pub(crate) async fn stop_broken(&self, uid: u64, pod: &Pod) {
        let (running, now) = (self.running(uid), self.now());
        let first = running.first();
        let can_tell = first.is_some_and(|first| self.can_tell(*first, false));
        for at in running {
            self.stop(at, pod).await;
        }
        if self.running(uid).is_empty() {
            self.set(uid, |pod| {
                pod.fails = false;
                pod.unseen = can_tell.then_some(now);
            });
        }
    }

    /// A set-up is cut off that no state has shown. Unless ipgc knows enough, a state shows it after all.
    pub(crate) fn end_unseen(&self, uid: u64, pod: &Pod) {
        let Some(since) = pod.unseen else { return };
        let machine = self.machine(pod.machine);
        let node = self.node(&machine.name).unwrap_or_default();
        let boot = format!("boot-{}-{}", pod.machine, machine.boot);
        let is_boot_told = node["status"]["nodeInfo"]["bootID"] == boot;
        if is_boot_told && self.state().heard_from <= since {
            self.tell("a second sandbox goes unseen", pod.podref());
        } else {
            self.api_edit(uid, |object| object["status"] = fixtures::starting_status());
        }
    }
}
