//! When a row may be freed, and how well it is known that no running sandbox has its address.
//!
//! A row names a pod but no uid, so each incarnation of the pod that may have had the row counts: one that the watch
//! showed, by its end and by the state of its node; one that the watch never showed, by all nodes that may still run its
//! sandbox. The row is not freed before all of them are known to be gone (docs/safety.md, Hazard B).

use std::{sync::Arc, time::Duration};

use crate::{
    definitions::Scope,
    evidence::{Ended, Grade, Policy, Sandboxes, Unfenced},
    node::{Nodes, Standing, by_lease},
    pod::PodState,
    pool::RowContent,
    sighting::Sighting,
    time::Moment,
};

pub use crate::{
    time::{LOOK_AGAIN, look_again},
    wait::Wait,
};

/// The DELs that are assumed for the pod of a ResourceClaim: one more than a kubelet surely finishes.
const RESOURCE_CLAIM_DELS: usize = 3;

/// The facts about a row's pod and the nodes. The row itself and the presence of its pod are given separately.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The ended incarnations of the podref, in the order of their ends.
    pub ended: &'a [Arc<Ended>],
    /// The live incarnation, by the watch.
    pub living: Option<Living>,
    /// How many CNI DELs the end of the pod takes: one for each of its rows.
    pub rows: usize,
    /// The number of interfaces with rows of the podref, over all pools, as far as sweeps counted them.
    pub interfaces: usize,
    /// Earlier observations of the row; without any, it is seen for the first time.
    pub sighting: Option<Sighting>,
    /// All rows of the podref in any pool; none if they were not looked for.
    pub siblings: Option<&'a [RowContent]>,
    /// Other pods that may use the row's address.
    pub others: &'a [Other],
    /// The networks and the range of the pool: reports of the address in other networks are not about the row.
    pub scope: Scope<'a>,
    /// The nodes, and whether their kubelets are at work.
    pub nodes: &'a Nodes,
    /// The node that the pool belongs to alone (`node_slice_size`), if that is proven.
    pub slice: Option<&'a str>,
    /// The longest termination grace of any pod: that of a pod that nobody saw.
    pub longest_grace: Duration,
    /// Whether the pod watch is heard at present.
    pub fresh: bool,
    /// The waits.
    pub policy: &'a Policy,
    /// The present.
    pub now: Moment,
}

/// A pod other than a row's own that reports the row's address, or whose sandbox or container has the
/// row's id. A caller that collects them need not look at networks.
#[derive(Clone, Debug)]
pub struct Other {
    /// The pod, as it was seen last.
    pub pod: Arc<PodState>,
    /// How it ended, if it did, or is in a terminal phase.
    pub end: Option<Arc<Ended>>,
    /// Whether the id of the row is one of its sandboxes or containers.
    pub has_id: bool,
}

/// An incarnation that lives.
#[derive(Clone, Debug)]
pub struct Living {
    /// Its `metadata.uid`.
    pub uid: Box<str>,
    /// Since when it is known to be in phase Running.
    pub running_since: Option<Moment>,
    /// In a terminal phase, what would remain of it if it went now, counted from that phase on.
    pub completed: Option<Arc<Ended>>,
    /// The sandboxes that rows which it reports were seen with.
    pub sandboxes: Sandboxes,
}

/// The conclusion of all evidence about a row.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Clearance {
    /// The worst grade of all incarnations that may have had the row.
    pub grade: Grade,
    /// When it may go.
    pub wait: Wait,
    /// Whether the ends of the incarnation that answers for the row and of all later ones were
    /// watched, so that the breaker does not concern it.
    pub watched: bool,
    /// Set if a node holds the row though its kubelet is at work: the kubelet may never finish lost DELs, or never
    /// begin them. The moment at which the row would go otherwise.
    pub endless: Option<Moment>,
}

impl Clearance {
    fn new(grade: Grade, wait: Wait) -> Self {
        Self {
            grade,
            wait,
            watched: true,
            endless: None,
        }
    }

    /// Nobody can answer any more; it goes from `moment` on.
    pub fn certain(moment: Moment) -> Self {
        Self::new(Grade::Settled, Wait::until(moment))
    }

