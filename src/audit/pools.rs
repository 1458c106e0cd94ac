//! Findings about a pool as a whole or a part of it, and about the slices of nodes.

use std::fmt;

use ipgc_core::{
    address::Range,
    evidence::Policy,
    ipam::{handed_out, hands_out},
    judge::Word,
    pool::PoolKey,
    routes::{Slice, slice_pools},
};
use kube::api::Preconditions;

use super::{
    NODES,
    assess::{Assessor, Judged},
    definitions::{Definitions, Leading},
    index::Place,
    report::{Finding, PartUsage, PoolUsage, Problem, Split},
    words,
};
use crate::snapshot::Snapshot;

/// More than so many hundredths of a range are nearly all of it.
const NEARLY_FULL: u128 = 90;

/// How full a pool with these rows is.
pub fn usage(assessor: &Assessor<'_>, place: &Place, rows: &[Judged<'_>]) -> PoolUsage {
    let (range, leading) = (place.pool.range, assessor.leading(place));
    let spans = || leading.into_iter().flat_map(Leading::spans);
    let size = range.and_then(|range| handed_out(range, spans()));
    let size = size.map(limited);
    let is_given = |it: &&Judged<'_>| {
        let place = range.zip(it.address);
        place.is_some_and(|(range, address)| hands_out(range, spans(), address))
    };
    let taken = Split::of_rows(rows.iter().filter(is_given));
    let mut nodes = Vec::<String>::new();
    for node in rows.iter().flat_map(Judged::holding) {
        // In an outage a thousand nodes may hold each of many thousand rows.
        if nodes.len() < NODES && !nodes.iter().any(|it| **it == **node) {
            nodes.push(node.to_string());
        }
    }
    nodes.sort_unstable();
    let parts = leading.zip(range).map(|(it, range)| parts(rows, range, it));
    let ages = rows.iter().filter_map(|it| assessor.reserved_seconds(it));
    PoolUsage {
        namespace: place.pool.key().namespace.clone(),
        name: place.pool.key().name.clone(),
        range: range.map(|range| range.to_string()),
        size,
        free: size.map(|size| size.saturating_sub(taken.rows() as u64)),
        split: Split::of_rows(rows.iter()),
        taken,
        definitions: leading.map(Leading::definitions).unwrap_or_default(),
        parts: parts.unwrap_or_default(),
        wait_seconds: rows.iter().filter_map(Judged::wait_seconds).max(),
        oldest_stale_seconds: ages.max(),
        nodes,
    }
}

fn limited(count: u128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

impl PoolUsage {
    /// The rows that fill it: those that take room and, where there is none, all.
    pub(super) fn filling(&self) -> Split {
        match self.size {
            None | Some(0) => self.split,
            Some(_) => self.taken,
        }
    }
}

/// The parts of its range that definitions hand out, each with how full it is.
fn parts(rows: &[Judged<'_>], range: Range, leading: &Leading<'_>) -> Vec<PartUsage> {
    let parts = leading.parts(range).into_iter();
    let parts = parts.map(|(span, size, names)| {
        let is_given = |address| hands_out(range, [span], address);
        let given = rows.iter().filter(|it| it.address.is_some_and(is_given));
        PartUsage {
            definitions: names.into_iter().map(str::to_owned).collect(),
            first: span.first.map(|it| it.to_string()),
            last: span.last.map(|it| it.to_string()),
            size: limited(size),
            split: Split::of_rows(given),
        }
    });
    parts.collect()
}

impl Split {
    fn of_rows<'j>(rows: impl Iterator<Item = &'j Judged<'j>>) -> Self {
        let mut split = Self::default();
        for it in rows {
            *split.of(it.verdict.word()) += 1;
        }
        split
    }

    /// The count of this word.
    pub fn of(&mut self, word: Word) -> &mut usize {
        match word {
            Word::Live => &mut self.live,
            Word::Unreported => &mut self.unreported,
            Word::Stale => &mut self.stale,
            Word::Unfenced => &mut self.unfenced,
            Word::Unknown => &mut self.unknown,
        }
    }

    /// All rows.
    pub fn rows(&self) -> usize {
        self.live + self.unreported + self.stale + self.unfenced + self.unknown
    }

    /// Adds others.
    pub fn add(&mut self, mut other: Self) {
        for word in Word::ALL {
            *self.of(word) += *other.of(word);
        }
    }
}

/// `1 live, 0 unreported, 2 stale, 0 unfenced, 0 unknown`.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = *self;
        let words = Word::ALL.map(|word| format!("{} {}", all.of(word), word.as_str()));
        f.write_str(&words.join(", "))
    }
}

fn about(problem: Problem, place: &Place, detail: String) -> Finding {
    let key = place.pool.key();
    let mut finding = Finding::new(problem, detail);
    finding.namespace = Some(key.namespace.clone());
    finding.pool = Some(key.name.clone());
    finding
}

