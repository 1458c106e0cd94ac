//! Which findings are of interest. A finding passes when it has everything that is asked for; of what it does not
//! know it has nothing.

use std::collections::HashSet;

use ipgc_core::pool::Row;

use super::report::{Finding, PoolUsage};
use crate::snapshot::{Kind, Snapshot, Unreadable};

/// The properties that are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A pool, by its name or by `namespace/name`.
    pub pool: Option<String>,
    /// The namespace of a pod.
    pub namespace: Option<String>,
    /// A node: of a pod, or one that holds a row.
    pub node: Option<String>,
}

impl Filter {
    /// Whether there is what is asked for: nothing wrong with what does not exist is no news.
    ///
    /// # Errors
    /// One line that names it.
    pub fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        if let Some(pool) = &self.pool {
            let is_it = |namespace: &str, name: &str| is_named(pool, namespace, name);
            let mut observed = snapshot.observed();
            let known = observed.any(|it| is_it(&it.key().namespace, &it.key().name));
            let mut unreadable = snapshot.unreadable.iter();
            let is_unreadable = |it: &Unreadable| {
                let name = it.name.split_once('/');
                it.kind == Kind::IpPool
                    && name.is_some_and(|(namespace, name)| is_it(namespace, name))
            };
            if !known && !unreadable.any(is_unreadable) {
                return Err(format!("no pool {pool} is known"));
            }
        }
        if let Some(namespace) = &self.namespace {
            let mut pods = snapshot.pods.iter().map(|pod| pod.podref.namespace());
            let of_row = || {
                let is_of = |row: &Row| is_of(row.podref_text(), namespace);
                snapshot
                    .observed()
                    .any(|pool| pool.rows().iter().any(is_of))
            };
            let of_reservation = || {
                let mut all = snapshot.reservations.iter();
                all.any(|reserved| is_of(Some(reserved.owner()), namespace))
            };
            if !pods.any(|its| its == namespace) && !of_reservation() && !of_row() {
                return Err(format!(
                    "no pod, row or reservation of namespace {namespace} is known"
                ));
            }
        }
        if let Some(node) = &self.node {
            let of_pod = || {
                snapshot
                    .pods
                    .iter()
                    .any(|pod| pod.node.as_deref() == Some(node))
            };
            let of_slice = || snapshot.slices.iter().any(|slice| *slice.node == **node);
            if !snapshot.nodes.contains_key(node.as_str()) && !of_pod() && !of_slice() {
                return Err(format!("no node {node} is known"));
            }
        }
        if snapshot.selected.as_ref().is_some_and(HashSet::is_empty) {
            return Err("the selector chooses no pod".to_owned());
        }
        Ok(())
    }

    /// Whether a pool is of interest.
    #[must_use]
    pub fn passes_pool(&self, pool: &PoolUsage) -> bool {
        let wanted = self.pool.as_ref();
        wanted.is_none_or(|wanted| is_named(wanted, &pool.namespace, &pool.name))
    }

    /// Whether a finding is of interest.
    #[must_use]
    pub fn passes(&self, finding: &Finding, snapshot: &Snapshot) -> bool {
        if snapshot.selected.is_none() && *self == Self::default() {
            return true;
        }
        let nodes: Vec<_> = finding.nodes.iter().map(AsRef::as_ref).collect();
        let selected = snapshot.selected.as_ref();
        let mut pods = finding.pods.iter();
        self.chooses((&finding.namespace, &finding.pool), &finding.pods, &nodes)
            && selected.is_none_or(|selected| pods.any(|pod| selected.contains(pod.as_str())))
    }

    /// Whether something of this pool, these pods and these nodes is of interest. Labels are not asked for.
    #[must_use]
    pub fn chooses(
        &self,
        (namespace, pool): (&Option<String>, &Option<String>),
        pods: &[String],
        nodes: &[&str],
    ) -> bool {
        let is_pool = |wanted: &String| {
            let namespace = namespace.as_deref().unwrap_or_default();
            pool.as_ref()
                .is_some_and(|name| is_named(wanted, namespace, name))
        };
        let is_namespace = |wanted: &String| pods.iter().any(|pod| is_of(Some(pod), wanted));
        self.pool.as_ref().is_none_or(is_pool)
            && self.namespace.as_ref().is_none_or(is_namespace)
            && self
                .node
                .as_ref()
                .is_none_or(|node| nodes.contains(&node.as_str()))
    }
}

/// Whether the pod of this name is of a namespace.
fn is_of(podref: Option<&str>, namespace: &str) -> bool {
    let parts = podref.and_then(|podref| podref.split_once('/'));
    parts.is_some_and(|(its, _)| its == namespace)
}

/// Whether the words of a person name this pool.
#[must_use]
pub fn is_named(words: &str, namespace: &str, name: &str) -> bool {
    match words.split_once('/') {
        Some((its_namespace, its_name)) => its_namespace == namespace && its_name == name,
        None => words == name,
    }
}
