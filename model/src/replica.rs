//! One replica of ipgc: what it remembers, and where its turn stands.
//!
//! The bookkeeping of the pod watch is the model's own and follows `src/watch/pod_index.rs`; what
//! the states mean is decided by the shipped [`Trail`], [`Sandboxes`], [`Sightings`] and [`Nodes`].

use std::sync::Arc;

use ipgc_core::{
    clearance::Living,
    evidence::{Ended, Sandboxes, Trail},
    id::IdTag,
    node::{NodeState, Nodes},
    sighting::Sightings,
};

use crate::{
    scenario::{Mutation, Mutations},
    world::{
        Address, Machine, Name, Pod, Pool, Report, Reserved, Stage, Tick, id_text, machine_name,
        moment,
    },
};

/// A replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Replica {
    /// Pods that live, as far as the watch tells.
    pub live: Vec<Live>,
    /// Incarnations that ended, in the order of their ends.
    pub ended: Vec<End>,
    /// Events that the watch has not brought yet.
    pub pending: Vec<Event>,
    /// Whether the watch is heard.
    pub fresh: bool,
    /// Up to when it was heard before it was lost.
    pub heard_until: Tick,
    /// Earlier observations.
    pub sightings: Sightings,
    /// Nodes.
    pub nodes: Nodes,
    /// Where its turn stands.
    pub turn: Turn,
    /// When its last turn began.
    pub turned_at: Option<Tick>,
    /// When it listed the pods last.
    listed_at: Tick,
    /// Who had a row and was not there, when all rows were looked at a wait after that.
    census: Option<Vec<Name>>,
    /// The guards that are switched off in its watch.
    pub mutations: Mutations,
}

/// A pod that lives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Live {
    /// Its last state.
    pub last: Pod,
    trail: Trail,
    listed_at: Option<Tick>,
    running_since: Option<Tick>,
    terminal_since: Option<(Tick, bool)>,
    sandboxes: Sandboxes,
    in_list: bool,
}

/// An incarnation that ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct End {
    /// Its last state.
    pub last: Pod,
    /// When.
    pub at: Tick,
    /// Before our eyes.
    pub watched: bool,
    /// Its sandbox is known to be stopped.
    pub settled: bool,
    /// Its containers were terminated.
    pub stopped: bool,
    /// The list before which somebody may have left it a row.
    pub listed_at: Option<Tick>,
    /// The last gap since.
    pub gap_at: Option<Tick>,
    /// The sandboxes that its rows were seen with.
    pub sandboxes: Sandboxes,
}

/// What the watch brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Event {
    /// The state, the last one in the case of a deletion.
    pub pod: Pod,
    /// Whether it is a deletion.
    pub deleted: bool,
}

/// Where the turn of a replica stands. Each step is one of the model, so that everything else may
/// happen in between.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Turn {
    /// Nothing is under way.
    #[default]
    Idle,
    /// The pool was read.
    Observed(Observation),
    /// The pods of its rows were read after that.
    Proved(Observation, Vec<Seen>),
    /// The patch is on its way.
    Sent {
        /// The patch.
        patch: String,
        /// The rows that it removes.
        rows: Vec<(Address, Name)>,
    },
    /// A row is gone, its reservation is to follow.
    Gone(Address, Name),
    /// The claim is on its way.
    Claiming(Address, Name, String),
    /// The reservation as the claim left it, and when.
    Claimed(Reserved, Name, Tick),
    /// The pod was read after the claim.
    Reproved(Reserved, Name, bool),
}

/// The pool as it was read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The pool.
    pub pool: Pool,
    /// When.
    pub at: Tick,
}

/// A pod as a quorum read shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    /// Whose.
    pub name: Name,
    /// It, or its absence.
    pub pod: Option<Pod>,
}

