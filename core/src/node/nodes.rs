//! All nodes: which of them may still run a sandbox that nobody saw.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use super::{Node, NodeState, Standing, memo::Memo};
use crate::{
    time::{Moment, look_again},
    wait::Wait,
};

/// All nodes by name, those that are gone included as long as they matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes {
    by_name: BTreeMap<Box<str>, Node>,
    /// Since when the names are complete; before, nobody can say that a node does not exist.
    complete_since: Option<Moment>,
    /// A gap in the pod watch whose nodes are not known yet.
    gap: Option<Moment>,
    /// The last one whose nodes are known.
    last_gap: Option<Moment>,
    memo: Memo,
    /// The API server's data went back in time: a taint that is there at first sight may be one that was taken back.
    went_back: bool,
}

/// When a Lease can show that its kubelet was at work for `wait` after `since`. If that is past, ipgc looks again soon.
pub(crate) fn by_lease(since: Moment, wait: Duration, now: Moment) -> Moment {
    let end = since + wait;
    if end <= now {
        now + look_again(wait)
    } else {
        end
    }
}

impl Nodes {
    /// Takes in the state of a node that exists.
    pub fn apply(&mut self, name: &str, mut state: NodeState, now: Moment) {
        self.note_age(name, &mut state);
        let known = self.by_name.get_mut(name).and_then(|it| it.state.as_mut());
        if let Some(known) = known
            && known.says_the_same(&state)
        {
            // Its kubelet says every few minutes what it said before.
            known.version = state.version;
            return;
        }
        self.memo.drop_answers();
        match self.by_name.entry(name.into()) {
            Entry::Occupied(known) => known.into_mut().apply(state, now),
            Entry::Vacant(new) => {
                let since = self.last_gap.unwrap_or(now);
                new.insert(Node::gone(self.last_gap, since))
                    .apply(state, now);
            }
        }
    }

    /// Notes whether the node, in this new state, was ready or booted anew since it was tainted or declared empty, or may
    /// have been.
    fn note_age(&self, name: &str, state: &mut NodeState) {
        let known = self.by_name.get(name).and_then(Node::state);
        let known = known.filter(|known| known.uid == state.uid);
        state.taint_is_old = state.out_of_service
            && known.map_or(state.ready || self.went_back, |known| {
                known.taint_is_old || (state.ready && !known.ready) || known.boot != state.boot
            });
        state.declaration_is_old = known.is_some_and(|known| {
            let did_not_count = known.declaration_is_old
                || known.declared_ahead
                || known.ready
                || known.boot != state.boot;
            let is_same = known.declaration == state.declaration;
            did_not_count && is_same && state.declaration.is_some()
        });
    }

    /// Takes in that the object of a node had this version when a quorum read was `asked`, or later. A kubelet that
    /// is at work reports its boot within `told_within`: so whatever ended that long before ended on the boot that is
    /// known, and does not outlive the next one.
    pub fn confirm_boot(
        &mut self,
        name: &str,
        version: &str,
        asked: Moment,
        told_within: Duration,
    ) {
        if let Some(node) = self.by_name.get_mut(name) {
            node.confirm_boot(version, asked, told_within);
        }
    }

    /// When it was seen that the machine of the node `name` was booted anew after `moment`: no sandbox that it ran
    /// then is left.
    pub fn rebooted_after(&self, name: &str, moment: Moment) -> Option<Moment> {
        self.by_name.get(name)?.rebooted_after(moment)
    }

    /// Whether another boot of the node was told after `end`, and the machine may have been booted before it: its kubelet
    /// tells it late.
    pub fn booted_about(&self, name: &str, end: Moment) -> bool {
        let is_later = self.booted(name).is_some_and(|booted| end <= booted);
        is_later && self.rebooted_after(name, end).is_none()
    }

    /// When another boot of the node was told last.
    pub fn booted(&self, name: &str) -> Option<Moment> {
        self.by_name.get(name)?.booted
    }

    /// A pod with a ResourceClaim ended on the node, and its sandbox may outlast W.
    pub fn note_outlasting(&mut self, name: &str, now: Moment) {
        // Until all names are known, it exists, whether or not the watch has told of it.
        let unknown = match self.complete_since {
            None => Node::new(Some(NodeState::default()), now),
            Some(_) => Node::gone(self.last_gap, now),
        };
        let node = self.by_name.entry(name.into()).or_insert(unknown);
        node.outlasting = Some(now);
    }

    /// Whether there was such a pod on any node whose machine was not booted anew since.
    pub fn any_outlasting(&self) -> bool {
        self.names().any(|name| self.has_outlasting(name))
    }

    /// Whether there was such a pod, and the machine was not booted anew since.
    pub fn has_outlasting(&self, name: &str) -> bool {
        let end = self.by_name.get(name).and_then(|node| node.outlasting);
        end.is_some_and(|end| self.rebooted_after(name, end).is_none())
    }

