//! The requests on IPPools: observe one or a page of them, and remove rows from one. And the list of NodeSlicePools.

use std::{collections::BTreeSet, time::Duration};

use ipgc_core::{
    patch::FreePatch,
    podref::PodRef,
    pool::{Glance, ObservedPool, PoolKey},
    routes::Slice,
    text::excerpt,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Api, Resource,
    api::{GetParams, ListParams, PartialObjectMeta, Patch, PatchParams, Request},
    core::DeserializeGuard,
};
use tokio::time::Instant;
use tracing::warn;

use super::{
    context::Context,
    roll::{Table, table_of},
};
use crate::{
    api::{IpPool, NodeSlicePool},
    calls::{CallError, SLOW, WRITE_DEADLINE, next_page, text, unless_absent, with_permit, within},
};

/// Text of pools to a page, about. It is what a sweep needs in memory, beside what it finds.
const PAGE_BYTES: usize = 2_000_000;
/// Pools on the first page, before it is known how large they are.
const FIRST_PAGE: u32 = 2;
/// Names of pools to a page.
const PAGE_OF_NAMES: u32 = 5_000;
/// Most pools to a page.
const LARGEST_PAGE: u32 = 500;

pub fn first_page() -> ListParams {
    ListParams::default().limit(FIRST_PAGE)
}

/// How many pools the page after one of so many in so many bytes may have; no more than twice as many, since small
/// pools tell nothing of those that follow.
pub fn next_size(pools: usize, bytes: usize) -> u32 {
    let pools = pools.max(1);
    let size = PAGE_BYTES / (bytes / pools).max(1);
    let size = u32::try_from(size.min(2 * pools)).unwrap_or(LARGEST_PAGE);
    size.clamp(1, LARGEST_PAGE)
}

pub struct PoolPage {
    /// Each pool, or the beginning of what is none.
    pub pools: Vec<Result<ObservedPool, (String, serde_json::Error)>>,
    pub next: Option<ListParams>,
}

impl Context {
    /// As [`observe`](Self::observe), but few pools are read at a time. Returns how long the read itself took. A read that
    /// hangs gives its permit back after five seconds.
    pub async fn observe_with_permit(
        &self,
        key: &PoolKey,
        podrefs: &BTreeSet<PodRef>,
    ) -> (Result<Option<ObservedPool>, CallError>, Duration) {
        let permit = self.reading_pool.acquire().await;
        let begun = Instant::now();
        let observed = with_permit(permit, SLOW, self.observe(key, podrefs)).await;
        (observed, begun.elapsed())
    }

    /// Reads the rows of these pods, and rows of nobody, in one quorum read; `None` if there is no such pool.
    pub async fn observe(
        &self,
        key: &PoolKey,
        podrefs: &BTreeSet<PodRef>,
    ) -> Result<Option<ObservedPool>, CallError> {
        let request = Request::new(IpPool::url_path(&(), Some(&key.namespace)));
        let request = request.get(&key.name, &GetParams::default());
        let read = text(&self.client, request).await;
        let Some(text) = unless_absent::<IpPool, _>(read, &key.name)? else {
            return Ok(None);
        };
        let read_at = self.clock.now();
        // Rows of nobody come along: they are kept, and somebody should hear of it.
        let is_wanted = |row: &Glance<'_>| {
            row.podref
                .is_none_or(|podref| podrefs.contains(podref) || !PodRef::is_valid(podref))
        };
        let mut pool = ObservedPool::parse(&text, read_at, is_wanted)?;
        if self.config.resource_claims {
            pool.read_resource_claims();
        }
        Ok(Some(pool))
    }

    /// Reads one page of all pools, or of those in `namespace`, in a quorum read. Of the rows only
    /// those are kept that are `wanted`. A pool that cannot be read is an error of its own.
    pub async fn pool_page(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
        wanted: impl FnMut(&Glance<'_>) -> bool,
    ) -> Result<PoolPage, CallError> {
        let asked = self.history.ask::<IpPool>(params);
        let request = Request::new(IpPool::url_path(&(), namespace)).list(params);
        let text = text(&self.client, request).await?;
        let read_at = self.clock.now();
        let (metadata, mut pools) = ObservedPool::parse_list::<ListMeta>(&text, read_at, wanted)?;
        if self.config.resource_claims {
            let readable = pools.iter_mut().flatten();
            readable.for_each(ObservedPool::read_resource_claims);
        }
        self.history.hear(asked.as_ref(), &metadata);
        let next = next_page(params, &metadata);
        let next = next.map(|next| next.limit(next_size(pools.len(), text.len())));
        let pools = pools.into_iter();
        let pools = pools
            .map(|pool| pool.map_err(|(text, reason)| (excerpt(text).to_owned(), reason)))
            .collect();
        Ok(PoolPage { pools, next })
    }

    /// The names of all pools in `namespace`, in a quorum read.
    pub async fn pool_names(&self, namespace: &str) -> Result<Vec<String>, CallError> {
        let mut names = Vec::new();
        let first = ListParams::default().limit(PAGE_OF_NAMES);
        let add = |page: Table, _| {
            names.extend(page.names()?.into_iter().map(str::to_owned));
            Ok(true)
        };
        self.history
            .pages::<IpPool, _>(&self.client, Some(namespace), first, table_of, add)
            .await?;
        Ok(names)
    }

    /// The slices of nodes, of all NodeSlicePools or of those in `namespace`. One that cannot be read is left out, which
    /// is safe: more nodes may block the rows in its pools.
    pub async fn slices(&self, namespace: Option<&str>) -> Result<Vec<Slice>, CallError> {
        let mut slices = Vec::new();
        let add = |pool: DeserializeGuard<NodeSlicePool>| match pool.0 {
            Ok(pool) => slices.extend(pool.slices().filter_map(|(_, slice)| {
                let pool = pool.metadata.name.as_deref();
                let slice = slice.inspect_err(|reason| warn!(pool, reason, "slice cannot be read"));
                slice.ok()
            })),
            Err(invalid) => {
                let pool = invalid.metadata.name.unwrap_or_default();
                warn!(pool, reason = %invalid.error, "NodeSlicePool cannot be read");
            }
        };
        let read =
            self.history
                .read::<NodeSlicePool, _>(&self.client, namespace, Request::list, add);
        read.await?;
        Ok(slices)
    }

    /// Sends one patch. The answer is metadata only: a full pool would be a megabyte.
    pub async fn free(&self, key: &PoolKey, patch: &FreePatch<'_>) -> Result<(), CallError> {
        let api: Api<IpPool> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = Patch::<()>::Json(patch.to_json_patch());
        let params = PatchParams::default();
        let patched = api.patch_metadata(&key.name, &params, &patch);
        let freed = within(WRITE_DEADLINE, patched).await;
        freed.map(|_: PartialObjectMeta<IpPool>| ())
    }
}
