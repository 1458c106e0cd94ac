//! Builds the tools, brings up clusters for work by hand, measures.

use clap::{Parser, Subcommand};

/// Real servers for the tests of ipgc.
#[derive(Parser)]
#[command(name = "e2e")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build every tool that tests need and that is not there yet
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
        Command::Tools => e2e::tools::build_missing(true).await,
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