    /// A node was deleted.
    pub fn remove(&mut self, name: &str, now: Moment) {
        self.memo.drop_answers();
        if let Some(node) = self.by_name.get_mut(name) {
            node.remove(now);
        }
    }

    /// A complete list of nodes was taken in; these are the names in it.
    pub fn retain(&mut self, listed: impl Fn(&str) -> bool, now: Moment) {
        let missing = self.by_name.keys().filter(|name| !listed(name));
        for name in missing.cloned().collect::<Vec<_>>() {
            self.note_read(&name, None, now);
        }
        self.memo.drop_answers();
        self.complete_since.get_or_insert(now);
    }

    /// Takes in a read of a node, `None` where it does not exist: unlike the events of a watch, it tells nothing of what
    /// was between this state and the last one. Where it is as the watch told, so it was all the time.
    pub fn note_read(&mut self, name: &str, state: Option<NodeState>, now: Moment) {
        let state = state.map(|mut state| {
            self.note_age(name, &mut state);
            state
        });
        if let Some(node) = self.by_name.get_mut(name) {
            let is_same = match (&node.state, &state) {
                (Some(known), Some(read)) => known.says_the_same(read),
                (known, read) => known == read,
            };
            if is_same {
                node.confirm(now);
                node.state = state;
                return;
            }
            node.miss(now);
            if let (Some(known), Some(read)) = (&mut node.state, &state) {
                // It was ready meanwhile, as far as is known, and may have been so under the taint.
                known.taint_is_old |= !known.ready && known.ready_changed != read.ready_changed;
            }
            self.memo.drop_answers();
        } else if state.is_some() {
            // Nobody knows since when it is there.
            let unknown = Node::gone(self.last_gap, now);
            self.by_name.insert(name.into(), unknown);
        }
        match state {
            Some(state) => self.apply(name, state, now),
            None => self.remove(name, now),
        }
    }

    /// A read that was `asked` for then, and is noted, may show a fence: no sandbox of before runs there.
    pub fn confirm_fence(&mut self, name: &str, asked: Moment) {
        if let Some(node) = self.by_name.get_mut(name)
            && node.is_fenced()
        {
            node.suspect.take_if(|suspect| suspect.since < asked);
        }
    }

    /// The nodes that do not block only by what nothing has confirmed, time or a fence. They have to be
    /// [read](Self::note_read), since the watch may be dead. All, or the one of this slice.
    pub fn unconfirmed(
        &self,
        slice: Option<&str>,
        wait: Duration,
        now: Moment,
    ) -> impl Iterator<Item = &str> {
        let nodes = self.by_name.iter().filter(move |(name, node)| {
            slice.is_none_or(|slice| slice == &***name) && node.is_unconfirmed(wait, now)
        });
        nodes.map(|(name, _)| &**name)
    }

    /// Takes in a read of a node's Lease, by a request that was `asked` then and answered when it was `seen`.
    pub fn note_lease(&mut self, name: &str, version: Option<&str>, asked: Moment, seen: Moment) {
        self.memo.drop_answers();
        if let Some(node) = self.by_name.get_mut(name) {
            node.note_lease(version, asked, seen);
        }
    }

    /// The API server's data went back in time: as in the beginning no node is known, nor any Lease, and until the
    /// nodes are listed every one blocks.
    pub fn distrust(&mut self, now: Moment) {
        *self = Self {
            gap: Some(now),
            went_back: true,
            ..Self::default()
        };
    }

    /// The pod watch began, or began anew: what happened before on any node, nobody saw. Until
    /// [`Nodes::suspect`] follows, every node blocks.
    pub fn gap(&mut self, now: Moment) {
        self.memo.drop_answers();
        self.gap = Some(now);
    }

