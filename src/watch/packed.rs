//! Pods that live, in little memory.
//!
//! Pods are copies of each other: those of one controller differ in name, uid, node, addresses and
//! moments, and in nothing else most of the time. Their common part is kept once, as a [`Shape`]. Nothing is
//! lost: a pod that was packed comes out again as it was.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    evidence::{Sandboxes, Trail},
    id::IdTag,
    networks::{Request, Status, StatusEntry},
    pod::{Container, ContainerState, Phase, PodState},
    podref::PodRef,
    time::Moment,
};

use super::{interner::Interner, live::Live};

/// A pod that lives, but for its name.
#[derive(Debug)]
pub struct Packed {
    shape: Arc<Shape>,
    node: Option<Arc<Box<str>>>,
    uid: Box<str>,
    phase: Phase,
    /// Those of the status, in its order.
    addresses: Box<[IpAddr]>,
    container_ids: Box<[IdTag]>,
    /// See [`Live::generation`].
    pub generation: u32,
    /// See [`Live::listed_at`].
    pub listed_at: Option<Moment>,
    /// See [`Live::sandboxes`].
    pub sandboxes: Sandboxes,
    born: Option<Moment>,
    running_since: Option<Moment>,
    terminal_since: Option<Moment>,
    terminal_watched: bool,
    /// Of which of its addresses the sweep has seen a row. A state that is packed anew has seen none.
    pub rows_seen: RowsSeen,
}

/// What the pods of one controller have in common while they do the same.
// Independent facts, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shape {
    deleting: bool,
    host_network: bool,
    mirror: bool,
    name_may_return: bool,
    termination_grace: Option<Duration>,
    /// With [`BLANK`] in place of each address.
    status: Status,
    request: Request,
    default_network: Option<Box<str>>,
    sandbox_ready: Option<bool>,
    containers: Box<[Container]>,
    trail: Trail,
}

/// Packs pods.
#[derive(Debug, Default)]
pub struct Packer {
    shapes: Interner<Shape>,
    nodes: Interner<Box<str>>,
}

impl Packer {
    /// Packs a pod. Its name is kept by whoever keeps it.
    pub fn pack(&mut self, live: Live) -> Packed {
        // Named one by one: whatever is added has to be packed too.
        let Live {
            state,
            trail,
            generation,
            listed_at,
            born,
            running_since,
            terminal_since,
            terminal_watched,
            sandboxes,
        } = live;
        let PodState {
            podref: _,
            uid,
            phase,
            deleting,
            node,
            host_network,
            mirror,
            name_may_return,
            termination_grace,
            mut status,
            request,
            default_network,
            sandbox_ready,
            containers,
            container_ids,
            // Nothing that is judged needs it.
            since: _,
        } = state;
        let entries = status.entries().iter();
        let addresses = entries.flat_map(|entry| &entry.addresses).copied();
        let addresses = addresses.collect();
        for address in addresses_of(&mut status) {
            *address = BLANK;
        }
        let shape = Shape {
            deleting,
            host_network,
            mirror,
            name_may_return,
            termination_grace,
            status,
            request,
            default_network,
            sandbox_ready,
            containers,
            trail,
        };
        Packed {
            shape: self.shapes.intern(shape),
            node: node.map(|node| self.nodes.intern(node)),
            uid,
            phase,
            addresses,
            container_ids,
            generation,
            listed_at,
            sandboxes,
            born,
            running_since,
            terminal_since,
            terminal_watched,
            rows_seen: RowsSeen::default(),
        }
    }

    /// States of all these pods may have been missed: see [`Trail::gap`].
    pub fn gap<'p>(&mut self, pods: impl Iterator<Item = &'p mut Packed>) {
        // The shapes before are kept until the end, lest another one takes the place of one.
        let mut shapes = HashMap::new();
        for pod in pods {
            let (_, after) = shapes.entry(Arc::as_ptr(&pod.shape)).or_insert_with(|| {
                let mut after = Shape::clone(&pod.shape);
                after.trail.gap();
                (Arc::clone(&pod.shape), self.shapes.intern(after))
            });
            pod.shape = Arc::clone(after);
        }
    }

    /// Forgets what no pod has any more.
    pub fn purge(&mut self) {
        self.shapes.purge();
        self.nodes.purge();
    }
}

