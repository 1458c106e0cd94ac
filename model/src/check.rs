//! Runs the checker.

use std::{fmt, time::Instant};

use stateright::{Checker, HasDiscoveries, Model};

use crate::{
    model::{Checked, Goal},
    scenario::Scenario,
    world::{Tick, World},
};

/// The result of a run over a whole state space.
#[derive(Debug)]
pub struct Report {
    /// The scenario's name.
    pub name: &'static str,
    /// The bounds of the scenario, in words.
    pub bounds: String,
    /// Different states.
    pub states: usize,
    /// Steps on the longest path.
    pub depth: usize,
    /// Seconds.
    pub seconds: f32,
    /// Properties that do not hold, each with a course of events.
    pub violations: Vec<(&'static str, Vec<String>)>,
}

/// Checks both properties over the whole state space.
pub fn check(scenario: &Scenario) -> Report {
    let begun = Instant::now();
    let checked = Checked {
        scenario: scenario.clone(),
        goal: Goal::All,
    };
    let run = checked.checker().threads(2).spawn_bfs().join();
    let mut violations: Vec<_> = run
        .discoveries()
        .into_iter()
        .map(|(property, path)| (property, lines(path.into_vec())))
        .collect();
    violations.sort();
    Report {
        name: scenario.name,
        bounds: scenario.bounds(),
        states: run.unique_state_count(),
        depth: run.max_depth(),
        seconds: begun.elapsed().as_secs_f32(),
        violations,
    }
}

/// The shortest course of events against a goal; `None` where there is none.
pub fn shortest(scenario: &Scenario, goal: Goal) -> Option<Vec<String>> {
    let checked = Checked {
        scenario: scenario.clone(),
        goal,
    };
    // One thread and one property: breadth first, so the first that is found is among the shortest.
    let run = checked
        .checker()
        .threads(1)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let path = run.discoveries().into_values().next()?;
    Some(lines(path.into_vec()))
}

fn lines(path: Vec<(World, Option<crate::action::Action>)>) -> Vec<String> {
    let line = |(world, action): (World, Option<_>)| {
        let now: Tick = world.now;
        action.map(|action| format!("{now}  {action}"))
    };
    path.into_iter().filter_map(line).collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            name,
            bounds,
            states,
            depth,
            seconds,
            ..
        } = self;
        write!(
            f,
            "{name:<14} {states:>9} states, {depth:>3} deep, {seconds:>5.1} s; {bounds}"
        )?;
        for (property, lines) in &self.violations {
            write!(f, "\n  NOT: {property}")?;
            for line in lines {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}
