//! A pod that lives: its last state, and what the states before it told.

use std::{net::IpAddr, sync::Arc, time::Duration};

use crate::{
    clearance::Living,
    definitions::Scope,
    evidence::{Ended, Sandboxes, Trail},
    id::IdTag,
    networks::{Status, StatusEntry},
    pod::{Phase, PodState},
    pool::Glance,
    time::Moment,
};

/// A pod that lives.
// Independent facts, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Live {
    /// The last state.
    pub state: PodState,
    /// The evidence of all its states about its sandbox.
    pub trail: Trail,
    /// Whether it was seen since the last list began.
    pub is_seen: bool,
    /// See [`Ended::listed_at`].
    pub listed_at: Option<Moment>,
    /// See [`Ended::born`].
    pub born: Option<Moment>,
    /// When it was first seen Running.
    pub running_since: Option<Moment>,
    /// When it was first seen in a terminal phase.
    pub terminal_since: Option<Moment>,
    /// Whether that happened before our eyes.
    pub terminal_watched: bool,
    /// When it was first seen being deleted.
    pub deleting_since: Option<Moment>,
    /// Whether the list that showed it first showed it so: nobody knows since when it is.
    pub is_deleting_longer: bool,
    /// See [`Ended::stuck`].
    pub stuck: bool,
    /// The sandboxes that its rows were seen with.
    pub sandboxes: Sandboxes,
    /// Of each of its first 32 addresses a bit: whether the sweep has yet to see a row. None is set if the pod came or
    /// changed after the sweep began: its rows may have come behind the sweep.
    pub lacks_rows: u32,
}

impl Live {
    /// A pod that is seen for the first time, in this state; `watched` unless a list showed it.
    pub fn new(state: PodState, listed_at: Option<Moment>, watched: bool, now: Moment) -> Self {
        let mut live = Self {
            trail: Trail::default(),
            is_seen: true,
            listed_at,
            // One whose status is there already was given its addresses before.
            born: (watched && state.status == Status::Missing && !state.deleting).then_some(now),
            running_since: None,
            terminal_since: None,
            terminal_watched: false,
            deleting_since: None,
            is_deleting_longer: !watched && state.deleting,
            stuck: false,
            sandboxes: Sandboxes::default(),
            lacks_rows: 0,
            state,
        };
        live.note_state(watched, now);
        live
    }

    /// Takes in the next state.
    pub fn advance(&mut self, next: PodState, watched: bool, now: Moment) {
        // A deletion by force does not shorten the grace that the kubelet gives since an earlier one.
        let grace = next.termination_grace.max(self.state.termination_grace);
        // Containers that end while it is being deleted are those that the kubelet stops. Of one that a list shows to be
        // deleting nobody saw which of the two came first.
        let was_seen = watched || self.state.deleting;
        let restarts = if next.deleting && was_seen {
            self.state.restarts
        } else {
            next.restarts
        };
        let is_new = |id: &IdTag| !self.state.container_ids.contains(id);
        // A list may show a state from before the boot that no watch has shown.
        if watched && next.runs() && next.container_ids.iter().any(is_new) {
            self.trail.restart();
        }
        self.state = PodState {
            termination_grace: grace,
            restarts,
            ..next
        };
        self.is_seen = true;
        self.lacks_rows = 0;
        self.note_state(watched, now);
    }

    fn note_state(&mut self, watched: bool, now: Moment) {
        self.trail.advance(&self.state);
        if self.state.phase == Phase::Running {
            self.running_since.get_or_insert(now);
        }
        if self.state.deleting {
            self.deleting_since.get_or_insert(now);
        }
        if self.state.phase.is_terminal() && self.terminal_since.is_none() {
            self.terminal_since = Some(now);
            self.terminal_watched = watched;
        }
    }

    /// For how long it was being deleted at `moment`, if it is: for ever where nobody saw since when, and it was by then.
    pub fn deleting_for(&self, moment: Moment) -> Option<Duration> {
        self.deleting_since.map(|since| {
            if self.is_deleting_longer && since <= moment {
                Duration::MAX
            } else {
                moment.since(since)
            }
        })
    }

    /// A sweep begins.
    pub fn begin_sweep(&mut self) {
        let places = 0..self.state.status.addresses().len();
        self.lacks_rows = places.fold(0, |all, place| all | bit(place));
    }

    /// Whether it reports the address, and may do so as one of the network that the pool of `scope` is of.
    pub fn reports(&self, address: IpAddr, scope: Scope<'_>) -> bool {
        let mut entries = self.state.status.entries();
        let is_of = |entry: StatusEntry<'_>| {
            entry.addresses.contains(&address) && scope.may_name(entry, address)
        };
        !self.state.phase.is_terminal() && entries.any(is_of)
    }

    /// The sandboxes that its rows were seen with, this row among them if it reports the row: others may be left of a pod
    /// before it. If the row is not `its` by the network, it may be all the same: the network may be named on the nodes, or
    /// its name have been edited.
    pub fn sandboxes_with(&self, row: &Glance<'_>, its: bool, now: Moment) -> Sandboxes {
        let mut sandboxes = self.sandboxes;
        let place = row.interface.zip(row.address);
        let place = place.filter(|_| !self.state.phase.is_terminal());
        let reported = |(interface, address)| self.state.status.reported(interface, address);
        if (its || place.and_then(reported).is_some())
            && let Some(tag) = row.sandbox.and_then(IdTag::of)
        {
            // The id of a container, as by hotplug, takes no place from a sandbox.
            let is_container = self.state.container_ids.contains(&tag);
            if is_container && sandboxes.are_full() {
                return sandboxes;
            }
            if its && self.trail.renewed && sandboxes.tags().next() != Some(tag) {
                sandboxes = Sandboxes::default();
            }
            // The first is to be a sandbox.
            if its && !(is_container && sandboxes.is_empty()) {
                sandboxes.note(tag, now);
            } else {
                sandboxes.note_doubtful(tag);
            }
        }
        sandboxes
    }

    /// The sweep saw a row of this address.
    pub fn note_row(&mut self, address: IpAddr) {
        let addresses = self.state.status.addresses().iter().enumerate();
        for (place, _) in addresses.filter(|(_, own)| **own == address) {
            self.lacks_rows &= !bit(place);
        }
    }

    /// Whether the sweep was to see a row of the address at this place, and did not.
    pub fn lacks_row(&self, place: usize) -> bool {
        self.lacks_rows & bit(place) != 0
    }

    /// The facts about it while it lives.
    pub fn living(&self) -> Living {
        let ended = |since| self.clone().into_ended(self.terminal_watched, since);
        Living {
            uid: self.state.uid.clone(),
            running_since: self.running_since,
            completed: self.terminal_since.map(ended).map(Arc::new),
            sandboxes: self.sandboxes,
        }
    }

    /// The record of its end at `at`.
    pub fn into_ended(self, watched: bool, at: Moment) -> Ended {
        Ended {
            at,
            terminal_since: self.terminal_since,
            watched,
            settled: self.trail.settled,
            stopped: self.trail.stopped,
            stuck: self.stuck,
            listed_at: self.listed_at,
            born: self.born,
            gap_at: None,
            sandboxes: self.sandboxes,
            last: self.state,
        }
    }
}

/// The bit of the address at this place, if it has one.
fn bit(place: usize) -> u32 {
    let place = u32::try_from(place).unwrap_or(u32::MAX);
    1_u32.checked_shl(place).unwrap_or(0)
}
