//! What is wrong with the addresses of a cluster: pure judgement of a [`Snapshot`].
//!
//! | module | what lives there |
//! |---|---|
//! | [`report`] | what is found, as plain data with a schema |
//! | [`assess`] | the verdict on one row, by core's `judge` |
//! | `index` | one pass over all rows, before any is judged |
//! | `definitions` | which definition leads to which pool |
//! | `pods`, `pools`, `reservations` | findings about each |
//! | `unreported` | rows that are held and that no pod at work reports |
//! | `shared` | texts that many findings have |
//! | [`explain`] | all that is known of one address, pod, pool or node |
//! | [`filter`], [`table`], [`words`] | what of it is shown, and how |
//! | [`changes`], [`look`], [`line`](mod@line) | what changes from one snapshot to the next, and how it is told |
//!
//! No clock, no client, no file; nothing is written anywhere. What it says is no proof for a free: whoever
//! frees judges again.

pub mod assess;
pub mod changes;
mod definitions;
pub mod explain;
pub mod filter;
mod index;
pub mod line;
pub mod look;
pub(crate) mod pods;
mod pools;
pub mod report;
mod reservations;
mod shared;
pub mod table;
mod unreported;
pub mod words;

use std::{
    cmp::{Ordering, Reverse},
    collections::BTreeMap,
    net::IpAddr,
};

use ipgc_core::{
    breaker::Limits,
    evidence::Policy,
    judge::{Unknown, Verdict, Word},
    node::NO_SANDBOXES_ANNOTATION,
    pool::{ObservedPool, PoolKey, Row},
};

pub(crate) use self::pools::blind_namespaces;
use self::{
    assess::Assessor,
    definitions::Definitions,
    filter::Filter,
    index::{Holder, Place, Seen},
    report::{Finding, PoolUsage, Problem, REPORT_VERSION, Report, Source, Split, Totals},
    shared::{Local, Texts},
};
use crate::{
    parallel,
    snapshot::{Kind, Snapshot},
};

/// So many nodes are told of a finding: in an outage a thousand may hold each of many thousand rows.
pub const NODES: usize = 16;

/// Judges all of a snapshot, and reports what passes `filter`. The report is of the moment `made`, RFC 3339.
#[must_use]
pub fn audit(
    snapshot: &Snapshot,
    policy: &Policy,
    filter: &Filter,
    source: Source,
    made: String,
) -> Report {
    audit_each(
        snapshot,
        policy,
        filter,
        source,
        made,
        NODES,
        None::<&fn(&mut (), &_, &_, &_, &_)>,
    )
    .0
}

/// The same, and `each_row` is told of a pool, its place, a row of it and the verdict on that, for all rows of all pools;
/// what it makes of those of one pool is returned, in the order of the pools. So many nodes as `named` are told of a
/// finding.
fn audit_each<S: Default + Send>(
    snapshot: &Snapshot,
    policy: &Policy,
    filter: &Filter,
    source: Source,
    made: String,
    named: usize,
    each_row: Option<&(impl Fn(&mut S, &ObservedPool, &Place, &Row, &Verdict) + Sync)>,
) -> (Report, Vec<S>) {
    let mut assessor = Assessor::new(snapshot, policy);
    assessor.sayings.named = match filter.node {
        Some(_) => usize::MAX,
        None => named,
    };
    if source == Source::Cluster {
        assessor.present = made.parse().ok();
    }
    let definitions = Definitions::of(snapshot);
    let audit = Audit {
        assessor: &assessor,
        filter,
        named,
        definitions: definitions.as_ref(),
        source,
        all: each_row.is_some(),
        texts: Texts::default(),
    };
    let mut findings = audit.findings();
    let (mut pools, mut splits, mut counts, mut seen) =
        (Vec::new(), BTreeMap::new(), Counts::default(), Vec::new());
    let judge = |place: &Place| {
        let mut seen = S::default();
        let judged = audit.pool(place, |pool, row, verdict| {
            if let Some(each_row) = each_row {
                each_row(&mut seen, pool, place, row, verdict);
            }
        });
        (place.key.clone(), judged, seen)
    };
    parallel::map(&assessor.index.pools, judge, |(key, judged, of_pool)| {
        findings.all.extend(judged.findings);
        splits.insert(key, judged.usage.split);
        pools.push(judged.usage);
        counts.add(&judged.counts);
        seen.push(of_pool);
    });
    if let Some(definitions) = &definitions {
        findings.add(pods::findings(&assessor, definitions, source));
    }
    let blind = blind_namespaces(&assessor);
    findings.add(reservations::orphaned(&assessor, &blind));
    let rows = |key: &PoolKey| splits.get(key).map(Split::rows);
    findings.add(pools::gone_slices(&assessor, rows, source));
    audit.about_all(&mut findings);
    let mut totals = Totals {
        pools: snapshot.pools.len(),
        reservations: snapshot.reservations.len(),
        pods: snapshot.pods.len(),
        nodes: snapshot.nodes.len(),
        ..Totals::default()
    };
    for split in splits.values() {
        totals.split.add(*split);
    }
    totals.rows = totals.split.rows();
    let notes = audit.notes(&counts, totals.rows, blind.len());
    let mut findings = findings.all;
    findings.sort_unstable_by(order);
    pools.retain(|pool| filter.passes_pool(pool));
    pools.sort_by_key(|pool| {
        let size = pool.size.unwrap_or(u64::MAX).max(1);
        Reverse(u128::from(u64::MAX) * pool.split.rows() as u128 / u128::from(size))
    });
    let report = Report {
        version: REPORT_VERSION,
        made,
        source,
        totals,
        notes,
        pools,
        findings,
    };
    (report, seen)
}

