//! The actions of the cluster beside ipgc: StatefulSet, kubelets, CNI, people, upstream's collectors.

use crate::{
    action::Action,
    replica::Event,
    scenario::{ADD_BUDGET, Assumption, Scenario},
    world::{
        Address, MachineId, Name, OTHER, Pod, Report, Row, SILENCE, Sandbox, Stage, Tick, WEB,
        World, moment,
    },
};

impl World {
    /// The actions that are possible next, without ipgc's steps.
    pub fn cluster_actions(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        if self.now < scenario.quiet {
            self.api_actions(actions);
            for (id, machine) in (0..).zip(&self.machines) {
                if machine.up {
                    actions.push(Action::Down(id));
                }
                if !machine.up && !machine.tainted {
                    actions.push(Action::Back(id));
                }
                if !machine.up && !machine.ready {
                    actions.push(Action::Fence(id));
                }
            }
        }
        for (id, machine) in (0..).zip(&self.machines) {
            if !machine.up && machine.ready {
                actions.push(Action::NotReady(id));
            }
        }
        for pod in self.pods.iter().filter(|pod| self.is_up(pod.machine)) {
            self.kubelet_actions(scenario, *pod, actions);
        }
        for sandbox in self.sandboxes.iter().filter(|s| self.is_up(s.machine)) {
            let may_add = || self.place_for(scenario, sandbox.name).is_some();
            if sandbox.address.is_none() && (sandbox.looked.is_some() || may_add()) {
                actions.push(Action::Add(sandbox.number));
            }
            let over = |pod: &Pod| pod.deleting || pod.stage == Stage::Evicted;
            if self.incarnation(sandbox.uid).is_none_or(over) {
                actions.push(Action::Stop(sandbox.number));
                if sandbox.address.is_some() {
                    actions.push(Action::StopWithoutDel(sandbox.number));
                }
            }
        }
        if self.place_for(scenario, self.next_other()).is_some() {
            actions.push(Action::OtherTakes);
        }
        let others = self.pods.iter().filter(|pod| pod.name >= OTHER);
        actions.extend(others.map(|pod| Action::OtherLeaves(pod.name)));
        actions.extend((0..self.late.len()).map(Action::Late));
        let orphaned =
            |(_, row): &(Address, Row)| self.pod(row.name).is_none_or(|pod| pod.deleting);
        let orphaned = self.pools[0].taken().filter(orphaned);
        actions.extend(orphaned.map(|(of, _)| Action::Upstream(of)));
        if self.may_tick(scenario) {
            actions.push(Action::Tick);
        }
    }

    fn api_actions(&self, actions: &mut Vec<Action>) {
        let Some(pod) = self.pod(WEB) else {
            let ready = (0..)
                .zip(&self.machines)
                .filter(|(_, machine)| machine.ready);
            actions.extend(ready.map(|(id, _)| Action::Create(id)));
            return;
        };
        if !pod.deleting {
            actions.push(Action::Delete(WEB));
        }
        actions.push(Action::Force(WEB));
        if pod.stage == Stage::Running {
            actions.push(Action::Evict(WEB));
        }
        if pod.stage == Stage::Running && !pod.deleting && self.is_up(pod.machine) {
            actions.push(Action::Complete(WEB));
        }
    }

    fn kubelet_actions(&self, scenario: &Scenario, pod: Pod, actions: &mut Vec<Action>) {
        if pod.name >= OTHER {
            return;
        }
        let mut sandboxes = self
            .sandboxes
            .iter()
            .filter(|sandbox| sandbox.uid == pod.uid)
            .peekable();
        let has_any = sandboxes.peek().is_some();
        let has_address = sandboxes.any(|sandbox| sandbox.address.is_some());
        if pod.stage == Stage::Pending && !pod.deleting {
            if !has_any && (scenario.slow_add || self.place_for(scenario, pod.name).is_some()) {
                actions.push(Action::Start(pod.uid));
            }
            if has_address {
                actions.push(Action::Report(pod.uid));
                if scenario.incomplete {
                    actions.push(Action::ReportLess(pod.uid));
                }
            }
        }
        let cut_off = pod.stage == Stage::Pending;
        let liar = scenario.dropped == Some(Assumption::TerminalMeansStopped);
        if pod.deleting && (!has_any || cut_off || liar) {
            actions.push(Action::Finish(pod.uid));
        }
    }

