//! One replica of ipgc: its memory, and the present step of its turn.
//!
//! The memory has the types of the program itself: [`PodIndex`], [`Nodes`] and [`Sightings`].

use std::net::IpAddr;

use ipgc_core::{
    definitions::{Definitions, Networks, Scope},
    node::{NodeState, Nodes},
    pods::PodIndex,
    pool::{Glance, PoolKey},
    sighting::Sightings,
    time::Moment,
};

use crate::{
    scenario::{Mutation, Mutations},
    world::{
        Address, INTERFACE, Machine, Name, Pod, Pool, Reserved, Tick, WEB, address, id_text,
        machine_name, moment, parsed_podref, podref,
    },
};

/// The one pool: nothing is known of it, so each report counts.
pub const ANY_SCOPE: Scope<'static> = Scope {
    networks: &Networks::new(),
    range: None,
    definitions: &Definitions::new(),
};

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Replica {
    /// The live pods, and the ends of pods that are gone, by the watch.
    pub pods: PodIndex,
    /// The pod of the last event of the watch, until it is deleted.
    told: Option<Pod>,
    /// Whether it has listed the pods before.
    has_listed: bool,
    /// Events that the watch has not delivered yet.
    pub pending: Vec<Event>,
    /// Whether the watch delivers events.
    pub fresh: bool,
    /// When the watch delivered events last, before it was lost.
    pub heard_until: Tick,
    /// When rows were first observed with their present content.
    pub sightings: Sightings,
    pub nodes: Nodes,
    /// The present step of its turn.
    pub turn: Turn,
    /// When its last turn began.
    pub turned_at: Option<Tick>,
}

/// An event of the watch.
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
    pub pool: Pool,
    pub at: Tick,
}

/// A pod as a quorum read shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub name: Name,
    pub pod: Option<Pod>,
}

impl Replica {
    /// A replica that begins now: it lists pods and nodes, and knows nothing of the past.
    pub fn start(pods: &[Pod], machines: &[Machine], now: Tick, mutations: Mutations) -> Self {
        let mut replica = Self {
            fresh: true,
            heard_until: now,
            ..Self::default()
        };
        replica.list(pods, machines, now, mutations);
        replica
    }

    /// Whether a pod may outlast W, so that its rows are held: its kubelet was starting its container.
    pub fn knows_a_lasting_end(&self) -> bool {
        let ended = self.pods.ended(&parsed_podref(WEB));
        ended.iter().any(|end| end.may_outlast())
    }

    /// It has been there for long, and there was no row when it looked.
    pub fn knows_the_past(&mut self, now: Tick) {
        self.glance(&Pool::default(), now, 0);
    }

    /// The pods were listed, at the start or after a lost watch.
    pub fn list(&mut self, pods: &[Pod], machines: &[Machine], now: Tick, mutations: Mutations) {
        self.pending.clear();
        let there = pods.iter().find(|pod| pod.name == WEB).copied();
        if mutations.has(Mutation::EvidenceAcrossGap) && self.has_listed {
            // As if the watch had told of it all.
            let gone = self
                .told
                .filter(|told| there.is_none_or(|pod| pod.uid != told.uid));
            let gone = gone.map(|pod| Event { pod, deleted: true });
            let there = there.map(|pod| Event {
                pod,
                deleted: false,
            });
            self.pending.extend(gone.into_iter().chain(there));
            self.deliver(now);
        } else {
            self.pods.begin_list(moment(self.heard_until));
            if let Some(pod) = there {
                self.pods.apply(pod.state(), moment(now));
            }
            self.pods.end_list(moment(now));
            self.told = there;
            self.has_listed = true;
        }
        self.fresh = true;
        let now = moment(now);
        if !mutations.has(Mutation::NobodyBlocks) {
            self.nodes.gap(now);
        }
        for (id, machine) in (0..).zip(machines) {
            self.nodes.apply(machine_name(id), machine.state(), now);
        }
        self.hear(machines, now);
        self.nodes.retain(|_| true, now);
        if !mutations.has(Mutation::NobodyBlocks) {
            let names = (0..).zip(machines).map(|(id, _)| machine_name(id));
            self.nodes.suspect(names, now);
        }
    }

    /// Takes in all that the watch has brought.
    pub fn deliver(&mut self, now: Tick) {
        for Event { pod, deleted } in std::mem::take(&mut self.pending) {
            if deleted {
                self.pods.delete(pod.state(), moment(now));
            } else {
                self.pods.apply(pod.state(), moment(now));
            }
            self.told = Some(pod).filter(|_| !deleted);
        }
    }

    /// Sees all rows, as a sweep does.
    pub fn glance(&mut self, pool: &Pool, now: Tick, wait: Tick) {
        static POOL: PoolKey = PoolKey {
            namespace: String::new(),
            name: String::new(),
        };
        self.pods.begin_sweep();
        for (of, row) in pool.taken() {
            let id = id_text(row.id);
            let seen = Glance {
                pool: &POOL,
                range: None,
                address: Some(IpAddr::from(address(of))),
                podref: Some(podref(row.name)),
                sandbox: Some(id.as_str()),
                interface: Some(INTERFACE),
            };
            self.pods.glance(&seen, ANY_SCOPE, self.fresh, moment(now));
        }
        let wait = moment(wait).since_epoch();
        self.pods.end_sweep(moment(now), wait);
        // Its findings about addresses in use are forgotten.
        self.pods.usage(&Definitions::new(), |_, _| false);
    }

    /// Takes in the state of a node.
    pub fn see_machine(&mut self, id: u8, machine: Machine, now: Tick) {
        self.nodes
            .apply(machine_name(id), machine.state(), moment(now));
    }

    /// Reads the Leases.
    pub fn hear(&mut self, machines: &[Machine], now: Moment) {
        for (id, machine) in (0..).zip(machines) {
            let lease = machine.lease();
            self.nodes
                .note_lease(machine_name(id), Some(&lease), now, now);
        }
    }
}

impl Machine {
    /// The Node as the shipped code has it.
    pub fn state(self) -> NodeState {
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
    pub fn lease(self) -> String {
        self.renewed.to_string()
    }
}
