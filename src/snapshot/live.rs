//! Reads a snapshot from the API server, in quorum reads, a page at a time.
//!
//! Reservations are read before rows, and rows before pods: a row is there before its reservation, and a pod before its
//! row. Nothing is tried twice. A request that fails is an error in one line, which names a right that is missing.

use std::{collections::BTreeSet, time::Duration};

use ipgc_core::patch::Answer;
use kube::{
    Client, Resource as _,
    api::{DynamicObject, ListParams, ObjectList, Request},
};
use serde_json::value::RawValue;

use super::{Kind, Snapshot, Source, gather::Gather, neighbours, server};
use crate::{
    access::{Right, Scope},
    calls::{CallError, PAGE, next_page, text},
    collect::pool_api::{first_page, next_size},
};

/// Objects to a page, where each is small.
const MANY: u32 = 2_000;

/// The choice of what is read.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// Look for pools, reservations and slices in this namespace only.
    pub pool_namespace: Option<String>,
    /// The pods of interest.
    pub selector: Option<kube::core::Selector>,
    /// Do not look for other programs that free addresses.
    pub only_objects: bool,
    /// Kinds that an earlier read found. If the API server does not know one now, this is an error, not an absence.
    pub known: BTreeSet<Kind>,
}

/// Why there is no snapshot.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// A request failed.
    #[error("cannot list {0}: {1}")]
    Call(Kind, CallError),
    /// A right or a kind is missing, or an object cannot be read or was read twice.
    #[error("{0}")]
    Other(String),
}

impl LiveError {
    /// How long the API server wants to be left alone.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Call(_, error) => error.retry_after(),
            Self::Other(_) => None,
        }
    }
}

/// Reads all of it.
///
/// # Errors
/// As [`LiveError`] says.
pub async fn read(client: &Client, scan: &Scan) -> Result<Snapshot, LiveError> {
    let of_pools = scan.pool_namespace.as_deref();
    let mut reader = Reader {
        client,
        scan,
        gather: Gather::new(Source::Cluster, scan.selector.as_ref()),
    };
    for kind in Kind::ALL {
        let is_of_claims = matches!(kind, Kind::IpamClaim | Kind::ResourceClaim);
        // Nobody is told to install a kind, or to grant a right, that only rows of claims need.
        if !is_of_claims || reader.gather.snapshot.claims.contains(&kind) {
            reader.read(kind).await?;
        }
    }
    let mut gather = reader.gather;
    if !scan.only_objects {
        let notes = neighbours::notes(client, of_pools).await;
        gather.snapshot.notes.extend(notes);
        gather.snapshot.notes.extend(server::notes(client).await);
    }
    let mut snapshot = gather.end();
    if !scan.only_objects && !snapshot.reservations.is_empty() {
        match neighbours::claims_forbidden(client).await {
            Some(namespaces) => snapshot.claims_forbidden = namespaces,
            None => snapshot.notes.push(
                "events cannot be read, so whether claims of reservations are forbidden is not known"
                    .to_owned(),
            ),
        }
    }
    snapshot.pools_of.clone_from(&scan.pool_namespace);
    Ok(snapshot)
}

/// Reads what tells which pools nobody needs: the pools without rows, then slices and definitions.
///
/// # Errors
/// As [`LiveError`] says.
pub async fn read_empty_pools(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Snapshot, LiveError> {
    let scan = Scan {
        pool_namespace: namespace.map(str::to_owned),
        ..Scan::default()
    };
    let mut reader = Reader {
        client,
        scan: &scan,
        gather: Gather::new(Source::Cluster, None),
    };
    reader.gather.only_empty = true;
    for kind in [Kind::IpPool, Kind::NodeSlicePool, Kind::Definition] {
        reader.read(kind).await?;
    }
    Ok(reader.gather.end())
}

/// Reads all objects once more, to confirm a finding that may come of the order of the reads.
///
/// # Errors
/// As [`LiveError`] says.
pub async fn read_again(client: &Client, scan: &Scan) -> Result<Snapshot, LiveError> {
    let scan = Scan {
        selector: None,
        only_objects: true,
        ..scan.clone()
    };
    read(client, &scan).await
}

struct Reader<'r> {
    client: &'r Client,
    scan: &'r Scan,
    gather: Gather,
}

