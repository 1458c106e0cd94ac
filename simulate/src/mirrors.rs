//! Static pods: a kubelet runs one for each manifest on its machine, and shows it by a mirror. The sandbox lives on while
//! the mirror is deleted, until the kubelet makes it again. It ends with the manifest. One task for each pod.

use testkit::fixtures;
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    kubelet::LOOK,
    story::Kind,
    world::{Pod, World},
};

impl World {
    /// Lives the life of a static pod, until its manifest and its sandboxes are gone or its machine is booted anew.
    pub(crate) async fn live_static(&self, uid: u64, boot: u64) {
        let mut set_up: Option<JoinHandle<bool>> = None;
        loop {
            sleep(self.millis(LOOK / 2, LOOK)).await;
            let Some(pod) = self.pod(uid) else { return };
            let machine = self.machine(pod.machine);
            if machine.boot != boot || !machine.power {
                return;
            }
            let is_in_set_up = set_up.as_ref().is_some_and(|it| !it.is_finished());
            if !machine.kubelet || (pod.completed && is_in_set_up) {
                continue;
            }
            if pod.completed {
                self.stop_all(uid, &pod).await;
                if self.running(uid).is_empty() && self.machine(pod.machine).is_at_work() {
                    self.remove(uid);
                    self.state().pods.remove(&uid);
                    return;
                }
                continue;
            }
            if !machine.connected {
                continue;
            }
            if pod.gone || pod.deleting {
                sleep(self.millis(100, 15_000)).await;
                let machine = self.machine(pod.machine);
                if machine.is_at_work() && machine.boot == boot {
                    self.mirror(uid, &pod);
                }
                continue;
            }
            // Multus asks the API server for the mirror, so there is no set-up without one.
            if is_in_set_up || !self.running(uid).is_empty() {
                continue;
            }
            self.begin_set_up(uid, pod, &mut set_up).await;
        }
    }

    /// The kubelet makes the mirror again. It does not know what multus reported in the former one.
    fn mirror(&self, uid: u64, pod: &Pod) {
        self.remove(uid);
        let node = self.machine(pod.machine).name;
        self.put_pod(self.next(), pod, Kind::Static.controller(), &node);
        self.set(uid, |pod| {
            (pod.gone, pod.deleting, pod.terminal) = (false, false, false);
        });
        if pod.has_run && !self.running(uid).is_empty() {
            self.api_edit(uid, |object| object["status"] = fixtures::running_status());
        }
        self.tell("a mirror is made again", pod.podref());
    }
}
