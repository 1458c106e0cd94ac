//! The courses of events in model/traces.md.

use std::{collections::BTreeMap, fmt::Write, thread};

use crate::{check::shortest, model::Goal, needed};

/// Before the generated part of model/traces.md.
pub const BEGIN: &str = "<!-- traces: cargo run -p ipgc-model -- traces -->\n";
/// After it.
pub const END: &str = "<!-- /traces -->\n";

/// A shortest course of events for each guard and each assumption.
pub fn all() -> String {
    let mut wanted = Vec::new();
    for (mutation, scenario, goal) in needed::mutants() {
        let title = format!("{mutation} (`{}`)", scenario.name);
        wanted.push((title, scenario.without(mutation), goal));
    }
    for (assumption, scenario) in needed::assumptions() {
        let title = format!("not so: {assumption} (`{}`)", scenario.name);
        wanted.push((title, scenario.dropping(assumption), Goal::Doubled));
    }
    let half = |first: usize| {
        let part = wanted.iter().enumerate().skip(first).step_by(2);
        let found = part.map(|(i, (_, scenario, goal))| (i, shortest(scenario, *goal)));
        found.collect::<Vec<_>>()
    };
    let mut found = BTreeMap::new();
    thread::scope(|scope| {
        let other = scope.spawn(|| half(1));
        found.extend(half(0));
        found.extend(other.join().unwrap_or_default());
    });
    let mut text = String::new();
    for (i, (title, _, goal)) in wanted.iter().enumerate() {
        let lines = found.get(&i).cloned().flatten();
        let outcome = match (&lines, goal) {
            (None, _) => "nothing was found",
            (Some(_), Goal::Left) => "and the row, or the claim, stays",
            (Some(_), _) => "and two sandboxes answer on one address",
        };
        let _ = write!(text, "\n**{title}**\n\n```text\n");
        for line in lines.iter().flatten() {
            let _ = writeln!(text, "{line}");
        }
        let _ = write!(text, "   {outcome}\n```\n");
    }
    text
}
