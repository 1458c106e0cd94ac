//! The configuration of a NetworkAttachmentDefinition, read for two questions only: in which pools
//! can the rows of a pod on this network be, and which addresses has it without a row?
//!
//! The configuration is foreign input. Nothing here fails as a whole because one range is bad, and
//! nothing here looks at files, whatever the configuration names.

mod conf;
mod given;
mod span;

use std::{collections::HashSet, net::IpAddr};

use serde_json::{Value, error::Category};

pub use self::span::{Span, handed_out, hands_out};
use self::{conf::handed, given::Given};
use crate::address::{Range, pool_name};

/// One whereabouts IPAM section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ipam {
    /// `network_name`: a separate address domain, and a prefix of every pool's name.
    pub network_name: Option<Box<str>>,
    /// The ranges, masked. Empty where only the node's flat file has one, which we cannot see.
    pub ranges: Box<[Range]>,
    /// The addresses that each range entry hands out, in the order of the configuration: those of one range may differ.
    pub spans: Box<[Span]>,
    /// `addresses`: each pod gets them beside those of the ranges, and they have no row.
    pub addresses: Box<[IpAddr]>,
    /// `enable_overlapping_ranges`: each address is reserved across ranges. So unless told otherwise.
    pub reserves: bool,
    /// Whether multus reports the interfaces: of a version of CNI before 0.3.0, or of none, it writes no entry.
    pub reported: bool,
    /// Where `node_slice_size` is set: the name of the NodeSlicePool that cuts the range up.
    pub slices: Option<Box<str>>,
    /// The parts that could not be read: why, in one sentence each.
    pub problems: Box<[String]>,
}

impl Ipam {
    /// Names of the pools for a pod, without node slices.
    pub fn pool_names(&self) -> impl Iterator<Item = String> {
        let ranges = self.ranges.iter();
        ranges.map(|range| pool_name(self.network_name.as_deref(), None, *range))
    }

    /// Name of the pool for a pod on `node`, whose slice is `slice`.
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
    /// A key that tells something stands several times, letter by letter or in upper and lower case.
    #[error("`{0}` stands there several times")]
    EqualKeys(String),
    /// It has neither a `type` nor any plugin.
    #[error("the configuration names no plugin")]
    NoPlugin,
}

impl InvalidConfig {
    fn mismatch(path: &str) -> Self {
        Self::Json(format!("`{path}` is not of the type that belongs there"))
    }
}

/// The whereabouts sections of a `spec.config`, where `definition` is the name of its definition: none if another IPAM
/// is used, one for a single configuration, any number for a list of plugins (upstream's own loop looks at
/// the first only).
///
/// # Errors
/// When the text as a whole tells nothing.
pub fn parse(config: &str, definition: &str) -> Result<Vec<Ipam>, InvalidConfig> {
    if config.trim().is_empty() {
        return Err(InvalidConfig::Empty);
    }
    let mut sections = Vec::new();
    for plugin in handed(config, definition)? {
        sections.extend(section(&plugin)?);
    }
    Ok(sections)
}

/// The section of whereabouts in what a plugin is handed, if there is one.
fn section(plugin: &Value) -> Result<Option<Ipam>, InvalidConfig> {
    let ipam = Given::new("", Some(plugin)).member("ipam")?;
    // The plugin reads the type alone, and calls the IPAM of that name. Others give the same keys other types.
    if ipam.member("type")?.text()? != "whereabouts" {
        return Ok(None);
    }
    let of_plugin = |key: &str| plugin.get(key).and_then(Value::as_str).unwrap_or_default();
    let reported = has_interfaces(of_plugin("cniVersion"));
    read_section(&ipam, of_plugin("name"), reported).map(Some)
}

/// Whether the results of this version of CNI name interfaces.
fn has_interfaces(version: &str) -> bool {
    let mut numbers = version.split('.').map(str::parse::<u32>);
    let (Some(Ok(major)), Some(Ok(minor))) = (numbers.next(), numbers.next()) else {
        return false;
    };
    (major, minor) >= (0, 3)
}

