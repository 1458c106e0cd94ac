//! The state of the small cluster, and how its objects look to the shipped code.
//!
//! Facts are kept as small numbers; documents and pod states are made of them on the fly.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use ipgc_core::{
    networks::{Reported, Request, Status, StatusEntry},
    pod::{Container, ContainerState, Phase, PodState},
    podref::PodRef,
    reservation::CLAIM_ANNOTATION,
    time::Moment,
};
use serde_json::{Map, Value, json};

use crate::{replica::Replica, scenario::Budget};

/// Time is counted in ticks.
pub type Tick = u8;

/// One tick: half of [`ipgc_core::node::SILENCE`], so that Leases read at every tick are one series.
pub const TICK: Duration = Duration::from_secs(30);
/// [`ipgc_core::node::SILENCE`] in ticks.
pub const SILENCE: Tick = 2;
/// The interface of every row.
pub const INTERFACE: &str = "net1";
/// The name that comes back.
pub const WEB: Name = 0;
/// Names from here on are bystanders: pods that take free addresses.
pub const OTHER: Name = 1;

/// A pod's name, by number.
pub type Name = u8;
/// A machine, by its place in [`World::machines`].
pub type MachineId = u8;
/// The last byte of an address.
pub type Address = u8;

/// The moment of a tick.
pub fn moment(tick: Tick) -> Moment {
    Moment::new(TICK * u32::from(tick))
}

/// The whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub now: Tick,
    /// Pod objects that exist.
    pub pods: Vec<Pod>,
    /// Sandboxes that answer.
    pub sandboxes: Vec<Sandbox>,
    pub pools: Vec<Pool>,
    /// Reservations that exist.
    pub reservations: Vec<Reserved>,
    /// Nodes.
    pub machines: Vec<Machine>,
    pub replicas: Vec<Replica>,
    /// Writes that nobody waits for any more, and that the server may still do.
    pub late: Vec<Write>,
    /// How often each action may still happen.
    pub left: Budget,
    /// Addresses that ipgc freed, with the sandboxes that answered on them then.
    pub owed: Vec<(Address, u8)>,
    /// Addresses that somebody else took from a live sandbox: no fault of ipgc.
    pub spoiled: Vec<Address>,
    /// The address that was given away twice.
    pub doubled: Option<Address>,
    /// The next uid of a pod.
    pub next_uid: u8,
    /// The next sandbox.
    pub next_sandbox: u8,
    /// The next resourceVersion of a reservation.
    pub next_version: u8,
}

/// A pod object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pod {
    /// Which incarnation.
    pub uid: u8,
    pub name: Name,
    /// Where it was scheduled.
    pub machine: MachineId,
    /// Its status.
    pub stage: Stage,
    /// Whether it has a deletionTimestamp.
    pub deleting: bool,
    /// Its network-status.
    pub report: Report,
}

/// The status of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Scheduled, no more.
    Pending,
    /// Its containers run.
    Running,
    /// Terminal phase, all containers terminated.
    Ended,
    /// Terminal phase; its container never ran, and the kubelet made its state up.
    CutOff,
    /// Terminal phase that somebody else than the kubelet wrote while containers run.
    Evicted,
}

/// The network-status of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Report {
    /// Nothing was written yet.
    Missing,
    /// It is there and lacks the entry of our network.
    Incomplete,
    /// The address.
    Of(Address),
}

/// A sandbox that answers on its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sandbox {
    /// Which one.
    pub number: u8,
    /// Its id; the same number, unless ids are used twice.
    pub id: u8,
    /// The incarnation that it was made for.
    pub uid: u8,
    /// The name of its pod.
    pub name: Name,
    /// Where it runs.
    pub machine: MachineId,
    /// Its address, once ADD gave it one.
    pub address: Option<Address>,
    /// The address that an ADD in two halves has chosen, when, and whether it accepted a reservation then.
    pub looked: Option<(Address, Tick, bool)>,
    /// Its pod object is gone.
    pub orphan: bool,
    /// Since when a kubelet at work has known that.
    pub clock: Option<Tick>,
}

/// A pool: its rows by address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Pool {
    /// Row of address `i + 1`.
    pub rows: Vec<Option<Row>>,
    /// Its resourceVersion, where a scenario counts it.
    pub version: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    /// The sandbox's id.
    pub id: u8,
    /// The podref.
    pub name: Name,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reserved {
    /// The address that it reserves.
    pub address: Address,
    pub uid: u8,
    /// Its resourceVersion.
    pub version: u8,
    pub podref: String,
    /// Whether it has annotations.
    pub annotated: bool,
    /// The annotation of a claim.
    pub claimed_from: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Machine {
    /// Its kubelet works and reaches the API server.
    pub up: bool,
    /// The Node's condition Ready.
    pub ready: bool,
    /// The Node's taint `out-of-service`.
    pub tainted: bool,
    /// When its Lease was renewed last.
    pub renewed: Tick,
}

/// A write on its way to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write {
    /// A patch of the pool.
    Pool(String),
    /// A patch of the reservation of an address.
    Reservation(Address, String),
}

impl Pool {
    /// A pool of so many addresses.
    pub fn of(size: usize) -> Self {
        Self {
            rows: vec![None; size],
            version: 1,
        }
    }

    /// The row of an address.
    pub fn row(&self, address: Address) -> Option<Row> {
        *self.rows.get(usize::from(address).checked_sub(1)?)?
    }

    /// Puts or removes the row of an address.
    pub fn set(&mut self, address: Address, row: Option<Row>) {
        self.rows[usize::from(address) - 1] = row;
    }