impl Reader<'_> {
    /// Reads all objects of a kind. Pages of pools are sized by their bytes.
    async fn read(&mut self, kind: Kind) -> Result<(), LiveError> {
        let namespace = match kind {
            Kind::IpPool | Kind::Reservation | Kind::NodeSlicePool => {
                self.scan.pool_namespace.as_deref()
            }
            _ => None,
        };
        let list = Request::new(DynamicObject::url_path(&kind.resource(), namespace));
        let mut next = Some(match kind {
            Kind::IpPool => first_page(),
            Kind::Reservation => ListParams::default().limit(MANY),
            _ => ListParams::default().limit(PAGE),
        });
        while let Some(params) = next {
            let answer = match text(self.client, list.list(&params)).await {
                Ok(answer) => answer,
                Err(error) => return self.refused(kind, namespace, error),
            };
            let failed = |error: serde_json::Error| LiveError::Call(kind, error.into());
            let page: ObjectList<&RawValue> = serde_json::from_str(&answer).map_err(failed)?;
            let items = page.items;
            next = next_page(&params, &page.metadata);
            if kind == Kind::IpPool {
                let size = next_size(items.len(), answer.len());
                next = next.map(|next| next.limit(size));
            }
            self.gather.snapshot.kinds.insert(kind);
            for item in items {
                let taken = self.gather.object(kind, item.get());
                taken.map_err(LiveError::Other)?;
            }
        }
        Ok(())
    }

    /// The error of a list that failed, unless a cluster may lack the kind.
    fn refused(
        &mut self,
        kind: Kind,
        namespace: Option<&str>,
        error: CallError,
    ) -> Result<(), LiveError> {
        let was_known = self.scan.known.contains(&kind);
        // Then no right is missing.
        let is_unknown_caller =
            matches!(&error, CallError::Kube(kube::Error::Api(status)) if status.code == 401);
        // Pages may have been read before this one.
        self.gather.snapshot.kinds.remove(&kind);
        let note = match error.answer() {
            // It gives names only.
            _ if kind == Kind::ResourceClaim => {
                format!("the ResourceClaims of rows are told by uid alone: {error}")
            }
            Answer::Forbidden | Answer::Gone if kind == Kind::IpamClaim && !was_known => {
                format!("whether the IPAMClaims of rows are gone is not known: {error}")
            }
            Answer::Forbidden if !is_unknown_caller => {
                let resource = kind.resource();
                let right = Right {
                    verb: "list",
                    group: resource.group.into(),
                    resource: resource.plural.into(),
                    scope: match (kind, namespace) {
                        (Kind::Node, _) => Scope::Cluster,
                        (_, Some(namespace)) => Scope::Namespace(namespace.to_owned()),
                        (_, None) => Scope::AllNamespaces,
                    },
                    name: None,
                };
                return Err(LiveError::Other(format!("not allowed to {right}")));
            }
            // A proxy before the server may say so too, but then pods are not found either.
            Answer::Gone if was_known => {
                let reason = format!("the API server knows no {kind} any more");
                return Err(LiveError::Other(reason));
            }
            Answer::Gone if kind == Kind::IpPool => {
                let reason =
                    format!("the API server knows no {kind}: whereabouts is not installed");
                return Err(LiveError::Other(reason));
            }
            Answer::Gone
                if matches!(
                    kind,
                    Kind::Reservation | Kind::NodeSlicePool | Kind::Definition
                ) =>
            {
                let so = kind.without().unwrap_or_default();
                format!("the API server knows no {kind}: {so}")
            }
            _ => return Err(LiveError::Call(kind, error)),
        };
        self.gather.snapshot.notes.push(note);
        Ok(())
    }
}
