//! The configuration of a NetworkAttachmentDefinition, read for one question only: in which pools
//! can the rows of a pod on this network be?
//!
//! The configuration is foreign input. Nothing here fails as a whole because one range is bad, and
//! nothing here looks at files, whatever the configuration names.

mod span;

use std::{collections::HashSet, net::IpAddr};

use serde::Deserialize;
use serde_json::{error::Category, value::RawValue};

pub use self::span::{Span, handed_out};
use crate::address::{Range, pool_name};

/// One whereabouts IPAM section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipam {
    /// `network_name`: a separate address domain, and a prefix of every pool's name.
    pub network_name: Option<Box<str>>,
    /// The ranges, masked. Empty where only the node's flat file has one, which we cannot see.
    pub ranges: Box<[Range]>,
    /// What each range entry hands out, in the order of the configuration: those of one range may differ.
    pub spans: Box<[Span]>,
    /// `enable_overlapping_ranges`: each address is reserved across ranges. So unless told otherwise.
    pub reserves: bool,
    /// Where `node_slice_size` is set: the name of the NodeSlicePool that cuts the range up.
    pub slices: Option<Box<str>>,
    /// What could not be read, one sentence each.
    pub problems: Box<[String]>,
}

impl Ipam {
    /// Names of the pools for a pod, without node slices.
    pub fn pool_names(&self) -> impl Iterator<Item = String> {
        self.ranges
            .iter()
            .map(|range| pool_name(self.network_name.as_deref(), None, *range))
    }

    /// Name of the pool for a pod on `node`, whose slice is `slice`.
    #[must_use]
    pub fn slice_pool_name(&self, node: &str, slice: Range) -> String {
        pool_name(self.network_name.as_deref(), Some(node), slice)
    }
}

/// Why a configuration cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConfig {
    /// `spec.config` is empty: the configuration lies on the node's disk.
    #[error("the configuration is empty, it may be a file on the node")]
    Empty,
    /// It is not JSON of the right shape.
    #[error("the configuration does not parse: {0}")]
    Json(String),
    /// It has neither a `type` nor any plugin.
    #[error("the configuration names no plugin")]
    NoPlugin,
}

#[derive(Deserialize)]
struct Conf<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    ipam: Option<&'a RawValue>,
    #[serde(borrow)]
    plugins: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct IpamType {
    #[serde(rename = "type")]
    kind: Option<String>,
}

#[derive(Deserialize)]
struct IpamConf<'a> {
    range: Option<String>,
    #[serde(borrow)]
    range_start: Option<&'a RawValue>,
    #[serde(borrow)]
    range_end: Option<&'a RawValue>,
    #[serde(borrow)]
    exclude: Option<&'a RawValue>,
    #[serde(rename = "ipRanges", borrow)]
    ip_ranges: Option<Vec<RangeConf<'a>>>,
    network_name: Option<String>,
    node_slice_size: Option<String>,
    #[serde(borrow)]
    enable_overlapping_ranges: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RangeConf<'a> {
    range: Option<String>,
    // Of any shape: what cannot be read narrows nothing, as with the plugin.
    #[serde(borrow)]
    range_start: Option<&'a RawValue>,
    #[serde(borrow)]
    range_end: Option<&'a RawValue>,
    #[serde(borrow)]
    exclude: Option<&'a RawValue>,
}

