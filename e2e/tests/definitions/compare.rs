//! One definition, as whereabouts and as ipgc read it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipgc::core::{
    address::{Range, pool_name},
    ipam::{InvalidConfig, Ipam, Span, handed_out},
};

use crate::reader::{Definition, Entry, Section};

/// How the two compare.
#[derive(Debug)]
pub enum Outcome {
    /// Both read the same.
    Read,
    /// Both read nothing that could be used.
    Refused,
    /// For both it is of another IPAM, or of none.
    Other,
    /// They differ, on purpose.
    By(Rule),
    /// They differ.
    Mismatch(String),
}

/// Where they differ on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A range of the section is none, so whereabouts gives out nothing by it. The pools of its other ranges may have
    /// rows from before: we read these, and say that one range cannot be read.
    OneRangeIsNone,
    /// whereabouts refuses the section for a key that tells of no pool (a gateway, a route). No pod starts with it, and
    /// rows from before are where its ranges say.
    AnotherKeyIsWrong,
    /// multus or libcni hand nothing to any plugin, for a key that is none of whereabouts: as above.
    NothingIsHandedOver,
    /// multus reads each of equal keys in the order of the text, and refuses all if one has a value of the wrong type, or if
    /// the last type of the first plugin is empty. libcni drops all but the last of those within a section, sorts
    /// the others, and we read what it hands over: as above.
    AnEarlierKeyIsWrong,
    /// One plugin of a list is refused, and the others are not. We take the definition for one that cannot be read, so that
    /// what pods report by it may be of any network.
    OnePluginIsRefused,
    /// A key stands several times, so that what it means depends on the order in which programs go through them. We take the
    /// definition for one that cannot be read, as above.
    EqualKeys,
}

impl Rule {
    pub const ALL: [Self; 6] = [
        Self::OneRangeIsNone,
        Self::AnotherKeyIsWrong,
        Self::NothingIsHandedOver,
        Self::AnEarlierKeyIsWrong,
        Self::OnePluginIsRefused,
        Self::EqualKeys,
    ];
}

/// Errors of whereabouts about a range that does not parse.
const BAD_RANGES: [&str; 3] = [
    "invalid CIDR ",
    "invalid range start IP: ",
    "invalid range start for CIDR ",
];

/// Keys within a section or a list, as multus names them in its errors.
const EARLIER: [&str; 3] = [
    "Go struct field IPAM.",
    "Go struct field PluginConf.plugins.",
    "a delegate without type or plugins",
];

/// Keys of whereabouts, multus and libcni that tell of no pool, as their errors name them.
const OTHER_KEYS: [&str; 21] = [
    "ipam.Name",
    "gateway",
    "Gateway",
    "routes",
    "addresses",
    "address",
    "dns",
    "DNS",
    "kubernetes",
    "Kubernetes",
    "log_",
    "leader_",
    "sleep_for_race",
    "configuration_path",
    "etcd_",
    "datastore",
    "reconciler_cron",
    "cniVersion",
    "capabilities",
    "disable",
    "prevResult",
];

/// Compares the two.
pub fn compare(theirs: &Definition, ours: &Result<Vec<Ipam>, InvalidConfig>) -> Outcome {
    let Some(sections) = theirs.sections.as_ref().filter(|_| theirs.error.is_empty()) else {
        return match ours {
            Err(_) => Outcome::Refused,
            Ok(ours) if ours.is_empty() => Outcome::Refused,
            Ok(_) if is_of_another_key(&theirs.error) => Outcome::By(Rule::NothingIsHandedOver),
            Ok(_) if EARLIER.iter().any(|key| theirs.error.contains(key)) => {
                Outcome::By(Rule::AnEarlierKeyIsWrong)
            }
            Ok(_) => Outcome::Mismatch("only we read it".to_owned()),
        };
    };
    let refused = sections
        .iter()
        .filter(|section| !section.error.is_empty())
        .count();
    let ours = match ours {
        Err(_) if refused > 0 && sections.len() > 1 => {
            return Outcome::By(Rule::OnePluginIsRefused);
        }
        Err(_) if refused > 0 => return Outcome::Refused,
        Err(InvalidConfig::EqualKeys(_)) => return Outcome::By(Rule::EqualKeys),
        Err(error) => return Outcome::Mismatch(format!("only they read it: {error}")),
        Ok(ours) => ours,
    };
    let mut ours = ours.iter();
    let mut outcome = if refused > 0 {
        Outcome::Refused
    } else {
        Outcome::Other
    };
    for section in sections.iter().filter(|section| !section.other) {
        if section.error.is_empty() {
            let Some(own) = ours.next() else {
                return Outcome::Mismatch("we see no section of whereabouts".to_owned());
            };
            if let Err(why) = same(section, own) {
                return Outcome::Mismatch(why);
            }
            if !matches!(outcome, Outcome::By(_)) {
                outcome = Outcome::Read;
            }
            continue;
        }
        let is_of_another_key = is_of_another_key(&section.error);
        let own = match ours.next() {
            Some(own) => own,
            // Without that mistake it would be of no IPAM.
            None if is_of_another_key => continue,
            None => return Outcome::Mismatch("we see no section of whereabouts".to_owned()),
        };
        let is_range = BAD_RANGES
            .iter()
            .any(|begin| section.error.starts_with(begin));
        outcome = if is_range && !own.problems.is_empty() {
            Outcome::By(Rule::OneRangeIsNone)
        } else if is_of_another_key {
            Outcome::By(Rule::AnotherKeyIsWrong)
        } else {
            return Outcome::Mismatch("only we read the section".to_owned());
        };
    }
    match ours.next() {
        Some(_) => Outcome::Mismatch("we see a section more".to_owned()),
        None => outcome,
    }
}

