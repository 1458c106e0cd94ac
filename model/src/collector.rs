//! The steps of a turn: observe, prove, judge, patch, claim, prove, delete.
//!
//! The order is the model's. The conclusion of each step is the shipped code's.

use std::sync::Arc;

use ipgc_core::{
    clearance::Facts,
    fact::Fact,
    judge::Release,
    patch::FreePatch,
    pool::{ObservedPool, RowContent},
    proof::Presence,
    reservation::{CLAIMED_PODREF, Reservation},
};
use json_patch::Patch;
use serde_json::Value;

use crate::{
    action::{Action, Move},
    doctored,
    replica::{ANY_SCOPE, Observation, Replica, Seen, Turn},
    scenario::{ADD_BUDGET, Assumption, Mutation, Scenario},
    world::{
        Address, INTERFACE, Name, OTHER, Reserved, Sandbox, Tick, WEB, World, Write, address,
        id_text, moment, parsed_podref,
    },
};

impl Replica {
    /// Whether a step of its turn is under way.
    pub fn is_busy(&self) -> bool {
        self.turn != Turn::Idle
    }

    /// Whether all that it has under way is a claim, which waits for ADDs that are at work.
    pub fn is_waiting(&self, scenario: &Scenario, now: Tick) -> bool {
        let not_aged = scenario.mutations.has(Mutation::ClaimNotAged);
        let is_aged = |at| now >= at + ADD_BUDGET || not_aged;
        matches!(&self.turn, Turn::Claimed(it, _, at) if it.podref == CLAIMED_PODREF && !is_aged(*at))
    }

    /// Whether it may begin a turn: one in each tick, while there is anything to look at.
    pub fn may_begin(&self, world: &World) -> bool {
        let rows = world.pools[0].taken().any(|(_, row)| row.name == WEB);
        !self.is_busy() && self.turned_at != Some(world.now) && rows
    }
}

impl World {
    /// The steps that the replicas may take next.
    pub fn replica_actions(&self, scenario: &Scenario, actions: &mut Vec<Action>) {
        for (id, replica) in (0..).zip(&self.replicas) {
            let mut may = |step| actions.push(Action::Ipgc(id, step));
            if replica.fresh && !replica.pending.is_empty() {
                may(Move::Deliver);
            }
            if replica.fresh && self.now < scenario.quiet {
                may(Move::Stall);
            }
            if !replica.fresh {
                may(Move::Resume);
                may(Move::Relist);
            }
            if self.now < scenario.quiet {
                may(Move::Restart);
            }
            let proof_first = scenario.mutations.has(Mutation::ProofFirst);
            match &replica.turn {
                Turn::Idle if replica.may_begin(self) => {
                    may(if proof_first {
                        Move::Prove
                    } else {
                        Move::Observe
                    });
                }
                Turn::Idle => {}
                Turn::Observed(_) => {
                    may(Move::Prove);
                    if scenario.dropped == Some(Assumption::Linearizable) {
                        may(Move::ProveFromPast);
                    }
                }
                Turn::Proved(observation, _) if proof_first && observation.pool.rows.is_empty() => {
                    may(Move::Observe);
                }
                Turn::Proved(..) => may(Move::Judge),
                Turn::Sent { .. } => may(Move::Patch),
                Turn::Gone(..) => may(Move::Claim),
                Turn::Claiming(..) => {
                    may(Move::ClaimDone);
                    may(Move::ClaimLost);
                }
                Turn::Claimed(..) if replica.is_waiting(scenario, self.now) => {}
                Turn::Claimed(..) => may(Move::Reprove),
                Turn::Reproved(..) => may(Move::Release),
            }
        }
    }

