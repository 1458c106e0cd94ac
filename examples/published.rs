//! Writes `schemas/`, which is made from our types, and `docs/commands.md`, the help of all commands with each flag
//! once:
//!
//! ```sh
//! cargo run -p ipgc --example published          # in the repository
//! cargo run -p ipgc --example published -- DIR   # elsewhere, to compare
//! ```

use std::{collections::HashSet, env, fs, io, path::PathBuf};

use clap::{Arg, CommandFactory, builder::StyledStr};
use ipgc::{
    audit::{explain::report::Explanation, report::Report},
    cli::Cli,
};
use schemars::schema_for;

fn main() -> io::Result<()> {
    let repository = || env!("CARGO_MANIFEST_DIR").into();
    let root = env::args_os().nth(1).map_or_else(repository, PathBuf::from);
    let schemas = root.join("schemas");
    fs::create_dir_all(&schemas)?;
    for (command, schema) in [
        ("audit", schema_for!(Report)),
        ("explain", schema_for!(Explanation)),
    ] {
        fs::write(
            schemas.join(command).with_extension("json"),
            format!("{:#}\n", schema.to_value()),
        )?;
    }
    fs::create_dir_all(root.join("docs"))?;
    fs::write(root.join("docs/commands.md"), commands())
}

const HEAD: &str = "\
# Commands

Each flag as `ipgc COMMAND --help` tells it, with its environment variable and default. Flags that several commands have
come first.
";

/// The help of all commands. Flags that several commands have are told once.
fn commands() -> String {
    let mut all = Cli::command();
    all.build();
    let commands = all.get_subcommands();
    let commands = commands.filter(|it| !it.is_hide_set() && it.get_name() != "help");
    let commands: Vec<_> = commands.collect();
    // The line of each flag, and the commands that have it.
    let mut flags: Vec<(String, Vec<&str>)> = Vec::new();
    for command in &commands {
        let args = command.get_arguments();
        for arg in args.filter(|arg| !arg.is_hide_set() && arg.get_id() != "help") {
            let told = line(arg);
            match flags.iter_mut().find(|(line, _)| *line == told) {
                Some((_, of)) => of.push(command.get_name()),
                None => flags.push((told, vec![command.get_name()])),
            }
        }
    }
    let of = |names: &[&str]| -> String {
        let these = flags.iter().filter(|(_, of)| of == names);
        these.map(|(line, _)| line.as_str()).collect()
    };
    let mut page = vec![HEAD.to_owned()];
    let mut told = HashSet::new();
    for (_, names) in flags.iter().filter(|(_, names)| names.len() > 1) {
        if told.insert(names) {
            page.push(format!(
                "\n## Flags of {}\n\n{}",
                names.join(", "),
                of(names)
            ));
        }
    }
    for command in commands {
        let name = command.get_name();
        let text = |text: Option<&StyledStr>| text.map(ToString::to_string).unwrap_or_default();
        let (about, after) = (text(command.get_about()), text(command.get_after_help()));
        page.push(format!(
            "\n## ipgc {name}\n\n{about}.\n\n{}\n```text\n{after}\n```\n",
            of(&[name])
        ));
    }
    page.concat()
}

/// A flag, or an argument without a name.
fn line(arg: &Arg) -> String {
    let text = |part: Option<String>| part.unwrap_or_default();
    let short = text(arg.get_short().map(|it| format!("-{it}, ")));
    let variable = text(arg.get_env().map(|it| format!(", `{}`", it.display())));
    let required = if arg.is_required_set() {
        ", required"
    } else {
        ""
    };
    let default = match arg.get_default_values() {
        [value] if arg.get_action().takes_values() => format!(", default `{}`", value.display()),
        _ => String::new(),
    };
    let help = text(arg.get_help().map(ToString::to_string));
    let values = arg.get_possible_values();
    let values = values.iter().map(|value| {
        let help = text(value.get_help().map(|help| format!(": {help}")));
        format!("`{}`{help}", value.get_name())
    });
    let values = match values.collect::<Vec<_>>().join("; ") {
        none if none.is_empty() => none,
        values => format!(" ({values})"),
    };
    format!("- `{short}{arg}`{variable}{required}{default}: {help}{values}\n")
}
