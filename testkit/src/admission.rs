//! The steps before an object is stored: namespace check, defaults, pruning, validation.

use serde_json::{Value, json};

use crate::events;
use crate::handlers::ResourceCall;
use crate::resources::Resource;
use crate::schema::Schema;
use crate::status::{Cause, Failure};
use crate::store::{Key, Store};
use crate::write::text;

/// Whether the request's namespace takes new objects.
pub(crate) fn namespace_accepts(call: &ResourceCall<'_>, store: &Store) -> Result<(), Failure> {
    let namespace = &call.request.namespace;
    if namespace.is_empty() || !call.inner.options.require_namespaces {
        return Ok(());
    }
    let table = call.inner.table("namespaces");
    if store.latest(table, &Key::new("", namespace)).is_some() {
        return Ok(());
    }
    let namespaces = call.inner.registry.get(table);
    Err(Failure::not_found(namespaces, namespace))
}

/// The defaults of the API server for pods, as far as ipgc and the tests read them.
pub(crate) fn set_defaults(resource: &Resource, value: &mut Value) {
    if resource.is_pod() {
        let spec = &mut value["spec"];
        for (field, default) in [
            ("terminationGracePeriodSeconds", json!(30)),
            ("restartPolicy", json!("Always")),
            ("dnsPolicy", json!("ClusterFirst")),
            ("schedulerName", json!("default-scheduler")),
        ] {
            if spec[field].is_null() {
                spec[field] = default;
            }
        }
        value["status"] = json!({ "phase": "Pending", "qosClass": "BestEffort" });
    }
}

/// Removes what the schema of a custom resource does not know.
pub(crate) fn prune(resource: &Resource, value: &mut Value) {
    let (Some(Schema::Object(members)), Some(map)) = (&resource.schema, value.as_object_mut())
    else {
        return;
    };
    map.retain(|key, _| {
        matches!(key.as_str(), "apiVersion" | "kind" | "metadata")
            || members.iter().any(|member| member.name == key)
    });
    for member in members {
        if let Some(inner) = map.get_mut(member.name) {
            member.schema.prune(inner);
        }
    }
}

/// Whether the object may be stored.
pub(crate) fn validate(call: &ResourceCall<'_>, value: &Value) -> Result<(), Failure> {
    let resource = call.resource;
    let mut causes = Vec::new();
    if let Some(schema) = &resource.schema {
        schema.validate(value, "", &mut causes);
    }
    if resource.is("events.k8s.io", "events") {
        events::validate(value, &mut causes);
    }
    none_or_invalid(resource, text(value, "/metadata/name"), &causes)
}

fn none_or_invalid(resource: &Resource, name: &str, causes: &[Cause]) -> Result<(), Failure> {
    if causes.is_empty() {
        return Ok(());
    }
    let (group, kind) = (&resource.group, &resource.kind);
    Err(Failure::invalid(group, kind, name, causes))
}

/// Names are DNS subdomains.
pub(crate) fn validate_name(resource: &Resource, name: &str) -> Result<(), Failure> {
    let cause = || Cause::invalid("metadata.name", &format!("\"{name}\""), SUBDOMAIN);
    let causes: Vec<_> = (!is_subdomain(name)).then(cause).into_iter().collect();
    none_or_invalid(resource, name, &causes)
}

const SUBDOMAIN: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

fn is_subdomain(name: &str) -> bool {
    let label_fits = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    name.len() <= 253 && name.split('.').all(label_fits)
}

/// Name and uid stay what they are.
pub(crate) fn immutable_metadata(
    resource: &Resource,
    value: &Value,
    old: &Value,
    name: &str,
) -> Result<(), Failure> {
    let mut causes = Vec::new();
    for field in ["name", "uid"] {
        let pointer = format!("/metadata/{field}");
        let (new, old) = (text(value, &pointer), text(old, &pointer));
        if new != old {
            causes.push(Cause::invalid(
                format!("metadata.{field}"),
                &format!("\"{new}\""),
                "field is immutable",
            ));
        }
    }
    none_or_invalid(resource, name, &causes)
}
