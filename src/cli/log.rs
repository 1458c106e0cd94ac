//! The log of a command: its format and its filter.

use std::io::{IsTerminal, stderr};

use clap::ValueEnum;
use tracing_subscriber::{
    filter::{LevelFilter, Targets},
    layer::{Layer, SubscriberExt},
    util::SubscriberInitExt,
};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Format {
    /// For people
    Text,
    /// One JSON object a line
    Json,
}

/// Has all that is logged from now on go to standard error, as far as `RUST_LOG` says, or as `usual` says in the same form.
pub(super) fn start(format: Format, usual: &str) -> Result<(), String> {
    let wanted = std::env::var("RUST_LOG").unwrap_or_default();
    let wanted = if wanted.is_empty() { usual } else { &wanted };
    let filter = wanted.parse::<Targets>();
    let mut filter = filter.map_err(|error| format!("RUST_LOG: {error}"))?;
    if !wanted.contains("kube_client") {
        // Of a page that does not parse it logs the whole body as a warning: megabytes, and the
        // environment of every pod on it.
        // Its errors are ours to tell, once.
        filter = filter.with_target("kube_client", LevelFilter::OFF);
    }
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(stderr().is_terminal());
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter))
        .init();
    Ok(())
}
