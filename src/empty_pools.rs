//! Deletes pools that nobody needs any more, where `--collect-empty-pools` asks for it.
//!
//! ipgc reads all pools each hour. It deletes a pool that had the same uid and resourceVersion, no row, and no network
//! attachment definition in all reads that succeeded within at least a day. No row is lost: the API server deletes the pool
//! only if nobody has written it since it was read without rows. Whereabouts makes a pool anew when it needs one.

use std::{collections::HashMap, time::Duration};

use ipgc_core::{pool::PoolKey, time::Moment};
use kube::{
    Api, Client,
    api::{DeleteParams, Preconditions},
};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    api::IpPool, audit::unreferenced, calls::call, clock::Clock, leader::Leadership,
    snapshot::live::read_empty_pools,
};

/// The time between two looks at all pools.
const BETWEEN_LOOKS: Duration = Duration::from_hours(1);
/// At most so many pools are deleted in an hour: before each deletion all pools and definitions are read again.
const MOST: usize = 20;
/// How long a pool has to be seen empty and unreferenced, without a write to it.
const A_DAY: Duration = Duration::from_hours(24);

/// The pools that may be deleted.
pub struct EmptyPools {
    /// Through which pools are read and deleted.
    pub client: Client,
    /// The only namespace whose pools are looked at.
    pub namespace: Option<String>,
    /// Nothing is deleted by a copy that does not lead.
    pub leadership: Leadership,
    /// By which the day is measured.
    pub clock: Clock,
    /// Only log which pools would be deleted.
    pub dry_run: bool,
}

impl EmptyPools {
    /// Looks each hour, for ever. A pool whose look or deletion failed is looked at again.
    pub async fn run(self) {
        let mut seen = HashMap::new();
        loop {
            self.leadership.clone().held().await;
            if let Some(empty) = self.look().await {
                let over = over_a_day(&mut seen, empty, self.clock.now());
                for pool in over.into_iter().take(MOST) {
                    // A definition may lead to it by now, and an ADD be at work on it.
                    if self.look().await.is_some_and(|empty| empty.contains(&pool)) {
                        self.delete(&pool.0, pool.1).await;
                    }
                }
            }
            sleep(BETWEEN_LOOKS).await;
        }
    }

    /// The pools that are empty and unreferenced, each as it was read; `None` if they cannot be read.
    async fn look(&self) -> Option<Vec<(PoolKey, Preconditions)>> {
        match read_empty_pools(&self.client, self.namespace.as_deref()).await {
            Ok(snapshot) => Some(unreferenced(&snapshot)),
            Err(error) => {
                warn!(%error, "empty pools cannot be looked for");
                None
            }
        }
    }

    async fn delete(&self, key: &PoolKey, as_read: Preconditions) {
        if self.dry_run {
            info!(pool = %key, "would delete the pool: empty and unreferenced for a day");
            return;
        }
        let pools: Api<IpPool> = Api::namespaced(self.client.clone(), &key.namespace);
        let params = DeleteParams {
            preconditions: Some(as_read),
            ..DeleteParams::default()
        };
        match call(pools.delete(&key.name, &params)).await {
            Ok(_) => info!(pool = %key, "deleted the pool: empty and unreferenced for a day"),
            Err(error) => warn!(pool = %key, %error, "the empty pool is not deleted"),
        }
    }
}

/// The pools that have been as they are for a day. `seen` is the state of each at each look, and since when.
fn over_a_day(
    seen: &mut HashMap<PoolKey, (Preconditions, Moment)>,
    now_empty: Vec<(PoolKey, Preconditions)>,
    now: Moment,
) -> Vec<(PoolKey, Preconditions)> {
    let before = std::mem::take(seen);
    for (key, as_read) in now_empty {
        let same = before.get(&key).filter(|(state, _)| *state == as_read);
        let since = same.map_or(now, |(_, since)| *since);
        seen.insert(key, (as_read, since));
    }
    let all = seen.iter();
    let over = all.filter(|(_, (_, since))| now.since(*since) >= A_DAY);
    over.map(|(key, (state, _))| (key.clone(), state.clone()))
        .collect()
}
