//! The small models.

use crate::{
    replica::Replica,
    scenario::{Budget, Mutations, Scenario},
    world::{Machine, Pool, World},
};

/// A cluster of so many nodes at work, with these pools, and replicas that have just listed.
fn cluster(machines: usize, pools: Vec<Pool>) -> World {
    let machine = Machine { up: true, ready: true, tainted: false, renewed: 0 };
    World {
        now: 0,
        pods: Vec::new(),
        sandboxes: Vec::new(),
        pools,
        reservations: Vec::new(),
        machines: vec![machine; machines],
        replicas: Vec::new(),
        late: Vec::new(),
        left: Budget::default(),
        owed: Vec::new(),
        spoiled: Vec::new(),
        doubled: None,
        next_uid: 0,
        next_sandbox: 0,
        next_version: 1,
    }
}

fn scenario(name: &'static str, about: &'static str, start: World) -> Scenario {
    Scenario {
        name,
        about,
        start,
        quiet: 2,
        horizon: 8,
        grace: 1,
        slow_add: false,
        reserves: false,
        incomplete: false,
        versioned: false,
        mutations: Mutations::default(),
        dropped: None,
    }
}

impl Scenario {
    fn replicas(mut self, count: usize) -> Self {
        let world = &mut self.start;
        let replica = Replica::start(&world.pods, &world.machines, world.now, Mutations::default());
        world.replicas = vec![replica; count];
        self
    }

    fn left(mut self, left: Budget) -> Self {
        self.start.left = left;
        self
    }
}

/// A StatefulSet's pod comes, goes and comes back; another pod wants its address.
#[must_use]
pub fn successor() -> Scenario {
    scenario("successor", "pod and successor, graceful and forced ends", cluster(1, vec![Pool::of(1)]))
        .replicas(1)
        .left(Budget { creations: 2, deletions: 1, forced: 1, others: 1, lost: 1, ..Budget::default() })
}