impl RangeConf<'_> {
    /// The span of `range`, where the text of the range itself may be `first-last/length`.
    fn span(&self, text: &str, range: Range) -> Span {
        let is_in = |address: &IpAddr| range.contains(*address);
        let named = |raw: Option<&RawValue>| {
            let text: String = serde_json::from_str(raw?.get()).ok()?;
            text.parse().ok()
        };
        let (first, last) = match text.split_once('-') {
            Some((first, last)) => {
                let last = last.split_once('/').map_or(last, |(last, _)| last);
                (first.trim().parse().ok(), last.trim().parse().ok())
            }
            None => (None, None),
        };
        Span {
            range,
            first: first.or_else(|| named(self.range_start)).filter(is_in),
            last: last.or_else(|| named(self.range_end)).filter(is_in),
            excluded: self.excluded(),
        }
    }

    /// Ranges or single addresses.
    fn excluded(&self) -> Box<[Range]> {
        let texts = self.exclude.map_or("null", RawValue::get);
        let texts: Option<Vec<String>> = serde_json::from_str(texts).ok().flatten();
        let texts = texts.into_iter().flatten();
        let ranges = texts.filter_map(|text| match text.parse::<IpAddr>() {
            Ok(address) => Some(Range::single(address)),
            Err(_) => Range::parse(&text).ok(),
        });
        ranges.collect()
    }
}

/// The whereabouts sections of a `spec.config`: none if another IPAM is used, one for a single
/// configuration, any number for a list of plugins (upstream itself looks at the first only).
///
/// # Errors
/// When the text as a whole tells nothing.
pub fn parse(config: &str) -> Result<Vec<Ipam>, InvalidConfig> {
    if config.trim().is_empty() {
        return Err(InvalidConfig::Empty);
    }
    let conf: Conf = from_json(config)?;
    if conf.kind.as_deref().is_some_and(|kind| !kind.is_empty()) {
        return Ok(section(conf.ipam, conf.name.as_deref())?
            .into_iter()
            .collect());
    }
    let plugins = conf.plugins.unwrap_or_default();
    if plugins.is_empty() {
        return Err(InvalidConfig::NoPlugin);
    }
    let mut sections = Vec::new();
    for plugin in plugins {
        let plugin: Conf = from_json(plugin.get())?;
        // The runtime hands a plugin of a list no name but its own entry's.
        sections.extend(section(plugin.ipam, plugin.name.as_deref())?);
    }
    Ok(sections)
}

fn section(ipam: Option<&RawValue>, name: Option<&str>) -> Result<Option<Ipam>, InvalidConfig> {
    let Some(ipam) = ipam else { return Ok(None) };
    // Other IPAM plugins give the same keys other shapes: look at the type alone first.
    let kind: Option<IpamType> = from_json(ipam.get())?;
    if kind.and_then(|ipam| ipam.kind).as_deref() != Some("whereabouts") {
        return Ok(None);
    }
    let conf: IpamConf = from_json(ipam.get())?;
    let non_empty = |text: Option<String>| text.filter(|text| !text.is_empty());
    let network_name = non_empty(conf.network_name);
    let slices = non_empty(conf.node_slice_size).map(|_| {
        network_name
            .clone()
            .or_else(|| name.map(str::to_owned))
            .unwrap_or_default()
    });
    let own = RangeConf {
        range: conf.range,
        range_start: conf.range_start,
        range_end: conf.range_end,
        exclude: conf.exclude,
    };
    let entries = [own].into_iter();
    let entries = entries.chain(conf.ip_ranges.into_iter().flatten());
    let mut seen = HashSet::new();
    let mut ranges = Vec::new();
    let mut spans = Vec::new();
    let mut problems = Vec::new();
    for (place, entry) in entries.enumerate() {
        let text = entry.range.as_deref().unwrap_or_default();
        match parse_range(text) {
            Some(range) => {
                spans.push(entry.span(text, range));
                if seen.insert(range) {
                    ranges.push(range);
                }
            }
            None if text.is_empty() => {}
            // Where it stands, and not what: a configuration may hold what is nobody's business.
            None => problems.push(match place.checked_sub(1) {
                None => "`range` is no range of addresses".to_owned(),
                Some(place) => format!("`ipRanges[{place}].range` is no range of addresses"),
            }),
        }
    }
    let reserves = conf.enable_overlapping_ranges.map(RawValue::get);
    if slices.as_deref() == Some("") {
        problems.push("node_slice_size without network_name or name".to_owned());
    }
    Ok(Some(Ipam {
        network_name: network_name.map(Into::into),
        ranges: ranges.into(),
        spans: spans.into(),
        reserves: reserves != Some("false"),
        slices: slices.filter(|name| !name.is_empty()).map(Into::into),
        problems: problems.into(),
    }))
}