    /// Whether there is nothing more to wait for.
    pub fn is_over(&self, now: Moment) -> bool {
        self.wait.until.is_some_and(|moment| moment <= now)
    }

    /// Both have to be waited for.
    pub fn and(self, other: Self) -> Self {
        Self {
            grade: self.grade.max(other.grade),
            wait: self.wait.and(other.wait),
            watched: self.watched && other.watched,
            endless: self.endless.max(other.endless),
        }
    }

    /// It waits so much longer.
    pub fn later(mut self, more: Duration) -> Self {
        self.wait.until = self.wait.until.map(|moment| moment + more);
        self
    }

    /// It waits until this moment as well.
    pub fn not_before(self, moment: Moment) -> Self {
        let grade = self.grade;
        self.and(Self::new(grade, Wait::until(moment)))
    }
}

/// A row and all that is known of it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The row.
    pub row: &'a RowContent,
    /// The facts about its pod.
    pub facts: &'a Facts<'a>,
}

impl Subject<'_> {
    /// Rule 3: its pod is gone.
    pub fn of_deleted(&self) -> Clearance {
        let since = self.unseen_since();
        self.of_incarnations(self.facts.ended, since, Duration::ZERO)
    }

    /// Rule 3 for a row of a ResourceClaim that is gone. Nobody knows on which node the pods were that used it, so each
    /// node has to be at work, gone or fenced.
    pub fn of_resource_claim(&self) -> Clearance {
        let facts = Facts {
            ended: &[],
            living: None,
            rows: RESOURCE_CLAIM_DELS,
            interfaces: 0,
            slice: None,
            ..self.facts.clone()
        };
        let facts = &facts;
        let claim = Subject { facts, ..*self };
        let (since, wait) = (claim.unseen_since(), claim.unseen_wait());
        let is_silent =
            |node: &&str| facts.nodes.standing(node, since, self.facts.now) == Standing::Silent;
        let (silent, others): (Vec<_>, Vec<_>) = facts.nodes.names().partition(is_silent);
        let others = others.into_iter();
        let others = others.map(|node| {
            let own = claim.of_node(node, since, wait);
            // The row does not tell which pod used the claim. It may be the one that outlasts W.
            let is_held = own.grade == Grade::Witnessed && facts.nodes.has_outlasting(node);
            if is_held {
                claim.endless(own, node, since, wait)
            } else {
                own
            }
        });
        let mut all = others.fold(claim.of_deleted(), Clearance::and);
        if !silent.is_empty() {
            all = all.and(claim.held_by(&silent, since, wait));
        }
        all
    }

    /// Rule 2: the static pod behind a mirror that is gone. Its sandbox does not end with the
    /// mirror, which a live kubelet would make again: so nobody's end is clean, all waits are
    /// longer, and its own node counts as well.
    pub fn of_mirror(&self, nodes: &[&str]) -> Clearance {
        let wait = self.unseen_wait().max(self.facts.policy.leftover_grace);
        let since = self.unseen_since();
        let all = self.of_incarnations(self.facts.ended, since, self.facts.policy.leftover_grace);
        let all = all.and(self.of_unseen(since, wait));
        let own = nodes.iter().map(|node| {
            match self.facts.nodes.standing(node, since, self.facts.now) {
                // Nobody tells the kubelet to stop a static pod whose Node was deleted.
                Standing::Gone(_) => self.held_by(&[node], since, wait),
                _ => self.of_node(node, since, wait),
            }
        });
        own.fold(all, Clearance::and)
    }

    /// Rule 4: its pod is in a terminal phase and still there.
    pub fn of_completed(&self, completed: &Arc<Ended>) -> Clearance {
        let mut all = self.facts.ended.to_vec();
        all.push(Arc::clone(completed));
        let since = self.first_seen().max(completed.at);
        let mut clearance = self.of_incarnations(&all, since, Duration::ZERO);
        // The API server itself says so, again in the proof: no mass of unseen ends.
        clearance.watched = true;
        clearance.not_before(completed.at + self.facts.policy.grace)
    }

    /// Rules 6 and 8: its pod is there and runs in another sandbox; not before `from`.
    pub fn of_former_sandbox(&self, pod: &PodState, from: Moment) -> Clearance {
        let wait = self.unseen_wait();
        let since = self.former_since(pod);
        let mut all = self.of_unseen(since, wait);
        if !Self::scheduled(self.facts.ended).is_empty() {
            all = all.and(self.of_incarnations(self.facts.ended, since, Duration::ZERO));
        }
        if let Some(node) = &pod.node {
            all = all.and(self.of_node(node, since, wait));
        }
        if !self.facts.fresh {
            // Its present life, and a gap that there was, are not known yet.
            all = all.not_before(self.facts.now + LOOK_AGAIN);
        }
        all.not_before(from)
    }

    /// When the earliest known incarnation that reported the row was created. `None` if there is none, or if one of them
    /// may have taken the row over, or its creation was not seen.
    pub fn born(&self) -> Option<Moment> {
        let completed = self.facts.living.as_ref();
        let completed = completed.and_then(|living| living.completed.as_ref());
        let all = self.facts.ended.iter().chain(completed);
        let all = all.filter(|end| end.reported(self.row));
        // A pod whose name returns may have taken over an older row.
        let births = all.map(|end| end.born.filter(|_| !end.last.name_may_return));
        // None is before any moment.
        births.min().flatten()
    }

    /// The same row, should it be the address of another pod, which ended.
    pub fn of_other(&self, end: &Ended) -> Clearance {
        let facts = Facts {
            rows: self.facts.rows.max(end.expected_rows()),
            ..self.facts.clone()
        };
        let facts = &facts;
        Subject { facts, ..*self }.of_end(end, end.settled, true, Duration::ZERO)
    }

    /// The first observation of the row as it is.
    pub(crate) fn first_seen(&self) -> Moment {
        let Facts { sighting, now, .. } = *self.facts;
        sighting.map_or(now, |seen| seen.first)
    }

    /// Pods that the watch never showed were gone by this moment: the first proof that the row's pod is absent, or now
    /// if there is none. The age of the row proves nothing.
    fn unseen_since(&self) -> Moment {
        let Facts { sighting, now, .. } = *self.facts;
        sighting.map_or(now, |seen| seen.while_absent.unwrap_or(now))
    }

    /// The same for pods before `pod`, which is alive: they were gone before it ran.
    fn former_since(&self, pod: &PodState) -> Moment {
        let living = self.facts.living.as_ref();
        let living = living.filter(|living| living.uid == pod.uid);
        let running = || living.and_then(|living| living.running_since);
        let absent = self.facts.sighting.and_then(|seen| seen.while_absent);
        self.first_seen()
            .max(absent.or_else(running).unwrap_or(self.facts.now))
    }

    fn wait_of(&self, grace: Option<Duration>) -> Duration {
        let facts = self.facts;
        facts.policy.wait(grace, facts.longest_grace, facts.rows)
    }

    fn unseen_wait(&self) -> Duration {
        self.wait_of(None)
    }

    /// Leaves out incarnations that were never scheduled. After a list or a gap nobody knows this, so they stay in.
    fn scheduled(ended: &[Arc<Ended>]) -> Vec<&Ended> {
        let scheduled = |end: &&Ended| {
            end.last.node.is_some() || end.listed_at.is_some() || end.gap_at.is_some()
        };
        ended.iter().map(AsRef::as_ref).filter(scheduled).collect()
    }

    /// The clearance for all incarnations that may have had the row: those of `ended`, and pods that no watch showed,
    /// which were gone by `unseen`. Each of `ended` waits at least for `least`.
    fn of_incarnations(&self, ended: &[Arc<Ended>], unseen: Moment, least: Duration) -> Clearance {
        let scheduled = Self::scheduled(ended);
        // The incarnation that answers for the row is the last that reported it.
        let answering = scheduled.iter().rposition(|end| end.reported(self.row));
        let own = scheduled.iter().enumerate().map(|(i, end)| {
            // A later incarnation may have taken the row over without reporting it. So its settled end proves nothing
            // here. An earlier one may still run in its own sandbox. So its own end counts.
            let answers = answering.is_some_and(|answering| i <= answering);
            // The incarnation that answers took the row over from those before it, whose second sandboxes end within W.
            let is_taken_over = answering.is_some_and(|answering| i < answering);
            let is_second = self.may_be_second(end, &scheduled[..i]);
            let settled = end.settled && (is_taken_over || !is_second);
            self.of_end(end, settled, answers && !is_second, least)
        });
        let own = own.reduce(Clearance::and);
        // Later incarnations may have it too.
        let may_have = &scheduled[answering.unwrap_or(0)..];
        let watched = !may_have.is_empty() && may_have.iter().all(|end| end.watched);
        let mut all = match (own, self.unseen(&scheduled, answering.is_some(), unseen)) {
            (Some(own), Some(unseen)) => own.and(unseen),
            (Some(only), None) | (None, Some(only)) => only,
            (None, None) => self.of_unseen(unseen, self.unseen_wait()),
        };
        if !self.facts.fresh && Self::may_return(&scheduled) {
            // A pod of this name may have been created and deleted while the watch was not fresh.
            all = all.not_before(self.facts.now + LOOK_AGAIN);
        }
        if Self::may_return(&scheduled)
            && !scheduled
                .iter()
                .any(|end| end.bore(self.row, self.facts.policy.cooldown))
        {
            // The pod that wrote the row existed when the row was first seen. A fresh watch may lag by a cooldown.
            // After that it has shown this pod.
            all = all.not_before(self.first_seen() + self.facts.policy.cooldown);
        }
        all.watched = watched;
        all
    }

    fn may_return(scheduled: &[&Ended]) -> bool {
        scheduled.is_empty() || scheduled.iter().any(|end| end.last.name_may_return)
    }

    /// The wait for incarnations that were never seen; none where there can be no such incarnation.
    fn unseen(&self, scheduled: &[&Ended], is_seen: bool, since: Moment) -> Option<Clearance> {
        if !Self::may_return(scheduled) {
            return None;
        }
        let wait = self.unseen_wait();
        if !is_seen {
            return Some(self.of_unseen(since, wait));
        }
        let before = scheduled.iter().filter_map(|end| end.listed_at).max();
        // A pod that was born and killed in a gap may have the address though the row is as it was (museum 1.30).
        let gap = scheduled.iter().filter_map(|end| end.gap_at).max();
        let mut unseen = self.of_unseen(before.max(gap)?, wait);
        // The answering incarnation was seen.
        unseen.grade = Grade::Witnessed;
        // A wait that is over does not lower the grade.
        (!unseen.is_over(self.facts.now)).then_some(unseen)
    }

    fn of_end(&self, end: &Ended, settled: bool, answers: bool, least: Duration) -> Clearance {
        let mut wait = self.wait_of(end.last.termination_grace).max(least);
        if end.last.mirror {
            wait = wait.max(self.facts.policy.leftover_grace);
        } else if settled && least.is_zero() {
            return if answers {
                let free_at = end.at + self.facts.policy.cooldown;
                Clearance::new(Grade::Settled, Wait::until(free_at))
            } else {
                Clearance::new(Grade::Witnessed, Wait::until(end.at + wait))
            };
        }
        match &end.last.node {
            Some(node) => self.of_teardown(end, node, wait),
            // It may have been scheduled unseen, anywhere: see `of_unseen`.
            None => Clearance::new(Grade::Witnessed, Wait::until(end.at + wait)),
        }
    }

    /// Whether the row may be that of a second sandbox whose set-up was cut off: the kubelet does not know such a one, and
    /// ends the pod all the same. A row that was seen as it is with a pod before it is not.
    fn may_be_second(&self, end: &Ended, before: &[&Ended]) -> bool {
        let lag = self.facts.policy.cooldown;
        // Its kubelet may need long from there until the pod is deleted.
        let ended = end.terminal_since.unwrap_or(end.at);
        let is_of_boot = |node: &str| self.facts.nodes.booted_about(node, ended);
        let is_new =
            end.is_new_sandbox(self.row) && !before.iter().any(|former| former.bore(self.row, lag));
        is_new || end.last.node.as_deref().is_some_and(is_of_boot)
    }

    /// The clearance for a sandbox on `node` whose kubelet may still run its DELs, or has not begun them.
    fn of_teardown(&self, end: &Ended, node: &str, wait: Duration) -> Clearance {
        let clearance = self.of_node(node, end.at, wait);
        // ipgc holds all rows of a pod, or none. So a copy that did not see the end can count the interfaces by the
        // rows.
        let dels = end.dels(self.row).max(self.facts.interfaces);
        let proves_nothing = self.facts.policy.may_never_end(dels) || end.may_outlast();
        if clearance.grade != Grade::Witnessed || !proves_nothing {
            return clearance;
        }
        // A static pod comes back with its kubelet, and so does its mirror within the wait.
        if let Some(seen) = self.facts.nodes.rebooted_after(node, end.at) {
            return self.of_node(node, seen, wait);
        }
        self.endless(clearance, node, end.at, wait)
    }

    /// The clearance where the sandbox may not be stopped for long, though the kubelet of `node` is at work.
    fn endless(&self, clearance: Clearance, node: &str, end: Moment, wait: Duration) -> Clearance {
        let endless = clearance.wait.until;
        let mut held = self.held_by(&[node], end, wait).and(clearance);
        held.endless = endless;
        held
    }

    /// The clearance while nothing shows that the sandbox on one of `nodes` is stopped: `--unfenced` decides.
    fn held_by(&self, nodes: &[&str], end: Moment, wait: Duration) -> Clearance {
        let nodes = nodes.iter().map(|node| (*node).into()).collect();
        let until = match self.facts.policy.unfenced {
            Unfenced::Hold => None,
            Unfenced::FreeAfter(least) => Some(end + wait.max(least)),
        };
        Clearance::new(Grade::Unfenced, Wait { until, nodes })
    }

    /// A sandbox on `node` whose pod ended at `end`.
    fn of_node(&self, node: &str, end: Moment, wait: Duration) -> Clearance {
        match self.facts.nodes.standing(node, end, self.facts.now) {
            Standing::Fenced => Clearance::new(Grade::Fenced, Wait::until(end)),
            Standing::Gone(since) => Clearance::new(Grade::Fenced, Wait::until(since + wait)),
            Standing::Alive { since, last } => {
                let until = since + wait;
                // The kubelet must be at work during the whole of W. Only a renewal after W shows this.
                let until = if last < until {
                    by_lease(since, wait, self.facts.now)
                } else {
                    until
                };
                Clearance::new(Grade::Witnessed, Wait::until(until))
            }
            Standing::Listening => {
                // The Lease was not watched long enough. So W begins now at the earliest.
                let until = self.facts.now + wait.max(look_again(wait));
                Clearance::new(Grade::Witnessed, Wait::until(until))
            }
            Standing::Silent => self.held_by(&[node], end, wait),
        }
    }

    /// The clearance for pods that may have had the row and that no watch showed. They were gone by `since`.
    fn of_unseen(&self, since: Moment, wait: Duration) -> Clearance {
        let nodes = self.facts.nodes;
        // A pod that was not seen had as many interfaces as those that were, or as those whose rows are there.
        let seen = self.facts.ended.iter().map(|end| end.dels(self.row)).max();
        let dels = self.facts.interfaces.max(seen.unwrap_or_default());
        let silent = nodes.blockers(self.facts.slice, wait, self.facts.now);
        let holds = |wait: Option<&Wait>| wait.is_some_and(|wait| wait.until.is_none());
        let is_endless = !holds(silent.as_ref()) && self.facts.policy.may_never_end(dels);
        let blockers = if is_endless {
            nodes.suspects(self.facts.slice, wait, self.facts.now)
        } else {
            silent
        };
        let is_endless = is_endless && holds(blockers.as_ref());
        let mut all = Clearance::new(Grade::Unwitnessed, Wait::until(since + wait));
        if let Some(mut blocked) = blockers {
            let cap = self.facts.policy.unwitnessed_hold;
            let cap = cap.map(|hold| since + hold.max(wait));
            // As long as the nodes are not known, it is not over.
            if blocked.until.is_some() || !blocked.nodes.is_empty() {
                blocked.until = blocked.until.into_iter().chain(cap).min();
            }
            all.wait = all.wait.and(blocked);
        }
        all.watched = false;
        all.endless = is_endless.then_some(since + wait);
        all
    }
}