/// The findings about a pool as a whole.
pub fn findings(assessor: &Assessor<'_>, place: &Place, usage: &PoolUsage) -> Vec<Finding> {
    let (leading, definitions) = (assessor.leading(place), assessor.definitions.as_ref());
    let mut findings = full_parts(place, usage);
    findings.extend(without_range(place, usage));
    findings.extend(slice_of_several_nodes(assessor, place));
    match (definitions, leading) {
        (Some(definitions), Some(leading)) => findings.extend(statics(definitions, place, leading)),
        (Some(definitions), None) => {
            let found = without_definition(place, usage.split, definitions, assessor.snapshot);
            findings.push(found);
        }
        (None, _) => {}
    }
    // A pool that no definition leads to gives no address any more.
    let may_lead = |all: &Definitions<'_>| !all.may_lead(place, false).is_empty();
    if leading.is_some() || definitions.is_none_or(may_lead) {
        findings.extend(nearly_full(place, usage, leading));
    }
    findings
}

fn is_nearly_full(rows: u128, size: u128) -> bool {
    rows.saturating_mul(100) > size.saturating_mul(NEARLY_FULL)
}

/// The finding about a range that is nearly full. A range of single addresses is full by design.
fn nearly_full(place: &Place, usage: &PoolUsage, leading: Option<&Leading<'_>>) -> Option<Finding> {
    let (size, split) = (usage.size?, usage.filling());
    let rows = split.rows();
    let of_range = leading.zip(place.pool.range);
    let is_by_design = of_range.is_some_and(|(it, range)| it.is_of_single_addresses(range));
    (!is_by_design && is_nearly_full(rows as u128, size.into())).then(|| {
        let first = if split.unreported > 0 {
            "; see first to the findings unreported, each of which says what frees it"
        } else {
            ""
        };
        let detail = format!("{rows} of {size} addresses are taken: {split}{first}");
        about(Problem::NearlyFull, place, detail)
    })
}

/// The findings about parts of a range that are nearly full: pods of the definitions of such a part get no address,
/// though the range has some left.
fn full_parts(place: &Place, usage: &PoolUsage) -> Vec<Finding> {
    let full = usage.parts.iter();
    let full = full.filter(|part| is_nearly_full(part.split.rows() as u128, part.size.into()));
    let findings = full.map(|part| {
        let (rows, size) = (part.split.rows(), part.size);
        let mut detail = format!(
            "{rows} of {size} addresses are taken of the part that {} hands out",
            words::names(&part.definitions)
        );
        let first = part.first.as_ref();
        detail += &first.map_or_else(String::new, |it| format!(", from {it}"));
        let last = part.last.as_ref();
        detail += &last.map_or_else(String::new, |it| format!(" to {it}"));
        let mut finding = about(Problem::NearlyFull, place, detail);
        finding.definition = part.definitions.first().cloned();
        finding
    });
    findings.collect()
}

/// The findings about addresses that a definition gives to each of its pods, and that a pool gives away as well.
fn statics(definitions: &Definitions<'_>, place: &Place, leading: &Leading<'_>) -> Vec<Finding> {
    let Some(range) = place.pool.range else {
        return Vec::new();
    };
    let clashing = definitions.statics(place).filter_map(|(name, address)| {
        let handing_out = leading.handing_out(range, address);
        let first = *handing_out.first()?;
        let detail = format!(
            "definition {name} has it in `addresses`, so each of its pods has it without a row, and {} hands it out of this \
             pool: add it to `exclude` there",
            words::names(&handing_out)
        );
        let mut finding = about(Problem::StaticInPool, place, detail);
        finding.address = Some(address.to_string());
        finding.definition = Some(first.into());
        Some(finding)
    });
    clashing.collect()
}

/// The finding about a pool whose range cannot be read. Where it has rows, they say so.
fn without_range(place: &Place, usage: &PoolUsage) -> Option<Finding> {
    let detail = "the range of this pool is missing, or not a CIDR";
    (place.pool.range.is_none() && usage.split.rows() == 0)
        .then(|| about(Problem::Unreadable, place, detail.to_owned()))
}

/// The finding about a pool that is one node's slice by its name, and not by its rows.
fn slice_of_several_nodes(assessor: &Assessor<'_>, place: &Place) -> Option<Finding> {
    let (node, podref) = place.disproved_slice.as_ref()?;
    let other = assessor.node_of(podref.as_str()).unwrap_or_default();
    let detail = format!(
        "it is the slice of node {node} by its name, but pod {podref} on node {other} has a row in it: all nodes may run \
         what nobody saw of it, not {node} alone"
    );
    let mut finding = about(Problem::SliceOfSeveralNodes, place, detail);
    finding.nodes = [node.clone(), other.into()].into();
    Some(finding)
}