    fn may_tick(&self, scenario: &Scenario) -> bool {
        let now = self.now;
        let late = |sandbox: &Sandbox| {
            self.is_up(sandbox.machine)
                && sandbox
                    .clock
                    .is_some_and(|clock| now + 1 >= clock + scenario.wait())
        };
        let lagging = scenario.dropped != Some(Assumption::FreshLagsLess)
            && !(scenario.lagging && now < scenario.quiet)
            && self
                .replicas
                .iter()
                .any(|replica| replica.fresh && !replica.pending.is_empty());
        let unfinished = now >= scenario.quiet
            && self.replicas.iter().any(|replica| {
                !replica.fresh
                    || !replica.pending.is_empty()
                    || (replica.is_busy() && !replica.is_waiting(scenario, now))
                    || replica.may_begin(self)
            });
        // A kubelet at work ends the pods that it has begun to end before the last waits begin.
        let ending = now >= scenario.quiet
            && self
                .pods
                .iter()
                .any(|pod| pod.deleting && self.is_up(pod.machine));
        let overdue =
            scenario.dropped != Some(Assumption::StoppedWithinW) && self.sandboxes.iter().any(late);
        // An ADD writes within its budget, or never.
        let slow = |sandbox: &Sandbox| {
            let looked = sandbox.looked;
            looked.is_some_and(|(_, at, _)| now + 2 > at + ADD_BUDGET)
        };
        let slow = self.sandboxes.iter().any(slow);
        now < scenario.horizon && !lagging && !unfinished && !ending && !overdue && !slow
    }

    pub(crate) fn next_other(&self) -> Name {
        (OTHER..=OTHER + 3)
            .find(|name| self.pod(*name).is_none())
            .unwrap_or(OTHER)
    }

    pub(crate) fn is_up(&self, machine: MachineId) -> bool {
        self.machines[usize::from(machine)].up
    }

    /// Does what the cluster does; ipgc's steps are none of it.
    pub fn happen(&mut self, scenario: &Scenario, action: Action) {
        match action {
            Action::Tick => self.tick(),
            Action::Create(machine) => {
                self.create(WEB, machine);
            }
            Action::Start(uid) => self.start(scenario, uid),
            Action::Add(number) => self.add(scenario, number),
            Action::Report(uid) | Action::ReportLess(uid) => {
                self.report(uid, action == Action::Report(uid));
            }
            Action::Delete(name) => self.change(name, |pod| pod.deleting = true),
            Action::Force(name) => self.remove_object(name),
            Action::Evict(name) => self.change(name, |pod| pod.stage = Stage::Evicted),
            Action::Complete(name) => {
                let uid = self.pod(name).map(|pod| pod.uid);
                self.sandboxes.retain(|sandbox| Some(sandbox.uid) != uid);
                self.change(name, |pod| pod.stage = Stage::Ended);
            }
            Action::Stop(number) => self.stop(scenario, number, true),
            Action::StopWithoutDel(number) => self.stop(scenario, number, false),
            Action::Finish(uid) => {
                let name = self.incarnation(uid).map_or(WEB, |pod| pod.name);
                self.change(name, |pod| {
                    pod.stage = if pod.stage == Stage::Pending {
                        Stage::CutOff
                    } else {
                        Stage::Ended
                    };
                });
                self.remove_object(name);
            }
            Action::OtherTakes => self.other_takes(scenario),
            Action::OtherLeaves(name) => {
                self.remove_object(name);
                let its = self.sandboxes.clone().into_iter();
                for sandbox in its.filter(|sandbox| sandbox.name == name) {
                    self.stop(scenario, sandbox.number, true);
                }
            }
            Action::Down(machine) => self.machines[usize::from(machine)].up = false,
            Action::NotReady(machine) => {
                self.change_machine(machine, |machine| machine.ready = false);
            }
            Action::Back(machine) => self.change_machine(machine, |machine| {
                machine.up = true;
                machine.ready = true;
            }),
            Action::Fence(machine) => {
                if scenario.dropped != Some(Assumption::FencedIsEmpty) {
                    self.sandboxes.retain(|sandbox| sandbox.machine != machine);
                }
                self.change_machine(machine, |machine| machine.tainted = true);
            }
            Action::Late(which) => {
                let write = self.late.remove(which);
                self.write(scenario, &write);
            }
            Action::Upstream(of) => {
                self.pools[0].set(of, None);
                if self.answering(of).next().is_some() {
                    self.spoiled.push(of);
                }
            }
            Action::Ipgc(..) => {}
        }
    }

