//! NetworkAttachmentDefinitions by name: of which whereabouts network an address is that a pod reports.
//!
//! Pure. A definition that is missing or cannot be read says nothing, so an address that a pod reports
//! by it may be of any network.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use crate::{
    address::{Range, may_reserve, network_of_pool, reservation_address},
    ipam::{InvalidConfig, Ipam, parse},
    networks::StatusEntry,
    pod::PodState,
};

/// The whereabouts sections of a definition, none when it uses another IPAM; or, where it exists and cannot be read, why.
pub type Definition = Result<Vec<Ipam>, InvalidConfig>;

/// Reads the definition `namespace/name` by its `spec.config`, or by why the object could not be read as far as that.
///
/// # Errors
/// Where it cannot be read: it may be of any network.
pub fn read(name: &str, config: Result<Option<&str>, String>) -> Definition {
    let own_name = name.rsplit_once('/').map_or(name, |(_, own)| own);
    let config = config.map_err(InvalidConfig::Json)?;
    parse(config.unwrap_or_default(), own_name)
}

/// All definitions, by `namespace/name`.
pub type Definitions = BTreeMap<Box<str>, Definition>;

/// Whether a definition gives this address to each of its pods, beside those of its pools.
pub fn is_static(definitions: &Definitions, name: &str, address: IpAddr) -> bool {
    let mut sections = definitions.get(name).into_iter().flatten().flatten();
    sections.any(|section| section.addresses.contains(&address))
}

/// Names of networks; none stands for the network without `network_name`.
pub type Networks = BTreeSet<Option<Box<str>>>;

/// The networks that the name of a pool tells: the text before the range, and, where the pool is the
/// slice of a node, the text before the node.
pub fn networks_of(pool: &str, range: Option<Range>, slice: Option<&str>) -> Networks {
    let Some(network) = range.and_then(|range| network_of_pool(pool, range)) else {
        return Networks::new();
    };
    let within = match (network, slice) {
        (Some(network), Some(node)) if network == node => Some(None),
        (Some(network), Some(node)) => {
            let rest = network.strip_suffix(node);
            rest.and_then(|rest| rest.strip_suffix('-')).map(Some)
        }
        _ => None,
    };
    let all = [Some(network), within].into_iter().flatten();
    all.map(|network| network.map(Into::into)).collect()
}

/// Whether a pool that may be of these networks may be of this one, or, if it `may_be_slice`, of a node's slice
/// of it. A pool whose name tells no network may be of any.
pub fn may_be_of(networks: &Networks, network: Option<&str>, may_be_slice: bool) -> bool {
    // The name of a node's slice has the node between the network and the range, whether or not the pool is
    // known to be one.
    let is_slice = |own: Option<&str>| match (own, network) {
        (Some(own), Some(network)) => {
            let rest = own.strip_prefix(network);
            rest.is_some_and(|rest| rest.starts_with('-'))
        }
        (own, None) => own.is_some(),
        (None, Some(_)) => false,
    };
    let mut networks_of = networks.iter().map(Option::as_deref);
    networks.is_empty() || networks_of.any(|own| own == network || (may_be_slice && is_slice(own)))
}

/// Whether the reservation of this name may be of the address in this entry of a network-status.
pub fn may_be_reserved(
    definitions: &Definitions,
    entry: StatusEntry<'_>,
    address: IpAddr,
    reservation: &str,
) -> bool {
    match definitions.get(entry.network) {
        Some(Ok(sections)) => sections.iter().any(|section| {
            let network = section.network_name.as_deref();
            reservation_address(reservation, network) == Some(address)
        }),
        Some(Err(_)) | None => may_reserve(reservation, address),
    }
}

/// The pool of a row, as far as it decides which reports are about the row.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The networks (`network_name`) that the pool may be of.
    pub networks: &'a Networks,
    /// The range of the pool, where it is known.
    pub range: Option<Range>,
    /// All definitions.
    pub definitions: &'a Definitions,
}

