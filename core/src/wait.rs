//! A wait: until a moment, for nodes, or both.

use std::sync::Arc;

use crate::time::Moment;

/// When a row may go, or a node blocks no more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Wait {
    /// From this moment on it is over, whatever happens on the nodes; `None` if only that ends it.
    pub until: Option<Moment>,
    /// The nodes on which something may end it, in the order of their names. Without a moment, and empty, while the nodes
    /// are not known.
    pub nodes: Arc<[Box<str>]>,
}

impl Wait {
    /// From this moment on, unless something happens until then.
    pub fn until(moment: Moment) -> Self {
        Self {
            until: Some(moment),
            nodes: Arc::default(),
        }
    }

    /// Not before something happens on these nodes. Empty while the nodes are not known.
    pub fn on(nodes: Arc<[Box<str>]>) -> Self {
        Self { until: None, nodes }
    }

    /// Whether no node holds it, and it is over at a moment.
    pub fn is_timed(&self) -> bool {
        self.until.is_some() && self.nodes.is_empty()
    }

    /// Both have to be waited for.
    pub fn and(self, other: Self) -> Self {
        Self {
            until: self.until.zip(other.until).map(|(a, b)| a.max(b)),
            nodes: union(self.nodes, other.nodes),
        }
    }
}

/// The nodes of both, in the order of their names. In an outage thousands of rows wait for the same nodes: their
/// list is shared as long as it can be.
pub fn union(a: Arc<[Box<str>]>, b: Arc<[Box<str>]>) -> Arc<[Box<str>]> {
    let has_all = |all: &[Box<str>], some: &[Box<str>]| {
        some.iter().all(|name| all.binary_search(name).is_ok())
    };
    if Arc::ptr_eq(&a, &b) || has_all(&a, &b) {
        return a;
    }
    if has_all(&b, &a) {
        return b;
    }
    let mut nodes = [a, b].concat();
    nodes.sort_unstable();
    nodes.dedup();
    nodes.into()
}