/// Worst first; then by place, addresses as addresses.
fn order(a: &Finding, b: &Finding) -> Ordering {
    let first = a.problem.cmp(&b.problem);
    let then = first.then_with(|| (&a.namespace, &a.pool).cmp(&(&b.namespace, &b.pool)));
    // Last, since it has to be read first.
    let address = |it: &Finding| it.address.as_ref()?.parse::<IpAddr>().ok();
    let then = then.then_with(|| address(a).cmp(&address(b)));
    let then = then.then_with(|| a.pods.cmp(&b.pods));
    // What has no address, so that nothing depends on the order in which it was found.
    let key = |finding: &Finding| Some(finding.row.as_ref()?.key.clone());
    let then = then.then_with(|| key(a).cmp(&key(b)));
    then.then_with(|| a.detail.cmp(&b.detail))
}

/// An audit while it lasts.
struct Audit<'a> {
    assessor: &'a Assessor<'a>,
    filter: &'a Filter,
    named: usize,
    definitions: Option<&'a Definitions<'a>>,
    source: Source,
    /// Whether rows are judged as well that a glance at their pods decides.
    all: bool,
    texts: Texts,
}

/// What is of interest.
struct Findings<'a> {
    audit: &'a Audit<'a>,
    texts: Local<'a>,
    all: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, findings: impl IntoIterator<Item = Finding>) {
        let Audit {
            assessor,
            filter,
            named,
            ..
        } = self.audit;
        for mut finding in findings {
            if filter.passes(&finding, assessor.snapshot) {
                finding.nodes.truncate(*named);
                self.texts.share(&mut finding);
                self.all.push(finding);
            }
        }
    }
}

/// What one pool says.
struct Judged {
    findings: Vec<Finding>,
    usage: PoolUsage,
    counts: Counts,
}

/// Rows that notes tell of.
#[derive(Default)]
struct Counts {
    exempt: usize,
    unwatched: usize,
    unproven: usize,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.exempt += other.exempt;
        self.unwatched += other.unwatched;
        self.unproven += other.unproven;
    }

    fn count(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Stale(stale) => self.unwatched += usize::from(!stale.clearance.watched),
            Verdict::Unknown(Unknown::Exempt | Unknown::KeptOwner) => self.exempt += 1,
            Verdict::Unknown(Unknown::NoProof(_)) => self.unproven += 1,
            _ => {}
        }
    }
}