    /// A step of a replica.
    pub fn replica_step(&mut self, scenario: &Scenario, id: u8, step: Move) {
        let mut replica = std::mem::take(&mut self.replicas[usize::from(id)]);
        let turn = std::mem::take(&mut replica.turn);
        replica.turn = match step {
            Move::Deliver | Move::Stall | Move::Resume | Move::Relist | Move::Restart => {
                self.watch_step(scenario, &mut replica, &turn, step);
                if step == Move::Restart {
                    Turn::Idle
                } else {
                    turn
                }
            }
            Move::Observe => self.observe(scenario, &mut replica, turn),
            Move::Prove => self.prove(&mut replica, turn),
            Move::ProveFromPast => match turn {
                Turn::Observed(observation) => {
                    let seen = self.pod(OTHER).copied().into_iter().map(|pod| Seen {
                        name: OTHER,
                        pod: Some(pod),
                    });
                    let seen = seen
                        .chain([Seen {
                            name: WEB,
                            pod: None,
                        }])
                        .collect();
                    Turn::Proved(observation, seen)
                }
                turn => turn,
            },
            Move::Judge => self.judge(scenario, &mut replica, &turn),
            Move::Patch => self.patch(scenario, turn),
            Move::Claim => self.claim(scenario, turn),
            Move::ClaimDone => self.claim_done(turn),
            Move::ClaimLost => match turn {
                Turn::Claiming(of, name, patch) => {
                    self.late.push(Write::Reservation(of, patch));
                    Turn::Gone(of, name)
                }
                turn => turn,
            },
            Move::Reprove => match turn {
                Turn::Claimed(reserved, name, _) => {
                    // A successor accepted it without writing it, if a row has its address again: then
                    // it goes with that row, whose own verdict may have to wait.
                    let row = self.pools[0]
                        .row(reserved.address)
                        .filter(|row| row.name == name);
                    let accepted = row.is_some() && !scenario.mutations.has(Mutation::RowNotAsked);
                    let presence = match self.pod(name) {
                        Some(pod) => Presence::Present(Some(Arc::new(pod.state()))),
                        None => Presence::Absent,
                    };
                    let of = address(reserved.address).into();
                    let found = Fact::Absent.check(Some(&presence), of, &ANY_SCOPE);
                    let absent = found == Ok(true) && !accepted;
                    Turn::Reproved(reserved, name, absent)
                }
                turn => turn,
            },
            Move::Release => {
                self.release(&turn);
                Turn::Idle
            }
        };
        self.replicas[usize::from(id)] = replica;
    }

    fn watch_step(&mut self, scenario: &Scenario, replica: &mut Replica, turn: &Turn, step: Move) {
        let mine: Vec<_> = self
            .pods
            .iter()
            .filter(|pod| pod.name == WEB)
            .copied()
            .collect();
        match step {
            Move::Stall => {
                replica.fresh = false;
                // It was heard until now: nothing that happened before is missing.
                replica.heard_until = self.now;
            }
            Move::Resume => {
                replica.deliver(self.now);
                replica.fresh = true;
            }
            Move::Relist => replica.list(&mine, &self.machines, self.now, scenario.mutations),
            Move::Restart => {
                match turn {
                    Turn::Sent { patch, .. } => self.late.push(Write::Pool(patch.clone())),
                    Turn::Claiming(of, _, patch) => {
                        self.late.push(Write::Reservation(*of, patch.clone()));
                    }
                    _ => {}
                }
                let turned_at = replica.turned_at;
                *replica = Replica::start(&mine, &self.machines, self.now, scenario.mutations);
                replica.turned_at = turned_at;
            }
            _ => replica.deliver(self.now),
        }
    }

    fn observe(&self, scenario: &Scenario, replica: &mut Replica, turn: Turn) -> Turn {
        let now = self.now;
        let pool = self.pools[0].clone();
        replica.turned_at = Some(now);
        replica.glance(&pool, now, scenario.wait());
        if let Some(observed) = parse(&pool, now) {
            for row in observed.rows() {
                replica.sightings.see(observed.uid(), row, moment(now));
            }
        }
        let observation = Observation { pool, at: now };
        match turn {
            Turn::Proved(_, seen) => Turn::Proved(observation, seen),
            _ => Turn::Observed(observation),
        }
    }

