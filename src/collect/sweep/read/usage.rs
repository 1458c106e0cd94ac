//! The addresses of a sweep: which of them pools give out, and which pods use without a row.
//!
//! Numbers for the report; nothing is freed because of them.

use std::{collections::HashMap, net::IpAddr};

use ipgc_core::{
    address::{Range, pool_name},
    definitions::Definitions,
    ipam::Span,
};

use super::SweepRead;

impl SweepRead<'_> {
    /// Counts the addresses that live pods use.
    pub fn usage(&mut self) {
        let context = self.context;
        let unranged = self.places.iter().filter(|place| place.range.is_none());
        self.report.pools_without_range = unranged.count();
        let mut swept = HashMap::<_, Vec<Range>>::new();
        for place in &self.places {
            for network in &place.networks {
                let ranges = swept.entry(network.as_deref()).or_default();
                ranges.extend(place.range);
            }
        }
        let is_swept = |network: Option<&str>, address: IpAddr| {
            let mut ranges = swept.get(&network).into_iter().flatten();
            self.namespace.is_none() || ranges.any(|range| range.contains(address))
        };
        let evidence = &mut *context.evidence();
        let usage = evidence.pods.usage(&evidence.definitions, is_swept);
        // Two pods report one address whatever the pools say. But a pool that cannot be read may have the row that
        // seems to be missing: then their count is not known.
        self.report.duplicates = usage.duplicates;
        self.report.unallocated = (self.report.blind() == 0).then_some(usage.unallocated);
    }
}

/// What definitions hand out, by the name of the pool: of a range only that can be given out which some definition neither
/// leaves out nor excludes.
pub fn spans(definitions: &Definitions) -> HashMap<String, Vec<Span>> {
    let mut spans = HashMap::<_, Vec<_>>::new();
    let sections = definitions.values().flatten().flatten();
    // A slice of a node is given out as a whole.
    for section in sections.filter(|section| section.slices.is_none()) {
        let network = section.network_name.as_deref();
        for span in &section.spans {
            let name = pool_name(network, None, span.range);
            spans.entry(name).or_default().push(span.clone());
        }
    }
    spans
}
