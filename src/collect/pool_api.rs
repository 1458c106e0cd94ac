//! The two requests on an IPPool: observe it, and remove rows from it.

use std::collections::BTreeSet;

use ipgc_core::{
    patch::FreePatch,
    podref::PodRef,
    pool::{NotAPool, ObservedPool, PoolKey},
};
use kube::{
    Api, Client, Resource,
    api::{GetParams, PartialObjectMeta, Patch, PatchParams, Request},
};

use crate::{
    api::IpPool,
    calls::{CallError, call},
    clock::Clock,
};

/// Reads and writes pools.
#[derive(Clone)]
pub struct PoolApi {
    client: Client,
    clock: Clock,
}

/// Why a pool could not be observed.
#[derive(Debug, thiserror::Error)]
pub enum ObserveError {
    /// The request failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The answer is no IPPool.
    #[error(transparent)]
    Unreadable(#[from] NotAPool),
}

impl PoolApi {
    /// Talks through `client`.
    #[must_use]
    pub fn new(client: Client, clock: Clock) -> Self {
        Self { client, clock }
    }

    /// Reads the rows of these pods, and rows of nobody, in one quorum read; `None` if there is no such pool.
    ///
    /// # Errors
    /// As [`ObserveError`] says.
    pub async fn observe(
        &self,
        key: &PoolKey,
        podrefs: &BTreeSet<PodRef>,
    ) -> Result<Option<ObservedPool>, ObserveError> {
        let path = IpPool::url_path(&(), Some(&key.namespace));
        let request = Request::new(path)
            .get(&key.name, &GetParams::default())
            .map_err(|error| CallError::from(kube::Error::BuildRequest(error)))?;
        let text = match call(self.client.request_text(request)).await {
            Ok(text) => text,
            Err(error) if error.is_absence_of::<IpPool>(&key.name) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let read_at = self.clock.now();
        let wanted: BTreeSet<&str> = podrefs.iter().map(PodRef::as_str).collect();
        // Rows of nobody come along: they are kept, and somebody should hear of it.
        let is_wanted = |podref: Option<&str>| {
            podref.is_none_or(|p| wanted.contains(p) || !PodRef::is_valid(p))
        };
        Ok(Some(ObservedPool::parse(&text, read_at, is_wanted)?))
    }

    /// Sends one patch. The answer is metadata only: a full pool would be a megabyte.
    ///
    /// # Errors
    /// When the server did not say that it was done.
    pub async fn free(&self, key: &PoolKey, patch: &FreePatch<'_>) -> Result<(), CallError> {
        let api: Api<IpPool> = Api::namespaced(self.client.clone(), &key.namespace);
        let patch = Patch::<()>::Json(patch.to_json_patch());
        let params = PatchParams::default();
        call(api.patch_metadata(&key.name, &params, &patch))
            .await
            .map(|_: PartialObjectMeta<IpPool>| ())
    }
}