    fn prove(&self, replica: &mut Replica, turn: Turn) -> Turn {
        let observation = match turn {
            Turn::Observed(observation) => observation,
            _ => Observation {
                pool: crate::world::Pool::default(),
                at: self.now,
            },
        };
        replica.turned_at = Some(self.now);
        let names: Vec<Name> = if observation.pool.rows.is_empty() {
            vec![WEB]
        } else {
            observation.pool.taken().map(|(_, row)| row.name).collect()
        };
        let mut seen: Vec<Seen> = Vec::new();
        for name in names {
            if !seen.iter().any(|other| other.name == name) {
                seen.push(Seen {
                    name,
                    pod: self.pod(name).copied(),
                });
            }
        }
        if let Some(observed) = parse(&observation.pool, observation.at) {
            let absent = |podref: &str| {
                seen.iter()
                    .any(|s| s.pod.is_none() && parsed_podref(s.name).as_str() == podref)
            };
            for row in observed
                .rows()
                .iter()
                .filter(|row| row.podref_text().is_some_and(absent))
            {
                replica
                    .sightings
                    .see_absent(observed.uid(), row, moment(observation.at));
            }
        }
        Turn::Proved(observation, seen)
    }

    fn judge(&mut self, scenario: &Scenario, replica: &mut Replica, turn: &Turn) -> Turn {
        let Turn::Proved(observation, seen) = turn else {
            return Turn::Idle;
        };
        let Some(observed) = parse(&observation.pool, observation.at) else {
            return Turn::Idle;
        };
        let knowledge = doctored::Knowledge::of(scenario, replica, &observed, seen, self);
        let proof = observed.begin_proof().conclude(knowledge.presence.clone());
        let free = |row| {
            let release = |facts: &Facts<'_>| proof.release(row, facts).ok();
            knowledge.with_facts(&observed, row, release)?
        };
        let mut releases: Vec<Release<'_>> = observed.rows().iter().filter_map(free).collect();
        if scenario.mutations.has(Mutation::NeverFree) {
            releases.clear();
        }
        if releases.is_empty() {
            return Turn::Idle;
        }
        let number = |row: &ipgc_core::pool::Row| row.key().parse().unwrap_or_default();
        let rows: Vec<(Address, Name)> = releases
            .iter()
            .filter_map(|release| {
                let of = number(release.row());
                Some((of, observation.pool.row(of)?.name))
            })
            .collect();
        if scenario.mutations.has(Mutation::ReservationFirst) {
            for (of, name) in &rows {
                if let Some(reserved) = self.reservation(*of).cloned() {
                    self.release(&Turn::Reproved(reserved, *name, true));
                }
            }
        }
        let patch = FreePatch::new(&proof, releases).to_json_patch();
        let patch = doctored::patch(scenario.mutations, patch, &observation.pool);
        Turn::Sent {
            patch: text(&patch),
            rows,
        }
    }

    fn patch(&mut self, scenario: &Scenario, turn: Turn) -> Turn {
        let Turn::Sent { patch, rows } = turn else {
            return turn;
        };
        let done = self.write(scenario, &Write::Pool(patch));
        match rows.first().filter(|_| done && scenario.reserves) {
            Some((of, name)) => Turn::Gone(*of, *name),
            None => Turn::Idle,
        }
    }

    /// The API server does a write. Whether it was taken.
    pub fn write(&mut self, scenario: &Scenario, write: &Write) -> bool {
        match write {
            Write::Pool(patch) => {
                let Some(document) = patched(&self.pools[0].document(), patch) else {
                    return false;
                };
                let before = self.pools[0].clone();
                self.pools[0].keep_only(&document);
                if scenario.versioned {
                    self.pools[0].version += 1;
                }
                for (of, _) in before
                    .taken()
                    .filter(|(of, _)| self.pools[0].row(*of).is_none())
                    .collect::<Vec<_>>()
                {
                    self.blame(of);
                }
                true
            }
            Write::Reservation(of, patch) => self.write_reservation(*of, patch),
        }
    }

