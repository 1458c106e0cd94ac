//! Where pools are: their names, and the namespaces in which each name exists.
//!
//! Which namespace a CNI plugin keeps its pools in stands in files on the nodes, which we cannot
//! see. So the names of all pools are listed (metadata only), and listed again when a name is not
//! found or the list is old. The slices of nodes are looked up the same way.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ipgc_core::{
    address::{Range, pool_name},
    pool::PoolKey,
    time::Moment,
};
use kube::{Api, Client, api::ListParams, core::DeserializeGuard};
use tokio::sync::Mutex;

use crate::{
    api::{IpPool, NodeSlicePool},
    calls::{CallError, PAGE, call, next_page},
    clock::Clock,
    history::History,
};

/// Age at which a list is read again even if the name is found: a pool of the same name may have
/// been made in another namespace.
const OLD: Duration = Duration::from_mins(5);

/// Looks up pools and slices by name.
pub struct Directory {
    client: Client,
    /// Look only here, if set.
    namespace: Option<String>,
    clock: Clock,
    history: Arc<History>,
    pools: Mutex<Listed<String>>,
    slices: Mutex<Listed<Slice>>,
}

/// One node's part of a NodeSlicePool.
struct Slice {
    namespace: String,
    node: String,
    range: Range,
}

/// What a list gave, by name, and when that list began.
struct Listed<V> {
    begun: Option<Moment>,
    by_name: HashMap<String, Vec<V>>,
}

impl<V> Default for Listed<V> {
    fn default() -> Self {
        Self {
            begun: None,
            by_name: HashMap::new(),
        }
    }
}

impl<V> Listed<V> {
    /// Whether a caller who asks for what was there at `asked` can trust this list; it is `found`
    /// whether it has what is looked for.
    fn answers(&self, found: bool, asked: Moment, now: Moment) -> bool {
        self.begun
            .is_some_and(|begun| begun >= asked || (found && now.since(begun) < OLD))
    }

    fn of(&self, name: &str) -> &[V] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }
}

impl Directory {
    /// A directory of the pools in `namespace`, or everywhere.
    #[must_use]
    pub fn new(
        client: Client,
        namespace: Option<String>,
        clock: Clock,
        history: Arc<History>,
    ) -> Self {
        Self {
            client,
            namespace,
            clock,
            history,
            pools: Mutex::default(),
            slices: Mutex::default(),
        }
    }

    /// The pools of this name that existed at `asked`. Whoever asks for an earlier moment than the
    /// last list began costs no request.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub async fn pools(&self, name: &str, asked: Moment) -> Result<Vec<PoolKey>, CallError> {
        // Held while listing, so that many who miss wait for one list.
        let mut listed = self.pools.lock().await;
        let found = !listed.of(name).is_empty();
        if !listed.answers(found, asked, self.clock.now()) {
            *listed = self.list_pools().await?;
        }
        Ok(listed
            .of(name)
            .iter()
            .map(|namespace| PoolKey {
                namespace: namespace.clone(),
                name: name.to_owned(),
            })
            .collect())
    }

    /// The slices of `node` in the NodeSlicePools of this name, known at `asked`.
    ///
    /// # Errors
    /// When the list cannot be read.
    pub async fn slices(
        &self,
        pool: &str,
        node: &str,
        asked: Moment,
    ) -> Result<Vec<Range>, CallError> {
        let mut listed = self.slices.lock().await;
        let found = listed.of(pool).iter().any(|slice| slice.node == node);
        if !listed.answers(found, asked, self.clock.now()) {
            *listed = self.list_slices().await?;
        }
        let mut ranges: Vec<_> = listed
            .of(pool)
            .iter()
            .filter(|slice| slice.node == node)
            .map(|slice| slice.range)
            .collect();
        ranges.dedup();
        Ok(ranges)
    }

    /// The pools that are provably one node's slice: those of the names that network, node and range
    /// of each slice give, unless two nodes give the same. Lists anew.
    ///
    /// # Errors
    /// When the slices cannot be listed.
    pub async fn slice_pools(&self) -> Result<HashMap<PoolKey, Box<str>>, CallError> {
        let mut listed = self.slices.lock().await;
        *listed = self.list_slices().await?;
        let mut nodes = HashMap::<PoolKey, Option<Box<str>>>::new();
        for (network, slices) in &listed.by_name {
            for slice in slices {
                for network in [Some(network.as_str()), None] {
                    let key = PoolKey {
                        namespace: slice.namespace.clone(),
                        name: pool_name(network, Some(&slice.node), slice.range),
                    };
                    let node = nodes
                        .entry(key)
                        .or_insert_with(|| Some((*slice.node).into()));
                    if node.as_deref() != Some(&*slice.node) {
                        *node = None;
                    }
                }
            }
        }
        let proven = nodes
            .into_iter()
            .filter_map(|(key, node)| Some((key, node?)));
        Ok(proven.collect())
    }

    async fn list_pools(&self) -> Result<Listed<String>, CallError> {
        let api: Api<IpPool> = self.api();
        let mut listed = Listed {
            begun: Some(self.clock.now()),
            by_name: HashMap::<_, Vec<_>>::new(),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let asked = self.history.ask::<IpPool>(&params);
            let page = call(api.list_metadata(&params)).await?;
            self.history.hear(asked.as_ref(), &page.metadata);
            let next = next_page(&params, &page.metadata);
            for pool in page.items {
                if let (Some(name), Some(namespace)) = (pool.metadata.name, pool.metadata.namespace)
                {
                    listed.by_name.entry(name).or_default().push(namespace);
                }
            }
            match next {
                Some(next) => params = next,
                None => return Ok(listed),
            }
        }
    }

    async fn list_slices(&self) -> Result<Listed<Slice>, CallError> {
        let api: Api<DeserializeGuard<NodeSlicePool>> = self.api();
        let mut listed = Listed {
            begun: Some(self.clock.now()),
            by_name: HashMap::<_, Vec<_>>::new(),
        };
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let asked = self.history.ask::<NodeSlicePool>(&params);
            let page = call(api.list(&params)).await?;
            self.history.hear(asked.as_ref(), &page.metadata);
            let next = next_page(&params, &page.metadata);
            for pool in page.items {
                let pool = match pool.0 {
                    Ok(pool) => pool,
                    Err(invalid) => {
                        let name = invalid.metadata.name.unwrap_or_default();
                        tracing::warn!(pool = name, reason = %invalid.error, "NodeSlicePool cannot be read");
                        continue;
                    }
                };
                let name = pool.metadata.name.clone().unwrap_or_default();
                let namespace = pool.metadata.namespace.clone().unwrap_or_default();
                let slices = listed.by_name.entry(name.clone()).or_default();
                for (node, range) in pool.assigned() {
                    match Range::parse(range) {
                        Ok(range) => slices.push(Slice {
                            namespace: namespace.clone(),
                            node: node.to_owned(),
                            range,
                        }),
                        Err(reason) => {
                            tracing::warn!(pool = name, node, %reason, "slice cannot be read");
                        }
                    }
                }
            }
            match next {
                Some(next) => params = next,
                None => return Ok(listed),
            }
        }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }
}