/// `X/len`, or `A-B/len`, which stands for the network of `B/len`.
fn parse_range(text: &str) -> Option<Range> {
    let cidr = text.split_once('-').map_or(text, |(_, end)| end);
    Some(Range::parse(cidr.trim()).ok()?.masked())
}

fn from_json<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, InvalidConfig> {
    serde_json::from_str(text).map_err(|error| InvalidConfig::Json(fault(&error)))
}

/// What is wrong with a text of JSON, and where, without any of the values in it: configurations of CNI plugins may
/// hold tokens and passwords, and what is said here ends in logs and reports.
#[must_use]
pub fn fault(error: &serde_json::Error) -> String {
    let (line, column) = (error.line(), error.column());
    match error.classify() {
        // Its text quotes the value.
        Category::Data => {
            format!("a value is not of the type that belongs there, at line {line} column {column}")
        }
        Category::Syntax | Category::Eof | Category::Io => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;
    use rstest::rstest;

    fn names(config: &str) -> Vec<String> {
        parse(config)
            .unwrap()
            .iter()
            .flat_map(|ipam| ipam.pool_names().collect::<Vec<_>>())
            .collect()
    }

    #[rstest]
    #[case::single(r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"192.168.2.225/28"}}"#, &["192.168.2.224-28"])]
    #[case::start_and_end(r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"192.168.2.10-192.168.2.20/24"}}"#, &["192.168.2.0-24"])]
    #[case::network_name(r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/8","network_name":"test"}}"#, &["test-10.0.0.0-8"])]
    #[case::dual_stack(r#"{"type":"x","ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"},{"range":"fd00::/64","range_start":"fd00::5"}]}}"#, &["10.0.0.0-24", "fd00---64"])]
    #[case::both(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.1.0.0/24","ipRanges":[{"range":"10.1.0.0/24"},{"range":"10.2.0.0/24"}]}}"#, &["10.1.0.0-24", "10.2.0.0-24"])]
    #[case::conflist(r#"{"name":"l","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}},{"type":"tuning"}]}"#, &["10.0.0.0-24"])]
    #[case::second_plugin(r#"{"name":"l","plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}]}"#, &["10.0.0.0-24"])]
    #[case::other_ipam(r#"{"type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/24"}]],"range":7}}"#, &[])]
    #[case::no_ipam(r#"{"type":"tuning"}"#, &[])]
    #[case::null_ipam(r#"{"type":"tuning","ipam":null}"#, &[])]
    #[case::empty_ipam(r#"{"type":"tuning","ipam":{}}"#, &[])]
    #[case::flat_file(r#"{"type":"macvlan","ipam":{"type":"whereabouts"}}"#, &[])]
    fn configurations_name_pools(#[case] config: &str, #[case] pools: &[&str]) {
        assert_eq!(names(config), pools);
    }

    #[rstest]
    #[case::all(r#""range":"10.0.0.0/24""#, None, None)]
    #[case::in_the_text(
        r#""range":"10.0.0.5-10.0.0.9/24""#,
        Some("10.0.0.5"),
        Some("10.0.0.9")
    )]
    #[case::beside_it(
        r#""range":"10.0.0.0/24","range_start":"10.0.0.5","range_end":"10.0.0.9""#,
        Some("10.0.0.5"),
        Some("10.0.0.9")
    )]
    #[case::outside(
        r#""range":"10.0.0.0/24","range_start":"10.1.0.5","range_end":"10.0.0.9""#,
        None,
        Some("10.0.0.9")
    )]
    #[case::of_another_shape(r#""range":"10.0.0.0/24","range_start":7,"range_end":{}"#, None, None)]
    fn a_range_may_hand_out_a_part_of_it(
        #[case] keys: &str,
        #[case] first: Option<&str>,
        #[case] last: Option<&str>,
    ) {
        let config = format!(r#"{{"type":"x","ipam":{{"type":"whereabouts",{keys}}}}}"#);
        let address = |text: Option<&str>| text.map(|text| text.parse().unwrap());
        let span = Span {
            range: Range::parse("10.0.0.0/24").unwrap(),
            first: address(first),
            last: address(last),
            excluded: [].into(),
        };
        assert_eq!(*parse(&config).unwrap()[0].spans, [span]);
    }

    /// Only of the range beside which they stand, and what cannot be read excludes nothing.
    #[test]
    fn a_range_may_leave_parts_of_it_out() {
        let config = r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24",
            "exclude":["10.0.0.8/29","10.0.0.1","nonsense"],
            "ipRanges":[{"range":"10.1.0.0/24"},{"range":"10.2.0.0/24","exclude":7}]}}"#;
        let ipam = &parse(config).unwrap()[0];
        let excluded = ipam.spans.iter().map(|span| &*span.excluded);
        let own = ["10.0.0.8/29", "10.0.0.1/32"].map(|range| Range::parse(range).unwrap());
        assert_eq!(excluded.collect::<Vec<_>>(), [&own[..], &[], &[]]);
    }

    /// Each part as a text of the range, and what it excludes.
    #[rstest]
    #[case::all("10.0.0.0/24", &[], Some(254))]
    #[case::a_block("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0/25")], Some(127))]
    #[case::an_address("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.9")], Some(253))]
    #[case::the_edges("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0 10.0.0.255")], Some(254))]
    #[case::one_within_the_other("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.16/30 10.0.0.16/28")], Some(238))]
    #[case::all_of_it("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0/8")], Some(0))]
    #[case::of_a_part("10.0.0.0/24", &[("10.0.0.10-10.0.0.19/24", "10.0.0.12 10.0.0.18/31 10.0.0.200")], Some(7))]
    #[case::another_gives_it("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0/25"), ("10.0.0.100-10.0.0.130/24", "")], Some(155))]
    #[case::of_the_other_family("10.0.0.0/24", &[("10.0.0.0/24", "::a00:0/104")], Some(254))]
    #[case::of_ipv6("fd00::/120", &[("fd00::/120", "fd00::/121 10.0.0.0/8")], Some(127))]
    #[case::endless("::/0", &[("::/0", "ffff::/16")], Some((1 << 112) * 0xffff - 1))]
    #[case::two("10.0.0.0/31", &[("10.0.0.0/31", "")], None)]
    fn what_is_handed_out_is_counted_once(
        #[case] range: &str,
        #[case] parts: &[(&str, &str)],
        #[case] count: Option<u128>,
    ) {
        let entries = parts.iter().map(|(range, excluded)| {
            let excluded: Vec<_> = excluded.split_whitespace().collect();
            serde_json::json!({ "range": range, "exclude": excluded })
        });
        let entries: Vec<_> = entries.collect();
        let config = serde_json::json!({ "type": "x", "ipam": { "type": "whereabouts", "ipRanges": entries } });
        let ipam = &parse(&config.to_string()).unwrap()[0];
        let range = Range::parse(range).unwrap();
        assert_eq!(handed_out(range, &ipam.spans), count);
    }

    #[rstest]
    #[case("", true)]
    #[case(r#","enable_overlapping_ranges":true"#, true)]
    #[case(r#","enable_overlapping_ranges":false"#, false)]
    fn addresses_are_reserved_unless_told_otherwise(#[case] key: &str, #[case] reserves: bool) {
        let config = format!(r#"{{"type":"x","ipam":{{"type":"whereabouts"{key}}}}}"#);
        assert_eq!(parse(&config).unwrap()[0].reserves, reserves);
    }

    #[test]
    fn one_bad_range_does_not_hide_the_others() {
        let config = r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0","ipRanges":[{"range":"10.2.0.0/24"},{},{"range":"hunter2"}]}}"#;
        let ipam = &parse(config).unwrap()[0];
        assert_eq!(ipam.pool_names().collect::<Vec<_>>(), ["10.2.0.0-24"]);
        let problems = [
            "`range` is no range of addresses",
            "`ipRanges[2].range` is no range of addresses",
        ];
        assert_eq!(&*ipam.problems, problems);
    }

    #[rstest]
    #[case::of_another_type(r#"{"type":"x","ipam":"hunter2"}"#)]
    #[case::within_it(r#"{"type":"x","ipam":{"type":"whereabouts","ipRanges":"hunter2"}}"#)]
    #[case::of_the_range(r#"{"type":"x","ipam":{"type":"whereabouts","range":["hunter2"]}}"#)]
    #[case::of_the_network(
        r#"{"type":"x","ipam":{"type":"whereabouts","network_name":{"hunter2":1}}}"#
    )]
    #[case::of_the_plugins(r#"{"plugins":"hunter2"}"#)]
    #[case::no_json(r#"{"type":"x","password":hunter2}"#)]
    #[case::after_it(r#"{"type":"x"} hunter2"#)]
    #[case::no_object(r#""hunter2""#)]
    #[case::cut(r#"{"type":"x","password":"hunter2"#)]
    fn what_is_wrong_is_said_without_any_value(#[case] config: &str) {
        let said = parse(config).unwrap_err().to_string();
        assert!(!said.contains("hunter"), "{said}");
        assert!(said.contains("at line 1 column "), "{said}");
    }

    #[rstest]
    #[case(r#"{"name":"n","type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"/24"}}"#, Some("n"))]
    #[case(r#"{"name":"n","type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"24","network_name":"net"}}"#, Some("net"))]
    #[case(r#"{"name":"n","plugins":[{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/16","node_slice_size":"24"}}]}"#, None)]
    #[case(
        r#"{"name":"n","type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/16"}}"#,
        None
    )]
    fn slices_are_named_by_the_network_or_the_configuration(
        #[case] config: &str,
        #[case] slices: Option<&str>,
    ) {
        let ipam = &parse(config).unwrap()[0];
        assert_eq!(ipam.slices.as_deref(), slices);
        let slice = Range::parse("10.0.3.0/24").unwrap();
        let network = ipam.network_name.as_deref();
        assert_eq!(
            ipam.slice_pool_name("node-1", slice),
            format!(
                "{}node-1-10.0.3.0-24",
                network.map_or(String::new(), |n| format!("{n}-"))
            )
        );
    }

    #[rstest]
    #[case("")]
    #[case("   ")]
    #[case("{")]
    #[case("[]")]
    #[case("{}")]
    #[case(r#"{"plugins":[]}"#)]
    #[case(r#"{"plugins":[7]}"#)]
    #[case(r#"{"type":"x","ipam":7}"#)]
    #[case(r#"{"type":"x","ipam":{"type":"whereabouts","range":7}}"#)]
    fn what_tells_nothing_is_an_error(#[case] config: &str) {
        assert!(parse(config).is_err(), "{config}");
    }

    #[test]
    fn a_megabyte_of_ranges_is_read_in_no_time() {
        let ranges: Vec<_> = (0..40_000_u32)
            .map(|n| format!(r#"{{"range":"{}/32"}}"#, std::net::Ipv4Addr::from(n)))
            .collect();
        let config = format!(
            r#"{{"type":"x","ipam":{{"type":"whereabouts","ipRanges":[{}]}}}}"#,
            ranges.join(",")
        );
        assert!(config.len() > 1_000_000);
        let begun = std::time::Instant::now();
        assert_eq!(parse(&config).unwrap()[0].ranges.len(), 40_000);
        assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,200}", range in "[0-9a-f:./-]{0,40}") {
            let _ = parse(&text);
            let _ = parse(&format!(r#"{{"type":"x","ipam":{{"type":"whereabouts","range":"{range}"}}}}"#));
        }
    }
}
