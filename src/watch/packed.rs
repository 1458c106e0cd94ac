//! Pods that live, in little memory.
//!
//! Pods are copies of each other: those of one controller differ in name, uid, node, addresses and
//! moments, and in nothing else most of the time. What they have in common is kept once, as a
//! [`Shape`]; what is left of a pod takes a little more than a hundred bytes, and its name. Nothing is
//! lost: what a pod was packed of comes out again. What is asked of it most, its phase and whether it
//! has an address, is answered without that, and from one place in memory: a sweep asks it of each
//! row, and there the time goes into waiting for memory.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
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

use super::{addresses::Addresses, interner::Interner, live::Live, uid::Uid, usage::RowsSeen};

/// A pod that lives, but for its name.
#[derive(Debug)]
pub struct Packed {
    shape: Arc<Shape>,
    node: Option<Arc<Box<str>>>,
    /// Nothing where the shape has it.
    uid: Option<Uid>,
    phase: Phase,
    /// Those of the status.
    addresses: Addresses,
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
    /// Where it is none that an API server makes.
    odd_uid: Option<Box<str>>,
    deleting: bool,
    host_network: bool,
    mirror: bool,
    name_may_return: bool,
    termination_grace: Option<Duration>,
    /// With [`blank`] addresses.
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
        let addresses = Addresses::new(entries.flat_map(|entry| &entry.addresses));
        for address in addresses_of(&mut status) {
            *address = blank(*address);
        }
        let known_uid = Uid::parse(&uid);
        let shape = Shape {
            odd_uid: known_uid.is_none().then_some(uid),
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
            uid: known_uid,
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
            odd_uid,
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
        self.addresses.fill(addresses_of(&mut status));
        let uid = self.uid.map(|uid| uid.to_string().into());
        Live {
            state: PodState {
                podref: podref.clone(),
                uid: uid.or(odd_uid).unwrap_or_default(),
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
        match &self.shape.odd_uid {
            Some(odd) => **odd == *uid,
            None => self.uid == Uid::parse(uid),
        }
    }

    /// Whether its last state has a deletionTimestamp.
    pub fn is_deleting(&self) -> bool {
        self.shape.deleting
    }

    /// The phase of its last state.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Reads a little of each part of it, which questions after that find near. The number means
    /// nothing.
    pub fn touch(&self) -> u8 {
        let (seen, many) = (self.sandboxes.is_empty(), self.addresses.are_many());
        self.phase as u8 ^ u8::from(seen) ^ u8::from(many)
    }

    /// Reads what lies elsewhere in memory.
    pub fn touch_rest(&self) -> u8 {
        self.addresses.touch()
    }

    /// Where in its status this address is, if it is there: see [`Self::addresses`].
    pub fn place_of(&self, address: IpAddr) -> Option<usize> {
        self.addresses.place_of(address)
    }

    /// The addresses of its status, those of IPv4 first.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter()
    }

    /// The entries of its status that have this address. Their own addresses mean nothing.
    pub fn entries_with(&self, address: IpAddr) -> impl Iterator<Item = &StatusEntry> {
        let is_v4 = |address: &IpAddr| address.is_ipv4();
        let addresses: Vec<_> = self.place_of(address).map_or_else(Vec::new, |_| {
            let all = self
                .addresses()
                .filter(|other| is_v4(other) == is_v4(&address));
            all.collect()
        });
        let mut at = 0;
        let entries = if addresses.is_empty() {
            &[]
        } else {
            self.shape.status.entries()
        };
        entries.iter().filter(move |entry| {
            let from = at;
            at += entry
                .addresses
                .iter()
                .filter(|it| is_v4(it) == is_v4(&address))
                .count();
            addresses[from..at].contains(&address)
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

    /// Its status, with the places of addresses but not the addresses, which it shares with others, and
    /// what tells it from other such.
    pub fn blank_status(&self) -> (usize, &Status) {
        (Arc::as_ptr(&self.shape).addr(), &self.shape.status)
    }
}

/// What stands for an address in a shape: nothing but its family.
fn blank(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

fn addresses_of(status: &mut Status) -> impl Iterator<Item = &mut IpAddr> {
    let entries = match status {
        Status::Valid(entries) => &mut **entries,
        Status::Missing | Status::Malformed(_) => &mut [],
    };
    entries.iter_mut().flat_map(|entry| &mut entry.addresses)
}

#[cfg(test)]
mod tests;
