//! The verdict on each row of a snapshot, and on each reservation without one: the facts are put together here, and core
//! judges.
//!
//! There is no history. No end of a pod was seen, each ready node has yet to show that its kubelet is at
//! work, and each wait begins now. A collector that has just begun would say the same.

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use ipgc_core::{
    address::{Range, readings},
    clearance::{Facts, Other, Wait},
    definitions::{Networks, Scope, networks_of},
    evidence::{DEFAULT_POD_GRACE, Policy},
    judge::{
        Cause, Held, Release, Stale, Unknown, Verdict, judge, judge_ambiguous, judge_orphan,
        reports_more,
    },
    names::{KnownNetworks, Reading, split},
    node::Nodes,
    pool::{self, ObservedPool, Row, RowContent},
    proof::{KnownResourceClaims, Presence, Proof},
    reservation::Reservation,
    routes::slice_pools,
};
use jiff::Timestamp;

use super::{
    definitions::{Definitions, Leading},
    index::{Index, Place, living},
};
use crate::snapshot::{Kind, NOW, Snapshot, Source, Unreadable};

/// A snapshot that is ready to be judged.
pub struct Assessor<'s> {
    pub snapshot: &'s Snapshot,
    pub index: Index,
    /// The definitions, unless none were read.
    pub definitions: Option<Definitions<'s>>,
    /// The ResourceClaims. An audit only names them.
    pub claims: KnownResourceClaims,
    pub policy: &'s Policy,
    pub(super) nodes: Nodes,
    pub(super) longest_grace: Duration,
    /// The present, for ages. For files: the latest time in their pods.
    pub present: Option<Timestamp>,
    /// The namespaces with a pool that cannot be read, or whose range cannot.
    pub blind: BTreeSet<String>,
}

/// A row, or a reservation without one, and the verdict on it.
pub struct Judged<'a> {
    /// The pool that it is in, or would be.
    pub place: Option<&'a Place>,
    pub item: Item<'a>,
    /// As a row, where it can be read as one.
    pub content: Option<Cow<'a, RowContent>>,
    pub address: Option<IpAddr>,
    pub verdict: Verdict,
}

/// The object of a verdict.
pub enum Item<'a> {
    Row(&'a ObservedPool, &'a Row),
    /// With what its name tells.
    Reservation(&'a Reservation, Reading<'a>),
}

impl Judged<'_> {
    /// The node whose slice the row is in. The name of a reservation tells no node.
    pub fn slice(&self) -> Option<&str> {
        let place = self.place.filter(|_| matches!(self.item, Item::Row(..)))?;
        place.slice.as_deref()
    }

    /// Its owner, as it stands there.
    pub fn owner(&self) -> &str {
        match self.item {
            Item::Row(_, row) => row.podref_text().unwrap_or_default(),
            Item::Reservation(reserved, _) => reserved.owner(),
        }
    }

    pub fn namespace(&self) -> &str {
        match self.item {
            Item::Row(pool, _) => &pool.key().namespace,
            Item::Reservation(reserved, _) => &reserved.namespace,
        }
    }

    pub fn stale(&self) -> Option<&Stale> {
        match &self.verdict {
            Verdict::Stale(stale) => Some(stale),
            _ => None,
        }
    }

    pub fn grade(&self) -> Option<String> {
        Some(self.stale()?.clearance.grade.as_str().to_owned())
    }

    /// Seconds until a collector that starts now would free it.
    pub fn wait_seconds(&self) -> Option<u64> {
        let moment = self.stale()?.clearance.wait.until?;
        Some(moment.since(NOW).as_secs())
    }

    /// The nodes that hold it.
    pub fn holding(&self) -> &[Box<str>] {
        let nodes = self.stale().map(|stale| &*stale.clearance.wait.nodes);
        nodes.unwrap_or_default()
    }

    /// Whether it is a reservation that names no pod and has no unknown field. A person may have it deleted.
    pub fn names_no_pod(&self) -> bool {
        let unreadable = Verdict::Unknown(Unknown::Unreadable(pool::Unreadable::PodRef));
        matches!(self.item, Item::Reservation(..)) && self.verdict == unreadable
    }
}

impl<'s> Assessor<'s> {
    /// Makes a snapshot ready.
    pub fn new(snapshot: &'s Snapshot, policy: &'s Policy) -> Self {
        let graces = snapshot.pods.iter().filter_map(|pod| pod.termination_grace);
        let index = Index::of(snapshot);
        let unreadable = snapshot.unreadable.iter();
        let unreadable = unreadable.filter(|it| it.kind == Kind::IpPool);
        let pools = index.pools.iter().map(|place| &place.pool);
        let nameless = pools.filter(|pool| pool.range.is_none());
        let blind = unreadable.map(Unreadable::namespace);
        let blind = blind.chain(nameless.map(|pool| &*pool.key().namespace));
        Self {
            blind: blind.map(str::to_owned).collect(),
            index,
            definitions: Definitions::of(snapshot),
            nodes: snapshot.present_nodes(),
            longest_grace: graces.max().unwrap_or_default().max(DEFAULT_POD_GRACE),
            present: match snapshot.source {
                Source::Cluster => snapshot.made.parse().ok(),
                Source::Files => snapshot.pods.iter().filter_map(|pod| pod.since).max(),
            },
            claims: Err("an audit does not judge by ResourceClaims".into()),
            snapshot,
            policy,
        }
    }

