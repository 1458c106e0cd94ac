//! [`Evidence`]: the memory of a run. It holds pods and nodes by their watches, first observations, the breaker, and
//! the pools of the last sweep. In a run only this module builds the [`Facts`] about a row. It makes no requests: the
//! answers to those of a turn are not kept. [`crate::judge`] decides.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use crate::{
    address::Range,
    breaker::{Breaker, Limits, Open},
    clearance::{Clearance, Facts, Living, Other},
    definitions::{Definitions, Networks, Scope, networks_of},
    evidence::{Ended, Policy},
    names::KnownNetworks,
    node::{NodeState, Nodes, Standing},
    pod::PodState,
    podref::PodRef,
    pods::{Live, Others, PodIndex},
    pool::{PoolKey, Row, RowContent, RowCount},
    proof::{KnownResourceClaims, Presence, of_owner},
    reservation::Reservation,
    routes::KnownPools,
    sighting::{Sighting, Sightings},
    time::Moment,
};
use jiff::Timestamp;

/// The memory of a run.
pub struct Evidence {
    /// The live pods, and the ends of pods that are gone.
    pub pods: PodIndex,
    /// The nodes, and whether their kubelets are at work.
    pub nodes: Nodes,
    /// When each row and reservation was first observed with its present content.
    pub first_seen: Sightings,
    /// The breaker: it stops frees when too many rows have lost their pods unseen.
    pub breaker: Breaker,
    /// The waits.
    pub policy: Policy,
    /// The limits above which the breaker opens.
    pub limits: Limits,
    /// Pools of one node (whereabouts' `node_slice_size`), and the node. A pool is not among them once a row shows that
    /// a pod of another node uses it.
    pub slices: HashMap<PoolKey, Box<str>>,
    /// The same by the names of the pools alone.
    pub slices_by_name: HashMap<PoolKey, Box<str>>,
    /// Pools of one node in which a pod of another node had a row, and reported its address. Its row may be gone.
    pub shared_slices: HashSet<PoolKey>,
    /// The pools by the last sweep; none before it, so that each may overlap any.
    pub overlaps: Overlaps,
    /// The networks that the pools of the last sweep name.
    pub networks: KnownNetworks,
    /// The pools and the slices of nodes that the last sweep saw.
    pub pools: KnownPools,
    /// The definitions.
    pub definitions: Definitions,
    /// The ResourceClaims that the last sweep saw, where rows of such are read.
    pub resource_claims: KnownResourceClaims,
    /// How many sweeps have told what they found.
    pub sweeps: u64,
    /// The last time that a restoration of etcd was noticed. No evidence from before it counts.
    trusted_since: Moment,
}

/// The pools that a sweep saw, and whether their range overlaps another's in the same network.
#[derive(Clone, Debug, Default)]
pub struct Overlaps(pub Arc<HashMap<PoolKey, bool>>);

impl Overlaps {
    /// Those of these pools, each with its range and the networks that it may be of.
    pub fn of<'p>(pools: impl Iterator<Item = (&'p PoolKey, Option<Range>, &'p Networks)>) -> Self {
        let mut by_network = HashMap::<_, Vec<(Range, &PoolKey)>>::new();
        let mut overlaps = HashMap::new();
        for (key, range, networks) in pools {
            overlaps.insert(key.clone(), false);
            // Rows of a pool without a range have no addresses.
            let Some(range) = range else { continue };
            for network in networks {
                let pools = by_network.entry((&*key.namespace, network)).or_default();
                pools.push((range, key));
            }
        }
        for pools in by_network.values_mut() {
            // Of two ranges that overlap, one contains the other: the wider one comes first.
            pools.sort_by_key(|(range, _)| range.first_and_last());
            let mut outer: Option<(Range, &PoolKey)> = None;
            for &mut (range, key) in pools {
                match outer {
                    Some((outer, other)) if outer.overlaps(range) => {
                        overlaps.extend([(other.clone(), true), (key.clone(), true)]);
                    }
                    _ => outer = Some((range, key)),
                }
            }
        }
        Self(Arc::new(overlaps))
    }

    /// Whether another pool that was seen may have a row of the same address in the same network.
    pub fn may_overlap(&self, pool: &PoolKey) -> bool {
        self.0.get(pool).is_none_or(|overlaps| *overlaps)
    }

    /// Whether this pool was seen: one that was not may overlap any.
    pub fn saw(&self, pool: &PoolKey) -> bool {
        self.0.contains_key(pool)
    }
}