/// The pools without rows that nothing leads to or may lead to, with their state. None if the definitions are not known.
pub fn unreferenced(snapshot: &Snapshot) -> Vec<(PoolKey, Preconditions)> {
    let policy = Policy::default();
    let assessor = Assessor::new(snapshot, &policy);
    let Some(definitions) = &assessor.definitions else {
        return Vec::new();
    };
    let may_lead = |place: &Place| {
        place.slice.is_some()
            || definitions.to_pool(&place.pool.key().name).is_some()
            || !definitions.may_lead(place, false).is_empty()
            || !definitions.may_lead(place, true).is_empty()
    };
    let all = assessor.index.pools.iter();
    let unreferenced = all.filter(|place| !place.pool.has_exemptions() && !may_lead(place));
    let states = unreferenced.filter_map(|Place { pool, .. }| {
        let state = Preconditions {
            uid: Some(pool.uid().to_owned()),
            resource_version: Some(snapshot.empty_pools.get(pool.key())?.to_string()),
        };
        Some((pool.key().clone(), state))
    });
    states.collect()
}

/// The finding about a pool that no definition leads to.
fn without_definition(
    place: &Place,
    split: Split,
    definitions: &Definitions<'_>,
    snapshot: &Snapshot,
) -> Finding {
    let mut detail = "no definition leads to it".to_owned();
    let mut command = None;
    let (blind, rows) = (definitions.may_lead(place, false), split.rows());
    if !blind.is_empty() {
        let blind = words::names(&blind);
        detail = format!("{detail}; what does not tell its range may: {blind}");
    } else if rows > 0
        && let Some((name, _, range)) = definitions.superseding(place)
    {
        let detail = format!(
            "{detail} any more: {name} hands out {range} instead, so whereabouts gives nothing more of it; its {rows} rows \
             go with their pods, and it may be removed when they are gone"
        );
        let mut finding = about(Problem::PoolSuperseded, place, detail);
        finding.definition = Some(name.into());
        return finding;
    } else if rows > 0 {
        let broken = definitions.may_lead(place, true);
        if !broken.is_empty() {
            let broken = words::names(&broken);
            detail = format!("{detail}, unless it is of one whose range cannot be read: {broken}");
        }
        detail = format!("{detail}; it has {rows} rows, and may be removed when they are gone");
    } else {
        command = deletion(snapshot, place);
    }
    let mut finding = about(Problem::PoolWithoutDefinition, place, detail);
    finding.command = command;
    finding
}

fn deletion(snapshot: &Snapshot, Place { pool, .. }: &Place) -> Option<String> {
    let version = snapshot.empty_pools.get(pool.key())?;
    words::delete_pool(pool.key(), pool.uid(), version)
}

/// The findings about slices of nodes that are gone. `usages` are those of all pools, in the order of the index.
pub fn gone_slices(assessor: &Assessor<'_>, usages: &[PoolUsage]) -> Vec<Finding> {
    let snapshot = assessor.snapshot;
    if !snapshot.knows_nodes() {
        return Vec::new();
    }
    let slices = snapshot.slices.iter().zip(&snapshot.slice_places);
    let gone = slices.filter(|(slice, _)| !snapshot.nodes.contains_key(&slice.node));
    gone.map(|(slice, index)| gone_slice(assessor, slice, *index, usages))
        .collect()
}

fn gone_slice(
    assessor: &Assessor<'_>,
    slice: &Slice,
    index: usize,
    usages: &[PoolUsage],
) -> Finding {
    let of_slice = slice_pools(std::slice::from_ref(slice));
    let all = assessor.index.pools.iter().zip(usages);
    let of_slice = all.filter(|(place, _)| of_slice.contains_key(place.pool.key()));
    let (pools, usages): (Vec<_>, Vec<_>) = of_slice.unzip();
    let count: usize = usages.iter().map(|usage| usage.split.rows()).sum();
    let (name, node, range) = (&slice.name, &slice.node, slice.range);
    let mut detail = format!("{range} of NodeSlicePool {name} is of node {node}, which is gone");
    let mut command = None;
    // A name that two slices give a pool is no proof that it is this node's.
    let is_its = |place: &&Place| place.slice.as_deref() == Some(&**node);
    // A pool that cannot be read may be the slice's.
    let is_proven = pools.iter().all(is_its) && !assessor.blind.contains(&slice.namespace);
    if count > 0 {
        detail =
            format!("{detail}; its pool has {count} rows, and may be removed when they are gone");
    } else if is_proven {
        let deletions = pools.iter().map(|place| deletion(assessor.snapshot, place));
        let all: Option<Vec<_>> = deletions.chain([words::unassign(slice, index)]).collect();
        command = all.map(|all| all.join(" && "));
    }
    let mut finding = Finding::new(Problem::SliceOfGoneNode, detail);
    finding.namespace = Some(slice.namespace.clone());
    finding.pool = pools.first().map(|place| place.pool.key().name.clone());
    finding.nodes = [node.clone()].into();
    finding.command = command;
    finding
}
