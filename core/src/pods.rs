//! The live pods that can have rows in IPPools, and the ends of pods that are gone.
//!
//! Synchronous, without requests. The informer applies each event of its watch, and gets back the incarnations that ended
//! by this event. An incarnation is one pod object, by its uid: a pod that comes back under its old name is another one.
//! Nothing is decided here about rows.

use std::{
    collections::{HashMap, HashSet},
    hash::{Hash, Hasher},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

mod census;
mod common;
mod live;
mod others;
mod showing;
mod usage;

use self::{census::Census, common::Common, showing::Showing};
pub use self::{live::Live, others::Others, usage::Usage};
use crate::{
    definitions::{Definitions, Scope},
    evidence::{DEFAULT_POD_GRACE, Ended},
    id::{hash_of, is_uid},
    networks::StatusEntry,
    pod::PodState,
    podref::PodRef,
    pool::{Glance, RowCount},
    proof::Presence,
    time::Moment,
};

/// Live pods that can have rows, and recent ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodIndex {
    live: HashMap<PodRef, Box<Live>>,
    /// In the order of their ends.
    ended: HashMap<PodRef, Vec<Arc<Ended>>>,
    common: Common,
    showing: Showing,
    /// Hashes of the names of all other pods that exist: those that cannot have rows, as far as
    /// their annotations tell.
    others: HashSet<u64>,
    /// The same, of the list that is being read.
    listed_others: HashSet<u64>,
    /// Whether a list is being read: what was missed before it is not known yet.
    pub listing: bool,
    /// When the last list ended.
    pub listed_at: Moment,
    /// The API server's data went back in time.
    went_back: bool,
    longest_grace: Duration,
    census: Census,
    /// The addresses of rows that name no pod, each in its network, by the last sweep.
    nobodys: HashSet<u64>,
    /// Pods for which rows of others are held, which are to be looked at again when it ends.
    pub in_use: HashSet<PodRef>,
    /// Pods whose ends rows of others wait for, by the last sweep: these ends are kept.
    pub awaited: HashSet<PodRef>,
}

/// For a checker that has to know whether it has been at a state: `common` and `showing` follow from the rest.
impl Hash for PodIndex {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let pods = (hash_of_all(&self.live), hash_of_all(&self.ended));
        let others = (hash_of_all(&self.others), hash_of_all(&self.listed_others));
        let needed = (hash_of_all(&self.in_use), hash_of_all(&self.awaited));
        let lists = (self.listing, self.listed_at, self.went_back);
        let seen = (self.longest_grace, &self.census);
        (pods, others, needed, lists, seen).hash(state);
    }
}

/// The things of a map or a set as one number, whatever their order.
fn hash_of_all(things: impl IntoIterator<Item = impl Hash>) -> u64 {
    let hashes = things.into_iter().map(|thing| hash_of(&thing));
    hashes.fold(0, u64::wrapping_add)
}

impl PodIndex {
    /// Takes in a state of a pod that exists. Returns the predecessor of the same name, if this
    /// state shows that it ended unseen.
    pub fn apply(&mut self, state: PodState, now: Moment) -> Option<Arc<Ended>> {
        let grace = state.termination_grace.unwrap_or_default();
        self.longest_grace = self.longest_grace.max(grace);
        let listed_at = self.doubt(&state.podref, now);
        let watched = !self.listing;
        let podref = state.podref.clone();
        let mut predecessor = None;
        if let Some(mut live) = self.take(&podref) {
            if live.state.uid == state.uid {
                live.advance(state, watched, now);
                self.keep(live);
                return None;
            }
            predecessor = Some(self.end(*live, watched, now));
        } else {
            // A pod that cannot have rows costs a number until that changes, unless it bears the
            // name of one whose rows it may take over (rule 6), or ends: it may have rows of the cluster's own network,
            // and its kubelet may not stop it (rule 4 asks whether it did). So may one with a ResourceClaim.
            let name = hash_of(podref.as_str());
            let ends = state.deleting || state.phase.is_terminal();
            let leaves = state.has_network() && (ends || state.has_resource_claims);
            let follows = state.host_network && state.name_may_return || self.had_rows(&podref);
            if !state.can_have_rows() && !follows && !leaves {
                if self.listing {
                    self.listed_others.insert(name);
                }
                self.others.insert(name);
                return None;
            }
            self.others.remove(&name);
            self.listed_others.remove(&name);
        }
        let mut live = Live::new(state, listed_at, watched, now);
        if self.listing && self.went_back {
            live.trail.distrust();
        }
        self.keep(live.into());
        predecessor
    }

    fn take(&mut self, podref: &PodRef) -> Option<Box<Live>> {
        let live = self.live.remove(podref)?;
        self.showing.remove(&live);
        Some(live)
    }