    /// The nodes that exist after the gap, by a quorum LIST begun after it.
    pub fn suspect<'n>(&mut self, names: impl IntoIterator<Item = &'n str>, now: Moment) {
        self.memo.drop_answers();
        let since = self.gap.take().unwrap_or(now);
        // The list shows who was not there by now.
        self.last_gap = Some(now);
        for name in names {
            // It exists, and nothing else is known of it until it is applied.
            let unknown = || Node::new(Some(NodeState::default()), now);
            self.by_name.entry(name.into()).or_insert_with(unknown);
        }
        // Also one that is gone: it may be back before W is over.
        for node in self.by_name.values_mut() {
            node.suspect_since(since);
        }
    }

    /// The gap whose nodes are not known yet.
    pub fn pending_gap(&self) -> Option<Moment> {
        self.gap
    }

    /// Whether there is such a gap, and the watch of nodes has told all names since it began.
    pub fn is_complete_after_gap(&self) -> bool {
        self.gap.is_some() && self.complete_since.is_some()
    }

    /// The standing of the node `name` with regard to an incarnation that ended at `end`.
    pub fn standing(&self, name: &str, end: Moment, now: Moment) -> Standing {
        match (self.by_name.get(name), self.complete_since) {
            (Some(node), _) => node.standing(end, now),
            (None, Some(since)) => Standing::Gone(since.max(end)),
            (None, None) => Standing::Listening,
        }
    }

    /// When the kubelet of a node was at work last, as far as is known.
    pub fn last_at_work(&self, name: &str, now: Moment) -> Option<Moment> {
        match self.by_name.get(name) {
            Some(node) => node.last_at_work(now),
            None => self.complete_since.is_none().then_some(now),
        }
    }

    /// The nodes that may run a sandbox of a pod which nobody saw: all that existed when the pod
    /// watch began, or only `slice`, and that since then were not fenced, nor at work, nor gone,
    /// for `wait` without a break. `None` if there is none.
    pub fn blockers(&self, slice: Option<&str>, wait: Duration, now: Moment) -> Option<Wait> {
        self.ask(slice, wait, false, now)
    }

    /// The same where a kubelet that is at work proves nothing: all of these that exist block until something
    /// happens to them.
    pub fn suspects(&self, slice: Option<&str>, wait: Duration, now: Moment) -> Option<Wait> {
        self.ask(slice, wait, true, now)
    }

    fn ask(&self, slice: Option<&str>, wait: Duration, endless: bool, now: Moment) -> Option<Wait> {
        if self.gap.is_some() || self.complete_since.is_none() {
            return Some(Wait::on(Arc::default()));
        }
        let Some(name) = slice else {
            let all = || Self::blocked_by(&self.by_name, wait, endless, now);
            return self.memo.once(wait, endless, now, all);
        };
        Self::blocked_by(self.by_name.get_key_value(name), wait, endless, now)
    }

    fn blocked_by<'n>(
        nodes: impl IntoIterator<Item = (&'n Box<str>, &'n Node)>,
        wait: Duration,
        endless: bool,
        now: Moment,
    ) -> Option<Wait> {
        let mut until = None;
        let mut by: Vec<Box<str>> = Vec::new();
        for (name, node) in nodes {
            match node.blocks(wait, endless, now) {
                Some(Some(moment)) => until = until.max(Some(moment)),
                Some(None) => by.push(name.clone()),
                None => {}
            }
        }
        if by.is_empty() {
            return until.map(Wait::until);
        }
        Some(Wait::on(by.into()))
    }

    /// The names of all nodes that are known, those that are gone included, in their order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.by_name.keys().map(AsRef::as_ref)
    }

    /// Forgets nodes that have been gone for `keep`, and that do not block any row for `wait`, the longest of all.
    pub fn forget(&mut self, keep: Duration, wait: Duration, now: Moment) {
        self.memo.drop_answers();
        self.by_name.retain(|_, node| {
            let recent = now.since(node.since) < keep;
            node.state.is_some() || recent || node.blocks(wait, false, now).is_some()
        });
    }

    /// The known nodes whose names end `name`, with a dash before it: the kubelet names the mirror of a static pod so.
    /// Nodes that are gone are among them, since a static pod outlives its Node. In the order of their names.
    pub fn ending(&self, name: &str) -> Vec<&str> {
        let after = name.match_indices('-').map(|(at, dash)| at + dash.len());
        let known = after.filter_map(|from| self.by_name.get_key_value(&name[from..]));
        let mut names: Vec<_> = known.map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names
    }

    /// One node.
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.by_name.get(name)
    }

    /// The nodes that exist, with their names.
    pub fn existing(&self) -> impl Iterator<Item = (&str, &NodeState)> {
        let named = self.by_name.iter();
        named.filter_map(|(name, node)| Some((&**name, node.state.as_ref()?)))
    }

    /// The present signs of each known node, gone ones included. If two results differ for a node, something happened
    /// there.
    pub fn pulse(&self, now: Moment) -> BTreeMap<&str, Pulse> {
        let pulse = |node: &Node| {
            let is_fenced = node.state.as_ref().map(NodeState::is_fenced);
            let rebooted = node.reboot.map(|reboot| reboot.seen);
            let alive_since = node.alive(now).map(|beat| beat.first);
            (is_fenced, alive_since, rebooted)
        };
        let all = self.by_name.iter();
        all.map(|(name, node)| (&**name, pulse(node))).collect()
    }
}

/// How a node stands, as far as anybody waits on it: whether it is fenced, if it exists; since when its kubelet has been at
/// work; and when its machine was seen to be booted anew.
pub type Pulse = (Option<bool>, Option<Moment>, Option<Moment>);