/// The facts about a podref when its rows are judged.
pub struct Known {
    /// Its incarnations, in the order of their ends.
    pub ended: Vec<Arc<Ended>>,
    /// How many DELs the kubelet has to do for it: as many as it has rows in this pool, or was
    /// expected to have anywhere.
    pub rows: usize,
    /// Of how many interfaces it has rows in all pools, as far as sweeps counted them.
    interfaces: usize,
    /// The presence of its pod, as far as the watch tells; no proof of anything.
    pub presumed: Presence,
    /// The incarnation that lives, if one does.
    pub living: Option<Living>,
    /// Whether some of its rows in the pool are of ResourceClaims.
    pub has_resource_claims: bool,
    /// Whether some of its rows go for more than a settled end, so that nodes decide about them.
    pub rests_on_nodes: bool,
    /// All its rows, where they were looked for.
    pub siblings: Option<Arc<[RowContent]>>,
    longest_grace: Duration,
    fresh: bool,
}

impl Known {
    /// Whether a pod of its name may come back.
    pub fn name_may_return(&self) -> bool {
        let mut ended = self.ended.iter();
        self.ended.is_empty() || ended.any(|end| end.last.name_may_return)
    }

    /// Whether its end alone frees its rows: no node matters then.
    fn needs_no_node(&self) -> bool {
        let mut ended = self.ended.iter();
        let is_absent = matches!(self.presumed, Presence::Absent);
        let is_proof = !self.has_resource_claims && !self.name_may_return();
        is_absent && is_proof && !self.rests_on_nodes && ended.all(|end| end.settled)
    }

    /// The node of its pod, if one lives.
    pub fn node(&self) -> Option<Box<str>> {
        match &self.presumed {
            Presence::Present(Some(state)) => state.node.clone(),
            _ => None,
        }
    }
}

impl Evidence {
    /// Nothing is known but these `nodes`.
    pub fn new(policy: Policy, limits: Limits, nodes: Nodes) -> Self {
        Self {
            pods: PodIndex::default(),
            nodes,
            first_seen: Sightings::default(),
            breaker: Breaker::default(),
            policy,
            limits,
            slices: HashMap::new(),
            shared_slices: HashSet::new(),
            slices_by_name: HashMap::new(),
            overlaps: Overlaps::default(),
            networks: KnownNetworks::default(),
            pools: KnownPools::default(),
            definitions: Definitions::new(),
            resource_claims: Err("no sweep has listed ResourceClaims".into()),
            sweeps: 0,
            trusted_since: Moment::EPOCH,
        }
    }

    /// The facts about a podref at this moment: from the index, and from `own`, incarnations that
    /// the index may have forgotten. It has `here` rows in the pool at hand. `is_heard` says whether the watch of pods
    /// is fresh.
    pub fn of(&self, podref: &PodRef, own: &[Arc<Ended>], here: RowCount, is_heard: bool) -> Known {
        let pods = &self.pods;
        // As long as a list is read, it is not known what was missed before it.
        let fresh = is_heard && !pods.listing;
        let mut ended = pods.ended(podref);
        for own in own.iter().filter(|own| own.at >= self.trusted_since) {
            if !ended.iter().any(|other| other.last.uid == own.last.uid) {
                ended.push(Arc::clone(own));
            }
        }
        ended.sort_by_key(|end| end.at);
        let living = pods.live(podref.as_str()).map(Live::living);
        // One that is there in a terminal phase has DELs to wait for as well, of rows in other pools too.
        let completed = living.as_ref().and_then(|it| it.completed.as_ref());
        let expected = ended.iter().chain(completed).map(|end| end.expected_rows());
        let mut counted = pods.count(podref.as_str());
        counted.raise(here);
        Known {
            rows: expected.max().unwrap_or(0).max(counted.rows()),
            interfaces: counted.interfaces(),
            presumed: pods.presumed(podref.as_str()),
            living,
            has_resource_claims: false,
            rests_on_nodes: false,
            siblings: None,
            longest_grace: pods.longest_grace(),
            ended,
            fresh,
        }
    }

    /// The presence of the owner of a row, as far as watches and the last sweep tell; no proof of anything.
    pub fn presumption(&self, row: &Row, known: &Known) -> Presence {
        let pod = known.presumed.clone();
        match row.content() {
            Ok(content) => of_owner(content, &self.resource_claims, pod),
            Err(_) => pod,
        }
    }

