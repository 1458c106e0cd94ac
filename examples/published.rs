//! Writes `schemas/`, which is made from our types, and `docs/commands.md`, the help of all commands:
//!
//! ```sh
//! cargo run -p ipgc --example published          # in the repository
//! cargo run -p ipgc --example published -- DIR   # elsewhere, to compare
//! ```

use std::{env, fs, io, path::PathBuf};

use clap::CommandFactory;
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

/// The help of each command as it is printed.
fn commands() -> String {
    // Lines as they are: another member of the workspace may have clap wrap them.
    let mut all = Cli::command().term_width(0);
    all.build();
    let commands = all.get_subcommands_mut();
    let commands = commands.filter(|it| !it.is_hide_set() && it.get_name() != "help");
    let commands = commands.map(|command| {
        let help = lines(&command.render_long_help().to_string());
        format!("\n## ipgc {}\n\n```text\n{help}\n```\n", command.get_name())
    });
    let head = "# Commands\n\nThe help of each command, as `ipgc COMMAND --help` prints it.\n";
    head.to_owned() + &commands.collect::<String>()
}

/// The text without white space at the ends of its lines.
fn lines(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}
