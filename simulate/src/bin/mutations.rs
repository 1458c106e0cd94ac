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

/// A guard that is left out by this edit and those of the same name beside it, a file, a text that stands in it once, and
/// the text that takes its place.
type Edit = [&'static str; 4];

const EDITS: [Edit; 29] = [
    [
        "a pod that was not read counts as absent",
        "core/src/judge.rs",
        "Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),",
        "Presence::Unknown(_) => Verdict::Stale(absent(&subject)),",
    ],
    [
        "the patch does not test the row",
        "core/src/patch.rs",
        "operations.push(test(&path, row.stored().clone()));",
        "",
    ],
    [
        "a watch that is not heard counts as heard",
        "core/src/clearance.rs",
        "if !self.facts.fresh && Self::may_return(&scheduled) {",
        "if false {",
    ],
    [
        "an end is settled though the sandbox was not seen up",
        "core/src/evidence.rs",
        "            && self.sandbox_up\n",
        "",
    ],
    [
        "each end is settled",
        "core/src/clearance.rs",
        "} else if end.settled && least.is_zero() {",
        "} else if least.is_zero() {",
    ],
    [
        "no wait W for the kubelet",
        "core/src/clearance.rs",
        "let until = since + wait;",
        "let until = since;",
    ],
    [
        "an old taint fences",
        "core/src/node/nodes.rs",
        "state.out_of_service\n            && known",
        "false && known",
    ],
    [
        "a silent kubelet counts as alive",
        "core/src/clearance.rs",
        "Standing::Silent => self.held_by(&[node], end, wait),",
        "Standing::Silent => Clearance::new(Grade::Witnessed, Wait::Until(end + wait)),",
    ],
    [
        "no node blocks for pods that nobody saw",
        "core/src/clearance.rs",
        "let silent = nodes.blockers(self.facts.slice, wait, self.now);",
        "let silent = None;",
    ],
    [
        "an earlier incarnation does not count",
        "core/src/clearance.rs",
        "let own = own.reduce(Clearance::and);",
        "let own = own.last();",
    ],
    [
        "the wait for a pod that nobody saw begins with the first sight of its row",
        "core/src/clearance.rs",
        "sighting.map_or(self.now, |seen| seen.while_absent.unwrap_or(self.now))",
        "sighting.map_or(self.now, |seen| seen.first)",
    ],
    [
        "another pod's report does not hold a row",
        "core/src/judge.rs",
        "if let Some(held) = in_use(subject.row, subject.facts.others, &subject.facts.scope) {",
        "if let Some(held) = None::<Held> {",
    ],
    [
        "a reservation is deleted without a claim",
        "src/collect/release/steps.rs",
        "let is_marked = !may_be_accepted || reservation.is_claimed();",
        "let is_marked = may_be_accepted || !may_be_accepted;",
    ],
    [
        "no second proof of a reservation",
        "src/collect/release/steps.rs",
        "Ok(false) => kept.push(marked),",
        "Ok(false) => proven.push(Proven(marked)),",
    ],
    [
        "a claim is not waited for",
        "src/collect/release/steps.rs",
        "ripe: claimed.then(|| seen() + policy.add_budget),",
        "ripe: claimed.then(seen),",
    ],
    [
        "history that went back is not noticed",
        "core/src/history.rs",
        "let heard = if version < asked.newest {",
        "let heard = if false {",
    ],
    [
        "nodes are not read in the proof",
        "src/collect/turn/rows.rs",
        "if names().is_empty() && !all {",
        "if !all || names().is_empty() || !names().is_empty() {",
    ],
    [
        "a new bootID counts whenever it came",
        "core/src/clearance.rs",
        "let proves_nothing = self.policy.may_never_end(dels) || end.may_outlast();",
        "let proves_nothing = false && self.policy.may_never_end(dels);",
    ],
    [
        "no cooldown after a settled end",
        "core/src/clearance.rs",
        "let free_at = end.at + self.policy.cooldown;",
        "let free_at = end.at;",
    ],
    [
        "no cooldown since a row was first seen",
        "core/src/clearance.rs",
        "all = all.not_before(self.first_seen() + self.policy.cooldown);",
        "all = all.not_before(self.first_seen());",
    ],
    [
        "a gap of the watch raises no doubt",
        "core/src/clearance.rs",
        "let doubt = before.max(gap.filter(|_| taken_over))?;",
        "let _ = (gap, taken_over); let doubt = before?;",
    ],
    [
        "no node counts for the row of a claim",
        "core/src/clearance.rs",
        "facts.nodes.names().partition(is_silent);",
        "facts.nodes.names().take(0).partition(is_silent);",
    ],
    [
        "a claim that is there does not hold its row",
        "core/src/proof.rs",
        "self.uids.contains(uid) || self.addresses.contains(&address)",
        "uid.is_empty() && self.uids.contains(uid) || self.addresses.contains(&address)",
    ],
    [
        "any 404 is absence",
        "src/calls.rs",
        "&& status.reason == \"NotFound\"
                && details.is_some_and(|d| d.name == name && d.kind == K::plural(&()))",
        "&& (details.is_none() || !name.is_empty())",
    ],
    [
        "the breaker never opens",
        "core/src/breaker.rs",
        "suspect > limits.min && suspect as f64 > limits.fraction * total.max(1) as f64;",
        "suspect > limits.min && total == usize::MAX;",
    ],
    [
        "a pod that was not read counts as absent, and a watch that is not heard as heard",
        "core/src/judge.rs",
        "Presence::Unknown(reason) => Verdict::Unknown(Unknown::NoProof(reason.clone())),",
        "Presence::Unknown(_) => Verdict::Stale(absent(&subject)),",
    ],
    [
        "a pod that was not read counts as absent, and a watch that is not heard as heard",
        "core/src/clearance.rs",
        "if !self.facts.fresh && Self::may_return(&scheduled) {",
        "if false {",
    ],
    [
        "no second proof of a reservation, and no look at the rows",
        "src/collect/release/steps.rs",
        "Ok(false) => kept.push(marked),",
        "Ok(false) => proven.push(Proven(marked)),",
    ],
    [
        "no second proof of a reservation, and no look at the rows",
        "src/collect/release/rows.rs",
        "proven.marked().is_claimed() && used.contains",
        "used.is_empty() && used.contains",
    ],
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
    let wanted = |it: &&[Edit]| {
        let mut names = args.names.iter();
        args.names.is_empty() || names.any(|name| it[0][0].contains(name.as_str()))
    };
    let mut missed = 0;
    println!("| guard that is left out | seed | shown |\n|---|---|---|");
    for edits in EDITS.chunk_by(|a, b| a[0] == b[0]).filter(wanted) {
        let guard = edits[0][0];
        match shown(edits, args.most) {
            Ok(Some((seed, what))) => println!("| {guard} | {seed} | {what} |"),
            Ok(None) => {
                missed += 1;
                println!("| {guard} | none | |");
            }
            Err(error) => {
                missed += 1;
                println!("| {guard} | failed | {error} |");
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
fn shown(edits: &[Edit], most: u64) -> io::Result<Option<(String, String)>> {
    let root = Path::new("target/mutations");
    let tree = root.join("tree");
    copy(&tree)?;
    for [_, name, from, to] in edits {
        let file = tree.join(name);
        let text = fs::read_to_string(&file)?;
        if !stands_once(&text, from) {
            let reason = format!("{name} has not this text once: {from}");
            return Err(io::Error::other(reason));
        }
        fs::write(&file, text.replace(from, to))?;
    }
    let target = env::current_dir()?.join(root).join("build");
    let mut build = Command::new(env!("CARGO"));
    let build = build.args(["build", "--quiet", "--profile", "sim"]);
    let build = build.args(["-p", "simulate", "--bin", "simulate"]);
    // A guard that is left out leaves names that nobody uses.
    let build = build.current_dir(&tree).env("CARGO_TARGET_DIR", &target);
    let compiled = build.output()?;
    copy(&tree)?;
    if !compiled.status.success() {
        let told = String::from_utf8_lossy(&compiled.stderr).into_owned();
        let reason = told.lines().find(|line| line.starts_with("error"));
        return Err(io::Error::other(reason.unwrap_or("no build")));
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

fn stands_once(text: &str, part: &str) -> bool {
    text.matches(part).count() == 1
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guard_stands_where_it_is_left_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for [guard, name, from, _] in EDITS {
            let text = fs::read_to_string(root.join(name)).unwrap_or_default();
            assert!(
                stands_once(&text, from),
                "{guard}: {name} has not once: {from}"
            );
        }
    }
}
