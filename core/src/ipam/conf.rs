//! The text of a definition up to the sections that whereabouts is handed: what multus and libcni make of it.
//!
//! multus reads it as a map, and gives it the name of the definition where it has none. Its `type` tells whether it is
//! one plugin or a list of them. libcni hands each plugin its own part, as a map whose members stand in the
//! order of their keys, and the name of the whole.

use serde_json::{Map, Value};

use super::{InvalidConfig, fault, given::Given};
use crate::text::Members;

/// The configurations that the plugins get, where the definition has this name.
pub(super) fn handed(config: &str, definition: &str) -> Result<Vec<Value>, InvalidConfig> {
    let members: Members<String, Value> =
        serde_json::from_str(config).map_err(|error| InvalidConfig::Json(fault(&error)))?;
    let mut whole: Map<_, _> = members.0.iter().cloned().collect();
    let is_named = whole.get("name").is_some_and(|name| name != "");
    let read: Vec<Value> = if is_named {
        let members = members.0.into_iter();
        members.map(|member| Value::from_iter([member])).collect()
    } else {
        whole.insert("name".to_owned(), definition.into());
        vec![Value::Object(whole.clone())]
    };
    let read = Given::new("", &read);
    let (kind, name) = type_and_name(&read)?;
    if !kind.is_empty() {
        whole.insert("name".to_owned(), name.into());
        return Ok(vec![with_type("", Value::Object(whole))?]);
    }
    let types = read.member("plugins")?.items(type_and_name)?;
    if types.first().is_none_or(|(kind, _)| kind.is_empty()) {
        return Err(InvalidConfig::NoPlugin);
    }
    // From here on libcni looks, and wants the very keys.
    let name = match whole.get("name") {
        Some(Value::String(name)) => name.clone(),
        _ => return Err(InvalidConfig::mismatch("name")),
    };
    let plugins = match whole.remove("plugins") {
        Some(Value::Array(plugins)) if !plugins.is_empty() => plugins,
        _ => return Err(InvalidConfig::NoPlugin),
    };
    let plugins = plugins.into_iter().enumerate().map(|(place, mut plugin)| {
        if let Value::Object(plugin) = &mut plugin {
            plugin.insert("name".to_owned(), name.clone().into());
        }
        with_type(&format!("plugins[{place}]"), plugin)
    });
    plugins.collect()
}

/// The fields that multus and libcni read.
fn type_and_name(plugin: &Given<'_>) -> Result<(String, String), InvalidConfig> {
    plugin.member("ipam")?.member("type")?.text()?;
    let kind = plugin.member("type")?.text()?;
    Ok((kind, plugin.member("name")?.text()?))
}

/// The configuration that a plugin gets, if libcni finds its type in it.
fn with_type(path: &str, plugin: Value) -> Result<Value, InvalidConfig> {
    let (kind, _) = type_and_name(&Given::new(path, [&plugin]))?;
    if kind.is_empty() {
        let path = format!("{path}.type");
        return Err(InvalidConfig::mismatch(path.trim_start_matches('.')));
    }
    Ok(plugin)
}
