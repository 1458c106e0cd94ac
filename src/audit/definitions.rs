//! Which network attachment definition leads to which pool, and what a pod's entry in network-status belongs
//! to. Nothing is decided here.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
};

use ipgc_core::{
    address::{Range, pool_name},
    definitions::{self, may_be_of},
    ipam::{Ipam, Span, handed_out, hands_out},
};

use super::index::Place;
use crate::snapshot::{Kind, Snapshot};

/// The definitions, by what they lead to.
pub struct Definitions<'s> {
    all: &'s definitions::Definitions,
    /// By the name of a pool.
    pools: HashMap<String, Leading<'s>>,
    blind: Vec<Blind<'s>>,
}

/// The definitions that lead to a pool.
#[derive(Default)]
pub struct Leading<'s> {
    /// Whether one of them has no addresses reserved across ranges.
    is_alone: bool,
    /// The parts of the range that they hand out, each with its definition. `None` is a node's slice, all of which is
    /// handed out.
    parts: Vec<(&'s str, Option<&'s Span>)>,
}

impl<'s> Leading<'s> {
    /// The parts of the range that they hand out; of a slice none.
    pub fn spans(&self) -> impl Iterator<Item = &'s Span> {
        self.parts.iter().filter_map(|(_, span)| *span)
    }

    /// The definitions, each once.
    pub fn definitions(&self) -> Vec<String> {
        let names: BTreeSet<_> = self.parts.iter().map(|(name, _)| *name).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// Whether each definition hands out one address: such a pool is full by design.
    pub fn is_of_single_addresses(&self, range: Range) -> bool {
        let mut parts = self.parts.iter();
        !self.parts.is_empty() && parts.all(|(_, span)| handed_out(range, *span) == Some(1))
    }

    /// The parts of several addresses that are not all that is handed out, each with its size, and the definitions that
    /// hand it out.
    pub fn parts(&self, range: Range) -> Vec<(&'s Span, u128, Vec<&'s str>)> {
        let whole = handed_out(range, self.spans());
        let mut all = Vec::<(&Span, u128, Vec<&str>)>::new();
        for (definition, span) in &self.parts {
            let Some(span) = *span else { continue };
            let size = handed_out(range, [span]).filter(|size| *size > 1 && Some(*size) < whole);
            match all.iter_mut().find(|(other, ..)| *other == span) {
                Some((_, _, names)) if names.contains(definition) => {}
                Some((_, _, names)) => names.push(*definition),
                None => all.extend(size.map(|size| (span, size, vec![*definition]))),
            }
        }
        all
    }

    /// Whether each definition leaves out the addresses from `begin` to `end`: they are before or behind its part, or in one
    /// range that it excludes.
    pub fn hands_out_none(&self, begin: IpAddr, end: IpAddr) -> bool {
        let leaves_out = |span: &Span| {
            span.first.is_some_and(|first| end < first)
                || span.last.is_some_and(|last| last < begin)
                || span
                    .excluded
                    .iter()
                    .any(|it| it.contains(begin) && it.contains(end))
        };
        let mut parts = self.parts.iter();
        parts.all(|(_, span)| span.is_some_and(leaves_out))
    }

    /// The definitions that hand out this address.
    pub fn handing_out(&self, range: Range, address: IpAddr) -> Vec<&'s str> {
        let parts = self.parts.iter();
        let parts = parts.filter(|(_, span)| hands_out(range, *span, address));
        let mut names: Vec<_> = parts.map(|(definition, _)| *definition).collect();
        names.dedup();
        names
    }
}

/// A definition whose pools are not known.
struct Blind<'s> {
    name: &'s str,
    network: Option<&'s str>,
    /// Without a network this is any pool.
    may_be_slice: bool,
    /// Whether whereabouts cannot read it either, so that it leads nowhere until it is mended.
    is_broken: bool,
}

impl<'s> Definitions<'s> {
    /// The definitions of a snapshot; `None` where there are none to be known of.
    pub fn of(snapshot: &'s Snapshot) -> Option<Self> {
        if !snapshot.kinds.contains(&Kind::Definition) {
            return None;
        }
        let mut definitions = Self {
            all: &snapshot.definitions,
            pools: HashMap::new(),
            blind: Vec::new(),
        };
        for (name, definition) in &snapshot.definitions {
            let Ok(sections) = definition else {
                definitions.blind.push(Blind {
                    name,
                    network: None,
                    may_be_slice: true,
                    is_broken: false,
                });
                continue;
            };
            for section in sections {
                definitions.lead(name, section, snapshot);
            }
        }
        Some(definitions)
    }

