//! Which addresses ipgc freed, and when: from the API server's audit log, not from what ipgc says.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use ipgc::{
    api::IpPool,
    core::address::{Offset, Range},
};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt as _, api::ListParams};
use serde_json::Value;

use super::install::ACCOUNT;
use crate::{
    Error, Result,
    audit::{AuditLog, Mark},
    wait,
};

/// A restart of the API server, on a machine of two cores that compiles.
const RESTART: Duration = Duration::from_secs(90);

/// One row that ipgc removed.
#[derive(Clone, Debug)]
pub struct Free {
    /// The address that the row held.
    pub address: IpAddr,
    /// When the server answered.
    pub at: Timestamp,
    /// The pool, `namespace/name`.
    pub pool: String,
    /// The row as it was tested, which is as it was.
    pub row: Value,
}

impl Free {
    /// The pod that the row named.
    pub fn podref(&self) -> &str {
        self.row["podref"].as_str().unwrap_or_default()
    }
}

/// The rows that ipgc's own account removed since `mark`, and the place to go on from.
pub(super) async fn follow(
    client: &Client,
    audit: &AuditLog,
    mark: Mark,
) -> Result<(Vec<Free>, Mark)> {
    let ours = |line: &str| line.contains(ACCOUNT) && line.contains("/ippools/");
    let (mut patches, mark) = audit.follow(mark, ours)?;
    patches.retain(|request| {
        request.user == ACCOUNT
            && request.verb == "patch"
            && request.resource == "ippools"
            && request.code == 200
    });
    if patches.is_empty() {
        return Ok((Vec::new(), mark));
    }
    // Pools are never deleted here, and a pool's range never changes.
    let mut ranges = BTreeMap::new();
    let pools = Api::<IpPool>::all(client.clone());
    let (pools, parameters) = (&pools, &ListParams::default());
    // A scenario may be restarting the server.
    let all = wait::patiently(RESTART, || async move { Ok(pools.list(parameters).await?) }).await?;
    for pool in all {
        let key = (pool.namespace().unwrap_or_default(), pool.name_any());
        let range = pool.spec.spec["range"].as_str().unwrap_or_default();
        let range = Range::parse(range)
            .ok_or_else(|| Error::Other(format!("a pool has the range {range:?}")))?;
        ranges.insert(key, range);
    }
    let mut frees = Vec::new();
    for patch in patches {
        let key = (patch.namespace.clone(), patch.name.clone());
        let range = ranges
            .get(&key)
            .ok_or_else(|| Error::Other(format!("a patch of the unknown pool {key:?}")))?;
        let at = patch.answered.parse()?;
        let operations = patch.body.as_array().cloned().unwrap_or_default();
        let of = |op: &'static str| {
            operations
                .iter()
                .filter(move |one| one["op"] == op)
                .filter_map(|one| {
                    let key = one["path"].as_str()?.strip_prefix("/spec/allocations/")?;
                    Some((key, &one["value"]))
                })
        };
        let tested: BTreeMap<&str, &Value> = of("test").collect();
        for (key, _) in of("remove") {
            let address = Offset::parse(key)
                .and_then(|offset| range.address_at(offset))
                .ok_or_else(|| Error::Other(format!("a patch removes {key:?}")))?;
            let row = tested.get(key).copied().cloned().unwrap_or_default();
            let pool = format!("{}/{}", patch.namespace, patch.name);
            frees.push(Free {
                address,
                at,
                pool,
                row,
            });
        }
    }
    Ok((frees, mark))
}