impl Scope<'_> {
    /// Whether the pod of a row reports its address, and may do so as one of this pool's network.
    pub fn is_reported_by(&self, pod: &PodState, address: IpAddr) -> bool {
        let mut entries = pod.status.entries();
        entries.any(|entry| {
            entry.addresses.contains(&address)
                && (self.may_name(entry, address) || self.may_have_named(entry))
        })
    }

    /// Whether a pod reports an address by a definition that names no network: the plugin's own file on the nodes may. Or
    /// by one that is of another plugin, as it may not have been when the pod began.
    pub fn is_reported_without_name_by(&self, pod: &PodState, address: IpAddr) -> bool {
        let mut entries = pod.status.entries();
        entries.any(|entry| {
            let Some(Ok(sections)) = self.definitions.get(entry.network) else {
                return false;
            };
            let mut networks = sections.iter().map(|section| &section.network_name);
            entry.addresses.contains(&address)
                && (sections.is_empty() || networks.any(Option::is_none))
        })
    }

    /// Whether the range of this definition may have been that of this pool, which no definition of the network has
    /// any more: the row of a pod stays where it is when a range is changed.
    fn may_have_named(&self, entry: StatusEntry<'_>) -> bool {
        let Some(Ok(sections)) = self.definitions.get(entry.network) else {
            return false;
        };
        let is_of =
            |section: &&Ipam| may_be_of(self.networks, section.network_name.as_deref(), false);
        let all = self.definitions.values().flatten().flatten();
        let mut ranges = all.filter(is_of).flat_map(|section| &*section.ranges);
        sections.iter().any(|section| is_of(&section))
            && !ranges.any(|range| self.range == Some(*range))
    }

    /// Whether an address in this entry of a network-status may be one of this pool's network. The
    /// cluster's own network is named after no definition, so it may be any.
    pub fn may_name(&self, entry: StatusEntry<'_>, address: IpAddr) -> bool {
        let Some(Ok(sections)) = self.definitions.get(entry.network) else {
            return true;
        };
        let mut sections = sections.iter();
        sections.any(|section| self.may_be_of(section) && self.shares(section, address))
    }

    /// Whether the status of a pod tells whether it has this address in the pool's network. multus attaches networks by its
    /// own configuration too, which no pod asks for. It reports nothing of some definitions, and some versions leave out
    /// the addresses of an interface.
    pub fn is_told_by(&self, pod: &PodState, address: IpAddr) -> bool {
        let gives = |section: &Ipam| {
            let mut ranges = section.ranges.iter();
            let is_known = !section.ranges.is_empty() && section.problems.is_empty();
            !is_known || ranges.any(|range| range.contains(address))
        };
        let may_give = |section: &Ipam| self.may_be_of(section) && gives(section);
        let mut sections = self.definitions.values().flatten().flatten();
        let mut is_silent = || sections.any(|it| !it.reported && may_give(it));
        let mut entries = pod.status.entries().filter(|it| it.addresses.is_empty());
        let mut lacks_it = || {
            entries.any(|entry| match self.definitions.get(entry.network) {
                Some(Ok(sections)) => sections.iter().any(may_give),
                _ => entry.network.contains('/'),
            })
        };
        pod.is_complete() && (pod.host_network || !(is_silent() || lacks_it()))
    }

    /// Whether a section may be of the pool's network.
    fn may_be_of(&self, section: &Ipam) -> bool {
        let network = section.network_name.as_deref();
        may_be_of(self.networks, network, section.slices.is_some())
            || (network.is_none() && self.is_unnamed())
    }

    /// Whether no definition names the pool's network: then the plugin's own file on the nodes may, for all definitions
    /// that name none.
    fn is_unnamed(&self) -> bool {
        let mut sections = self.definitions.values().flatten().flatten();
        let names_it = |section: &Ipam| {
            let network = section.network_name.as_deref();
            network.is_some() && may_be_of(self.networks, network, section.slices.is_some())
        };
        !self.networks.contains(&None) && !sections.any(names_it)
    }

    /// Without `enable_overlapping_ranges` each range gives its addresses out by itself. The pools of a range that is cut
    /// up for the nodes have ranges of their own.
    fn shares(&self, section: &Ipam, address: IpAddr) -> bool {
        let is_alone = !section.reserves && section.slices.is_none();
        let Some(own) = self.range.filter(|_| is_alone) else {
            return true;
        };
        let ranges = section.ranges.iter();
        let mut holding = ranges.filter(|range| range.contains(address));
        let first = holding.next();
        first.is_none_or(|first| *first == own || holding.any(|range| *range == own))
    }
}
