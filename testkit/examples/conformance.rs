//! Runs the conformance checks on the cluster of the current kubeconfig.
//!
//! `cargo run -p testkit --example conformance -- NAMESPACE`: the namespace has to exist and to be
//! of no other use, and the whereabouts CRDs have to be installed.

use std::process::ExitCode;

use kube::{Client, Config};
use testkit::conformance;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let Some(namespace) = std::env::args().nth(1) else {
        eprintln!("usage: conformance NAMESPACE");
        return Ok(ExitCode::from(2));
    };
    let mut config = Config::infer().await?;
    // A retried request would hide the answer that the check is about.
    config.default_retry = false;
    let results = conformance::run_all(Client::try_from(config)?, &namespace).await;
    let mut failed = 0;
    for result in &results {
        match &result.verdict {
            Ok(()) => println!("ok      {}", result.name),
            Err(why) => {
                failed += 1;
                println!("FAILED  {}: {why}", result.name);
            }
        }
    }
    println!("{} checks, {failed} failed", results.len());
    Ok(ExitCode::from(u8::from(failed > 0)))
}