    /// The objects that cannot be read, and the pools whose ranges cannot, by kind and name.
    pub fn unreadable(&self) -> impl Iterator<Item = (Kind, String)> {
        let all = self.snapshot.unreadable.iter();
        let all = all.map(|it| (it.kind, it.name.clone()));
        let pools = self.index.pools.iter().map(|place| &place.pool);
        let pools = pools.filter(|pool| pool.range.is_none());
        all.chain(pools.map(|pool| (Kind::IpPool, pool.key().to_string())))
    }

    /// Shows all rows, and all reservations without a row.
    pub fn each(&self, mut show: impl FnMut(&Judged<'_>)) {
        let of_no_pool =
            self.each_pool(|_, rows, lone| rows.iter().chain(lone).for_each(&mut show));
        of_no_pool.iter().for_each(show);
    }

    /// Shows each pool with its rows, and with the reservations without a row that would be in it. Returns the reservations
    /// of no pool.
    pub fn each_pool(
        &self,
        mut show: impl FnMut(&Place, &[Judged<'_>], &[Judged<'_>]),
    ) -> Vec<Judged<'_>> {
        let mut orphans = HashMap::<_, Vec<_>>::new();
        for it in self.orphans() {
            let pool = it.place.map(|place| place.pool.key());
            orphans.entry(pool).or_default().push(it);
        }
        for (pool, place) in self.snapshot.observed().zip(&self.index.pools) {
            let rows = pool.rows().iter();
            let rows: Vec<_> = rows.map(|row| self.row(&pool, place, row)).collect();
            let lone = orphans.remove(&Some(place.pool.key())).unwrap_or_default();
            show(place, &rows, &lone);
        }
        orphans.remove(&None).unwrap_or_default()
    }

    /// A row of `pool`, which is in this place.
    fn row<'a>(&'a self, pool: &'a ObservedPool, place: &'a Place, row: &'a Row) -> Judged<'a> {
        let content = row.content().ok();
        let presence = match content {
            Some(content) => self.snapshot.presence(&content.podref),
            None => Presence::Unknown("not asked".into()),
        };
        let of_pool = (Some(place), place.pool.range, &place.networks);
        let others = content.map(|row| self.index.others.of(row));
        let facts = self.facts(content, of_pool, &presence, others.as_deref());
        let verdict = judge(pool, row, &presence, &facts);
        Judged {
            place: Some(place),
            item: Item::Row(pool, row),
            content: content.map(Cow::Borrowed),
            address: pool.address_of(row),
            verdict: self.as_far_as_known(verdict),
        }
    }

    /// For how many seconds the address of this reservation, or of this stale row with one, has been taken.
    pub fn reserved_seconds(&self, it: &Judged<'_>) -> Option<u64> {
        let age = self.present?.duration_since(self.reserved_since(it)?);
        u64::try_from(age.as_secs()).ok()
    }

    /// When this reservation, or that of this stale row, was created: since then the address is taken.
    pub fn reserved_since(&self, it: &Judged<'_>) -> Option<Timestamp> {
        if let Item::Reservation(reserved, _) = it.item {
            return reserved.created;
        }
        let (place, address, _) = (it.place?, it.address?, it.stale()?);
        self.snapshot
            .reservations_of(&place.pool.key().namespace, &place.networks, address)
            .find(|(_, reserved)| reserved.owner() == it.owner())?
            .1
            .created
    }

