//! A wait: until a moment, for nodes, or both.

use std::sync::Arc;

use crate::time::Moment;

/// When a row may go, or a node blocks no more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Wait {
    /// From this moment on, unless something happens until then.
    Until(Moment),
    /// Not before something happens on these nodes, in the order of their names. Empty while the nodes are not known.
    For(Arc<[Box<str>]>),
    /// The same, and from this moment on whatever happens.
    AtMost(Arc<[Box<str>]>, Moment),
}

impl Wait {
    /// The nodes on which something may end it.
    fn nodes(self) -> Arc<[Box<str>]> {
        match self {
            Self::Until(_) => Arc::default(),
            Self::For(nodes) | Self::AtMost(nodes, _) => nodes,
        }
    }

    /// Both have to be waited for.
    pub fn and(self, other: Self) -> Self {
        let until = self.moment().zip(other.moment());
        let nodes = union(self.nodes(), other.nodes());
        match until {
            Some((a, b)) if nodes.is_empty() => Self::Until(a.max(b)),
            Some((a, b)) => Self::AtMost(nodes, a.max(b)),
            None => Self::For(nodes),
        }
    }

    /// The moment from which on it is over whatever happens.
    pub fn moment(&self) -> Option<Moment> {
        match self {
            Self::Until(moment) | Self::AtMost(_, moment) => Some(*moment),
            Self::For(_) => None,
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
