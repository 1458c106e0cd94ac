//! The text of a definition up to the sections that whereabouts is handed: what multus and libcni make of it.
//!
//! multus reads it as a map, and gives it the name of the definition where it has none. Its `type` tells whether it is
//! one plugin or a list of them. libcni hands each plugin its own part, and name and version of the whole.

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

use super::{InvalidConfig, fault, given::Given};

/// The keys that multus reads before libcni makes a map of them. Each may stand there once.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Once {
    r#type: IgnoredAny,
    name: IgnoredAny,
    plugins: IgnoredAny,
    ipam: IgnoredAny,
}

/// The configurations that the plugins get, where the definition has this name.
pub(super) fn handed(config: &str, definition: &str) -> Result<Vec<Value>, InvalidConfig> {
    let mut whole: Map<String, Value> =
        serde_json::from_str(config).map_err(|error| InvalidConfig::Json(fault(&error)))?;
    if serde_json::from_str::<Once>(config).is_err() {
        return Err(InvalidConfig::EqualKeys(
            "type, name, plugins or ipam".to_owned(),
        ));
    }
    if whole.get("name").is_none_or(|name| name == "") {
        whole.insert("name".to_owned(), definition.into());
    }
    let whole = Value::Object(whole);
    let read = Given::new("", Some(&whole));
    if !kind(&read)?.is_empty() {
        return Ok(vec![whole]);
    }
    let plugins = read.member("plugins")?.items()?;
    let first = plugins.first().map(kind).transpose()?;
    if first.is_none_or(|kind| kind.is_empty()) {
        return Err(InvalidConfig::NoPlugin);
    }
    // From here on libcni looks, and wants the very keys.
    let Some(Value::String(name)) = whole.get("name") else {
        return Err(InvalidConfig::mismatch("name"));
    };
    let Some(Value::Array(plugins)) = whole.get("plugins") else {
        return Err(InvalidConfig::NoPlugin);
    };
    let version = whole.get("cniVersion").cloned().unwrap_or_default();
    let plugins = plugins.iter().enumerate().map(|(place, plugin)| {
        let mut plugin = plugin.clone();
        if let Value::Object(plugin) = &mut plugin {
            plugin.insert("cniVersion".to_owned(), version.clone());
            plugin.insert("name".to_owned(), name.clone().into());
        }
        let path = format!("plugins[{place}]");
        if kind(&Given::new(&path, Some(&plugin)))?.is_empty() {
            return Err(InvalidConfig::mismatch(&format!("{path}.type")));
        }
        Ok(plugin)
    });
    plugins.collect()
}

/// The type of a plugin. multus and libcni read its name and the type of its IPAM too, which have to be texts.
fn kind(plugin: &Given<'_>) -> Result<String, InvalidConfig> {
    plugin.member("ipam")?.member("type")?.text()?;
    plugin.member("name")?.text()?;
    plugin.member("type")?.text()
}
