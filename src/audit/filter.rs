//! Which findings are of interest. A finding passes when it has everything that is asked for; of what it does not
//! know it has nothing.

use std::collections::HashSet;

use ipgc_core::{podref::PodRef, pool::Row};
use kube::core::Selector;

use super::report::{Finding, PoolUsage, Problem};
use crate::snapshot::{Kind, Snapshot, Unreadable, labels};

/// The properties that are asked for: the flags of commands.
#[derive(Clone, Debug, Default, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Filter {
    /// Findings about this pool only, by its name or as NAMESPACE/NAME
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,

    /// Findings about pods of this namespace only
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Findings about this node only: of its pods, and what it holds
    #[arg(long, value_name = "NODE")]
    pub node: Option<String>,

    /// Findings about pods with these labels only, as with kubectl; pods that are gone have none
    #[arg(short = 'l', long, value_name = "SELECTOR", value_parser = labels::parse)]
    pub selector: Option<Selector>,
}

impl Filter {
    /// Checks that the filter names things that exist. Otherwise an empty report would look like good news.
    ///
    /// # Errors
    /// One line that names it.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        if let Some(pool) = &self.pool {
            let mut observed = snapshot.observed();
            let is_known = observed.any(|it| is_named(pool, &it.key().namespace, &it.key().name));
            let unreadable = snapshot.unreadable.iter();
            let mut unreadable = unreadable.filter(|it| it.kind == Kind::IpPool);
            let is_it = |it: &Unreadable| {
                let name = it.name.split_once('/');
                name.is_some_and(|(namespace, name)| is_named(pool, namespace, name))
            };
            if !is_known && !unreadable.any(is_it) {
                return Err(format!("no pool {pool} is known"));
            }
        }
        if let Some(namespace) = &self.namespace {
            let mut pods = snapshot.pods.iter();
            let mut reservations = snapshot.reservations.iter();
            let mut pools = snapshot.observed();
            let is_its = |row: &Row| is_of(row.podref_text().unwrap_or_default(), namespace);
            if !pods.any(|pod| pod.podref.namespace() == namespace)
                && !reservations.any(|it| is_of(it.owner(), namespace))
                && !pools.any(|pool| pool.rows().iter().any(is_its))
            {
                return Err(format!(
                    "no pod, row or reservation of namespace {namespace} is known"
                ));
            }
        }
        if let Some(node) = &self.node
            && !snapshot.knows_node(node)
        {
            return Err(format!("no node {node} is known"));
        }
        if snapshot.selected.as_ref().is_some_and(HashSet::is_empty) {
            return Err("the selector chooses no pod".to_owned());
        }
        Ok(())
    }

    /// Whether a pool is of interest.
    pub fn passes_pool(&self, pool: &PoolUsage) -> bool {
        let wanted = self.pool.as_ref();
        wanted.is_none_or(|wanted| is_named(wanted, &pool.namespace, &pool.name))
    }

    /// Whether a finding is of interest.
    pub fn passes(&self, finding: &Finding, snapshot: &Snapshot) -> bool {
        let is_pool = |wanted: &String| {
            let namespace = finding.namespace.as_deref().unwrap_or_default();
            let pool = finding.pool.as_deref();
            pool.is_some_and(|pool| is_named(wanted, namespace, pool))
        };
        let is_namespace = |wanted: &String| finding.pods.iter().any(|pod| is_of(pod, wanted));
        let is_node = |wanted: &String| finding.nodes.iter().any(|node| **node == **wanted);
        let is_selected = |selected: &HashSet<PodRef>| {
            let mut pods = finding.pods.iter();
            pods.any(|pod| selected.contains(pod.as_str()))
        };
        // Without pools nothing was looked at.
        finding.problem == Problem::NoPools
            || self.pool.as_ref().is_none_or(is_pool)
                && self.namespace.as_ref().is_none_or(is_namespace)
                && self.node.as_ref().is_none_or(is_node)
                && snapshot.selected.as_ref().is_none_or(is_selected)
    }
}

fn is_of(podref: &str, namespace: &str) -> bool {
    let parts = podref.split_once('/');
    parts.is_some_and(|(its, _)| its == namespace)
}

/// Whether the words of a person name this pool.
pub fn is_named(words: &str, namespace: &str, name: &str) -> bool {
    match words.split_once('/') {
        Some((its_namespace, its_name)) => its_namespace == namespace && its_name == name,
        None => words == name,
    }
}
