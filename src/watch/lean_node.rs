//! A node as it comes from the API server, with nothing but what tells whether sandboxes run there.
//!
//! Every field but the name may be absent or null.

use ipgc_core::node::{Boot, NO_SANDBOXES_ANNOTATION, NodeState, OUT_OF_SERVICE_TAINT};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{api::core::v1::Node, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use crate::clock::wall;

/// A person's clock may be so much ahead of ours.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// A node, stripped while it is read.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "Node")]
#[serde(try_from = "Value")]
pub struct LeanNode {
    metadata: ObjectMeta,
    state: NodeState,
}

impl LeanNode {
    /// Its name and its state; `None` for an object without a name.
    pub fn into_state(self) -> Option<(String, NodeState)> {
        Some((self.metadata.name?, self.state))
    }
}

impl TryFrom<Value> for LeanNode {
    type Error = String;

    fn try_from(node: Value) -> Result<Self, Self::Error> {
        let (metadata, status) = (&node["metadata"], &node["status"]);
        // An answer that is no Node must not be taken for a node that is gone.
        if !metadata["name"].is_string() {
            return Err("it has no name".to_owned());
        }
        for part in ["spec", "status"] {
            if !node[part].is_null() && !node[part].is_object() {
                return Err(format!("its {part} is no object"));
            }
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let time = |value: &Value| value.as_str()?.parse::<Timestamp>().ok();
        let declaration = &metadata["annotations"][NO_SANDBOXES_ANNOTATION];
        let declared = time(declaration);
        let now = wall();
        let is_ahead = declared.is_some_and(|declared| declared.duration_since(now) > AHEAD);
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        let changed = ready.map(|ready| &ready["lastTransitionTime"]);
        let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
        let version = &metadata["resourceVersion"];
        Ok(Self {
            state: NodeState {
                uid: metadata["uid"].as_str().unwrap_or_default().into(),
                version: version.as_str().unwrap_or_default().into(),
                boot: boot(&status["nodeInfo"]),
                ready: ready.is_some_and(|ready| ready["status"] == "True"),
                ready_changed: changed.and_then(Value::as_str).map(Into::into),
                out_of_service: taints.any(|taint| taint["key"] == OUT_OF_SERVICE_TAINT),
                taint_is_old: false,
                // A statement about a node whose changes bear no time cannot be told from an old one.
                declared_empty: match (declared, changed.and_then(time)) {
                    (Some(declared), Some(changed)) => declared > changed && !is_ahead,
                    _ => false,
                },
                declared_ahead: is_ahead,
                declaration: declaration.as_str().map(Into::into),
                declaration_is_old: false,
            },
            metadata: ObjectMeta {
                name: text(&metadata["name"]),
                resource_version: text(version),
                ..ObjectMeta::default()
            },
        })
    }
}

/// `None` where one of the names is missing: two machines without a name are not known to be one.
fn boot(info: &Value) -> Option<Boot> {
    let named = |name: &str| info[name].as_str().filter(|name| !name.is_empty());
    let machine = (named("machineID")?, named("systemUUID")?);
    Some(Boot {
        machine: (machine.0.into(), machine.1.into()),
        id: named("bootID")?.into(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn state(node: Value) -> NodeState {
        let node: LeanNode = serde_json::from_value(node).unwrap();
        node.into_state().unwrap().1
    }

    fn with(ready: &str, taint: &str, declared: &str) -> NodeState {
        state(json!({
            "metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "annotations": {"ipgc.dev/no-sandboxes": declared}},
            "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
            "status": {"conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T10:00:00Z"}
            ]}
        }))
    }

    #[rstest]
    #[case("False", OUT_OF_SERVICE_TAINT, "", true)]
    #[case("Unknown", OUT_OF_SERVICE_TAINT, "", true)]
    #[case("True", OUT_OF_SERVICE_TAINT, "", false)]
    #[case("Unknown", "node.kubernetes.io/unreachable", "", false)]
    #[case("Unknown", "x", "2026-01-01T10:00:01Z", true)]
    #[case("Unknown", "x", "2026-01-01T12:30:00+02:00", true)]
    #[case("Unknown", "x", "2026-01-01T10:00:00Z", false)]
    #[case("Unknown", "x", "yes", false)]
    // Whatever is said of a node that is ready: pods may have come since.
    #[case("True", "x", "2027-01-01T00:00:00Z", false)]
    fn fencing(
        #[case] ready: &str,
        #[case] taint: &str,
        #[case] declared: &str,
        #[case] fenced: bool,
    ) {
        assert_eq!(with(ready, taint, declared).is_fenced(), fenced);
    }

    /// It would be later than every change to come: the node could come back, and fall silent with new pods.
    #[rstest]
    #[case::as_clocks_differ(4, true)]
    #[case::in_the_future(6, false)]
    fn a_statement_about_the_future_does_not_count(#[case] minutes: i64, #[case] counts: bool) {
        let declared = Timestamp::now() + SignedDuration::from_mins(minutes);
        let state = with("Unknown", "x", &declared.to_string());
        assert_eq!((state.is_fenced(), state.declared_ahead), (counts, !counts));
    }

    #[test]
    fn every_field_may_be_null_or_absent() {
        for node in [
            json!({"metadata": {"name": "n"}}),
            json!({"metadata": {"name": "n", "annotations": null}, "spec": null, "status": null}),
            json!({"metadata": {"name": "n"}, "spec": {"taints": null}, "status": {"conditions": null}}),
            json!({"metadata": {"name": "n"}, "spec": {"taints": [{}]}, "status": {"conditions": [{}]}}),
            json!({"metadata": {"name": "n", "annotations": {"ipgc.dev/no-sandboxes": "2026-01-01T10:00:01Z"}},
                "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": null}]}}),
        ] {
            let state = state(node);
            assert!(!state.ready && !state.is_fenced());
        }
    }

    #[rstest]
    #[case(json!([]))]
    #[case(json!({}))]
    #[case(json!({"metadata": {"name": 7}}))]
    #[case(json!({"metadata": {"name": "n"}, "spec": 7}))]
    #[case(json!({"metadata": {"name": "n"}, "status": []}))]
    fn what_is_no_node_is_an_error(#[case] text: Value) {
        assert!(serde_json::from_value::<LeanNode>(text).is_err());
    }

    proptest! {
        #[test]
        fn no_time_panics(declared in "\\PC{0,30}", digits in "[0-9TZ:+.-]{0,30}") {
            for text in [&declared, &digits] {
                let _ = with("Unknown", "x", text);
            }
        }
    }
}
