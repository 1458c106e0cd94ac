//! CNI ADD and DEL as whereabouts does them, and the sandboxes that they are for.

use crate::{
    scenario::{Assumption, Scenario},
    world::{Address, Name, Reserved, Row, Sandbox, WEB, World, podref},
};

impl World {
    /// The address that ADD gives to a pod of this name, and whether it is adopted.
    pub(crate) fn place_for(&self, scenario: &Scenario, name: Name) -> Option<(Address, bool)> {
        let pool = self.pool_of(name);
        let foreign = |of: Address| {
            scenario.reserves
                && self
                    .reservation(of)
                    .is_some_and(|reserved| reserved.podref != podref(name))
        };
        if let Some((of, _)) = self.pools[pool].taken().find(|(_, row)| row.name == name) {
            return (!foreign(of)).then_some((of, true));
        }
        let free = (1..)
            .zip(&self.pools[pool].rows)
            .find(|(of, row)| row.is_none() && !foreign(*of));
        free.map(|(of, _)| (of, false))
    }

    /// Bystanders use the last pool, whose range may be the same as the first one's.
    pub(crate) fn pool_of(&self, name: Name) -> usize {
        if name == WEB { 0 } else { self.pools.len() - 1 }
    }

    pub(crate) fn start(&mut self, scenario: &Scenario, uid: u8) {
        let Some(pod) = self.incarnation(uid).copied() else {
            return;
        };
        let number = self.next_sandbox;
        self.next_sandbox += 1;
        let reused = scenario.dropped == Some(Assumption::UniqueIds);
        self.sandboxes.push(Sandbox {
            number,
            id: if reused { 0 } else { number },
            uid,
            name: pod.name,
            machine: pod.machine,
            address: None,
            looked: None,
            orphan: false,
            clock: None,
        });
        if scenario.split_add {
            self.look(scenario, number);
        } else if !scenario.slow_add {
            self.add(scenario, number);
        }
    }

    /// The first half of an ADD: it reads the pool and the reservation.
    fn look(&mut self, scenario: &Scenario, number: u8) {
        let now = self.now;
        let name = self.sandboxes.iter().find(|it| it.number == number);
        let place = name.and_then(|it| self.place_for(scenario, it.name));
        let looked = place.map(|(of, _)| (of, now, self.reservation(of).is_some()));
        let mut sandboxes = self.sandboxes.iter_mut();
        if let Some(sandbox) = sandboxes.find(|it| it.number == number) {
            sandbox.looked = looked;
        }
    }

    /// The address to which the second half writes: the one that the first half chose, if the row there is as it was.
    /// Otherwise it looks again.
    fn chosen(&self, name: Name, of: Address) -> Option<(Address, bool)> {
        let row = self.pools[self.pool_of(name)].row(of);
        let is_own = row.is_some_and(|row| row.name == name);
        (row.is_none() || is_own).then_some((of, is_own))
    }

    pub(crate) fn add(&mut self, scenario: &Scenario, number: u8) {
        let Some(place) = self
            .sandboxes
            .iter()
            .position(|sandbox| sandbox.number == number)
        else {
            return;
        };
        let Sandbox {
            id, name, looked, ..
        } = self.sandboxes[place];
        self.sandboxes[place].looked = None;
        let chosen = match looked {
            None if scenario.split_add => return self.look(scenario, number),
            None => self.place_for(scenario, name),
            Some((of, ..)) => self.chosen(name, of),
        };
        let Some((of, adopted)) = chosen else {
            return;
        };
        let answers = |other: u8| {
            self.answering(of)
                .any(|s| s.number == other && s.number != number)
        };
        let owed = !self.spoiled.contains(&of)
            && self
                .owed
                .iter()
                .any(|(owed, to)| *owed == of && answers(*to));
        let shared = scenario.dropped == Some(Assumption::AdoptionHandsOver)
            && self.answering(of).any(|other| other.number != number);
        if (owed && !adopted) || (adopted && shared) {
            self.doubled = Some(of);
        }
        let pool = self.pool_of(name);
        self.pools[pool].set(of, Some(Row { id, name }));
        self.touch(scenario, pool);
        let has_accepted = looked.is_some_and(|(.., accepted)| accepted);
        if scenario.reserves && !has_accepted && self.reservation(of).is_none() {
            self.reserve(of, name);
        }
        self.sandboxes[place].address = Some(of);
    }

    /// A reservation, made by ADD.
    pub fn reserve(&mut self, of: Address, name: Name) {
        let version = self.next_version;
        self.next_version += 1;
        self.reservations.push(Reserved {
            address: of,
            uid: version,
            version,
            podref: podref(name).to_owned(),
            annotated: false,
            claimed_from: None,
        });
    }

    pub(crate) fn touch(&mut self, scenario: &Scenario, pool: usize) {
        if scenario.versioned {
            self.pools[pool].version += 1;
        }
    }

    pub(crate) fn stop(&mut self, scenario: &Scenario, number: u8, del: bool) {
        let Some(place) = self
            .sandboxes
            .iter()
            .position(|sandbox| sandbox.number == number)
        else {
            return;
        };
        let sandbox = self.sandboxes.remove(place);
        self.owed.retain(|(_, to)| *to != number);
        let pool = self.pool_of(sandbox.name);
        let of = sandbox.address.filter(|of| {
            self.pools[pool]
                .row(*of)
                .is_some_and(|row| row.id == sandbox.id)
        });
        if let Some(of) = of.filter(|_| del) {
            self.pools[pool].set(of, None);
            self.touch(scenario, pool);
            self.reservations.retain(|reserved| reserved.address != of);
        }
    }

    pub(crate) fn other_takes(&mut self, scenario: &Scenario) {
        let name = self.next_other();
        let uid = self.create(name, 0);
        self.start(scenario, uid);
        if scenario.slow_add || scenario.split_add {
            self.add(scenario, self.next_sandbox - 1);
        }
        self.report(uid, true);
    }
}
