//! Nodes: whether a kubelet is at work there, and for how long without a break.
//!
//! The sandbox of a pod that is gone is stopped by the kubelet of its node, or not at all. So the
//! worth of an end that was not clean depends on that node (docs/safety.md): [`Node::standing`]
//! says what is known of one, [`Nodes::blockers`] which nodes may still run a sandbox that nobody
//! saw. Both are told of nodes and of their Leases; neither reads anything.

mod stock;

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
    time::Duration,
};

use self::stock::Stock;
use crate::{clearance::look_again, time::Moment};

/// Annotation on a Node by which a person states that it runs no sandboxes: an RFC 3339 time.
pub const NO_SANDBOXES_ANNOTATION: &str = "ipgc.dev/no-sandboxes";
/// Taint that says that a node is shut down for good.
pub const OUT_OF_SERVICE_TAINT: &str = "node.kubernetes.io/out-of-service";

/// A kubelet whose Lease was not seen to change for so long is silent.
pub const SILENCE: Duration = Duration::from_secs(60);

/// What we keep of a Node object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeState {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// Whether it is tainted `node.kubernetes.io/out-of-service`.
    pub out_of_service: bool,
    /// Whether [`NO_SANDBOXES_ANNOTATION`] is later than the last change of its condition Ready.
    pub declared_empty: bool,
}

impl NodeState {
    /// Whether it runs no sandboxes: it is not ready, and a person or a controller that knows says
    /// so. What is said of a node that is ready does not count: pods may have come since.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        !self.ready && (self.out_of_service || self.declared_empty)
    }
}

/// One name of a node, followed through removals and returns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// `None` while no node of that name exists.
    state: Option<NodeState>,
    /// When the last change of existence was seen.
    since: Moment,
    lease: Lease,
    /// Nobody saw what happened on it before this gap in the pod watch.
    suspect: Option<Suspect>,
}

/// What was seen of a kubelet's Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lease {
    version: Option<Box<str>>,
    /// First and last read of the present series, without a pause as long as [`SILENCE`].
    read: Option<(Moment, Moment)>,
    /// The present series of changes.
    beat: Option<Beat>,
}

/// Changes of a Lease without a pause longer than [`SILENCE`], while the node was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Beat {
    /// The last read before the first change: the change came after that.
    after: Moment,
    /// When the first change was seen.
    first: Moment,
    /// When the last change was seen.
    last: Moment,
    /// The longest time from one to the next.
    widest: Duration,
}

impl Beat {
    /// From when on the kubelet was at work, of the time after `moment`. In a series that may have
    /// begun before, a change is seen within `widest`, that may have come before, and then another
    /// one, that has not.
    fn since(self, moment: Moment) -> Moment {
        if self.after >= moment {
            self.first
        } else {
            moment + self.widest.saturating_mul(2).min(SILENCE)
        }
    }
}

/// A node that may run a sandbox of a pod that nobody saw.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Suspect {
    /// When the pod watch began, or began anew.
    since: Moment,
    /// The longest time since then for which its kubelet was at work without a break, or for which
    /// there was no such node.
    longest: Duration,
}

/// What is known of the node of an incarnation that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is fenced: no sandbox runs there.
    Fenced,
    /// No node of that name has existed since.
    Gone(Moment),
    /// Its kubelet has been at work.
    Alive {
        /// Since when.
        since: Moment,
        /// When its Lease was seen to change last. After that, nobody can say yet.
        last: Moment,
    },
    /// Its Lease has not been watched long enough to tell.
    Listening,
    /// It is not ready, or its Lease does not change.
    Silent,
}

impl Node {
    fn new(state: Option<NodeState>, now: Moment) -> Self {
        Self {
            state,
            since: now,
            lease: Lease::default(),
            suspect: None,
        }
    }

    /// Its last state; `None` while it does not exist.
    #[must_use]
    pub fn state(&self) -> Option<&NodeState> {
        self.state.as_ref()
    }

    fn apply(&mut self, state: NodeState, now: Moment) {
        if self.state.is_none() {
            self.end_stretch(now);
            self.since = now;
        }
        if !state.ready {
            self.end_stretch(now);
            self.lease.beat = None;
        }
        if state.is_fenced() {
            self.suspect = None;
        }
        self.state = Some(state);
    }

    fn remove(&mut self, now: Moment) {
        if self.state.is_some() {
            // Counted as what it was, a stretch of work: a silent node that goes was not gone before.
            self.end_stretch(now);
            self.state = None;
            self.since = now;
            self.lease = Lease::default();
        }
    }

