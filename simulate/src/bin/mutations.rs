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

/// The guards, and how each is left out: its name, a file, a text that stands there once, and the text that takes its place.
/// A line of two names leaves out a guard and the one that stands behind it.
const GUARDS: &str = include_str!("../../guards.txt");

/// An edit that leaves out a guard, with those of the same guard beside it.
#[derive(Clone)]
struct Edit {
    guard: &'static str,
    file: &'static str,
    from: String,
    to: String,
}

fn edits() -> Vec<Edit> {
    let text = |block: &str, sign: &str| {
        let lines = block.lines().filter_map(|line| line.strip_prefix(sign));
        lines.collect::<Vec<_>>().join("\n")
    };
    let mut all = Vec::<Edit>::new();
    for guard in GUARDS.trim_end().split("\n\n") {
        if let Some((guard, rest)) = guard.split_once('\n') {
            let (file, edit) = rest.split_once('\n').unwrap_or_default();
            let (from, to) = (text(edit, "- "), text(edit, "+ "));
            all.push(Edit {
                guard,
                file,
                from,
                to,
            });
        } else {
            let both = guard.split(" && ");
            let both = both.flat_map(|name| all.iter().filter(move |it| it.guard == name));
            let both: Vec<_> = both.cloned().collect();
            all.extend(both.into_iter().map(|it| Edit { guard, ..it }));
        }
    }
    all
}

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
        args.names.is_empty() || names.any(|name| it[0].guard.contains(name.as_str()))
    };
    let mut missed = 0;
    println!("| guard that is left out | seed | shown |\n|---|---|---|");
    let all = edits();
    for edits in all.chunk_by(|a, b| a.guard == b.guard).filter(wanted) {
        let guard = edits[0].guard;
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
    for Edit { file, from, to, .. } in edits {
        let name = file;
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
    let build = build.args(["build", "--quiet", "--config", "profile.dev.opt-level=2"]);
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
        let mut command = Command::new(target.join("debug/simulate"));
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
        let all = edits();
        assert!(all.len() > 25, "{}", all.len());
        let of_both = all.iter().filter(|it| it.guard.contains(" && "));
        assert_eq!(of_both.count(), 6);
        for Edit {
            guard, file, from, ..
        } in all
        {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            assert!(
                stands_once(&text, &from),
                "{guard}: {file} has not once: {from}"
            );
        }
    }
}