impl Live {
    fn new(pod: Pod, listed_at: Option<Tick>, listed: bool, now: Tick) -> Self {
        let mut live = Self {
            last: pod,
            trail: Trail::default(),
            listed_at,
            running_since: None,
            terminal_since: None,
            sandboxes: Sandboxes::default(),
            in_list: listed,
        };
        live.advance(pod, !listed, now);
        live
    }

    fn advance(&mut self, next: Pod, watched: bool, now: Tick) {
        self.trail.advance(&next.state());
        match next.stage {
            Stage::Pending => {}
            Stage::Running => {
                self.running_since.get_or_insert(now);
            }
            Stage::Ended | Stage::CutOff | Stage::Evicted => {
                self.terminal_since.get_or_insert((now, watched));
            }
        }
        self.last = next;
        self.in_list |= !watched;
    }

    fn end(&self, at: Tick, watched: bool) -> End {
        End {
            last: self.last,
            at,
            watched,
            settled: self.trail.is_settled(),
            stopped: self.trail.is_stopped(),
            listed_at: self.listed_at,
            gap_at: None,
            sandboxes: self.sandboxes,
        }
    }
}

impl End {
    /// The end as the shipped code knows it.
    #[must_use]
    pub fn evidence(&self) -> Arc<Ended> {
        Arc::new(Ended {
            last: self.last.state(),
            at: moment(self.at),
            watched: self.watched,
            settled: self.settled,
            stopped: self.stopped,
            listed_at: self.listed_at.map(moment),
            born: None,
            gap_at: self.gap_at.map(moment),
            sandboxes: self.sandboxes,
        })
    }
}

impl Replica {
    /// A replica that begins now: it lists pods and nodes, and knows nothing of the past.
    #[must_use]
    pub fn start(pods: &[Pod], machines: &[Machine], now: Tick, mutations: Mutations) -> Self {
        let mut replica = Self {
            fresh: true,
            heard_until: now,
            mutations,
            ..Self::default()
        };
        replica.list(pods, machines, now, mutations);
        replica
    }

    /// It has been there for long, and there was no row when it looked.
    pub fn knows_the_past(&mut self) {
        self.census = Some(Vec::new());
    }

    /// The pods were listed, at the start or after a lost watch.
    pub fn list(&mut self, pods: &[Pod], machines: &[Machine], now: Tick, mutations: Mutations) {
        let blind = mutations.has(Mutation::EvidenceAcrossGap);
        for live in &mut self.live {
            live.in_list = false;
            if !blind {
                live.trail.gap();
                live.sandboxes.forget_after(moment(self.heard_until));
            }
        }
        for pod in pods {
            self.see(*pod, true, now);
        }
        let (there, gone) = std::mem::take(&mut self.live)
            .into_iter()
            .partition(|live| live.in_list);
        self.live = there;
        let ends: Vec<End> = gone.iter().map(|live| live.end(now, blind)).collect();
        self.ended.extend(ends);
        if !blind {
            for end in &mut self.ended {
                end.gap_at = Some(now);
            }
        }
        self.pending.clear();
        self.fresh = true;
        self.listed_at = now;
        self.census = None;
        let now = moment(now);
        if !mutations.has(Mutation::NobodyBlocks) {
            self.nodes.gap(now);
        }
        for (id, machine) in (0..).zip(machines) {
            self.nodes.apply(machine_name(id), machine.state(), now);
            let lease = machine.lease();
            self.nodes.hear(machine_name(id), Some(&lease), now, now);
        }
        self.nodes.retain(|_| true, now);
        if !mutations.has(Mutation::NobodyBlocks) {
            let names = (0..).zip(machines).map(|(id, _)| machine_name(id));
            self.nodes.suspect(names, now);
        }
    }

    /// Takes in all that the watch has brought.
    pub fn deliver(&mut self, now: Tick) {
        for event in std::mem::take(&mut self.pending) {
            if event.deleted {
                self.delete(event.pod, now);
            } else {
                self.see(event.pod, false, now);
            }
        }
    }