impl Audit<'_> {
    fn findings(&self) -> Findings<'_> {
        Findings {
            audit: self,
            texts: self.texts.local(),
            all: Vec::new(),
        }
    }

    /// A pool with the rows that are judged. In a healthy cluster a glance at their pods decides nearly all of them,
    /// and nothing is to be told of those.
    fn pool_at(&self, place: &Place) -> Option<ObservedPool> {
        let mut seen = place.seen.iter();
        let may_pass = !self.all && self.assessor.policy.keep_podrefs.is_empty();
        let need_reservations = self
            .definitions
            .is_some_and(|all| reservations::are_wanted(self.assessor, all, place));
        self.assessor.snapshot.pool(place.at, |_| {
            let is_plain = |it: &Seen| it.is_reported && (it.is_reserved || !need_reservations);
            !(may_pass && seen.next().is_some_and(is_plain))
        })
    }

    fn pool(
        &self,
        place: &Place,
        mut each_row: impl FnMut(&ObservedPool, &Row, &Verdict),
    ) -> Judged {
        let (mut findings, mut counts) = (self.findings(), Counts::default());
        let pool = self.pool_at(place);
        let passed_over = |pool: &ObservedPool| pool.total_rows() - pool.rows().len();
        let mut split = Split {
            live: pool.as_ref().map_or(0, passed_over),
            ..Split::default()
        };
        for (pool, row) in pool
            .iter()
            .flat_map(|pool| pool.rows().iter().map(move |row| (pool, row)))
        {
            let verdict = self.assessor.verdict(pool, place, row);
            *split.of(&verdict) += 1;
            counts.count(&verdict);
            each_row(pool, row, &verdict);
            findings.add(self.assessor.finding(pool, place, row, &verdict));
            if let Some(definitions) = self.definitions {
                let missing =
                    reservations::missing(self.assessor, definitions, pool, place, row, &verdict);
                findings.add(missing);
            }
            let range = place.range.zip(row.content().ok());
            if range.is_some_and(|(range, content)| !range.contains(content.address)) {
                let detail = "the address is not in the range of its pool";
                let mut finding = Finding::new(Problem::OutOfRange, detail);
                self.assessor.describe(&mut finding, pool, place, row);
                findings.add([finding]);
            }
        }
        let led = self
            .definitions
            .map(|all| (all, all.to_pool(&place.key.name)));
        let usage = pools::usage(place, led.and_then(|(_, led)| led), split);
        findings.add(pools::slice_of_several_nodes(self.assessor, place));
        match led {
            Some((definitions, Some(led))) => {
                findings.add(pools::nearly_full(place, &usage, Some(led)));
                findings.add(pools::full_parts(self.assessor, place, led));
                findings.add(pools::statics(definitions, place, led));
            }
            Some((definitions, None)) => {
                // Of what nothing leads to nothing is given.
                if !definitions.may_lead(place, false).is_empty() {
                    findings.add(pools::nearly_full(place, &usage, None));
                }
                let finding = pools::without_definition(place, split, definitions, self.source);
                findings.add([finding]);
            }
            None => findings.add(pools::nearly_full(place, &usage, None)),
        }
        Judged {
            findings: findings.all,
            usage,
            counts,
        }
    }

    /// What is about no row and no pool that can be read.
    fn about_all(&self, findings: &mut Findings<'_>) {
        let snapshot = self.assessor.snapshot;
        for unreadable in &snapshot.unreadable {
            let (_, kind) = unreadable.kind.type_of();
            let detail = format!("{kind} {}: {}", unreadable.name, unreadable.reason);
            let mut finding = Finding::new(Problem::Unreadable, detail);
            if let Some((namespace, name)) = unreadable.name.split_once('/') {
                finding.namespace = Some(namespace.into());
                finding.pool = (unreadable.kind == Kind::IpPool).then(|| name.into());
            }
            findings.add([finding]);
        }
        let is_pool = |it: &crate::snapshot::Unreadable| it.kind == Kind::IpPool;
        if snapshot.pools.is_empty() && !snapshot.unreadable.iter().any(is_pool) {
            let place = match &snapshot.pools_of {
                Some(namespace) => format!("in namespace {namespace}"),
                None => "at all".to_owned(),
            };
            let detail = format!(
                "there are no IPPools {place}: whereabouts keeps them elsewhere, or has given no address yet"
            );
            // Whatever is asked for: without pools nothing was looked at.
            findings.all.push(Finding::new(Problem::NoPools, detail));
        }
    }

    fn notes(&self, counts: &Counts, rows: usize, blind: usize) -> Vec<String> {
        let snapshot = self.assessor.snapshot;
        let mut notes = snapshot.notes.clone();
        if let Some(reason) = &snapshot.no_proof {
            notes.push(format!(
                "{reason}, so the absence of a pod proves nothing: rows without a pod are unknown"
            ));
        }
        if let Some(namespaces) = &snapshot.confined
            && snapshot.no_proof.is_none()
            && counts.unproven > 0
        {
            let namespaces: Vec<_> = namespaces.iter().collect();
            notes.push(format!(
                "all pods are of namespace {}: rows of others are unknown; dump pods with -A",
                words::names(&namespaces)
            ));
        }
        if self.definitions.is_none() {
            notes.push(
                "without network-attachment-definitions, duplicates, addresses in use without a row, missing \
                 reservations and unused pools are not looked for"
                    .to_owned(),
            );
        }
        let hidden = self.definitions.map(Definitions::blind).unwrap_or_default();
        if !hidden.is_empty() {
            notes.push(format!(
                "of what these definitions give, duplicates, addresses in use without a row and missing reservations are \
                 not looked for, since they do not tell all of their ranges: {}",
                words::names(&hidden)
            ));
        }
        if blind > 0 {
            notes.push(format!(
                "in {blind} namespaces a pool cannot be read: reservations without a row, addresses in use without a row and \
                 missing reservations are not looked for there"
            ));
        }
        let ahead = snapshot
            .nodes
            .iter()
            .filter(|(_, node)| node.declared_ahead);
        let ahead: Vec<_> = ahead.map(|(name, _)| name).collect();
        if !ahead.is_empty() {
            notes.push(format!(
                "{NO_SANDBOXES_ANNOTATION} is in the future, and does not count: {}",
                words::names(&ahead)
            ));
        }
        if counts.exempt > 0 {
            notes.push(format!("{} rows are exempted by a person", counts.exempt));
        }
        let pools = self.assessor.index.pools.iter();
        notes.extend(pools.filter_map(Place::note_of_exemption));
        let limits = Limits::default();
        #[expect(clippy::cast_precision_loss, reason = "a share of some millions")]
        let share = counts.unwatched as f64 / rows.max(1) as f64;
        if counts.unwatched > limits.min && share > limits.fraction {
            notes.push(format!(
                "{} of {rows} rows have lost their pods without anybody seeing it: a collector that begins now \
                 opens its breaker",
                counts.unwatched
            ));
        }
        notes
    }
}

