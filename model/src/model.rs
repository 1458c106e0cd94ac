//! The transition system for the checker.

use stateright::{Model, Property};

use crate::{
    action::Action,
    replica::Replica,
    scenario::Scenario,
    world::{WEB, World},
};

/// The property that no address is doubled.
pub const SAFE: &str = "no address that ipgc freed is given away while somebody answers on it";
/// The property that nothing is left.
pub const LIVE: &str = "in the end no row is left whose owners are dead";

/// The question that a model answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Both properties, over the whole state space.
    All,
    /// The shortest way to a doubled address.
    Doubled,
    /// The shortest way to a row that is left.
    Left,
}

/// A scenario to be checked.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The scenario.
    pub scenario: Scenario,
    /// The question that the run answers.
    pub goal: Goal,
}

impl Checked {
    fn is_final(&self, world: &World) -> bool {
        let mut actions = Vec::new();
        if world.now == self.scenario.horizon {
            self.actions(world, &mut actions);
        }
        world.now == self.scenario.horizon && actions.is_empty()
    }

    /// Whether nothing is left that had to go.
    fn is_clean(world: &World) -> bool {
        let excused = world.pod(WEB).is_some()
            || world.sandboxes.iter().any(|sandbox| sandbox.name == WEB)
            || world
                .machines
                .iter()
                .any(|machine| !machine.up && !machine.tainted)
            || world.replicas.iter().any(Replica::knows_a_lasting_end);
        let row = world.pools[0].taken().any(|(_, row)| row.name == WEB);
        let stuck = world
            .reservations
            .iter()
            .any(|reserved| reserved.podref == ipgc_core::reservation::CLAIMED_PODREF);
        !stuck && (excused || !row)
    }
}

impl Model for Checked {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![self.scenario.start.clone()]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        world.cluster_actions(&self.scenario, actions);
        world.replica_actions(&self.scenario, actions);
        actions.retain(|action| world.left.allows(*action));
        let last = world.now == self.scenario.horizon;
        // The steps that end what is under way come first; after them nothing else matters.
        if last
            && world
                .replicas
                .iter()
                .any(|replica| replica.is_busy() || replica.may_begin(world))
        {
            actions.retain(|action| matches!(action, Action::Ipgc(..) | Action::OtherTakes));
        }
    }

    fn next_state(&self, world: &World, action: Action) -> Option<World> {
        let mut next = world.clone();
        next.left.spend(action);
        match action {
            Action::Ipgc(replica, step) => next.replica_step(&self.scenario, replica, step),
            action => next.happen(&self.scenario, action),
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let safe = Property::always(SAFE, |_: &Self, world: &World| world.doubled.is_none());
        // True in final states alone: so no path that joins another hides a state that is not.
        let live = Property::eventually(LIVE, |model: &Self, world: &World| {
            model.is_final(world) && Self::is_clean(world)
        });
        // The same as an invariant, for the shortest trace.
        let left = Property::always(LIVE, |model: &Self, world: &World| {
            !model.is_final(world) || Self::is_clean(world)
        });
        match self.goal {
            Goal::All => vec![safe, live],
            Goal::Doubled => vec![safe],
            Goal::Left => vec![left],
        }
    }
}
