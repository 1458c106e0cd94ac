//! A story: the cluster, and all that people, machines and the API server do to it, as a list that can be shortened. Pure.

use std::time::Duration;

use testkit::Garble;

use crate::faults::At;

/// A cluster, and all that happens in it.
#[derive(Clone, Debug)]
pub struct Story {
    /// The seed that it was made of, and of which the small choices of a run are made.
    pub seed: u64,
    /// How many machines there are.
    pub machines: usize,
    /// How many copies of ipgc there are.
    pub copies: usize,
    /// The networks that pods ask for.
    pub nets: Vec<Net>,
    /// The owners of pods.
    pub owners: Vec<Owner>,
    /// Time between sweeps.
    pub sweep_interval: Duration,
    /// `--leftover-grace`.
    pub leftover_grace: Duration,
    /// Whether whereabouts' own collectors work beside ipgc.
    pub upstream: bool,
    /// Whether the breaker opens for a few rows, and for two minutes.
    pub cautious: bool,
    /// Whether admission forbids claims, as podrefs are immutable.
    pub immutable: Option<Immutable>,
    /// A crash of the first copy.
    pub crash: Option<At>,
    /// Until then, names of gone pods are not used again.
    pub returns: Option<Returns>,
    /// Deeds, by time.
    pub steps: Vec<Step>,
}

/// Admission that forbids claims.
#[derive(Clone, Copy, Debug)]
pub struct Immutable {
    /// The code of its refusals.
    pub code: u16,
    /// Whether somebody exempts ipgc when all is well again.
    pub is_mended: bool,
}

/// All names of pods that are gone and may be used again are used at a request of ipgc, which waits meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Returns {
    /// The number of the request, from one.
    pub at: usize,
    /// How long it waits.
    pub pause: Duration,
    /// Whether the pods are deleted by force again while their ADDs are at work, before the watch shows any of it.
    pub is_brief: bool,
}

/// A network: one definition.
#[derive(Clone, Debug)]
pub struct Net {
    /// Name of the definition.
    pub name: &'static str,
    /// `network_name`.
    pub network_name: Option<&'static str>,
    /// The ranges: two of a dual-stack network.
    pub ranges: &'static [&'static str],
    /// The slices into which its only range is cut, one for each node; none if it is not.
    pub slices: &'static [&'static str],
    /// Whether addresses are reserved across ranges.
    pub reserves: bool,
    /// Whether the names of reservations spell all digits of an IPv6 address.
    pub spells_out: bool,
    /// Whether it is a device of a ResourceClaim.
    pub of_claims: bool,
}

impl Net {
    /// The name of its NodeSlicePool.
    pub fn slice_pool(&self) -> Option<&'static str> {
        (!self.slices.is_empty()).then(|| self.network_name.unwrap_or(self.name))
    }

    /// `node_slice_size`.
    pub fn slice_size(&self) -> &'static str {
        let slice = self.slices.first().copied().unwrap_or_default();
        slice.find('/').map_or("", |at| &slice[at..])
    }
}

/// The owner of pods.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// How many pods it has.
    pub pods: usize,
    /// The networks of each pod, by their place among those of the story.
    pub nets: Vec<usize>,
}

/// A kind of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Names return.
    StatefulSet,
    /// Names never return.
    ReplicaSet,
    /// Names never return, and pods end by themselves.
    Job,
    /// Names never return, and a pod is replaced by another one that runs before it ends.
    VirtualMachine,
    /// A pod without an owner: a person makes it again under its name.
    Bare,
    /// A static pod of each machine: its kubelet shows it by a mirror, and makes the mirror again.
    Static,
}

impl Kind {
    /// The kind of the controller of its pods.
    pub fn controller(self) -> Option<&'static str> {
        match self {
            Self::StatefulSet => Some("StatefulSet"),
            Self::ReplicaSet => Some("ReplicaSet"),
            Self::Job => Some("Job"),
            Self::VirtualMachine => Some("VirtualMachineInstance"),
            Self::Bare => None,
            Self::Static => Some("Node"),
        }
    }

    /// Whether a name is used again.
    pub fn names_return(self) -> bool {
        matches!(self, Self::StatefulSet | Self::Bare | Self::Static)
    }
}

/// A deed and its moment.
#[derive(Clone, Debug)]
pub struct Step {
    /// The time since the begin of the story.
    pub at: Duration,
    /// The deed.
    pub deed: Deed,
}

