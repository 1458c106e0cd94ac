//! Paths outside of the resource space: version, health, and simple discovery.

use serde_json::{Value, json};

use crate::handlers::Answer;
use crate::request::{Request, Verb};
use crate::resources::api_version;
use crate::server::Inner;
use crate::status::{Failure, bytes_response, json_response, page_not_found};

pub(crate) fn answer(inner: &Inner, request: &Request) -> Answer {
    if request.verb != Verb::Get {
        return Err(Failure::of_code(405));
    }
    let parts: Vec<&str> = request
        .path
        .split('/')
        .filter(|part| !part.is_empty())
        .collect();
    let value = match parts.as_slice() {
        ["healthz" | "livez" | "readyz"] => return Ok(bytes_response(200, b"ok".to_vec())),
        ["version"] => version(&inner.options.version),
        ["api", version] => resources(inner, "", version),
        ["apis", group, version] => resources(inner, group, version),
        ["openapi", "v3", "apis", group, version] => match resources(inner, group, version) {
            Value::Null => Value::Null,
            // Its kinds have no schemas.
            _ => json!({ "openapi": "3.0.0", "components": { "schemas": {} } }),
        },
        _ => Value::Null,
    };
    if value.is_null() {
        return Ok(page_not_found());
    }
    Ok(json_response(200, &value))
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

/// The resources of an API group; null if there is no such group.
fn resources(inner: &Inner, group: &str, version: &str) -> Value {
    let mut list = Vec::new();
    for resource in inner.registry.all() {
        if resource.group != group || resource.version != version {
            continue;
        }
        let entry = json!({
            "name": resource.plural,
            "singularName": resource.kind.to_lowercase(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": Verb::READS.iter().chain(Verb::WRITES).map(|verb| verb.as_str()).collect::<Vec<_>>(),
        });
        if resource.status {
            let mut status = entry.clone();
            status["name"] = format!("{}/status", resource.plural).into();
            status["verbs"] = json!(["get", "patch", "update"]);
            list.push(status);
        }
        list.push(entry);
    }
    if (group, version) == ("authorization.k8s.io", "v1") {
        list.push(json!({
            "name": "selfsubjectaccessreviews",
            "singularName": "selfsubjectaccessreview",
            "namespaced": false,
            "kind": "SelfSubjectAccessReview",
            "verbs": ["create"],
        }));
    }
    if list.is_empty() {
        return Value::Null;
    }
    json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": list,
    })
}
