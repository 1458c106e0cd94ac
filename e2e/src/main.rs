//! Builds the tools, or runs the servers in the foreground for work by hand.

use clap::{Parser, Subcommand};
use e2e::{ControlPlane, Options, Result, cluster, control_plane::ADMIN, tools::Tool};

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
    /// Run a control plane on loopback until interrupted
    Up,
    /// Remove from a foreign cluster what earlier runs left there
    Clean,
    /// Measure what ipgc costs and how fast it is, beside upstream's programs and bare requests
    Bench(e2e::bench::Args),
}

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let result = match Arguments::parse().command {
        Command::Tools => tools().await,
        Command::Up => up().await,
        Command::Clean => clean().await,
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
    for tool in Tool::ALL {
        let path = tool.path().await?;
        println!(
            "{:<24} {:<9} {}",
            tool.name(),
            tool.version()?,
            path.display()
        );
    }
    for file in e2e::tools::crd_files().await? {
        println!("{:<24} {:<9} {}", "CRD", "", file.display());
    }
    Ok(())
}

async fn up() -> Result<()> {
    let plane = ControlPlane::start(Options::default().with_controllers()).await?;
    let kubeconfig = plane.kubeconfig(ADMIN, "default")?;
    println!("API server   {}", plane.url());
    println!("logs         {}", plane.dir().display());
    println!("use it with  export KUBECONFIG={}", kubeconfig.display());
    println!("Ctrl-C ends it");
    tokio::signal::ctrl_c()
        .await
        .map_err(e2e::Error::io("wait for Ctrl-C"))?;
    plane.stop().await
}

async fn clean() -> Result<()> {
    for name in cluster::clean().await? {
        println!("deleted {name}");
    }
    Ok(())
}