fn is_of_another_key(error: &str) -> bool {
    // The text after this mark is the configuration, which has all keys.
    let (error, _) = error.split_once(" / bytes: ").unwrap_or((error, ""));
    OTHER_KEYS.iter().any(|key| error.contains(key))
}

fn same(theirs: &Section, ours: &Ipam) -> Result<(), String> {
    let equal = |what: &str, theirs: &dyn std::fmt::Debug, ours: &dyn std::fmt::Debug| {
        let (theirs, ours) = (format!("{theirs:?}"), format!("{ours:?}"));
        if theirs == ours {
            Ok(())
        } else {
            Err(format!("{what}: they {theirs}, we {ours}"))
        }
    };
    let network = ours.network_name.as_deref();
    equal("network", &theirs.network, &network.unwrap_or_default())?;
    equal("reserves", &theirs.reserves, &ours.reserves)?;
    equal(
        "slices",
        &theirs.slices,
        &ours.slices.as_deref().unwrap_or_default(),
    )?;
    if ours.slices.is_some() {
        let slice = Range::parse("10.0.3.0/24").unwrap();
        let pool = ours.slice_pool_name("node-1", slice);
        equal("pool of the slice", &theirs.slice_pool, &pool)?;
    }
    let is_unnamed = ours.slices.is_none() && !theirs.slice_pool.is_empty();
    equal("problems", &is_unnamed, &!ours.problems.is_empty())?;
    let entries = theirs.ranges.as_deref().unwrap_or_default();
    equal("ranges", &entries.len(), &ours.spans.len())?;
    for (entry, span) in entries.iter().zip(&ours.spans) {
        equal("range", &entry.range, &span.range.to_string())?;
        equal("pool", &entry.pool, &pool_name(network, None, span.range))?;
        let (first, last) = ends(span);
        equal("first", &entry.first, &first)?;
        equal("last", &entry.last, &last)?;
        equal("count", &counted(entry), &given_out(entry, span))?;
    }
    let mut pools: Vec<_> = entries.iter().map(|entry| entry.pool.clone()).collect();
    let mut own: Vec<_> = ours.pool_names().collect();
    pools.sort();
    pools.dedup();
    own.sort();
    equal("pools", &pools, &own)
}

fn counted(entry: &Entry) -> Option<u128> {
    u128::try_from(entry.count).ok()
}

/// As far as they counted it.
fn given_out(entry: &Entry, span: &Span) -> Option<u128> {
    counted(entry)?;
    handed_out(span.range, [span])
}

/// The first and the last address that a span gives out, `exclude` left aside; nothing of a range that is too small.
fn ends(span: &Span) -> (String, String) {
    if handed_out(span.range, None).is_none() {
        return Default::default();
    }
    let (lowest, std::cmp::Reverse(highest)) = span.range.first_and_last();
    let first = span.first.unwrap_or_else(|| moved(lowest, 1));
    let last = span.last.unwrap_or_else(|| moved(highest, -1));
    (
        first.to_canonical().to_string(),
        last.to_canonical().to_string(),
    )
}

fn moved(address: IpAddr, by: i8) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            Ipv4Addr::from_bits(address.to_bits().wrapping_add_signed(by.into())).into()
        }
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits().wrapping_add_signed(by.into())).into()
        }
    }
}
