//! What is reckoned of all nodes once, so that it need not be for each row.
//!
//! It says nothing that the nodes do not say themselves. Whatever changes a node drops it.

use std::{sync::Arc, time::Duration};

use super::{Blocked, Node, Nodes};
use crate::time::Moment;

/// Who may block, at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Stock {
    now: Moment,
    /// Those that block until something happens there, in the order of their names.
    silent: Arc<[Box<str>]>,
    /// The longest that any of these was at work or gone: each longer wait has all of them.
    silent_longest: Duration,
    /// The other suspects.
    others: Box<[Box<str>]>,
    /// All suspects that exist.
    existing: Arc<[Box<str>]>,
}

impl Stock {
    pub(super) fn of(nodes: &Nodes, now: Moment) -> Self {
        let mut silent: Vec<Box<str>> = Vec::new();
        let mut others = Vec::new();
        let mut silent_longest = Duration::ZERO;
        for (name, node) in &nodes.by_name {
            let Some(suspect) = &node.suspect else {
                continue;
            };
            if matches!(node.blocks(Duration::MAX, now), Some(None)) {
                silent_longest = silent_longest.max(node.longest(suspect, now));
                silent.push(name.clone());
            } else {
                others.push(name.clone());
            }
        }
        Self {
            now,
            silent: silent.into(),
            silent_longest,
            others: others.into(),
            existing: nodes.existing_suspects(None),
        }
    }

    /// What [`Nodes::existing_suspects`] answers for all nodes.
    pub(super) fn suspects(&self) -> Arc<[Box<str>]> {
        Arc::clone(&self.existing)
    }

    /// What [`Nodes::blockers`] answers for all nodes; `None` where this does not tell.
    #[expect(
        clippy::option_option,
        reason = "whether this tells, and whether anybody blocks"
    )]
    pub(super) fn blockers(
        &self,
        nodes: &Nodes,
        wait: Duration,
        now: Moment,
    ) -> Option<Option<Blocked>> {
        if now != self.now {
            return None;
        }
        if !self.silent.is_empty() {
            let all = wait > self.silent_longest;
            return all.then(|| Some(Blocked::By(Arc::clone(&self.silent))));
        }
        let others = self.others.iter().filter_map(|name| nodes.get(name));
        let until = others.filter_map(|node: &Node| node.blocks(wait, now)?);
        Some(until.max().map(Blocked::Until))
    }
}