    fn keep(&mut self, mut live: Box<Live>) {
        self.common.share(&mut live);
        self.showing.add(&live);
        self.live.insert(live.state.podref.clone(), live);
    }

    /// The last states of the pods that the present list has not shown.
    pub(crate) fn unseen(&self) -> impl Iterator<Item = &PodState> {
        let unseen = self.live.values().filter(|live| !live.is_seen);
        unseen.map(|live| &live.state)
    }

    /// The kubelet of this pod was at work for the time that it needs since the pod was being deleted, and did not end it.
    pub fn note_stuck(&mut self, podref: &PodRef) {
        if let Some(live) = self.live.get_mut(podref) {
            live.stuck = true;
        }
    }

    /// The machine of this node was booted anew: see [`Trail::boot`](crate::evidence::Trail::boot).
    pub fn note_boot(&mut self, node: &str) {
        for live in self.live.values_mut() {
            if live.state.node.as_deref() == Some(node) {
                live.trail.boot();
            }
        }
    }

    /// Takes in the last state of a deleted pod. Returns the incarnation unless it could have no
    /// rows or its end is known already.
    pub fn delete(&mut self, last: PodState, now: Moment) -> Option<Arc<Ended>> {
        let mut is_work = last.can_have_rows() || self.had_rows(&last.podref);
        let known = match self.live.get(&last.podref) {
            Some(live) if live.state.uid == last.uid => self.take(&last.podref),
            Some(_) => None,
            None => {
                self.others.remove(&hash_of(last.podref.as_str()));
                None
            }
        };
        let gone = match known {
            // Also one that was seen again after its end: a list from the past lacked it.
            Some(mut live) => {
                is_work |= live.state.can_have_rows();
                live.advance(last, true, now);
                *live
            }
            None if self.is_ended(&last) || !(is_work || last.has_network()) => return None,
            None => {
                // Of one that asked multus for nothing, the node is kept in case it has rows.
                let doubt = if is_work {
                    Some(now)
                } else {
                    self.doubt(&last.podref, now)
                };
                Live {
                    born: None,
                    ..Live::new(last, doubt, true, now)
                }
            }
        };
        let ended = self.end(gone, true, now);
        is_work.then_some(ended)
    }

    /// The API server's data went back in time. A pod that ended may be there again and run, and a pod that lives may never
    /// have been: as in the beginning nothing is known, until a list has come to its end.
    pub fn distrust(&mut self, now: Moment) {
        *self = Self {
            listing: true,
            listed_at: now,
            longest_grace: self.longest_grace,
            went_back: true,
            ..Self::default()
        };
    }

    /// A list begins. Events may be missing since `heard_until`. A row seen after that may belong to another pod, so
    /// its sandbox is forgotten.
    pub fn begin_list(&mut self, heard_until: Moment) {
        self.listing = true;
        self.listed_others.clear();
        for live in self.live.values_mut() {
            live.is_seen = false;
            live.sandboxes.forget_after(heard_until);
            live.trail.gap();
        }
    }

    /// Ends the doubt about unseen pods before a list, if that list is not later than `over`. A doubt stays if the DELs
    /// of such a pod `may_never_end`.
    pub fn end_doubts(&mut self, over: Moment, may_never_end: impl Fn(usize) -> bool) {
        let is_over = |listed_at: Option<Moment>, pod: &PodState| {
            // The cluster's own network may be whereabouts' too.
            let most_dels = || pod.status.dels(&pod.request) + 1;
            listed_at.is_some_and(|listed| listed <= over) && !may_never_end(most_dels())
        };
        for live in self.live.values_mut() {
            if is_over(live.listed_at, &live.state) {
                live.listed_at = None;
            }
        }
        for end in self.ended.values_mut().flatten() {
            if is_over(end.listed_at, &end.last) {
                Arc::make_mut(end).listed_at = None;
            }
        }
    }

    /// The list is complete. A pod that is not in it ended unseen. After each known end, a pod of that name may have
    /// been created, have taken over the rows, and have been deleted unseen.
    pub fn end_list(&mut self, now: Moment) -> Vec<Arc<Ended>> {
        self.listing = false;
        self.listed_at = now;
        self.census.doubt();
        self.others = std::mem::take(&mut self.listed_others);
        let missing: Vec<_> = self.live.extract_if(|_, live| !live.is_seen).collect();
        let mut names = Vec::new();
        for (podref, live) in missing {
            self.end(*live, false, now);
            names.push(podref);
        }
        self.common.purge();
        let live = self.live.values();
        self.showing.rebuild(live.map(AsRef::as_ref));
        for end in self.ended.values_mut().flatten() {
            Arc::make_mut(end).gap_at = Some(now);
        }
        let last = |podref: &PodRef| self.ended.get(podref)?.last().cloned();
        names.iter().filter_map(last).collect()
    }

