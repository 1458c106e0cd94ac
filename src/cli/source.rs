//! The source that commands judge, a cluster or files, and the waits they judge with.

use std::path::PathBuf;

use kube::{Client, core::Selector};

use super::{cluster, waits};
use crate::{
    audit::{audit, confirm, filter::Filter, report::Report, wants_confirmation},
    calls::patient,
    core::evidence::Policy,
    guard::read_only,
    snapshot::{
        Snapshot, files,
        live::{self, Scan},
    },
};

/// The source of the state.
#[derive(Clone, Debug, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// Judge files of kubectl get -o json or yaml instead of a cluster: a file, a directory, a .tar or .tar.gz of one,
    /// or - for standard input; may be repeated
    #[arg(short, long = "file", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) live: Live,
}

/// Which cluster, and with which waits it is judged.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub struct Live {
    #[command(flatten)]
    pub(super) cluster: cluster::Args,

    #[command(flatten)]
    pub(super) waits: waits::Args,
}

/// A snapshot, and how to look again at what it is of.
pub struct Read {
    pub snapshot: Snapshot,
    pub cluster: Option<(Client, Scan)>,
}

impl Live {
    /// A client below which nothing can be written, and what is read with it.
    pub async fn scan(&self, selector: Option<Selector>) -> Result<(Client, Scan), String> {
        let client = patient(read_only(self.cluster.client().await?));
        let scan = Scan {
            pool_namespace: self.cluster.pool_namespace(),
            selector,
            ..Scan::default()
        };
        Ok((client, scan))
    }

    pub async fn read(&self, selector: Option<Selector>) -> Result<Read, String> {
        let (client, scan) = self.scan(selector).await?;
        let snapshot = live::read(&client, &scan).await;
        Ok(Read {
            snapshot: snapshot.map_err(|error| error.to_string())?,
            cluster: Some((client, scan)),
        })
    }
}

impl Read {
    /// All that is wrong. A finding that may come of the order of the reads is looked at once more.
    pub async fn report(&self, filter: &Filter, policy: &Policy) -> Result<Report, String> {
        filter.check(&self.snapshot)?;
        let mut report = audit(&self.snapshot, policy, filter);
        if let Some((client, scan)) = &self.cluster
            && wants_confirmation(&report)
        {
            let scan = Scan {
                known: self.snapshot.kinds.clone(),
                ..scan.clone()
            };
            let again = live::read_again(client, &scan).await;
            let again = again.map_err(|error| error.to_string())?;
            confirm(&mut report, &again, policy);
        }
        Ok(report)
    }
}

impl Args {
    pub async fn read(&self, selector: Option<Selector>) -> Result<Read, String> {
        if self.files.is_empty() {
            return self.live.read(selector).await;
        }
        Ok(Read {
            snapshot: files::read(&self.files, selector.as_ref())?,
            cluster: None,
        })
    }
}
