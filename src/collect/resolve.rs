//! From an incarnation to the pools that its rows can be in.
//!
//! The networks are those that its network-status names and those that it asked for, since some
//! never get a status entry. What cannot be followed to a pool is no error of the pod: it is
//! reported as unresolved, and the sweep, which needs no definition, finds the rows by podref.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ipgc_core::{definitions::Definition, evidence::Ended, ipam::Ipam, pool::PoolKey, work::Route};

use super::{directory::Directory, evidence::SharedEvidence};
use crate::calls::CallError;

/// Where the rows of an incarnation can be.
#[derive(Debug, Default)]
pub struct Resolved {
    /// Pools, each with how it was found.
    pub pools: BTreeMap<PoolKey, Vec<Route>>,
    /// What could not be followed, one sentence each.
    pub unresolved: Vec<String>,
}

/// Resolves networks to pools.
pub struct Resolver {
    evidence: SharedEvidence,
    directory: Arc<Directory>,
}

impl Resolver {
    /// Looks definitions up in the evidence and pools in the directory.
    #[must_use]
    pub fn new(evidence: SharedEvidence, directory: Arc<Directory>) -> Self {
        Self {
            evidence,
            directory,
        }
    }

    /// The pools that one of these incarnations of one name can have rows in.
    ///
    /// # Errors
    /// When pools or slices cannot be listed. Nothing is resolved then: half an answer would look
    /// like a whole one.
    pub async fn resolve(&self, incarnations: &[Arc<Ended>]) -> Result<Resolved, CallError> {
        let mut resolved = Resolved::default();
        for ended in incarnations {
            self.resolve_one(ended, &mut resolved).await?;
        }
        Ok(resolved)
    }

    async fn resolve_one(&self, ended: &Ended, resolved: &mut Resolved) -> Result<(), CallError> {
        for network in networks(ended) {
            let sections = match self.definition(network) {
                Some(Definition::Read(sections)) => sections,
                Some(Definition::Invalid(reason)) => {
                    resolved.unresolved.push(format!("{network}: {reason}"));
                    continue;
                }
                None => {
                    resolved
                        .unresolved
                        .push(format!("{network}: no such NetworkAttachmentDefinition"));
                    continue;
                }
            };
            for section in sections {
                self.follow(network, &section, ended, resolved).await?;
            }
        }
        Ok(())
    }

    async fn follow(
        &self,
        network: &str,
        section: &Ipam,
        ended: &Ended,
        resolved: &mut Resolved,
    ) -> Result<(), CallError> {
        let problems = section.problems.iter();
        resolved
            .unresolved
            .extend(problems.map(|problem| format!("{network}: {problem}")));
        let names = match (&section.slices, &ended.last.node) {
            (Some(slices), Some(node)) => {
                let ranges = self.directory.slices(slices, node, ended.at).await?;
                if ranges.is_empty() {
                    let reason = format!("{network}: node {node} has no slice in {slices}");
                    resolved.unresolved.push(reason);
                }
                let name = |range| section.slice_pool_name(node, range);
                ranges.into_iter().map(name).collect()
            }
            _ => section.pool_names().collect::<Vec<_>>(),
        };
        if section.ranges.is_empty() && section.problems.is_empty() {
            let reason = format!("{network}: it has no range, a file on the node may have one");
            resolved.unresolved.push(reason);
        }
        for name in names {
            // Without a pool there is no row.
            for key in self.directory.pools(&name, ended.at).await? {
                let route = Route {
                    definition: network.into(),
                    network: section.network_name.clone(),
                };
                let routes = resolved.pools.entry(key).or_default();
                if !routes.contains(&route) {
                    routes.push(route);
                }
            }
        }
        Ok(())
    }

    fn definition(&self, network: &str) -> Option<Definition> {
        self.evidence.lock().definitions.get(network).cloned()
    }
}

/// `namespace/name` of each definition that the incarnation got or asked for. A bare name is the
/// cluster's default network, configured by a file.
fn networks(ended: &Ended) -> BTreeSet<&str> {
    let got = ended.last.status.entries().map(|e| e.network);
    let asked = ended.last.request.networks().iter().map(AsRef::as_ref);
    got.chain(asked)
        .chain(ended.last.default_network.as_deref())
        .filter(|network| network.contains('/'))
        .collect()
}