    /// ipgc freed an address: the sandboxes that have it now must be gone before it is given away.
    fn blame(&mut self, of: Address) {
        // A sandbox whose ADD accepted the reservation and has yet to write its row will have it as well.
        let has_accepted = |it: &Sandbox| matches!(it.looked, Some((on, _, true)) if on == of);
        let answers = |it: &&Sandbox| it.address == Some(of) || has_accepted(it);
        let answering = self.sandboxes.iter().filter(answers);
        let answering: Vec<u8> = answering.map(|sandbox| sandbox.number).collect();
        for number in answering {
            if !self.owed.contains(&(of, number)) {
                self.owed.push((of, number));
            }
        }
        self.owed.sort_unstable();
    }

    fn claim(&self, scenario: &Scenario, turn: Turn) -> Turn {
        let Turn::Gone(of, name) = turn else {
            return turn;
        };
        let found = self.reservation(of).and_then(|reserved| {
            Some((
                reserved,
                Reservation::parse(&reserved.document().to_string()).ok()?,
            ))
        });
        let row = RowContent {
            address: address(of).into(),
            sandbox: id_text(0).into(),
            podref: parsed_podref(name),
            interface: Some(INTERFACE.into()),
        };
        match found.filter(|(_, reservation)| reservation.belongs_to(&row, None)) {
            None => Turn::Idle,
            Some((reserved, reservation)) => {
                if reservation.is_claimed() || scenario.mutations.has(Mutation::NoClaim) {
                    return Turn::Claimed(reserved.clone(), name, self.now);
                }
                let patch = doctored::claim(scenario.mutations, reservation.claim());
                Turn::Claiming(of, name, text(&patch))
            }
        }
    }

    fn claim_done(&mut self, turn: Turn) -> Turn {
        let Turn::Claiming(of, name, patch) = turn else {
            return turn;
        };
        let done = self.write_reservation(of, &patch);
        match self.reservation(of).filter(|_| done) {
            Some(reserved) => Turn::Claimed(reserved.clone(), name, self.now),
            None => Turn::Gone(of, name),
        }
    }

    fn release(&mut self, turn: &Turn) {
        let Turn::Reproved(claimed, _, absent) = turn else {
            return;
        };
        let of = claimed.address;
        if *absent {
            let same = |reserved: &Reserved| {
                reserved.uid == claimed.uid && reserved.version == claimed.version
            };
            if self.reservation(of).is_some_and(same) {
                self.reservations.retain(|reserved| reserved.address != of);
                self.blame(of);
            }
        } else if let Some(reservation) = Reservation::parse(&claimed.document().to_string())
            .ok()
            .filter(Reservation::is_claimed)
        {
            self.write_reservation(of, &text(&reservation.give_back()));
        }
    }

    fn write_reservation(&mut self, of: Address, patch: &str) -> bool {
        let Some(place) = self
            .reservations
            .iter()
            .position(|reserved| reserved.address == of)
        else {
            return false;
        };
        let Some(document) = patched(&self.reservations[place].document(), patch) else {
            return false;
        };
        self.reservations[place].take(&document);
        self.reservations[place].version = self.next_version;
        self.next_version += 1;
        true
    }
}

fn parse(pool: &crate::world::Pool, at: u8) -> Option<ObservedPool> {
    ObservedPool::parse(&pool.document().to_string(), moment(at), |_| true).ok()
}

fn text(patch: &Patch) -> String {
    serde_json::to_string(patch).unwrap_or_default()
}

fn patched(document: &Value, patch: &str) -> Option<Value> {
    let patch: Patch = serde_json::from_str(patch).ok()?;
    let mut document = document.clone();
    json_patch::patch(&mut document, &patch).ok()?;
    Some(document)
}