    /// Takes in a read of its Lease; `None` where it has none.
    fn hear(&mut self, version: Option<&str>, now: Moment) {
        let lease = &mut self.lease;
        let in_series = lease
            .read
            .is_some_and(|(_, last)| now.since(last) < SILENCE);
        let after = lease.read.map_or(now, |(_, last)| last);
        let changed = version.is_some() && lease.version.as_deref() != version;
        lease.read = match lease.read {
            Some((first, _)) if in_series => Some((first, now)),
            _ => Some((now, now)),
        };
        lease.version = version.map(Into::into);
        let ready = self.state.as_ref().is_some_and(|state| state.ready);
        // The first read shows no change: who knows when it was written.
        if !(in_series && changed && ready) {
            return;
        }
        match &mut self.lease.beat {
            Some(beat) if now.since(beat.last) <= SILENCE => {
                beat.widest = beat.widest.max(now.since(beat.last));
                beat.last = now;
            }
            _ => {
                self.end_stretch(now);
                self.lease.beat = Some(Beat {
                    after,
                    first: now,
                    last: now,
                    widest: now.since(after),
                });
            }
        }
    }

    /// The present series of changes, if the kubelet is at work at present.
    fn alive(&self, now: Moment) -> Option<Beat> {
        let ready = self.state.as_ref().is_some_and(|state| state.ready);
        let beat = self.lease.beat?;
        (ready && now.since(beat.last) <= SILENCE).then_some(beat)
    }

    /// Since when the kubelet has been at work without a break, if it is.
    fn alive_since(&self, now: Moment) -> Option<Moment> {
        self.alive(now).map(|beat| beat.first)
    }

    /// Whether it exists, and nothing shows that its kubelet is at work.
    fn is_silent(&self, now: Moment) -> bool {
        let Some(state) = &self.state else {
            return false;
        };
        let listened = self.lease.read.is_some_and(|(first, last)| {
            now.since(last) < SILENCE && last.since(first.max(self.beat_end())) >= SILENCE
        });
        !state.ready || (listened && self.alive_since(now).is_none())
    }

    fn beat_end(&self) -> Moment {
        self.lease.beat.map_or(Moment::EPOCH, |beat| beat.last)
    }

    /// What is known of it with regard to an incarnation that ended at `end`.
    #[must_use]
    pub fn standing(&self, end: Moment, now: Moment) -> Standing {
        let Some(state) = &self.state else {
            return Standing::Gone(self.since.max(end));
        };
        if state.is_fenced() {
            return Standing::Fenced;
        }
        match self.alive(now) {
            Some(beat) => Standing::Alive {
                since: beat.since(end),
                last: beat.last,
            },
            None if self.is_silent(now) => Standing::Silent,
            None => Standing::Listening,
        }
    }

    fn suspect_since(&mut self, since: Moment) {
        let is_fenced = self.state.as_ref().is_some_and(NodeState::is_fenced);
        self.suspect = (!is_fenced).then_some(Suspect {
            since,
            longest: Duration::ZERO,
        });
    }

    /// Counts the present stretch of work or of absence, which ends.
    fn end_stretch(&mut self, now: Moment) {
        if let Some(suspect) = &self.suspect {
            let longest = self.longest(suspect, now);
            self.suspect = Some(Suspect {
                longest,
                ..suspect.clone()
            });
        }
    }

    /// The longest stretch of work or of absence so far.
    fn longest(&self, suspect: &Suspect, now: Moment) -> Duration {
        let present = match (&self.state, self.lease.beat) {
            (None, _) => now.since(self.since.max(suspect.since)),
            // Seen, whether or not its Lease is still read.
            (Some(_), Some(beat)) => beat.last.since(beat.since(suspect.since)),
            (Some(_), None) => Duration::ZERO,
        };
        suspect.longest.max(present)
    }

    /// Until when it blocks, if it does: a moment, or until something happens there.
    #[expect(
        clippy::option_option,
        reason = "whether it blocks, and whether there is a moment until which"
    )]
    fn blocks(&self, wait: Duration, now: Moment) -> Option<Option<Moment>> {
        let suspect = self.suspect.as_ref()?;
        if self.longest(suspect, now) >= wait {
            return None;
        }
        let since = match (&self.state, self.alive(now)) {
            (None, _) => self.since.max(suspect.since),
            (Some(_), Some(beat)) => beat.since(suspect.since),
            (Some(_), None) if self.is_silent(now) => return Some(None),
            // Its Lease has not been watched long enough to tell.
            (Some(_), None) => return Some(Some(now + wait.max(look_again(wait)))),
        };
        let until = since + wait;
        // Where it should be over by now, that is yet to be seen.
        Some(Some(if until <= now {
            now + look_again(wait)
        } else {
            until
        }))
    }
}

