//! The source that commands judge, a cluster or files, the waits they judge with, and how they look at it.

use std::path::PathBuf;

use kube::{Client, core::Selector};

use super::{cluster, waits};
use crate::{
    audit::{audit, changes::Audited, confirm, filter::Filter, report::Report, wants_confirmation},
    calls::patient,
    core::evidence::Policy,
    guard::read_only,
    snapshot::{
        Snapshot, files,
        live::{self, LiveError, Scan},
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

    pub async fn read(&self) -> Result<Snapshot, String> {
        let (client, scan) = self.scan(None).await?;
        let read = live::read(&client, &scan).await;
        read.map_err(|error| error.to_string())
    }
}

/// Reads and judges the cluster. A finding that may come of the order of the reads is looked at once more. The first look
/// checks the filter, and tells of other programs that free addresses.
pub async fn look(
    client: &Client,
    scan: &mut Scan,
    filter: &Filter,
    policy: &Policy,
) -> Result<(Snapshot, Audited), LiveError> {
    let snapshot = live::read(client, scan).await?;
    if scan.known.is_empty() {
        filter.check(&snapshot).map_err(LiveError::Other)?;
    }
    scan.known.extend(&snapshot.kinds);
    scan.only_objects = true;
    let mut look = Audited::new(&snapshot, policy, filter);
    if wants_confirmation(&look.report) {
        let again = live::read_again(client, scan).await?;
        confirm(&mut look.report, &again, policy);
    }
    Ok((snapshot, look))
}

impl Args {
    pub async fn read(&self) -> Result<Snapshot, String> {
        if self.files.is_empty() {
            return self.live.read().await;
        }
        files::read(&self.files, None)
    }

    /// Reads and judges all of it.
    pub async fn report(
        &self,
        filter: &Filter,
        policy: &Policy,
    ) -> Result<(Snapshot, Report), String> {
        if self.files.is_empty() {
            let (client, mut scan) = self.live.scan(filter.selector.clone()).await?;
            let look = look(&client, &mut scan, filter, policy).await;
            let (snapshot, look) = look.map_err(|error| error.to_string())?;
            return Ok((snapshot, look.report));
        }
        let snapshot = files::read(&self.files, filter.selector.as_ref())?;
        filter.check(&snapshot)?;
        let report = audit(&snapshot, policy, filter);
        Ok((snapshot, report))
    }
}