    pub fn orphans(&self) -> Vec<Judged<'_>> {
        let mut known = KnownNetworks::default();
        known.add_definitions(&self.snapshot.definitions);
        for place in &self.index.pools {
            known.add_pool(&place.networks, place.pool.range);
        }
        let mut orphans = Vec::new();
        for (at, reserved) in self.snapshot.reservations.iter().enumerate() {
            let reading = split(&reserved.name, &known);
            let own = reading.one().is_some_and(|(network, address)| {
                // The pool of a former slice is known for none, and may have the row of the same pod.
                self.index.has_own(reserved, network, address)
            });
            if own || self.index.has_row[at] {
                continue;
            }
            let place = reading.one().and_then(|(network, address)| {
                let mut places = self.index.pools.iter();
                places.find(|place| {
                    place.pool.key().namespace == reserved.namespace
                        && place.networks.contains(&network.map(Into::into))
                        && place.pool.range.is_some_and(|it| it.contains(address))
                })
            });
            let mut it = self.orphan(reserved, reading, place);
            let of = &reserved.namespace;
            let is_exempt = || readings(&reserved.name).any(|(_, at)| self.index.exempts(of, at));
            if it.stale().is_some() && !reserved.is_claimed() && is_exempt() {
                it.verdict = Verdict::Unknown(Unknown::Exempt);
            }
            orphans.push(it);
        }
        orphans
    }

    fn orphan<'a>(
        &'a self,
        reserved: &'a Reservation,
        reading: Reading<'a>,
        place: Option<&'a Place>,
    ) -> Judged<'a> {
        let presence = match reserved.pod() {
            Ok(podref) => self.snapshot.presence(&podref),
            Err(_) => Presence::Unknown("it names none".into()),
        };
        let (content, verdict) = match reading.one() {
            None => (None, judge_ambiguous(reserved, &presence)),
            Some((network, address)) => {
                let content = reserved.as_row(address).ok();
                let networks = [network.map(Into::into)].into();
                // The name of a reservation tells no node.
                let of_pool = (None, None, &networks);
                let others = content.as_ref().map(|row| self.index.others.of(row));
                let facts = self.facts(content.as_ref(), of_pool, &presence, others.as_deref());
                let verdict = judge_orphan(reserved, address, &presence, &self.claims, &facts);
                let mut verdict = self.as_far_as_known(verdict);
                let rows = self.index.holders(address);
                let rows = rows.filter(|(_, owner)| *owner == reserved.owner()).count();
                if let (Verdict::Stale(stale), Presence::Present(Some(pod))) = (&verdict, &presence)
                    && stale.cause == Cause::Leftover
                    && reports_more(pod, address, rows)
                {
                    verdict = Verdict::Held(Held::Reported);
                }
                (content, verdict)
            }
        };
        Judged {
            place,
            item: Item::Reservation(reserved, reading),
            content: content.map(Cow::Owned),
            address: reading.one().map(|(_, address)| address),
            verdict,
        }
    }

    /// Judges a row by the word of a person that nobody answers on its address, and by a proof. The snapshot has to be read
    /// after the row was observed. An error says why the row stays.
    pub fn force<'p>(&self, proof: &Proof<'p>, row: &'p Row) -> Result<Release<'p>, Verdict> {
        let observed = proof.observed();
        let content = row.content().ok();
        let presence = match content {
            Some(content) => proof.owner(content),
            None => Presence::Unknown("not asked".into()),
        };
        let mut places = self.index.pools.iter();
        let place = places.find(|place| place.pool.key() == observed.key());
        let slices = slice_pools(&self.snapshot.slices);
        let slice = slices.get(observed.key()).map(AsRef::as_ref);
        let networks = networks_of(&observed.key().name, observed.range, slice);
        let of_pool = (place, observed.range, &networks);
        let others = content.map(|row| self.index.others.of(row));
        let facts = self.facts(content, of_pool, &presence, others.as_deref());
        proof.force(row, &facts)
    }

    /// The verdict, as far as the snapshot has what it rests on.
    fn as_far_as_known(&self, mut verdict: Verdict) -> Verdict {
        // The pod may be another one than that of the row: one that came or ended between the reads.
        if let (Verdict::Stale(_), Some(reason)) = (&verdict, &self.snapshot.no_proof) {
            verdict = Verdict::Unknown(Unknown::NoProof(reason.clone()));
        }
        // A node that is not known may be silent, and may run a pod that is gone.
        if let Verdict::Stale(stale) = &mut verdict
            && !self.snapshot.knows_nodes()
        {
            stale.clearance.wait = Wait::on(Arc::default());
        }
        verdict
    }

    fn facts<'f>(
        &'f self,
        row: Option<&RowContent>,
        (place, range, networks): (Option<&'f Place>, Option<Range>, &'f Networks),
        presence: &Presence,
        others: Option<&'f [Other]>,
    ) -> Facts<'f> {
        let podref = row.map(|row| &row.podref);
        let living = match presence {
            Presence::Present(Some(pod)) => Some(living(pod)),
            _ => None,
        };
        let rows = podref.map(|podref| self.index.rows_of(podref.as_str()));
        let rows = rows.unwrap_or_default();
        let completed = living.as_ref().and_then(|it| it.completed.as_ref());
        let expected = completed.map_or(1, |end| end.expected_rows());
        Facts {
            ended: &[],
            rows: rows.rows().max(expected),
            living,
            interfaces: rows.interfaces().max(1),
            sighting: None,
            siblings: podref.and_then(|it| Some(self.index.siblings.get(it)?.as_slice())),
            others: others.unwrap_or_default(),
            scope: Scope {
                networks,
                range,
                definitions: &self.snapshot.definitions,
            },
            nodes: &self.nodes,
            slice: place.and_then(|place| place.slice.as_deref()),
            longest_grace: self.longest_grace,
            // The list of pods was read after the rows, whole.
            fresh: true,
            policy: self.policy,
            now: NOW,
        }
    }

    /// The definitions that lead to a pool, if there are some.
    pub fn leading(&self, place: &Place) -> Option<&Leading<'s>> {
        self.definitions.as_ref()?.to_pool(&place.pool.key().name)
    }

    /// The node of a pod that is there.
    pub fn node_of(&self, podref: &str) -> Option<&str> {
        self.snapshot.pod(podref)?.node.as_deref()
    }
}
