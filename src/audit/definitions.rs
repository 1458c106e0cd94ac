//! Which network attachment definition leads to which pool, and what a pod's entry in network-status belongs
//! to. It reads what was parsed, and decides nothing.

use std::{collections::HashMap, net::IpAddr};

use ipgc_core::{
    definitions::Definition,
    ipam::{Ipam, Span},
};

use crate::snapshot::{Kind, Snapshot};

/// The definitions, by what they lead to.
pub struct Definitions<'s> {
    /// By the name of a definition.
    sections: HashMap<&'s str, Vec<Section<'s>>>,
    /// By the name of a pool.
    pools: HashMap<String, Led>,
    /// How many may lead anywhere: their range is in a file on the nodes, or cannot be read.
    pub blind: usize,
}

/// One IPAM section of a definition.
pub struct Section<'s> {
    /// What it says.
    pub ipam: &'s Ipam,
    /// The names of its pools, but for those of slices.
    pub pools: Vec<String>,
}

/// What leads to a pool.
#[derive(Debug, Default)]
pub struct Led {
    /// Whether all definitions that lead to it have addresses reserved across ranges.
    pub reserves: bool,
    /// What they hand out; nothing where it is a slice, all of which is handed out.
    pub spans: Vec<Span>,
}

impl<'s> Definitions<'s> {
    /// The definitions of a snapshot; `None` where there are none to be known of.
    #[must_use]
    pub fn of(snapshot: &'s Snapshot) -> Option<Self> {
        if !snapshot.kinds.contains(&Kind::Definition) {
            return None;
        }
        let mut definitions = Self {
            sections: HashMap::new(),
            pools: HashMap::new(),
            blind: 0,
        };
        for (name, definition) in &snapshot.definitions {
            let Definition::Read(sections) = definition else {
                definitions.blind += 1;
                continue;
            };
            let known = sections.iter().map(|ipam| Section {
                ipam,
                pools: ipam.pool_names().collect(),
            });
            definitions.sections.insert(name, known.collect());
            for section in sections {
                let hidden = section.ranges.is_empty() || !section.problems.is_empty();
                definitions.blind += usize::from(hidden);
                definitions.lead(section, snapshot);
            }
        }
        Some(definitions)
    }

    fn lead(&mut self, section: &Ipam, snapshot: &Snapshot) {
        let mut lead = |name: String, spans: Vec<Span>| {
            let new = || Led {
                reserves: true,
                spans: Vec::new(),
            };
            let led = self.pools.entry(name).or_insert_with(new);
            led.reserves &= section.reserves;
            led.spans.extend(spans);
        };
        if let Some(name) = &section.slices {
            let mut slices = snapshot.slices.iter();
            let mut unreadable = snapshot.unreadable.iter();
            // Of slices that are not there any pool may be one.
            let are_known = slices.any(|slice| *slice.name == **name)
                && !unreadable.any(|it| it.kind == Kind::NodeSlicePool);
            self.blind += usize::from(!are_known);
            for slice in snapshot.slices.iter().filter(|slice| *slice.name == **name) {
                lead(
                    section.slice_pool_name(&slice.node, slice.range),
                    Vec::new(),
                );
            }
            return;
        }
        for (name, range) in section.pool_names().zip(&section.ranges) {
            let spans = section.spans.iter().filter(|span| span.range == *range);
            lead(name, spans.cloned().collect());
        }
    }

    /// What leads to the pool of this name.
    #[must_use]
    pub fn to_pool(&self, name: &str) -> Option<&Led> {
        self.pools.get(name)
    }

    /// The sections that an address of a status entry may be given by: plugins of one list may have networks of their
    /// own.
    pub fn sections(&self, network: &str, address: IpAddr) -> impl Iterator<Item = &Section<'s>> {
        let sections = self.sections.get(network).into_iter().flatten();
        sections.filter(move |section| {
            let mut ranges = section.ipam.ranges.iter();
            ranges.any(|range| range.contains(address))
        })
    }
}