    fn lead(&mut self, name: &'s str, section: &'s Ipam, snapshot: &Snapshot) {
        let network = section.network_name.as_deref();
        let mut lead = |pool: String, span: Option<&'s Span>| {
            let leading = self.pools.entry(pool).or_default();
            leading.is_alone |= !section.reserves;
            leading.parts.push((name, span));
        };
        let is_broken = !section.problems.is_empty();
        // All of it is in a file on the nodes, the network maybe as well.
        let is_elsewhere = section.ranges.is_empty() && !is_broken;
        let mut is_unknown = is_elsewhere;
        if let Some(slices) = &section.slices {
            let mut known = snapshot.slices.iter();
            let mut unreadable = snapshot.unreadable.iter();
            // Any pool may be a slice that is not there.
            is_unknown |= !known.any(|slice| *slice.name == **slices)
                || unreadable.any(|it| it.kind == Kind::NodeSlicePool);
            for slice in snapshot.slices.iter().filter(|it| *it.name == **slices) {
                let pool = section.slice_pool_name(&slice.node, slice.range);
                lead(pool, None);
            }
        } else {
            for span in &section.spans {
                lead(pool_name(network, None, span.range), Some(span));
            }
        }
        if is_unknown || is_broken {
            self.blind.push(Blind {
                name,
                network,
                may_be_slice: section.slices.is_some() || is_elsewhere,
                is_broken: !is_unknown,
            });
        }
    }

    /// The definitions of which it is not known to which pools they lead.
    pub fn blind(&self) -> Vec<&'s str> {
        let mut names: Vec<_> = self.blind.iter().map(|it| it.name).collect();
        names.dedup();
        names
    }

    /// Those of them that may lead to this pool, or those that may have done so until they were broken.
    pub fn may_lead(&self, place: &Place, is_broken: bool) -> Vec<&'s str> {
        let blind = self.blind.iter().filter(|it| it.is_broken == is_broken);
        let may = blind.filter(|it| may_be_of(&place.networks, it.network, it.may_be_slice));
        let mut names: Vec<_> = may.map(|it| it.name).collect();
        names.dedup();
        names
    }

    /// The definitions that lead to the pool of this name.
    pub fn to_pool(&self, name: &str) -> Option<&Leading<'s>> {
        self.pools.get(name)
    }

    /// The definition that hands out addresses of a pool that nothing leads to any more, from another pool of its network:
    /// its name, its section and the range there. Its range was changed.
    pub fn superseding(&self, place: &Place) -> Option<(&'s str, &'s Ipam, Range)> {
        let own = place.pool.range?;
        self.sections().find_map(|(name, ipam)| {
            let mut ranges = ipam.ranges.iter();
            let range = ranges.find(|range| range.overlaps(own))?;
            let is_of = may_be_of(&place.networks, ipam.network_name.as_deref(), false);
            is_of.then_some((name, ipam, *range))
        })
    }

    /// All sections that can be read, each with the name of its definition.
    fn sections(&self) -> impl Iterator<Item = (&'s str, &'s Ipam)> {
        let all = self.all.iter();
        all.flat_map(|(name, definition)| definition.iter().flatten().map(|ipam| (&**name, ipam)))
    }

    fn sections_of(&self, name: &str) -> &'s [Ipam] {
        let definition = self.all.get(name).and_then(|it| it.as_ref().ok());
        definition.map_or(&[], Vec::as_slice)
    }

    /// Whether rows of a pool are reserved across ranges, by what leads to it or has superseded it.
    pub fn reserves(&self, place: &Place) -> bool {
        match self.to_pool(&place.pool.key().name) {
            Some(leading) => !leading.is_alone,
            None => self
                .superseding(place)
                .is_some_and(|(_, ipam, _)| ipam.reserves),
        }
    }

    /// The addresses that a definition gives to each of its pods and that a pool may have, each with its definition.
    pub fn statics(&self, place: &Place) -> impl Iterator<Item = (&'s str, IpAddr)> {
        let is_of = |ipam: &Ipam| may_be_of(&place.networks, ipam.network_name.as_deref(), false);
        let all = self.sections();
        let all = all.filter(move |(name, _)| self.sections_of(name).iter().any(is_of));
        all.flat_map(|(name, ipam)| ipam.addresses.iter().map(move |address| (name, *address)))
    }

    /// The sections that an address of a status entry may be given by: plugins of one list may have networks of their
    /// own.
    pub fn giving(&self, network: &str, address: IpAddr) -> impl Iterator<Item = &'s Ipam> {
        let sections = self.sections_of(network).iter();
        sections.filter(move |ipam| ipam.ranges.iter().any(|range| range.contains(address)))
    }
}
