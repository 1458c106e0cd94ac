//! Builds the tools, brings up clusters for work by hand, measures.

use clap::{Parser, Subcommand};
use e2e::{Result, tools::Tool};

/// Real servers for the tests of ipgc.
#[derive(Parser)]
#[command(name = "e2e")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Find or build every tool and print where it is
    Tools,
    /// Bring up a cluster with real nodes, print its kubeconfig, and keep it until Ctrl-C
    Up(e2e::up::Up),
    /// Let ipgc work over a bad wire for minutes, and tell whether it lost anything, or grew
    Wire(e2e::wire::Args),
    /// End many pods at once while half of all requests are answered with 429
    Overload(e2e::wire::overload::Args),
    /// Measure what ipgc costs and how fast it is, beside upstream's programs and bare requests
    Bench(e2e::bench::Args),
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let result = match Arguments::parse().command {
        Command::Tools => tools().await,
        Command::Up(up) => e2e::up::up(&up).await,
        Command::Wire(args) => e2e::wire::run(args).await,
        Command::Overload(args) => e2e::wire::overload::run(args).await,
        Command::Bench(args) => match e2e::bench::run(args).await {
            Ok(true) => Ok(()),
            Ok(false) => return std::process::ExitCode::FAILURE,
            Err(error) => Err(error),
        },
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("e2e: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn tools() -> Result<()> {
    e2e::tools::build_missing(true).await?;
    for tool in Tool::ALL {
        let Some(path) = tool.locate()? else {
            println!(
                "{:<24} {:<9} built when it is needed",
                tool.name(),
                tool.version()?
            );
            continue;
        };
        let built = path.starts_with(e2e::tools::cache()?);
        let version = if built {
            tool.version()?
        } else {
            "found".into()
        };
        println!("{:<24} {version:<9} {}", tool.name(), path.display());
    }
    for file in e2e::tools::crd_files().await? {
        println!("{:<24} {:<9} {}", "CRD", "", file.display());
    }
    Ok(())
}