/// All nodes by name, those that are gone included as long as they matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Nodes {
    by_name: BTreeMap<Box<str>, Node>,
    /// Since when the names are complete; before, nobody can say that a node does not exist.
    complete_since: Option<Moment>,
    /// A gap in the pod watch whose nodes are not known yet.
    gap: Option<Moment>,
    /// The longest wait that nobody blocks, as far as it was reckoned. It only grows until the next
    /// gap.
    unblocked: Duration,
    /// Who blocked when that was reckoned, until something changes.
    stock: Option<Arc<Stock>>,
    /// Those that a person says run no sandboxes, whatever their objects say.
    said_dead: BTreeSet<Box<str>>,
}

/// What an address waits for before nobody unseen can answer on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blocked {
    /// No longer than until this moment, if nothing happens.
    Until(Moment),
    /// Until something happens on these nodes, in the order of their names. Empty while the nodes
    /// are not known.
    By(Arc<[Box<str>]>),
}

impl Nodes {
    /// No nodes yet. These will count as declared empty, as a person says that they run no sandboxes, until one of
    /// them is ready: then it was a mistake, and the node may run what nobody saw.
    #[must_use]
    pub fn said_dead(names: impl IntoIterator<Item = Box<str>>) -> Self {
        Self {
            said_dead: names.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Takes in the state of a node that exists.
    pub fn apply(&mut self, name: &str, mut state: NodeState, now: Moment) {
        self.stock = None;
        // Whoever is at work was not dead, and nobody saw what ran there meanwhile.
        let was_alive = state.ready && self.said_dead.remove(name);
        state.declared_empty |= self.said_dead.contains(name);
        let node = match self.by_name.entry(name.into()) {
            Entry::Occupied(known) => {
                let node = known.into_mut();
                node.apply(state, now);
                node
            }
            Entry::Vacant(new) => new.insert(Node::new(Some(state), now)),
        };
        if was_alive {
            node.suspect_since(now);
            self.unblocked = Duration::ZERO;
        }
    }

    /// A node was deleted.
    pub fn remove(&mut self, name: &str, now: Moment) {
        self.stock = None;
        if let Some(node) = self.by_name.get_mut(name) {
            node.remove(now);
        }
    }

    /// A complete list of nodes was taken in; these are the names in it.
    pub fn retain(&mut self, listed: impl Fn(&str) -> bool, now: Moment) {
        self.stock = None;
        for (name, node) in &mut self.by_name {
            if !listed(name) {
                node.remove(now);
            }
        }
        self.complete_since.get_or_insert(now);
    }

    /// Takes in a read of a node's Lease.
    pub fn hear(&mut self, name: &str, version: Option<&str>, now: Moment) {
        self.stock = None;
        if let Some(node) = self.by_name.get_mut(name) {
            node.hear(version, now);
        }
    }

    /// The pod watch began, or began anew: what happened before on any node, nobody saw. Until
    /// [`Nodes::suspect`] follows, every node blocks.
    pub fn gap(&mut self, now: Moment) {
        self.stock = None;
        self.gap = Some(now);
    }

    /// The nodes that exist after the gap, by a quorum LIST begun after it.
    pub fn suspect<'n>(&mut self, names: impl IntoIterator<Item = &'n str>, now: Moment) {
        self.stock = None;
        let since = self.gap.take().unwrap_or(now);
        self.unblocked = Duration::ZERO;
        for name in names {
            // It exists, and nothing else is known of it until it is applied.
            let unknown = || Node::new(Some(NodeState::default()), now);
            let node = self.by_name.entry(name.into()).or_insert_with(unknown);
            node.suspect_since(since);
        }
        let is_gone = |node: &&mut Node| node.state.is_none() && node.since >= since;
        for node in self.by_name.values_mut().filter(is_gone) {
            // It existed at the gap, and went before it could be listed.
            node.suspect_since(since);
        }
    }

    /// Reckons how long a wait nobody blocks, and who blocks longer ones at `now`, so that it need not be
    /// for each row. It changes no answer.
    pub fn take_stock(&mut self, now: Moment) {
        let suspects = self.by_name.values();
        let longest = suspects.filter_map(|node| Some(node.longest(node.suspect.as_ref()?, now)));
        self.unblocked = longest.min().unwrap_or(Duration::MAX);
        self.stock = Some(Arc::new(Stock::of(self, now)));
    }

    /// The gap whose nodes are not known yet.
    #[must_use]
    pub fn pending_gap(&self) -> Option<Moment> {
        self.gap
    }

    /// Whether there is such a gap, and the watch of nodes has told all names since it began.
    #[must_use]
    pub fn is_complete_after_gap(&self) -> bool {
        self.gap.is_some() && self.complete_since.is_some()
    }

    /// What is known of the node `name` with regard to an incarnation that ended at `end`.
    #[must_use]
    pub fn standing(&self, name: &str, end: Moment, now: Moment) -> Standing {
        match (self.by_name.get(name), self.complete_since) {
            (Some(node), _) => node.standing(end, now),
            (None, Some(since)) => Standing::Gone(since.max(end)),
            (None, None) => Standing::Listening,
        }
    }

    /// Whether the node `name` is fenced, or does not exist.
    #[must_use]
    pub fn is_fenced_or_gone(&self, name: &str, now: Moment) -> bool {
        let standing = self.standing(name, now, now);
        matches!(standing, Standing::Fenced | Standing::Gone(_))
    }

    /// The nodes that may run a sandbox of a pod which nobody saw: all that existed when the pod
    /// watch began, or only `slice`, and that since then were not fenced, nor at work, nor gone,
    /// for `wait` without a break. `None` if there is none.
    #[must_use]
    pub fn blockers(&self, slice: Option<&str>, wait: Duration, now: Moment) -> Option<Blocked> {
        if self.gap.is_some() || self.complete_since.is_none() {
            return Some(Blocked::By(Arc::default()));
        }
        if wait <= self.unblocked {
            return None;
        }
        if let (None, Some(stock)) = (slice, &self.stock)
            && let Some(known) = stock.blockers(self, wait, now)
        {
            return known;
        }
        let mut until = None;
        let mut by: Vec<Box<str>> = Vec::new();
        let mut ask = |name: &str, node: &Node| match node.blocks(wait, now) {
            Some(Some(moment)) => until = until.max(Some(moment)),
            Some(None) => by.push(name.into()),
            None => {}
        };
        if let Some(name) = slice {
            if let Some(node) = self.by_name.get(name) {
                ask(name, node);
            }
        } else {
            for (name, node) in &self.by_name {
                ask(name, node);
            }
        }
        if by.is_empty() {
            return until.map(Blocked::Until);
        }
        by.sort_unstable();
        Some(Blocked::By(by.into()))
    }

    /// Forgets nodes that have been gone for `keep`, the longest wait of all, and that do not block
    /// any such wait.
    pub fn forget(&mut self, keep: Duration, now: Moment) {
        self.stock = None;
        self.by_name.retain(|_, node| {
            let recent = now.since(node.since) < keep;
            node.state.is_some() || recent || node.blocks(keep, now).is_some()
        });
    }

    /// The nodes that exist and whose names end `name`, with a dash before it: the kubelet names the mirror of a
    /// static pod so. In the order of their names.
    #[must_use]
    pub fn ending(&self, name: &str) -> Vec<&str> {
        let after = name.match_indices('-').map(|(at, dash)| at + dash.len());
        let known = after.filter_map(|from| self.by_name.get_key_value(&name[from..]));
        let existing = known.filter(|(_, node)| node.state.is_some());
        let mut names: Vec<_> = existing.map(|(name, _)| &**name).collect();
        names.sort_unstable();
        names
    }

    /// One node.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Node> {
        self.by_name.get(name)
    }

    /// The nodes that exist, with their names.
    pub fn existing(&self) -> impl Iterator<Item = (&str, &NodeState)> {
        let named = self.by_name.iter();
        named.filter_map(|(name, node)| Some((&**name, node.state.as_ref()?)))
    }

    /// How each node that exists stands at present, for whoever waits on it: two of these that
    /// differ mean that something happened there.
    #[must_use]
    pub fn pulse(&self, now: Moment) -> BTreeMap<&str, Pulse> {
        let pulse = |node: &Node| Pulse {
            exists: node.state.is_some(),
            fenced: node.state.as_ref().is_some_and(NodeState::is_fenced),
            alive_since: node.alive_since(now),
        };
        let all = self.by_name.iter();
        all.map(|(name, node)| (&**name, pulse(node))).collect()
    }
}

/// How a node stands, as far as anybody waits on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    /// It exists.
    pub exists: bool,
    /// It runs no sandboxes.
    pub fenced: bool,
    /// Since when its kubelet has been at work.
    pub alive_since: Option<Moment>,
}