    /// Addresses with their rows.
    pub fn taken(&self) -> impl Iterator<Item = (Address, Row)> + '_ {
        let numbered = (1..).zip(&self.rows);
        numbered.filter_map(|(i, row)| Some((i, (*row)?)))
    }

    /// The IPPool as the API server sends it.
    pub fn document(&self) -> Value {
        let row = |(address, row): (Address, Row)| {
            let value =
                json!({"id": id_text(row.id), "podref": podref(row.name), "ifname": INTERFACE});
            (address.to_string(), value)
        };
        let rows: Map<String, Value> = self.taken().map(row).collect();
        json!({
            "metadata": {
                "namespace": "kube-system",
                "name": "10.0.0.0-28",
                "uid": "pool",
                "resourceVersion": self.version.to_string(),
            },
            "spec": {"range": "10.0.0.0/28", "allocations": rows},
        })
    }

    /// Drops the rows that a patched document lacks.
    pub fn keep_only(&mut self, document: &Value) {
        let rows = &document["spec"]["allocations"];
        for (i, row) in (1_u8..).zip(&mut self.rows) {
            if rows.get(i.to_string()).is_none() {
                *row = None;
            }
        }
    }
}

impl Reserved {
    /// The reservation as the API server sends it.
    pub fn document(&self) -> Value {
        let mut document = json!({
            "metadata": {
                "name": address(self.address).to_string(),
                "uid": self.uid.to_string(),
                "resourceVersion": self.version.to_string(),
            },
            "spec": {"podref": self.podref, "ifname": INTERFACE},
        });
        if self.annotated {
            document["metadata"]["annotations"] = match &self.claimed_from {
                Some(from) => json!({CLAIM_ANNOTATION: from}),
                None => json!({}),
            };
        }
        document
    }

    /// Takes what a patched document says.
    pub fn take(&mut self, document: &Value) {
        let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
        self.podref = text(&document["spec"]["podref"]).unwrap_or_default();
        let annotations = document["metadata"].get("annotations");
        self.annotated = annotations.is_some();
        self.claimed_from = annotations
            .and_then(|annotations| annotations.get(CLAIM_ANNOTATION))
            .and_then(text);
    }
}

/// Namespace and name of a pod.
pub fn podref(name: Name) -> &'static str {
    [
        "d/web-0",
        "d/other-1",
        "d/other-2",
        "d/other-3",
        "d/other-4",
    ][usize::from(name)]
}

/// A podref as the shipped code has it.
///
/// # Panics
/// Never: the texts above are podrefs.
#[expect(clippy::unwrap_used, reason = "the texts are constants")]
pub fn parsed_podref(name: Name) -> PodRef {
    podref(name).parse().unwrap()
}

/// An address.
pub fn address(address: Address) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, address)
}

/// A machine's name. None is the end of a pod's name, which would make that one a mirror.
pub fn machine_name(machine: MachineId) -> &'static str {
    ["north", "south", "west"][usize::from(machine)]
}

/// A sandbox id of 64 digits that differ from the first on.
pub fn id_text(id: u8) -> String {
    format!("{id:02x}").repeat(32)
}

impl Pod {
    /// The pod as the shipped code sees it.
    pub fn state(self) -> PodState {
        let container = |state| {
            vec![Container {
                name: "main".into(),
                state,
            }]
        };
        let ended = |started| container(ContainerState::Terminated { started });
        let (phase, sandbox_ready, containers) = match self.stage {
            Stage::Pending => (Phase::Pending, false, vec![]),
            Stage::Running => (Phase::Running, true, container(ContainerState::Running)),
            Stage::Ended => (Phase::Succeeded, false, ended(true)),
            Stage::CutOff => (Phase::Failed, false, ended(false)),
            Stage::Evicted => (Phase::Failed, true, container(ContainerState::Running)),
        };
        PodState {
            podref: parsed_podref(self.name),
            uid: self.uid.to_string().into(),
            phase,
            deleting: self.deleting,
            node: Some(machine_name(self.machine).into()),
            host_network: false,
            mirror: false,
            name_may_return: self.name == WEB,
            termination_grace: None,
            status: match self.report {
                Report::Missing => Status::Missing,
                Report::Incomplete => Status::Valid(Reported::default()),
                Report::Of(of) => status_of(of),
            },
            request: Request::Valid(["d/net".into()].into()),
            default_network: None,
            sandbox_ready: Some(sandbox_ready),
            containers: containers.into(),
            restarts: false,
            container_ids: Box::default(),
            has_resource_claims: false,
            since: None,
        }
    }
}

/// The network-status that reports an address.
pub fn status_of(of: Address) -> Status {
    reported(address(of).into())
}

/// The network-status that reports this address.
pub fn reported(address: IpAddr) -> Status {
    let entry = StatusEntry {
        network: "d/net",
        interface: INTERFACE,
        addresses: &[address],
    };
    Status::of([entry].into_iter())
}

impl World {
    /// The pod object of a name.
    pub fn pod(&self, name: Name) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.name == name)
    }

    /// The pod object of a uid.
    pub fn incarnation(&self, uid: u8) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.uid == uid)
    }

    /// The sandboxes that answer on an address.
    pub fn answering(&self, on: Address) -> impl Iterator<Item = &Sandbox> {
        let all = self.sandboxes.iter();
        all.filter(move |sandbox| sandbox.address == Some(on))
    }

    /// The reservation of an address.
    pub fn reservation(&self, of: Address) -> Option<&Reserved> {
        self.reservations
            .iter()
            .find(|reserved| reserved.address == of)
    }
}
