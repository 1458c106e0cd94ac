//! Paths outside of the resource space: the version, and whether a group is served.

use serde_json::{Value, json};

use crate::handlers::Answer;
use crate::request::{Request, Verb};
use crate::server::Inner;
use crate::status::{Failure, json_response, page_not_found};

pub(crate) fn answer(inner: &Inner, request: &Request) -> Answer {
    if request.verb != Verb::Get {
        return Err(Failure::of_code(405));
    }
    let parts: Vec<&str> = request
        .path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let is_served = |group: &str, version: &str| {
        let mut all = inner.registry.all().iter();
        all.any(|resource| resource.group == group && resource.version == version)
    };
    let has_group = |group: &str| inner.registry.all().iter().any(|it| it.group == group);
    Ok(match parts.as_slice() {
        ["apis", group] if has_group(group) => {
            json_response(200, &json!({ "kind": "APIGroup", "name": group }))
        }
        ["version"] => json_response(200, &version(&inner.options.version)),
        // Its kinds have no schemas.
        ["openapi", "v3", "apis", group, version] if is_served(group, version) => {
            let document = json!({ "openapi": "3.0.0", "components": { "schemas": {} } });
            json_response(200, &document)
        }
        _ => page_not_found(),
    })
}

fn version(git_version: &str) -> Value {
    let mut numbers = git_version.trim_start_matches('v').split('.');
    json!({
        "major": numbers.next().unwrap_or("1"),
        "minor": numbers.next().unwrap_or("0"),
        "gitVersion": git_version,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "2026-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "in-process",
    })
}
