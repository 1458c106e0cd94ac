//! `cargo run -p ipgc-model -- traces` prints what model/traces.md has between its markers,
//! `… -- check [NAME …]` goes through the state spaces.

use std::{io::Write, process::ExitCode};

use ipgc_model::{check, scenario::Scenario, scenarios, traces};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut out = std::io::stdout();
    let mut sound = true;
    let written = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["traces"] => out.write_all(traces::all().as_bytes()),
        ["check", ref names @ ..] => {
            let all = scenarios::all();
            if let Some(name) = names
                .iter()
                .find(|name| all.iter().all(|it| it.name != **name))
            {
                eprintln!("there is no scenario {name}");
                return ExitCode::FAILURE;
            }
            let is_named = |it: &&Scenario| names.is_empty() || names.contains(&it.name);
            all.iter().filter(is_named).try_for_each(|scenario| {
                let report = check::check(scenario);
                sound &= report.violations.is_empty();
                writeln!(out, "{report}")
            })
        }
        _ => writeln!(out, "usage: ipgc-model traces | check [NAME …]"),
    };
    if sound && written.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
