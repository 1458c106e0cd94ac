//! Deletes pools that nobody needs any more, where `--collect-empty-pools` asks for it.
//!
//! ipgc reads all pools each hour. It deletes a pool that had the same uid and resourceVersion, no row, and no network
//! attachment definition in all reads that succeeded within at least a day. No row is lost: the API server deletes the pool
//! only if nobody has written it since it was read without rows. Whereabouts makes a pool anew when it needs one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ipgc_core::{pool::PoolKey, time::Moment};
use kube::{
    Api,
    api::{DeleteParams, Preconditions},
};
use tokio::time::sleep;
use tracing::{info, warn};

use crate::{
    api::IpPool, audit::unreferenced, calls::call, collect::context::Context,
    snapshot::live::read_empty_pools,
};

/// The time between two looks at all pools.
const BETWEEN_LOOKS: Duration = Duration::from_hours(1);
/// At most so many pools are deleted in an hour: before each deletion all pools and definitions are read again.
const MOST: usize = 20;
/// How long a pool has to be seen empty and unreferenced, without a write to it.
const A_DAY: Duration = Duration::from_hours(24);

/// Looks each hour, for ever. A pool whose look or deletion failed is looked at again. A copy that does not lead deletes
/// nothing.
pub async fn delete_empty_pools(context: Arc<Context>) {
    let mut seen = HashMap::new();
    loop {
        context.leadership.held().await;
        if let Some(empty) = look(&context).await {
            let over = over_a_day(&mut seen, empty, context.clock.now());
            for pool in over.into_iter().take(MOST) {
                // A definition may lead to it by now, and an ADD be at work on it.
                let empty = look(&context).await;
                if empty.is_some_and(|empty| empty.contains(&pool)) {
                    delete(&context, &pool.0, pool.1).await;
                }
            }
        }
        sleep(BETWEEN_LOOKS).await;
    }
}

/// The pools that are empty and unreferenced, each as it was read; `None` if they cannot be read.
async fn look(context: &Context) -> Option<Vec<(PoolKey, Preconditions)>> {
    let namespace = context.config.pool_namespace.as_deref();
    match read_empty_pools(&context.client, namespace).await {
        Ok(snapshot) => Some(unreferenced(&snapshot)),
        Err(error) => {
            warn!(%error, "empty pools cannot be looked for");
            None
        }
    }
}

async fn delete(context: &Context, key: &PoolKey, as_read: Preconditions) {
    if context.config.dry_run {
        info!(pool = %key, "would delete the pool: empty and unreferenced for a day");
        return;
    }
    let pools: Api<IpPool> = Api::namespaced(context.client.clone(), &key.namespace);
    let params = DeleteParams {
        preconditions: Some(as_read),
        ..DeleteParams::default()
    };
    match call(pools.delete(&key.name, &params)).await {
        Ok(_) => info!(pool = %key, "deleted the pool: empty and unreferenced for a day"),
        Err(error) => warn!(pool = %key, %error, "the empty pool is not deleted"),
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
