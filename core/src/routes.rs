//! From the end of a pod to the pools that its rows can be in: by its networks, their definitions, and the pools and
//! node slices that the last sweep saw.
//!
//! Pure. A network that leads to no pool is no error of the pod: a sweep needs no definition, and finds the rows by their
//! owner.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    address::{Range, pool_name},
    definitions::Definitions,
    evidence::Ended,
    ipam::Ipam,
    podref::is_object_name,
    pool::PoolKey,
    text::excerpt,
    work::Route,
};

/// One node's part of a `NodeSlicePool`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The namespace of the `NodeSlicePool`.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The node.
    pub node: Box<str>,
    /// The range of the node.
    pub range: Range,
}

/// The pools that are provably one node's slice: those of the names that network, node and range of each slice give,
/// unless two nodes give the same.
pub fn slice_pools(slices: &[Slice]) -> HashMap<PoolKey, Box<str>> {
    let mut nodes = HashMap::<PoolKey, Option<Box<str>>>::new();
    for slice in slices {
        for network in [Some(slice.name.as_str()), None] {
            let key = PoolKey {
                namespace: slice.namespace.clone(),
                name: pool_name(network, Some(&slice.node), slice.range),
            };
            let node = nodes.entry(key).or_insert_with(|| Some(slice.node.clone()));
            node.take_if(|node| *node != slice.node);
        }
    }
    let nodes = nodes.into_iter();
    nodes.filter_map(|(key, node)| Some((key, node?))).collect()
}

/// The pools that exist, as far as the last sweep saw.
#[derive(Clone, Debug, Default)]
pub struct KnownPools {
    /// The namespaces that have pools.
    namespaces: BTreeSet<String>,
    by_name: HashMap<String, Vec<PoolKey>>,
    /// The slices of nodes.
    pub slices: Vec<Slice>,
}

impl KnownPools {
    /// These pools and slices of nodes. `namespace` is where pools are looked for alone, if so.
    pub fn new<'p>(
        namespace: Option<&str>,
        pools: impl Iterator<Item = &'p PoolKey>,
        slices: Vec<Slice>,
    ) -> Self {
        let mut known = Self {
            slices,
            ..Self::default()
        };
        known.namespaces.extend(namespace.map(str::to_owned));
        for pool in pools {
            known.namespaces.insert(pool.namespace.clone());
            let named = known.by_name.entry(pool.name.clone()).or_default();
            named.push(pool.clone());
        }
        known
    }

    /// The pools of this name. One that no sweep saw may be new, in each namespace that has pools.
    fn named(&self, name: &str) -> Vec<PoolKey> {
        self.by_name.get(name).cloned().unwrap_or_else(|| {
            let namespaces = self.namespaces.iter();
            let new = |namespace: &String| PoolKey {
                namespace: namespace.clone(),
                name: name.to_owned(),
            };
            namespaces.map(new).collect()
        })
    }
}

/// Most pools that are looked into at the end of a pod. No pod has that many networks, and each pool is a request: a pod
/// that claims more definitions is left to the sweep.
const MOST_POOLS: usize = 256;

/// Where the rows of an owner can be.
#[derive(Debug, Default)]
pub struct Routes {
    /// Pools, each with how it was found.
    pub pools: BTreeMap<PoolKey, Vec<Route>>,
    /// The networks that lead to no pool: why, in one sentence each.
    pub unresolved: Vec<String>,
    /// The things that only a sweep finds: pools in namespaces, and slices of nodes, that the last sweep did not see.
    pub unseen: Vec<String>,
}

impl Routes {
    /// The pools that one of these incarnations of one name can have rows in.
    pub fn of(ended: &[Arc<Ended>], definitions: &Definitions, known: &KnownPools) -> Self {
        let mut routes = Self::default();
        for ended in ended {
            for network in networks(ended) {
                match definitions.get(network) {
                    Some(Ok(sections)) => {
                        for section in sections {
                            let node = ended.last.node.as_deref();
                            routes.follow(network, section, node, known);
                        }
                    }
                    Some(Err(reason)) => routes.unresolved.push(format!("{network}: {reason}")),
                    None => {
                        let reason = "no such NetworkAttachmentDefinition";
                        routes.unresolved.push(format!("{network}: {reason}"));
                    }
                }
            }
        }
        if let (true, Some(ended)) = (routes.pools.len() > MOST_POOLS, ended.first()) {
            let many = routes.pools.len();
            routes.pools.clear();
            let reason = format!("{many} pools are too many to look into for one pod");
            routes.unresolved.push(reason);
            routes.unseen.push(ended.last.podref.to_string());
        }
        routes
    }

    fn follow(&mut self, network: &str, section: &Ipam, node: Option<&str>, known: &KnownPools) {
        let problems = section.problems.iter();
        let problems = problems.map(|problem| format!("{network}: {problem}"));
        self.unresolved.extend(problems);
        if section.ranges.is_empty() && section.problems.is_empty() {
            let reason = "it has no range, a file on the node may have one";
            self.unresolved.push(format!("{network}: {reason}"));
        }
        let names: BTreeSet<String> = match (&section.slices, node) {
            (Some(pool), Some(node)) => {
                let slices = known.slices.iter();
                let own = slices.filter(|it| it.name == **pool && *it.node == *node);
                let names = own.map(|slice| section.slice_pool_name(node, slice.range));
                let names: BTreeSet<_> = names.collect();
                if names.is_empty() {
                    let reason = format!("{network}: node {node} has no slice in {pool}");
                    self.unseen.push(reason.clone());
                    self.unresolved.push(reason);
                }
                names
            }
            _ => section.pool_names().collect(),
        };
        for name in names {
            // The plugin cannot have made it either. It may hold anything that a person wrote as `network_name`.
            if !is_object_name(&name) {
                let reason = format!("{network}: no pool can have the name {:?}", excerpt(&name));
                self.unresolved.push(reason);
                continue;
            }
            let pools = known.named(&name);
            if pools.is_empty() {
                self.unseen.push(name);
            }
            for pool in pools {
                let route = Route {
                    definition: network.into(),
                    network: section.network_name.clone(),
                };
                let routes = self.pools.entry(pool).or_default();
                if !routes.contains(&route) {
                    routes.push(route);
                }
            }
        }
    }
}

/// `namespace/name` of each definition that the incarnation got or asked for, since some networks never get a status
/// entry. A bare name is the cluster's default network, configured by a file.
fn networks(ended: &Ended) -> BTreeSet<&str> {
    let got = ended.last.status.entries().map(|entry| entry.network);
    let asked = ended.last.request.networks().iter().map(AsRef::as_ref);
    got.chain(asked)
        .chain(ended.last.default_network.as_deref())
        .filter(|network| network.contains('/'))
        .collect()
}