impl Packed {
    /// What it was packed of.
    pub fn unpack(&self, podref: &PodRef) -> Live {
        let Shape {
            deleting,
            host_network,
            mirror,
            name_may_return,
            termination_grace,
            mut status,
            request,
            default_network,
            sandbox_ready,
            containers,
            trail,
        } = Shape::clone(&self.shape);
        for (address, known) in addresses_of(&mut status).zip(&self.addresses) {
            *address = *known;
        }
        Live {
            state: PodState {
                podref: podref.clone(),
                uid: self.uid.clone(),
                phase: self.phase,
                deleting,
                node: self.node.as_deref().cloned(),
                host_network,
                mirror,
                name_may_return,
                termination_grace,
                status,
                request,
                default_network,
                sandbox_ready,
                containers,
                container_ids: self.container_ids.clone(),
                since: None,
            },
            trail,
            generation: self.generation,
            listed_at: self.listed_at,
            born: self.born,
            running_since: self.running_since,
            terminal_since: self.terminal_since,
            terminal_watched: self.terminal_watched,
            sandboxes: self.sandboxes,
        }
    }

    /// Whether it is the incarnation of this uid.
    pub fn has_uid(&self, uid: &str) -> bool {
        *self.uid == *uid
    }

    /// Whether its last state has a deletionTimestamp.
    pub fn is_deleting(&self) -> bool {
        self.shape.deleting
    }

    /// The phase of its last state.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Where in its status this address is, if it is there: see [`Self::addresses`].
    pub fn place_of(&self, address: IpAddr) -> Option<usize> {
        self.addresses.iter().position(|known| *known == address)
    }

    /// The addresses of its status, in its order.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().copied()
    }

    /// The addresses of its status, each with the network that it is reported for.
    pub fn reports(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        let entries = self.shape.status.entries().iter();
        let networks = entries.flat_map(|it| it.addresses.iter().map(|_| &*it.network));
        networks.zip(self.addresses())
    }

    /// The entries of its status that have this address. Their own addresses mean nothing.
    pub fn entries_with(&self, address: IpAddr) -> impl Iterator<Item = &StatusEntry> {
        let mut from = 0;
        self.shape.status.entries().iter().filter(move |entry| {
            let to = from + entry.addresses.len();
            let has_it = self.addresses[from..to].contains(&address);
            from = to;
            has_it
        })
    }

    /// The ids of its containers, and of the sandboxes that its rows were seen with.
    pub fn ids(&self) -> impl Iterator<Item = IdTag> {
        self.container_ids
            .iter()
            .copied()
            .chain(self.sandboxes.tags())
    }

    /// Whether it is to stay: neither at its end nor being deleted. The addresses of one whose containers
    /// have all ended may be gone before its phase says so.
    pub fn is_to_stay(&self) -> bool {
        let containers = &self.shape.containers;
        let ended =
            |container: &Container| matches!(container.state, ContainerState::Terminated { .. });
        let has_ended = !containers.is_empty() && containers.iter().all(ended);
        !self.phase.is_terminal() && !self.shape.deleting && !has_ended
    }

    /// How many DELs of whereabouts its end may take at the most: see [`Status::dels`]. The cluster's own network may be
    /// whereabouts' too.
    pub fn most_dels(&self) -> usize {
        self.shape.status.dels(&self.shape.request) + 1
    }
}

/// Of which addresses of a pod rows were seen, by their places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsSeen(u8);

impl RowsSeen {
    /// The pod was there when the sweep began, and has not changed since.
    const WAS_THERE: u8 = 1 << 7;

    /// A sweep begins.
    pub fn begin() -> Self {
        Self(Self::WAS_THERE)
    }

    /// A row of this address was seen.
    pub fn note(&mut self, place: usize) {
        self.0 |= Self::bit(place);
    }

    /// Whether the sweep should have seen a row of this address, and has not. Of a pod with more than
    /// seven addresses, only the first seven are looked at.
    pub fn lacks(self, place: usize) -> bool {
        let bit = Self::bit(place);
        bit != 0 && self.0 & (Self::WAS_THERE | bit) == Self::WAS_THERE
    }

    fn bit(place: usize) -> u8 {
        if place < 7 { 1 << place } else { 0 }
    }
}

/// Stands for each address in a shape.
const BLANK: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn addresses_of(status: &mut Status) -> impl Iterator<Item = &mut IpAddr> {
    let entries = match status {
        Status::Valid(entries) => &mut **entries,
        Status::Missing | Status::Malformed(_) => &mut [],
    };
    entries.iter_mut().flat_map(|entry| &mut entry.addresses)
}

#[cfg(test)]
mod tests;
