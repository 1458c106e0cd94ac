//! Shows that the simulation can fail: for each guard of docs/safety.md a copy of the project without it is built, and
//! played until a seed shows what the guard is for.
//!
//! Writes into `target/mutations` only. Needs git and cargo, and some minutes for each guard.

use clap::Parser;
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// A guard, and how it is left out.
struct Mutation {
    name: &'static str,
    edits: &'static [Edit],
}

/// A file, a text that stands in it once, and the text that takes its place.
type Edit = [&'static str; 3];

const MUTATIONS: [Mutation; 26] = [
    Mutation {
        name: "a pod that was not read counts as absent",
        edits: &[[
            "core/src/judge.rs",
            "Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),",
            "Presence::Unknown(_) => Verdict::Stale(absent(&subject)),",
        ]],
    },
    Mutation {
        name: "the patch does not test the row",
        edits: &[[
            "core/src/patch.rs",
            "operations.push(test(&path, row.stored().clone()));",
            "",
        ]],
    },
    Mutation {
        name: "a watch that is not heard counts as heard",
        edits: &[[
            "core/src/clearance.rs",
            "if !self.facts.fresh && Self::may_return(&scheduled) {",
            "if false {",
        ]],
    },
    Mutation {
        name: "an end is settled though the sandbox was not seen up",
        edits: &[[
            "core/src/evidence.rs",
            "state.phase.is_terminal() && all_terminated && self.sandbox_up && !self.foreign_end;",
            "state.phase.is_terminal() && all_terminated && !self.foreign_end;",
        ]],
    },
    Mutation {
        name: "each end is settled",
        edits: &[[
            "core/src/clearance.rs",
            "} else if end.settled && least.is_zero() {",
            "} else if least.is_zero() {",
        ]],
    },
    Mutation {
        name: "no wait W for the kubelet",
        edits: &[[
            "core/src/clearance.rs",
            "let until = since + wait;",
            "let until = since;",
        ]],
    },
    Mutation {
        name: "a silent kubelet counts as alive",
        edits: &[[
            "core/src/clearance.rs",
            "Standing::Silent => self.held_by(node, end, wait),",
            "Standing::Silent => Clearance::new(Grade::Witnessed, Wait::Until(end + wait)),",
        ]],
    },
    Mutation {
        name: "no node blocks for pods that nobody saw",
        edits: &[[
            "core/src/clearance.rs",
            "let silent = nodes.blockers(self.facts.slice, wait, self.now);",
            "let silent = None;",
        ]],
    },
    Mutation {
        name: "an earlier incarnation does not count",
        edits: &[[
            "core/src/clearance.rs",
            "let own = own.reduce(Clearance::and);",
            "let own = own.last();",
        ]],
    },
    Mutation {
        name: "the wait for a pod that nobody saw begins with the first sight of its row",
        edits: &[[
            "core/src/clearance.rs",
            "sighting.map_or(self.now, |seen| seen.absent_since().unwrap_or(self.now))",
            "sighting.map_or(self.now, |seen| seen.first)",
        ]],
    },
    Mutation {
        name: "another pod's report does not hold a row",
        edits: &[[
            "core/src/judge.rs",
            "if let Some(held) = in_use(subject.row, subject.facts.others, &subject.facts.scope) {",
            "if let Some(held) = None::<Held> {",
        ]],
    },
    Mutation {
        name: "a reservation is deleted without a claim",
        edits: &[[
            "src/collect/release/steps.rs",
            "let is_marked = !may_be_accepted || reservation.is_claimed();",
            "let is_marked = may_be_accepted || !may_be_accepted;",
        ]],
    },
    Mutation {
        name: "no second proof of a reservation",
        edits: &[[
            "src/collect/release/steps.rs",
            "Ok(false) => kept.push(marked),",
            "Ok(false) => proven.push(Proven(marked)),",
        ]],
    },
    Mutation {
        name: "a claim is not waited for",
        edits: &[[
            "src/collect/release/steps.rs",
            "ripe: claimed.then(|| seen() + policy.add_budget),",
            "ripe: claimed.then(seen),",
        ]],
    },
    Mutation {
        name: "history that went back is not noticed",
        edits: &[[
            "core/src/history.rs",
            "let heard = if version < asked.newest {",
            "let heard = if false {",
        ]],
    },
    Mutation {
        name: "nodes are not read in the proof",
        edits: &[[
            "src/collect/turn/rows.rs",
            "if names().is_empty() && !all {",
            "if !all || names().is_empty() || !names().is_empty() {",
        ]],
    },
    Mutation {
        name: "a new bootID counts whenever it came",
        edits: &[[
            "core/src/clearance.rs",
            "let proves_nothing = self.policy.may_never_end(dels);",
            "let proves_nothing = false && self.policy.may_never_end(dels);",
        ]],
    },
    Mutation {
        name: "no cooldown after a settled end",
        edits: &[[
            "core/src/clearance.rs",
            "let free_at = end.at + self.policy.cooldown;",
            "let free_at = end.at;",
        ]],
    },
    Mutation {
        name: "no cooldown since a row was first seen",
        edits: &[[
            "core/src/clearance.rs",
            "all = all.not_before(self.first_seen() + self.policy.cooldown);",
            "all = all.not_before(self.first_seen());",
        ]],
    },
    Mutation {
        name: "a gap of the watch raises no doubt",
        edits: &[[
            "core/src/clearance.rs",
            "let doubt = before.max(gap.filter(|_| taken_over))?;",
            "let _ = (gap, taken_over); let doubt = before?;",
        ]],
    },
    Mutation {
        name: "no node counts for the row of a claim",
        edits: &[[
            "core/src/clearance.rs",
            "facts.nodes.names().partition(is_silent);",
            "facts.nodes.names().take(0).partition(is_silent);",
        ]],
    },
    Mutation {
        name: "a claim that is there does not hold its row",
        edits: &[[
            "core/src/proof.rs",
            "self.uids.contains(uid) || self.addresses.contains(&address)",
            "uid.is_empty() && self.uids.contains(uid) || self.addresses.contains(&address)",
        ]],
    },
    Mutation {
        name: "any 404 is absence",
        edits: &[[
            "src/calls.rs",
            "&& status.reason == \"NotFound\"
                && details.is_some_and(|d| d.name == name && d.kind == K::plural(&()))",
            "&& (details.is_none() || !name.is_empty())",
        ]],
    },
    Mutation {
        name: "the breaker never opens",
        edits: &[[
            "core/src/breaker.rs",
            "suspect > limits.min && suspect as f64 > limits.fraction * total.max(1) as f64;",
            "suspect > limits.min && total == usize::MAX;",
        ]],
    },
    Mutation {
        name: "a pod that was not read counts as absent, and a watch that is not heard as heard",
        edits: &[
            [
                "core/src/judge.rs",
                "Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),",
                "Presence::Unknown(_) => Verdict::Stale(absent(&subject)),",
            ],
            [
                "core/src/clearance.rs",
                "if !self.facts.fresh && Self::may_return(&scheduled) {",
                "if false {",
            ],
        ],
    },
    Mutation {
        name: "no second proof of a reservation, and no look at the rows",
        edits: &[
            [
                "src/collect/release/steps.rs",
                "Ok(false) => kept.push(marked),",
                "Ok(false) => proven.push(Proven(marked)),",
            ],
            [
                "src/collect/release/rows.rs",
                "proven.marked().is_claimed() && used.contains",
                "used.is_empty() && used.contains",
            ],
        ],
    },
];

/// Leaves out one guard after the other, and plays until a seed shows it, or a pod that comes back at a request
#[derive(Parser)]
struct Args {
    /// Guards whose names have one of these words; all if there is none
    names: Vec<String>,
    /// Most seeds for each guard
    #[arg(long, default_value_t = 20_000)]
    most: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let wanted = |it: &&Mutation| {
        let mut names = args.names.iter();
        args.names.is_empty() || names.any(|name| it.name.contains(name.as_str()))
    };
    let mut missed = 0;
    println!("| guard that is left out | seed | shown |\n|---|---|---|");
    for mutation in MUTATIONS.iter().filter(wanted) {
        match shown(mutation, args.most) {
            Ok(Some((seed, what))) => println!("| {} | {seed} | {what} |", mutation.name),
            Ok(None) => {
                missed += 1;
                println!("| {} | none | |", mutation.name);
            }
            Err(error) => {
                missed += 1;
                println!("| {} | failed | {error} |", mutation.name);
            }
        }
    }
    if missed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The first seed that fails without the guard, and the violation.
fn shown(mutation: &Mutation, most: u64) -> io::Result<Option<(String, String)>> {
    let root = Path::new("target/mutations");
    let tree = root.join("tree");
    copy(&tree)?;
    for [name, from, to] in mutation.edits {
        let file = tree.join(name);
        let text = fs::read_to_string(&file)?;
        if text.matches(from).count() != 1 {
            let reason = format!("{name} has not this text once: {from}");
            return Err(io::Error::other(reason));
        }
        fs::write(&file, text.replace(from, to))?;
    }
    let target = env::current_dir()?.join(root).join("build");
    let mut build = Command::new(env!("CARGO"));
    let build = build.args([
        "build",
        "--quiet",
        "--profile",
        "sim",
        "-p",
        "simulate",
        "--bin",
        "simulate",
    ]);
    // A guard that is left out leaves names that nobody uses.
    let build = build.current_dir(&tree).env("CARGO_TARGET_DIR", &target);
    let compiled = build.output()?;
    copy(&tree)?;
    if !compiled.status.success() {
        let reason = String::from_utf8_lossy(&compiled.stderr).into_owned();
        let reason = reason
            .lines()
            .find(|line| line.starts_with("error"))
            .unwrap_or("no build")
            .to_owned();
        return Err(io::Error::other(reason));
    }
    let played = |args: &[&str]| -> io::Result<String> {
        let mut command = Command::new(target.join("sim/simulate"));
        let played = command.arg("--first").args(args).output()?;
        Ok(String::from_utf8_lossy(&played.stdout).into_owned())
    };
    let found = |told: &str, word: &str| {
        let found = told.lines().find(|line| line.starts_with(word))?;
        let (at, what) = found.split_once(": ")?;
        Some((at.to_owned(), what.chars().take(160).collect()))
    };
    let of_seeds = played(&["--seeds", &format!("0..{most}")])?;
    if let Some(shown) = found(&of_seeds, "seed ") {
        return Ok(Some(shown));
    }
    let of_returns = played(&["--returns"])?;
    // A guard that only waits for a person shows by its count, which stays at zero.
    Ok(found(&of_returns, "story ").or_else(|| found(&of_seeds, "never: ")))
}

/// Copies all files that git knows and that are not there as they are.
fn copy(tree: &Path) -> io::Result<()> {
    let files = Command::new("git").args(["ls-files", "-z"]).output()?;
    for name in files
        .stdout
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = PathBuf::from(String::from_utf8_lossy(name).into_owned());
        let (from, to) = (fs::read(&name)?, tree.join(&name));
        if fs::read(&to).ok().as_ref() != Some(&from) {
            if let Some(parent) = to.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(&to, from)?;
        }
    }
    Ok(())
}
