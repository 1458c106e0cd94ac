//! The rules that the API server has for new events of events.k8s.io/v1.

use serde_json::Value;

use crate::status::Cause;
use crate::write::text;

pub(crate) fn validate(value: &Value, causes: &mut Vec<Cause>) {
    let timed = !text(value, "/eventTime").is_empty();
    let namespace = text(value, "/metadata/namespace");
    let involved = text(value, "/regarding/namespace");
    let fits = if involved.is_empty() {
        namespace == "default" || (timed && namespace == "kube-system")
    } else {
        timed || involved == namespace
    };
    // The API server names fields as core/v1 has them.
    if !fits {
        causes.push(Cause::invalid(
            "involvedObject.namespace",
            &format!("\"{involved}\""),
            "does not match event.namespace",
        ));
    }
    if timed {
        for (field, pointer, is_required, limit) in [
            (
                "reportingController",
                "/reportingController",
                true,
                usize::MAX,
            ),
            ("reportingInstance", "/reportingInstance", true, 128),
            ("action", "/action", true, 128),
            ("reason", "/reason", true, 128),
            ("message", "/note", false, 1024),
        ] {
            let text = text(value, pointer);
            if is_required && text.is_empty() {
                causes.push(Cause::required(field));
            }
            if text.len() > limit {
                let why = format!("can have at most {limit} characters");
                causes.push(Cause::invalid(field, "\"\"", &why));
            }
        }
    } else {
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
