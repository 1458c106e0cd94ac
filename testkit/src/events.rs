//! Events have one storage and two faces: core/v1 and events.k8s.io/v1.
//!
//! They are stored in the core form. Names that differ are mapped. A field that only the core form
//! has appears under its `deprecated…` name in the other.

use serde_json::{Map, Value};

use crate::resources::Form;
use crate::status::Cause;
use crate::write::text;

/// Core name and events.k8s.io name of the fields that differ.
const FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

fn rename(
    value: &mut Value,
    api_version: &str,
    pairs: impl Iterator<Item = (&'static str, &'static str)>,
) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    map.insert("apiVersion".to_owned(), api_version.into());
    for (from, to) in pairs {
        if let Some(inner) = map.remove(from) {
            map.insert(to.to_owned(), inner);
        }
    }
}

/// The events.k8s.io/v1 form of a stored event.
pub(crate) fn to_v1(mut value: Value) -> Value {
    rename(&mut value, "events.k8s.io/v1", FIELDS.into_iter());
    value
}

/// The stored form of an events.k8s.io/v1 event.
pub(crate) fn to_stored(mut value: Value) -> Value {
    rename(
        &mut value,
        "v1",
        FIELDS.into_iter().map(|(core, new)| (new, core)),
    );
    if let Some(map) = value.as_object_mut() {
        map.entry("involvedObject")
            .or_insert_with(|| Map::new().into());
    }
    value
}

/// The rules for new events; those of events.k8s.io/v1 are stricter.
pub(crate) fn validate(form: Form, value: &Value, causes: &mut Vec<Cause>) {
    let timed = !text(value, "/eventTime").is_empty();
    let namespace = text(value, "/metadata/namespace");
    let involved = text(value, "/involvedObject/namespace");
    let fits = if involved.is_empty() {
        namespace == "default" || (timed && namespace == "kube-system")
    } else {
        timed || involved == namespace
    };
    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &format!("\"{involved}\""),
            "does not match event.namespace",
        ));
    }
    if timed {
        let reporter = match form {
            Form::Stored => "reportingComponent",
            Form::EventsV1 => "reportingController",
        };
        for (pointer, field) in [
            ("/reportingComponent", reporter),
            ("/reportingInstance", "reportingInstance"),
            ("/action", "action"),
            ("/reason", "reason"),
        ] {
            if text(value, pointer).is_empty() {
                causes.push(Cause::required(field));
            }
        }
        for (field, limit) in [
            ("reportingInstance", 128),
            ("action", 128),
            ("reason", 128),
            ("message", 1024),
        ] {
            if text(value, &format!("/{field}")).len() > limit {
                causes.push(Cause::invalid(
                    field,
                    "\"\"",
                    &format!("can have at most {limit} characters"),
                ));
            }
        }
    }
    if form == Form::EventsV1 {
        if !timed {
            causes.push(Cause::required("eventTime"));
        }
        let kind = text(value, "/type");
        if !matches!(kind, "Normal" | "Warning") {
            causes.push(Cause::invalid(
                "type",
                "\"\"",
                &format!("has invalid value: {kind}"),
            ));
        }
    }
}
