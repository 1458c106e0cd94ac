//! The small models.

use crate::{
    action::Action,
    replica::Replica,
    scenario::{Budget, Mutations, Scenario},
    world::{Machine, Pool, Tick, WEB, World},
};

/// How often each of these may happen, and all else not at all.
macro_rules! budget {
    ($($what:ident $times:literal),*) => { Budget { $($what: $times,)* ..Budget::default() } };
}

/// A cluster of so many nodes at work, with these pools, and replicas that have just listed.
fn cluster(machines: usize, pools: Vec<Pool>) -> World {
    let machine = Machine {
        up: true,
        ready: true,
        tainted: false,
        renewed: 0,
    };
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

/// One node, and one pool of one address.
fn on_one_node(name: &'static str) -> Scenario {
    scenario(name, cluster(1, vec![Pool::of(1)]))
}

fn scenario(name: &'static str, start: World) -> Scenario {
    Scenario {
        name,
        start,
        quiet: 2,
        horizon: 8,
        grace: 1,
        slow_add: false,
        split_add: false,
        reserves: false,
        incomplete: false,
        lagging: false,
        versioned: false,
        mutations: Mutations::default(),
        dropped: None,
    }
}

impl Scenario {
    fn replicas(mut self, count: usize) -> Self {
        let world = &mut self.start;
        let mut replica = Replica::start(
            &world.pods,
            &world.machines,
            world.now,
            Mutations::default(),
        );
        if world.next_uid == 0 {
            replica.knows_the_past(world.now);
        }
        world.replicas = vec![replica; count];
        self
    }

    /// The StatefulSet's pod runs, and the replicas have seen it begin.
    fn web(mut self) -> Self {
        let scenario = self.clone();
        let world = &mut self.start;
        let uid = world.create(WEB, 0);
        world.happen(&scenario, Action::Start(uid));
        if scenario.slow_add || scenario.split_add {
            world.happen(&scenario, Action::Add(0));
        }
        world.happen(&scenario, Action::Report(uid));
        for replica in &mut world.replicas {
            replica.deliver(world.now);
        }
        self
    }

    /// It is deleted by force.
    fn forced(mut self) -> Self {
        let scenario = self.clone();
        self.start.happen(&scenario, Action::Force(WEB));
        self
    }

    /// It ended well, but its DEL was lost.
    fn gone(mut self) -> Self {
        let scenario = self.clone();
        let world = &mut self.start;
        let uid = world.next_uid - 1;
        world.happen(&scenario, Action::Delete(WEB));
        world.happen(&scenario, Action::StopWithoutDel(world.next_sandbox - 1));
        world.happen(&scenario, Action::Finish(uid));
        for replica in &mut world.replicas {
            replica.deliver(world.now);
        }
        self
    }

    fn until(mut self, quiet: Tick, horizon: Tick) -> Self {
        (self.quiet, self.horizon) = (quiet, horizon);
        self
    }

    fn left(mut self, left: Budget) -> Self {
        self.start.left = left;
        self
    }

    fn with(mut self, change: fn(&mut Self)) -> Self {
        change(&mut self);
        self
    }
}

/// All small models.
pub fn all() -> Vec<Scenario> {
    vec![
        blind(),
        successor(),
        late_add(),
        other_ends(),
        gap(),
        end_in_gap(),
        restart(),
        listed(),
        born(),
        forgotten(),
        nodes(),
        moved(),
        status(),
        neighbours(),
        reservations(),
        interrupted_add(),
        replicas(),
        upstream(),
    ]
}

/// Hazard A alone: the pod lives and the watch does not show it, for however long.
pub fn blind() -> Scenario {
    on_one_node("blind")
        .replicas(1)
        .web()
        .left(budget!(creations 1, deletions 1, others 1, lost 1))
        .with(|it| it.lagging = true)
}

/// A StatefulSet's pod ends, well or by force, and comes back; another pod wants its address.
pub fn successor() -> Scenario {
    on_one_node("successor")
        .replicas(1)
        .web()
        .left(budget!(creations 1, deletions 1, forced 1, others 1, lost 1))
}

/// ADD is slow: it writes its row when the pod is deleted, or a successor is there.
pub fn late_add() -> Scenario {
    on_one_node("late-add")
        .replicas(1)
        .left(budget!(creations 2, deletions 1, forced 1, others 1))
        .with(|it| it.slow_add = true)
        .until(1, 7)
}

/// Ends that look good and are none, and pods that stay.
pub fn other_ends() -> Scenario {
    on_one_node("other-ends")
        .replicas(1)
        .web()
        .left(budget!(creations 1, forced 1, evictions 1, completions 1, others 1, lost 1))
}

/// The watch falls silent after a good end, and a successor is born and killed meanwhile.
pub fn gap() -> Scenario {
    on_one_node("gap")
        .replicas(1)
        .web()
        .gone()
        .left(budget!(creations 1, forced 1, others 1, stalls 1))
        .until(2, 9)
}

/// The watch falls silent while a pod ends.
pub fn end_in_gap() -> Scenario {
    on_one_node("end-in-gap")
        .replicas(1)
        .web()
        .left(budget!(deletions 1, forced 1, others 1, lost 1, stalls 1))
        .until(2, 9)
}

/// ipgc restarts in the middle of a turn.
pub fn restart() -> Scenario {
    on_one_node("restart")
        .replicas(1)
        .web()
        .left(budget!(deletions 1, forced 1, others 1, lost 1, restarts 1))
        .until(2, 9)
}

/// When ipgc starts, a pod is there whose predecessor was deleted by force.
pub fn listed() -> Scenario {
    on_one_node("listed")
        .web()
        .forced()
        .web()
        .replicas(1)
        .left(budget!(deletions 1, forced 1, others 1, lost 1))
}

/// When ipgc starts, a row is there of a pod that was deleted by force; then its successor is born.
pub fn born() -> Scenario {
    on_one_node("born")
        .web()
        .forced()
        .replicas(1)
        .left(budget!(creations 1, deletions 1, forced 1, others 1, lost 1))
        .until(3, 9)
}

/// When ipgc starts, a row is there of a pod that nobody knows, and its node is silent.
pub fn forgotten() -> Scenario {
    scenario("forgotten", cluster(2, vec![Pool::of(1)]))
        .web()
        .forced()
        .with(|it| it.start.machines[0].up = false)
        .replicas(1)
        .left(budget!(others 1, fences 1))
        .until(5, 12)
}

/// A node falls silent, comes back or is fenced.
pub fn nodes() -> Scenario {
    on_one_node("nodes")
        .replicas(1)
        .web()
        .left(budget!(forced 1, others 1, downs 1, fences 1))
        .until(5, 13)
}

/// The successor runs on another node than its predecessor, whose node is silent.
pub fn moved() -> Scenario {
    scenario("moved", cluster(2, vec![Pool::of(1)]))
        .replicas(1)
        .web()
        .with(|it| it.start.machines[0].up = false)
        .left(budget!(creations 1, deletions 1, forced 1, others 1, lost 1))
        .until(1, 7)
}

/// A status without the entry of the interface.
pub fn status() -> Scenario {
    on_one_node("status")
        .replicas(1)
        .left(budget!(creations 1, deletions 1, others 1, lost 1))
        .with(|it| it.incomplete = true)
}

/// Others take and give back addresses of the same pool all the time.
pub fn neighbours() -> Scenario {
    scenario("neighbours", cluster(1, vec![Pool::of(3)]))
        .replicas(1)
        .web()
        .gone()
        .left(budget!(others 2, departures 2))
        .until(0, 3)
        .with(|it| it.versioned = true)
}

/// A reservation is released while a successor comes; another pool has the same addresses.
pub fn reservations() -> Scenario {
    scenario("reservations", cluster(1, vec![Pool::of(1), Pool::of(1)]))
        .with(|it| it.reserves = true)
        .replicas(1)
        .web()
        .gone()
        .left(budget!(creations 1, forced 1, others 1, timeouts 1))
        .until(3, 11)
}

/// An ADD that is interrupted between its look at the reservation and its write of the row.
pub fn interrupted_add() -> Scenario {
    let two_pools = cluster(1, vec![Pool::of(1), Pool::of(1)]);
    scenario("interrupted-add", two_pools)
        .with(|it| (it.reserves, it.split_add) = (true, true))
        .replicas(1)
        .web()
        .gone()
        .left(budget!(creations 1, forced 1, others 1))
        .until(3, 11)
}

/// Two replicas at once.
pub fn replicas() -> Scenario {
    on_one_node("replicas")
        .replicas(2)
        .web()
        .left(budget!(creations 1, forced 1, others 1))
        .until(1, 6)
}

/// Upstream's collectors work beside us.
pub fn upstream() -> Scenario {
    on_one_node("upstream")
        .replicas(1)
        .web()
        .left(budget!(creations 1, deletions 1, forced 1, others 1, upstream 1))
}

/// All of them with larger bounds.
pub fn large() -> Vec<Scenario> {
    let mut all = all();
    for scenario in &mut all {
        let left = &mut scenario.start.left;
        for more in [&mut left.creations, &mut left.forced, &mut left.stalls] {
            *more += u8::from(*more > 0);
        }
        scenario.horizon += 1;
    }
    all
}