    /// The API server's data went back in time: all that was seen is forgotten, as by a restart. It is more than a gap in
    /// the watch. After a gap, an end that proves that the sandbox stopped stays valid; after a restoration of etcd that pod
    /// may exist again.
    pub fn distrust(&mut self, now: Moment) {
        self.trusted_since = now;
        self.pods.distrust(now);
        self.nodes.distrust(now);
        self.first_seen = Sightings::default();
        self.slices.clear();
        self.resource_claims =
            Err("no sweep has listed ResourceClaims since the data went back".into());
        self.overlaps = Overlaps::default();
    }

    /// The networks that the pools of the last sweep and the definitions name.
    pub fn known_networks(&self) -> KnownNetworks {
        let mut known = self.networks.clone();
        known.add_definitions(&self.definitions);
        known
    }

    /// The networks that a pool may be of: see [`networks_of`].
    pub fn networks_of(&self, pool: &PoolKey, range: Option<Range>) -> Networks {
        let slice = self.slices_by_name.get(pool);
        networks_of(&pool.name, range, slice.map(AsRef::as_ref))
    }

    /// The facts about something in a pool of these networks that was seen like this before.
    pub fn facts<'f>(
        &'f self,
        (pool, range, networks): (&PoolKey, Option<Range>, &'f Networks),
        sighting: Option<Sighting>,
        known: &'f Known,
        others: &'f [Other],
        now: Moment,
    ) -> Facts<'f> {
        Facts {
            ended: &known.ended,
            living: known.living.clone(),
            rows: known.rows,
            interfaces: known.interfaces,
            sighting,
            siblings: known.siblings.as_deref(),
            others,
            scope: Scope {
                networks,
                range,
                definitions: &self.definitions,
            },
            nodes: &self.nodes,
            slice: self.slices.get(pool).map(AsRef::as_ref),
            longest_grace: known.longest_grace,
            fresh: known.fresh,
            policy: &self.policy,
            now,
        }
    }

    /// The nodes that must be read anew before these podrefs are judged. The watch of nodes may be dead, so nodes are read
    /// that it shows as at work, gone or fenced. `pool` is where the rows are.
    pub fn nodes_to_read<'k>(
        &self,
        pool: Option<&PoolKey>,
        known: impl Iterator<Item = (&'k PodRef, &'k Known)>,
        others: &Others,
        now: Moment,
    ) -> BTreeSet<Box<str>> {
        let slice = pool.and_then(|pool| self.slices.get(pool));
        let slice = slice.map(AsRef::as_ref);
        let nodes = &self.nodes;
        let mut names = BTreeSet::new();
        let mut waits = BTreeSet::new();
        // A pod on a node that is not silent may have got the address from a pod that ended on another node.
        names.extend(others.nodes());
        for (podref, known) in known.filter(|(_, known)| !known.needs_no_node()) {
            // Where the pod's own end is proof, no node is needed.
            let ends = known.ended.iter();
            let ends = ends.filter(|end| known.rests_on_nodes || !end.settled || end.last.mirror);
            names.extend(ends.filter_map(|end| end.last.node.clone()));
            if known.ended.is_empty() {
                names.extend(nodes.ending(podref.name()).into_iter().map(Into::into));
            }
            names.extend(known.node());
            let wait = self.policy.wait(None, known.longest_grace, known.rows);
            waits.extend([wait, wait.max(self.policy.leftover_grace)]);
            if known.has_resource_claims {
                names.extend(nodes.names().map(Into::into));
            }
        }
        names.retain(|name| {
            let standing = nodes.standing(name, now, now);
            !matches!(standing, Standing::Listening | Standing::Silent)
        });
        for wait in waits {
            let suspects = nodes.unconfirmed(slice, wait, now);
            names.extend(suspects.map(Into::into));
        }
        names
    }

    /// Notes that a reservation without a row was observed at `now`. Any write to it makes it
    /// another one.
    pub fn see_reservation(&mut self, reservation: &Reservation, now: Moment) -> Sighting {
        let content = (&reservation.podref, &reservation.resource_version);
        let seen = self.first_seen.see_object(&reservation.uid, &content, now);
        self.listed(seen)
    }

    /// The same by a sweep, which may have read it before it was claimed: one that is remembered stays so, and whether it
    /// changed is asked when it is judged.
    pub fn see_reservation_again(&mut self, reservation: &Reservation, now: Moment) {
        if !self.first_seen.keep_object(&reservation.uid, now) {
            let _ = self.see_reservation(reservation, now);
        }
    }

    /// The same, but only for a reservation that is already remembered: sweeps forget one that has a row by now.
    pub fn recall_reservation(
        &mut self,
        reservation: &Reservation,
        now: Moment,
    ) -> Option<Sighting> {
        let content = (&reservation.podref, &reservation.resource_version);
        let seen = &mut self.first_seen;
        let seen = seen.recall_object(&reservation.uid, &content, now)?;
        Some(self.listed(seen))
    }

    /// Takes in the state of a node, `None` where it does not exist: as the watch tells it, or where `is_read` a read. If the
    /// machine was booted anew, of each of its pods it has to be seen anew whether the sandbox is up.
    pub fn note_node(&mut self, name: &str, state: Option<NodeState>, is_read: bool, now: Moment) {
        let booted = self.nodes.booted(name);
        match state {
            state if is_read => self.nodes.note_read(name, state, now),
            Some(state) => self.nodes.apply(name, state, now),
            None => self.nodes.remove(name, now),
        }
        if self.nodes.booted(name) != booted {
            self.pods.note_boot(name);
        }
    }

    /// Takes in a state of a pod that exists: see [`PodIndex::apply`].
    pub fn apply_pod(&mut self, state: PodState, now: Moment) -> Option<Arc<Ended>> {
        let before = self.pods.live(state.podref.as_str()).map(|it| &it.state);
        if let Some(last) = before.filter(|it| it.uid != state.uid).cloned() {
            self.note_end(&last, now);
        }
        self.pods.apply(state, now)
    }

    /// A list of pods came to its end: see [`PodIndex::end_list`].
    pub fn end_pod_list(&mut self, now: Moment) -> Vec<Arc<Ended>> {
        for last in self.pods.unseen().cloned().collect::<Vec<_>>() {
            self.note_end(&last, now);
        }
        self.pods.end_list(now)
    }

    /// Takes in the last state of a deleted pod: see [`PodIndex::delete`].
    pub fn delete_pod(&mut self, last: PodState, now: Moment) -> Option<Arc<Ended>> {
        self.note_end(&last, now);
        self.pods.delete(last, now)
    }

    /// Notes whether the sandbox of a pod that ends now, by its last state, may outlast W.
    fn note_end(&mut self, last: &PodState, now: Moment) {
        let stuck = self.is_stuck(last, now);
        if stuck {
            self.pods.note_stuck(&last.podref);
        }
        if let Some(node) = last.node.as_ref().filter(|_| last.has_resource_claims) {
            let live = self.pods.live(last.podref.as_str());
            let live = live.filter(|live| live.state.uid == last.uid && last.deleting);
            let restarts = live.map_or(last.restarts, |live| live.state.restarts);
            let last = PodState {
                restarts,
                ..last.clone()
            };
            if last.may_outlast(stuck) {
                self.nodes.note_outlasting(node, now);
            }
        }
    }

    /// Whether its kubelet was at work for the time that it needs since the pod was being deleted, and did not end it: W
    /// without `--grace`, which is for what comes late here. People do not wait for W before they use force.
    fn is_stuck(&self, last: &PodState, now: Moment) -> bool {
        let live = self.pods.live(last.podref.as_str());
        let live = live.filter(|live| live.state.uid == last.uid && !last.kubelet_ended_it());
        let (Some(live), Some(node)) = (live, &last.node) else {
            return false;
        };
        let state = &live.state;
        let rows = state.status.addresses().len();
        let policy = &self.policy;
        let wait = policy.wait(state.termination_grace, self.pods.longest_grace(), rows);
        let worked = self.nodes.last_at_work(node, now);
        let deleting_for = worked.and_then(|worked| live.deleting_for(worked));
        let needs = wait.saturating_sub(policy.grace);
        deleting_for.is_some_and(|time| time >= needs)
    }

    /// A pod that no watch showed may have lived until the last list.
    fn listed(&self, seen: Sighting) -> Sighting {
        Sighting {
            while_absent: Some(seen.first.max(self.pods.listed_at)),
            ..seen
        }
    }

    /// Whether the breaker allows the free of a row that is stale since `stale_since`, in a pool acknowledged at
    /// `acknowledged`.
    ///
    /// # Errors
    /// Why not.
    pub fn check_breaker(
        &self,
        stale_since: Moment,
        acknowledged: Option<Timestamp>,
        clearance: &Clearance,
        (now, wall): (Moment, Timestamp),
    ) -> Result<(), Open> {
        if clearance.watched {
            return Ok(());
        }
        let listed = self.pods.listed_at;
        self.breaker
            .check(&self.limits, stale_since, listed, acknowledged, (now, wall))
    }
}