/// Reads a section of the plugin that has this name.
fn read_section(ipam: &Given<'_>, name: &str, reported: bool) -> Result<Ipam, InvalidConfig> {
    let text = |of: &Given<'_>, name: &str| of.member(name)?.text();
    let exclude = |of: &Given<'_>| {
        let items = of.member("exclude")?.items()?;
        items.iter().map(Given::text).collect::<Result<Vec<_>, _>>()
    };
    let network_name = text(ipam, "network_name")?;
    let mut seen = HashSet::new();
    let mut ranges = Vec::new();
    let mut spans = Vec::new();
    let mut problems = Vec::new();
    let mut take = |key: String, text: &str, start, end, exclude: &[String]| {
        let Some((range, first, last)) = read_range(text, start, end) else {
            // Where it stands, and not what: a configuration may hold what is nobody's business.
            problems.push(format!("`{key}` is no range of addresses"));
            return;
        };
        spans.push(Span::new(range, first, last, excluded(range, exclude)));
        if seen.insert(range) {
            ranges.push(range);
        }
    };
    let range = text(ipam, "range")?;
    let start = sloppy_address(&text(ipam, "range_start")?);
    let end = sloppy_address(&text(ipam, "range_end")?);
    let passed_over = exclude(ipam)?;
    if !range.is_empty() {
        take("range".to_owned(), &range, start, end, &passed_over);
    }
    let entries = ipam.member("ipRanges")?.items()?;
    for (place, entry) in entries.iter().enumerate() {
        let start = entry.member("range_start")?.address()?;
        let end = entry.member("range_end")?.address()?;
        let key = format!("ipRanges[{place}].range");
        take(key, &text(entry, "range")?, start, end, &exclude(entry)?);
    }
    let slices = (!text(ipam, "node_slice_size")?.is_empty())
        .then_some([&*network_name, name].into_iter().find(|it| !it.is_empty()));
    if slices == Some(None) {
        problems.push("node_slice_size without network_name or name".to_owned());
    }
    // Those that cannot be read are left out: no pool depends on them.
    let addresses = ipam.member("addresses")?.items().unwrap_or_default();
    let addresses = addresses.iter().filter_map(|entry| {
        let entry = text(entry, "address").ok()?;
        let (address, _) = entry.split_once('/')?;
        Some(address.parse::<IpAddr>().ok()?.to_canonical())
    });
    Ok(Ipam {
        addresses: addresses.collect(),
        reserves: ipam.member("enable_overlapping_ranges")?.flag(true)?,
        reported,
        slices: slices.flatten().map(Into::into),
        network_name: Some(network_name)
            .filter(|name| !name.is_empty())
            .map(Into::into),
        ranges: ranges.into(),
        spans: spans.into(),
        problems: problems.into(),
    })
}

/// The range, and the first and the last address as far as they are told. The text is `X/len`, or `A-B/len`, which stands
/// for the network of `B/len` and tells both in place of `start` and `end`.
fn read_range(
    text: &str,
    start: Option<IpAddr>,
    end: Option<IpAddr>,
) -> Option<(Range, Option<IpAddr>, Option<IpAddr>)> {
    let sloppy_range = |text: &str| Range::parse(&without_zeros(text));
    let Some((first, rest)) = text.split_once('-') else {
        return Some((sloppy_range(text)?.masked(), start, end));
    };
    let (first, range) = (sloppy_address(first)?, sloppy_range(rest)?.masked());
    let (last, _) = rest.split_once('/')?;
    let last = sloppy_address(last);
    range.contains(first).then_some((range, Some(first), last))
}

/// An address as the plugin reads it, which lets zeros stand before each number.
fn sloppy_address(text: &str) -> Option<IpAddr> {
    without_zeros(text).parse().ok()
}

/// The text without zeros that stand before other digits.
fn without_zeros(text: &str) -> String {
    let mut shorter = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins = !shorter.ends_with(|last: char| last.is_ascii_hexdigit());
        let goes_on = letters.peek().is_some_and(char::is_ascii_hexdigit);
        if letter != '0' || !begins || !goes_on {
            shorter.push(letter);
        }
    }
    shorter
}

/// The parts of this range that are excluded: ranges or single addresses. With one that is neither, the plugin gives out nothing.
fn excluded(range: Range, texts: &[String]) -> Box<[Range]> {
    let excluded = |text: &String| {
        let single = || {
            let address: IpAddr = text.parse().ok()?;
            let length = if address.to_canonical().is_ipv4() {
                32
            } else {
                128
            };
            Range::parse(&format!("{text}/{length}"))
        };
        Range::parse(text).or_else(single)
    };
    let all: Option<Box<[_]>> = texts.iter().map(excluded).collect();
    all.unwrap_or_else(|| [range].into())
}

/// The fault of a text of JSON, and its place, without any of the values in it: configurations of CNI plugins may
/// hold tokens and passwords, and what is said here ends in logs and reports.
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
mod tests;