    fn see(&mut self, pod: Pod, listed: bool, now: Tick) {
        let doubt = self.doubt(pod.name, listed, now);
        match self.live.iter_mut().find(|live| live.last.name == pod.name) {
            Some(live) if live.last.uid == pod.uid => {
                live.advance(pod, !listed, now);
            }
            Some(live) => {
                let predecessor = std::mem::replace(live, Live::new(pod, doubt, listed, now));
                self.ended.push(predecessor.end(now, !listed));
            }
            None => self.live.push(Live::new(pod, doubt, listed, now)),
        }
    }

    /// The list before which somebody may have left rows to a pod that is first seen now.
    fn doubt(&self, name: Name, listed: bool, now: Tick) -> Option<Tick> {
        if listed {
            return Some(now);
        }
        let known = self.ended.iter().filter(|end| end.last.name == name);
        let inherited = known.filter_map(|end| end.listed_at).max();
        let is_first = self
            .census
            .as_ref()
            .is_some_and(|names| !names.contains(&name));
        if is_first || self.mutations.has(Mutation::BornIsFirst) {
            inherited
        } else {
            inherited.max(Some(self.listed_at))
        }
    }

    fn delete(&mut self, last: Pod, now: Tick) {
        let known = self.live.iter().position(|live| live.last.uid == last.uid);
        let mut live = match known {
            Some(place) => self.live.remove(place),
            None if self.ended.iter().any(|end| end.last.uid == last.uid) => return,
            None => Live::new(last, Some(now), true, now),
        };
        live.advance(last, true, now);
        self.ended.push(live.end(now, true));
    }

    /// Notes the sandboxes of rows that living pods report, and whose rows are there without a pod,
    /// as the sweep does.
    pub fn glance(&mut self, pool: &Pool, now: Tick, wait: Tick) {
        if now >= self.listed_at + wait {
            let is_absent = |name: &Name| !self.live.iter().any(|live| live.last.name == *name);
            let names = pool.taken().map(|(_, row)| row.name);
            self.census = Some(names.filter(is_absent).collect());
        }
        for (address, row) in pool.taken() {
            let of = |live: &&mut Live| {
                live.last.name == row.name && live.last.report == Report::Of(address)
            };
            if let Some(live) = self.live.iter_mut().find(of)
                && live.terminal_since.is_none()
                && let Some(tag) = IdTag::of(&id_text(row.id))
            {
                live.sandboxes.note(tag, moment(now));
            }
        }
    }

    /// The incarnation of a name that lives, as far as the watch tells.
    #[must_use]
    pub fn living(&self, name: Name) -> Option<Living> {
        let live = self.live.iter().find(|live| live.last.name == name)?;
        let completed = live
            .terminal_since
            .map(|(since, watched)| live.end(since, watched).evidence());
        Some(Living {
            uid: live.last.state().uid,
            running_since: live.running_since.map(moment),
            completed,
            sandboxes: live.sandboxes,
        })
    }

    /// Takes in the state of a node, and its Lease.
    pub fn see_machine(&mut self, id: u8, machine: &Machine, now: Tick) {
        self.nodes
            .apply(machine_name(id), machine.state(), moment(now));
    }

    /// Reads the Leases.
    pub fn hear(&mut self, machines: &[Machine], now: Tick) {
        let now = moment(now);
        for (id, machine) in (0..).zip(machines) {
            let lease = machine.lease();
            self.nodes.hear(machine_name(id), Some(&lease), now, now);
        }
    }
}

impl Machine {
    /// The Node as the shipped code has it.
    #[must_use]
    pub fn state(&self) -> NodeState {
        NodeState {
            ready_changed: None,
            uid: "node".into(),
            ready: self.ready,
            out_of_service: self.tainted,
            declared_empty: false,
            ..NodeState::default()
        }
    }

    /// The version of its Lease.
    #[must_use]
    pub fn lease(&self) -> String {
        self.renewed.to_string()
    }
}