impl Split {
    /// The count that a verdict is counted in.
    fn of(&mut self, verdict: &Verdict) -> &mut usize {
        match verdict.word() {
            Word::Live => &mut self.live,
            Word::Unreported => &mut self.unreported,
            Word::Stale => &mut self.stale,
            Word::Unfenced => &mut self.unfenced,
            Word::Unknown => &mut self.unknown,
        }
    }
}

/// The findings that come of reading one kind after the other, which a second look at `again`, pools, reservations and
/// pods, does not confirm: they are dropped.
pub fn confirm(report: &mut Report, again: &Snapshot, policy: &Policy) {
    let assessor = Assessor::new(again, policy);
    report.findings.retain(|finding| {
        let address = finding
            .address
            .as_ref()
            .and_then(|address| address.parse().ok());
        let (Some(address), Some(podref)) = (address, finding.pods.first()) else {
            return true;
        };
        let mut rows = assessor.index.holders(again, address, podref);
        let namespace = finding.namespace.as_deref().unwrap_or_default();
        // Whoever ended, or came back as another, reports it no more.
        let reports = |podref: &&String| {
            let pod = again.pod(podref);
            pod.is_some_and(|pod| !pods::is_going(pod) && pod.status.has_address(address))
        };
        match finding.problem {
            // The own pod of the row, or of the reservation, is gone.
            Problem::InUseTwice if finding.row.is_some() || finding.reservation.is_some() => true,
            Problem::InUseTwice => finding.pods.iter().filter(reports).count() > 1,
            Problem::InUseUnallocated => {
                let is_it = |place: &Place| {
                    let namespace = finding.namespace.as_ref();
                    finding.pool.as_deref() == Some(place.key.name.as_str())
                        && namespace.is_none_or(|namespace| **namespace == *place.key.namespace)
                };
                // Where the pool could not be named, any will do.
                let holds = |(place, holder): (&Place, Holder)| {
                    holder != Holder::Another && (finding.pool.is_none() || is_it(place))
                };
                reports(&podref) && !rows.any(holds)
            }
            // Its row went meanwhile, or it has its reservation now.
            Problem::ReservationMissing => rows.any(|(place, holder)| {
                let row = finding.row.as_ref().map(|row| row.stored.value());
                let sandbox = row.as_ref().and_then(|row| row["id"].as_str());
                let sandbox = sandbox.unwrap_or_default();
                let reserved = |network: &Option<Box<str>>| {
                    let names = ipgc_core::address::reservation_names(address, network.as_deref());
                    names.iter().any(|name| {
                        let at = again.reservation(namespace, name);
                        at.is_some_and(|at| again.reservations[at].is_of(podref, sandbox))
                    })
                };
                reports(&podref)
                    && holder == Holder::Own
                    && place.key.namespace == namespace
                    && !place.networks.iter().any(reserved)
            }),
            _ => true,
        }
    });
}

/// Whether a report has findings that want [`confirm`].
#[must_use]
pub fn wants_confirmation(report: &Report) -> bool {
    let surprising = [
        Problem::InUseTwice,
        Problem::InUseUnallocated,
        Problem::ReservationMissing,
    ];
    let mut findings = report.findings.iter();
    findings.any(|finding| surprising.contains(&finding.problem))
}