    fn tick(&mut self) {
        let now = self.now + 1;
        self.now = now;
        for (id, machine) in (0..).zip(&mut self.machines) {
            if machine.up {
                machine.renewed = now;
            }
            let broken = now - machine.renewed > SILENCE;
            for sandbox in self
                .sandboxes
                .iter_mut()
                .filter(|s| s.machine == id && s.orphan)
            {
                if machine.up {
                    sandbox.clock.get_or_insert(now);
                } else if broken {
                    sandbox.clock = None;
                }
            }
        }
        for replica in &mut self.replicas {
            replica.hear(&self.machines, moment(now));
            if replica.fresh {
                replica.heard_until = now;
            }
        }
    }

    /// A new pod object.
    pub fn create(&mut self, name: Name, machine: MachineId) -> u8 {
        let pod = Pod {
            uid: self.next_uid,
            name,
            machine,
            stage: Stage::Pending,
            deleting: false,
            report: Report::Missing,
        };
        self.next_uid += 1;
        self.pods.push(pod);
        self.announce(pod, false);
        pod.uid
    }

    pub(crate) fn report(&mut self, uid: u8, complete: bool) {
        let of = self
            .sandboxes
            .iter()
            .find(|s| s.uid == uid)
            .and_then(|s| s.address);
        let pod = self.pods.iter_mut().find(|pod| pod.uid == uid);
        if let (Some(of), Some(pod)) = (of, pod) {
            pod.stage = Stage::Running;
            pod.report = if complete {
                Report::Of(of)
            } else {
                Report::Incomplete
            };
            let pod = *pod;
            self.announce(pod, false);
        }
    }

    fn change(&mut self, name: Name, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.pods.iter_mut().find(|pod| pod.name == name) {
            change(pod);
            let pod = *pod;
            self.announce(pod, false);
        }
    }

    fn remove_object(&mut self, name: Name) {
        if let Some(place) = self.pods.iter().position(|pod| pod.name == name) {
            let pod = self.pods.remove(place);
            let since = self.is_up(pod.machine).then_some(self.now);
            for sandbox in self.sandboxes.iter_mut().filter(|s| s.uid == pod.uid) {
                sandbox.orphan = true;
                sandbox.clock = since;
            }
            self.announce(pod, true);
        }
    }

    fn announce(&mut self, pod: Pod, deleted: bool) {
        if pod.name == WEB {
            for replica in &mut self.replicas {
                replica.pending.push(Event { pod, deleted });
            }
        }
    }

    fn change_machine(&mut self, id: MachineId, change: impl FnOnce(&mut crate::world::Machine)) {
        let now: Tick = self.now;
        let machine = &mut self.machines[usize::from(id)];
        change(machine);
        for replica in &mut self.replicas {
            replica.see_machine(id, *machine, now);
        }
    }
}