/// Something that is done to the cluster. A pod is chosen among those that are there then.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Somebody deletes a pod, and its kubelet stops it.
    Delete(usize),
    /// Somebody deletes a pod by force: its object goes at once.
    Force(usize),
    /// The sandbox of a pod dies, and its kubelet makes another.
    Crash(usize),
    /// A pod ends by itself.
    Complete(usize),
    /// A pod that runs gets one more network.
    Plug(usize),
    /// A pod gets one more network, its machine is cut off for so long, and it is deleted by force. Once it runs elsewhere
    /// under its name, without that network, somebody deletes it again.
    Again(usize, Duration),
    /// Somebody deletes a pod, and its successor of the same name by force as soon as that has an address.
    Brief(usize),
    /// The sandbox of a pod breaks, or its machine is booted, and its kubelet makes another one that no state shows, as far
    /// as ipgc can know of it all the same. Perhaps somebody deletes the pod meanwhile.
    Second(usize, bool),
    /// A network of a pod that runs is taken away.
    Unplug(usize),
    /// Somebody deletes all pods of a machine.
    Drain(usize),
    /// Somebody exempts a pool for so long.
    Hold(usize, Duration),
    /// Somebody deletes a pool, with all its rows.
    RemovePool(usize),
    /// Somebody deletes a definition, and makes it again after so long.
    RemoveDefinition(usize, Duration),
    /// Etcd is backed up, and restored after so long.
    Restore(Duration),
    /// A machine is without power for so long.
    Power(usize, Duration),
    /// A machine is cut off for so long, and its sandboxes answer on.
    Partition(usize, Duration),
    /// The kubelet of a machine is stopped for so long, and its sandboxes answer on.
    NoKubelet(usize, Duration),
    /// Somebody taints the node of a machine without power out of service, and perhaps forgets that when it is booted.
    Fence(usize, bool),
    /// Somebody states that a machine without power runs no sandboxes.
    DeclareEmpty(usize),
    /// Somebody removes the node of a machine without power.
    RemoveNode(usize),
    /// No owner uses a name again for so long.
    NoNames(Duration),
    /// Somebody runs `ipgc release --force` for one address, if nothing answers on it.
    Release(usize),
    /// The clock of a machine jumps by so many seconds, or that of ipgc.
    Jump(Option<usize>, i64),
    /// Somebody acknowledges what the breaker stops, in all pools.
    Acknowledge,
    /// A copy of ipgc is stopped and started again.
    Restart(usize),
    /// A copy of ipgc crashes at so many writes from now, before or after the server did the write.
    CrashAtWrite(usize, usize, bool),
    /// A fault of the API server for so long.
    Fault(Fault, Duration),
    /// The API server ends all watches.
    EndWatches,
    /// The API server forgets old versions.
    Compact,
}

/// A fault of the API server, for the requests of ipgc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// So many of a hundred requests fail with this code, and nothing is done.
    Fails(u16, usize),
    /// The same, of writes only, which are done.
    DoneThenFails(u16, usize),
    /// So many of a hundred connections break before the request is done.
    Breaks(usize),
    /// The same, of writes only, after they are done.
    DoneThenBreaks(usize),
    /// So many of a hundred requests are not answered as long as it lasts.
    Hangs(usize),
    /// So many of a hundred writes are done late, and never answered.
    Late(usize, u64),
    /// Each request waits for so many milliseconds.
    Slow(u64),
    /// A right is lost: on these objects, by this verb.
    Denied(&'static str, &'static str),
    /// Something before the server answers 404 when one of these objects is read.
    NotFound(&'static str),
    /// Events of all watches come so many milliseconds late.
    Lag(u64),
    /// The watch of these objects is deaf.
    Deaf(&'static str),
    /// These objects can be listed, and not watched.
    Down(&'static str),
    /// So many of a hundred answers are spoiled, in this way.
    Garbled(Garble, usize),
    /// Nothing reaches one copy, and nothing that it sends arrives, as if its machine were suspended.
    Suspended(usize),
}

impl Fault {
    /// Its name in the counts.
    pub fn name(self) -> String {
        match self {
            Self::Fails(code, _) => format!("{code}"),
            Self::DoneThenFails(code, _) => format!("done, then {code}"),
            Self::Breaks(_) => "connection breaks".to_owned(),
            Self::DoneThenBreaks(_) => "done, then the connection breaks".to_owned(),
            Self::Hangs(_) => "no answer".to_owned(),
            Self::Late(..) => "done late".to_owned(),
            Self::Slow(_) => "slow answers".to_owned(),
            Self::Denied(verb, resource) => format!("{verb} of {resource} forbidden"),
            Self::NotFound(resource) => format!("404 for each of {resource}"),
            Self::Lag(_) => "watches lag".to_owned(),
            Self::Deaf(resource) => format!("deaf watch of {resource}"),
            Self::Down(resource) => format!("no watch of {resource}"),
            Self::Garbled(how, _) => format!("answers are spoiled: {how:?}"),
            Self::Suspended(_) => "a copy is cut off".to_owned(),
        }
    }
}
