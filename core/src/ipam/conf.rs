//! The text of a definition up to the sections that whereabouts is handed: what multus and libcni make of it.
//!
//! multus reads it as a map, and gives it the name of the definition where it has none. Its `type` tells whether it is
//! one plugin or a list of them. libcni hands each plugin its own part, as a map whose members stand in the
//! order of their keys, and the name of the whole.

use std::net::IpAddr;

use serde_json::{Map, Value};

use super::{InvalidConfig, fault};
use crate::go_json::{Decode, Members, Mismatch, Slice, Struct, fields, is_key};

/// What a plugin is handed.
pub(super) type Handed = Map<String, Value>;

/// What multus and libcni look at.
#[derive(Default)]
struct Plugin {
    kind: String,
    name: String,
    ipam: AnyIpam,
}

fields!(Plugin { "type" => kind, "name" => name, "ipam" => ipam });

/// The same, where it is a list.
#[derive(Default)]
struct List {
    plugins: Slice<Plugin>,
}

fields!(List { "plugins" => plugins });

/// The `ipam` section of whereabouts, as far as it tells of addresses.
pub(super) struct Section {
    kind: String,
    pub(super) range: String,
    pub(super) range_start: String,
    pub(super) range_end: String,
    pub(super) exclude: Slice<String>,
    pub(super) ip_ranges: Slice<Entry>,
    pub(super) addresses: Addresses,
    pub(super) network_name: String,
    pub(super) node_slice_size: String,
    pub(super) enable_overlapping_ranges: bool,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            kind: String::new(),
            range: String::new(),
            range_start: String::new(),
            range_end: String::new(),
            exclude: Slice::default(),
            ip_ranges: Slice::default(),
            addresses: Addresses::default(),
            network_name: String::new(),
            node_slice_size: String::new(),
            enable_overlapping_ranges: true,
        }
    }
}

fields!(Section {
    "type" => kind,
    "range" => range,
    "range_start" => range_start,
    "range_end" => range_end,
    "exclude" => exclude,
    "ipRanges" => ip_ranges,
    "addresses" => addresses,
    "network_name" => network_name,
    "node_slice_size" => node_slice_size,
    "enable_overlapping_ranges" => enable_overlapping_ranges,
});

/// One of `ipRanges`.
#[derive(Default)]
pub(super) struct Entry {
    pub(super) range: String,
    pub(super) range_start: Option<IpAddr>,
    pub(super) range_end: Option<IpAddr>,
    pub(super) exclude: Slice<String>,
}

fields!(Entry {
    "range" => range,
    "range_start" => range_start,
    "range_end" => range_end,
    "exclude" => exclude,
});

/// The addresses that whereabouts gives to each pod beside those of ranges, and of which it keeps no row.
#[derive(Default)]
pub(super) struct Addresses(pub(super) Vec<IpAddr>);

/// Those that cannot be read are left out: no pool depends on them.
impl Decode for Addresses {
    fn decode(&mut self, value: &Value) -> Result<(), Mismatch> {
        let entries = value.as_array().into_iter().flatten();
        let address = |entry| {
            let mut address = Address::default();
            address.decode(entry).ok()?;
            let (address, _) = address.text.split_once('/')?;
            Some(address.parse::<IpAddr>().ok()?.to_canonical())
        };
        self.0 = entries.filter_map(address).collect();
        Ok(())
    }
}

/// `address/length`.
#[derive(Default)]
struct Address {
    text: String,
}

fields!(Address { "address" => text });

/// Of an IPAM plugin that may be another one, its type alone.
#[derive(Default)]
struct AnyIpam {
    kind: String,
}

fields!(AnyIpam { "type" => kind });

/// What each plugin of this configuration is handed, where the definition has this name.
pub(super) fn handed(config: &str, definition: &str) -> Result<Vec<Handed>, InvalidConfig> {
    let Members(mut members) =
        serde_json::from_str(config).map_err(|error| InvalidConfig::Json(fault(&error)))?;
    let mut whole: Handed = members.iter().cloned().collect();
    if whole.get("name").is_none_or(|name| name == "") {
        whole.insert("name".to_owned(), definition.into());
        members = whole.clone().into_iter().collect();
    }
    let mut only = Plugin::default();
    let each = |take: &mut dyn FnMut(&str, &Value) -> Result<(), Mismatch>| {
        let mut members = members.iter();
        members.try_for_each(|(key, value)| take(key, value))
    };
    each(&mut |key, value| only.take(key, value))?;
    if !only.kind.is_empty() {
        whole.insert("name".to_owned(), only.name.into());
        return Ok(vec![with_type(whole)?]);
    }
    let mut list = List::default();
    each(&mut |key, value| list.take(key, value))?;
    if list.plugins.first().is_none_or(|it| it.kind.is_empty()) {
        return Err(InvalidConfig::NoPlugin);
    }
    // From here on libcni looks, and wants the very keys.
    let name = match whole.get("name") {
        Some(Value::String(name)) => name.clone(),
        _ => return Err(Mismatch::of("name").into()),
    };
    let plugins = match whole.remove("plugins") {
        Some(Value::Array(plugins)) if !plugins.is_empty() => plugins,
        _ => return Err(InvalidConfig::NoPlugin),
    };
    let plugins = plugins.into_iter().enumerate().map(|(place, plugin)| {
        let within = |it: Mismatch| it.at(place).within("plugins").into();
        let Value::Object(mut plugin) = plugin else {
            return Err(within(Mismatch::of("type")));
        };
        plugin.insert("name".to_owned(), name.clone().into());
        with_type(plugin).map_err(within)
    });
    plugins.collect()
}

/// What a plugin is handed, if libcni finds its type in it.
fn with_type(plugin: Handed) -> Result<Handed, Mismatch> {
    let mut its = Plugin::default();
    let mut members = plugin.iter();
    members.try_for_each(|(key, value)| its.take(key, value))?;
    if its.kind.is_empty() {
        return Err(Mismatch::of("type"));
    }
    Ok(plugin)
}

/// The section of whereabouts in what a plugin is handed, if there is one.
pub(super) fn section(plugin: &Handed) -> Result<Option<Section>, Mismatch> {
    let all = plugin.iter().filter(|(key, _)| is_key(key, "ipam"));
    let all: Vec<_> = all.map(|(_, value)| value).collect();
    let within = |it: Mismatch| it.within("ipam");
    // The plugin reads the type alone, and calls the IPAM of that name. Others give the same keys other types.
    let mut any = AnyIpam::default();
    for ipam in &all {
        any.decode(ipam).map_err(within)?;
    }
    if any.kind != "whereabouts" {
        return Ok(None);
    }
    let mut read = None;
    for ipam in all {
        // whereabouts reads each of them afresh.
        let section = read.insert(Section::default());
        section.decode(ipam).map_err(within)?;
    }
    Ok(read.filter(|section| section.kind == "whereabouts"))
}