    /// The longest termination grace of any pod seen so far, and of one that says none.
    pub fn longest_grace(&self) -> Duration {
        self.longest_grace.max(DEFAULT_POD_GRACE)
    }

    /// The pod of a name as the watch shows it, if it can have rows as far as its annotations tell.
    pub fn live(&self, podref: &str) -> Option<&Live> {
        self.live.get(podref).map(AsRef::as_ref)
    }

    /// The presence of the pod of a name as the watch shows it, before the API server is asked; no proof of anything.
    pub(crate) fn presumed(&self, podref: &str) -> Presence {
        match self.live(podref) {
            Some(live) => Presence::Present(Some(Arc::new(live.state.clone()))),
            None if self.others.contains(&hash_of(podref)) => Presence::Present(None),
            None => Presence::Absent,
        }
    }

    /// Whether the pod of a name lives, and reports an address that `is` one of those asked for, by an entry of its
    /// status. True also if the pod exists and nothing else is known of it.
    pub fn reports(&self, podref: &str, is: impl Fn(IpAddr, StatusEntry<'_>) -> bool) -> bool {
        match self.live.get(podref) {
            Some(live) => {
                let mut entries = live.state.status.entries();
                let is = |entry: StatusEntry<'_>| entry.addresses.iter().any(|its| is(*its, entry));
                !live.state.phase.is_terminal() && entries.any(is)
            }
            None => self.others.contains(&hash_of(podref)),
        }
    }

    /// Whether the pod of a row needs it, by what the watch tells; `scope` is that of its pool. Any other row takes a closer
    /// look. If `notes`, the sandbox of a row that its pod reports is noted.
    pub fn glance(&mut self, row: &Glance<'_>, scope: Scope<'_>, notes: bool, now: Moment) -> bool {
        let Some(podref) = row.podref.filter(|it| PodRef::is_valid(it)) else {
            let networks = scope.networks.iter();
            self.nobodys
                .extend(networks.map(|it| hash_of(&(it.as_deref(), row.address))));
            return false;
        };
        let Some(live) = self.live.get_mut(podref) else {
            match row.sandbox {
                // A row of a ResourceClaim takes no DEL of a pod.
                Some(id) if is_uid(id) => self.census.note_uncounted(podref),
                _ => self.census.note(podref, row.interface),
            }
            return false;
        };
        let is_its = row.address.is_some_and(|it| live.reports(it, scope));
        let sandboxes = live.sandboxes_with(row, is_its, now);
        if notes && sandboxes != live.sandboxes {
            self.showing.remove(live);
            // The first is another one: it was set up since the boot.
            live.trail.renewed &= live.sandboxes.tags().next() == sandboxes.tags().next();
            live.sandboxes = sandboxes;
            self.showing.add(live);
        }
        if let Some(address) = row.address.filter(|_| is_its) {
            live.note_row(address);
        }
        // Whether a kubelet ends a pod that is being deleted, its node tells.
        is_its && !live.state.deleting
    }

    /// Takes in that a sweep found a reservation of this name, which an ADD of a later pod may accept.
    pub fn note_reservation(&mut self, podref: &str) {
        if !self.live.contains_key(podref) {
            self.census.note_uncounted(podref);
        }
    }

    /// Whether the pod of this name, or one that bore it before, shows by its row of this address that a pool is not the
    /// slice of `node`. If so, whether it reported the address.
    pub fn disproves_slice(&self, podref: &str, node: &str, address: IpAddr) -> Option<bool> {
        let live = self.live.get(podref).map(|live| &live.state);
        let ended = self.ended.get(podref).into_iter().flatten();
        let pods = live.into_iter().chain(ended.map(|end| &end.last));
        let pods = pods.filter(|pod| pod.disproves_slice(node, address));
        pods.map(|pod| pod.status.has_address(address)).max()
    }

    /// A sweep begins, which takes a [`glance`](Self::glance) at every row.
    pub fn begin_sweep(&mut self) {
        self.census.begin();
        self.nobodys.clear();
        for live in self.live.values_mut() {
            live.begin_sweep();
        }
    }

    /// The addresses that live pods use of these definitions' networks, after a sweep has seen all rows, whose notes are
    /// forgotten. `is_swept` says whether it would have seen the row of an address in a network.
    pub fn usage(
        &mut self,
        definitions: &Definitions,
        is_swept: impl Fn(Option<&str>, IpAddr) -> bool,
    ) -> Usage {
        // No other pod is given an address that a row of nobody has.
        let is_missing = |network: Option<&str>, address: IpAddr| {
            let number = hash_of(&(network, Some(address)));
            !self.nobodys.contains(&number) && is_swept(network, address)
        };
        let live = self.live.values();
        let usage = Usage::of(live.map(AsRef::as_ref), definitions, is_missing);
        for live in self.live.values_mut() {
            live.lacks_rows = 0;
        }
        usage
    }

    /// The sweep that began at `begun` has read every pool. A pod that is gone has no ADD at work a
    /// `wait` later.
    pub fn end_sweep(&mut self, begun: Moment, wait: Duration) {
        if begun >= self.listed_at + wait {
            self.census.end();
        }
    }

    /// The rows of a podref without a pod in all pools, by what sweeps found lately.
    pub fn count(&self, podref: &str) -> RowCount {
        self.census.count(podref)
    }

    /// The known incarnations of a podref, in the order of their ends.
    pub fn ended(&self, podref: &PodRef) -> Vec<Arc<Ended>> {
        self.ended.get(podref).cloned().unwrap_or_default()
    }

    /// Forgets ends older than `keep` if a sweep that began at `swept` came later, unless they are `needed`. If one end
    /// of a name is kept, or a pod of it lives, the others stay too, since any of them may own the rows. Only settled
    /// ends may go; their doubt passes to the next incarnation.
    pub fn forget(
        &mut self,
        swept: Moment,
        now: Moment,
        keep: Duration,
        needed: impl Fn(&Ended) -> bool,
    ) {
        let live = &mut self.live;
        self.ended.retain(|podref, ends| {
            let recent = |end: &Ended| end.at >= swept || now.since(end.at) < keep;
            // Exempt rows, and those that found no room in the queue, are no open cases.
            let is_awaited =
                self.awaited.contains(podref) || self.census.count(podref.as_str()).rows() > 0;
            let is_kept = |end: &Ended| is_awaited || recent(end) || needed(end);
            let living = live.get_mut(podref);
            if living.is_none() && !ends.iter().any(|end| is_kept(end)) {
                return false;
            }
            let mut doubt = None;
            ends.retain(|end| {
                let goes = end.settled && !is_kept(end);
                if goes {
                    doubt = doubt.max(end.listed_at).max(end.gap_at);
                }
                !goes
            });
            if let Some(end) = ends.first_mut() {
                // An open case shares it: it is copied only if it changes.
                if end.listed_at < doubt {
                    Arc::make_mut(end).listed_at = doubt;
                }
            } else if let Some(living) = living {
                living.listed_at = living.listed_at.max(doubt);
            }
            !ends.is_empty()
        });
        let ends = self.ended.values().flatten();
        self.showing.rebuild_ends(ends.map(AsRef::as_ref));
        self.common.purge();
    }

    /// How many live pods can have rows.
    pub fn count_live(&self) -> usize {
        self.live.len()
    }

    /// The list before which a pod may have left rows to a pod that is first seen now.
    fn doubt(&self, podref: &PodRef, now: Moment) -> Option<Moment> {
        if self.listing {
            return Some(now);
        }
        let known = self.ended.get(podref).into_iter().flatten();
        let inherited = known.filter_map(|end| end.listed_at).max();
        let is_first = self.census.is_first(podref.as_str());
        inherited.max((!is_first).then_some(self.listed_at))
    }

    fn is_ended(&self, state: &PodState) -> bool {
        let mut ended = self.ended.get(&state.podref).into_iter().flatten();
        ended.any(|end| end.last.uid == state.uid)
    }

    /// Whether a pod of this name ended that could have rows.
    fn had_rows(&self, podref: &PodRef) -> bool {
        let mut ended = self.ended.get(podref).into_iter().flatten();
        ended.any(|end| end.last.can_have_rows())
    }

    fn end(&mut self, mut live: Live, watched: bool, now: Moment) -> Arc<Ended> {
        self.common.share(&mut live);
        let mut ended = live.into_ended(watched, now);
        let ends = self.ended.entry(ended.last.podref.clone()).or_default();
        // Kubelets may reject the pods of a StatefulSet once a second, for days.
        let needless = ends.iter().rposition(|it| it.tells_no_more_than(&ended));
        if let Some(before) = needless.map(|at| ends.remove(at)) {
            ended.listed_at = ended.listed_at.max(before.listed_at);
            ended.gap_at = ended.gap_at.max(before.gap_at);
        }
        let ended = Arc::new(ended);
        self.showing.add_end(&ended);
        // Mostly there is one.
        ends.reserve_exact(1);
        ends.push(Arc::clone(&ended));
        ended
    }
}

#[cfg(test)]
mod tests;
