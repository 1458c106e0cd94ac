//! The `addresses` of a whereabouts configuration: whereabouts gives them to each pod of the definition, beside those
//! of the ranges, and keeps no row of them.

use std::net::IpAddr;

use serde_json::Value;

/// Those of a `spec.config`; none of what cannot be read.
pub(super) fn of(config: &str) -> Vec<IpAddr> {
    let config: Value = serde_json::from_str(config).unwrap_or_default();
    let plugins = field(&config, "plugins").and_then(Value::as_array);
    let plugins = plugins.map_or(&[][..], Vec::as_slice);
    let ipams = [&config].into_iter().chain(plugins);
    let ipams = ipams.filter_map(|plugin| field(plugin, "ipam"));
    let ours = ipams.filter(|ipam| field(ipam, "type").is_some_and(|it| it == "whereabouts"));
    let lists = ours.filter_map(|ipam| field(ipam, "addresses")?.as_array());
    lists.flatten().filter_map(address).collect()
}

/// `address/length`.
fn address(entry: &Value) -> Option<IpAddr> {
    let text = field(entry, "address")?.as_str()?;
    let (address, _) = text.split_once('/')?;
    Some(address.parse::<IpAddr>().ok()?.to_canonical())
}

/// Go reads the names of fields whatever the case of their letters.
fn field<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    let fields = object.as_object()?.iter();
    let mut named = fields.filter(|(key, _)| key.eq_ignore_ascii_case(name));
    named.next_back().map(|(_, value)| value)
}
