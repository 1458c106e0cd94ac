//! A node as it comes from the API server, with nothing but what tells whether sandboxes run there.
//!
//! Every field but the name may be absent or null.

use ipgc_core::node::{Boot, NO_SANDBOXES_ANNOTATION, NodeState, OUT_OF_SERVICE_TAINT};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::core::v1::{Node, NodeSystemInfo},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;

use super::lean::Lean;
use crate::clock::wall;

/// A person's clock may be so much ahead of ours.
const AHEAD: SignedDuration = SignedDuration::from_mins(5);

/// A node, stripped while it is read.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "Node")]
#[serde(try_from = "Lean<Spec, Status>")]
pub struct LeanNode {
    metadata: ObjectMeta,
    state: NodeState,
}

#[derive(Default, Deserialize)]
struct Spec {
    taints: Option<Vec<Value>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    conditions: Option<Vec<Value>>,
    node_info: Option<NodeSystemInfo>,
}

impl LeanNode {
    /// Its name and its state.
    pub fn into_state(self) -> (String, NodeState) {
        // Without a name it is not read.
        (self.metadata.name.unwrap_or_default(), self.state)
    }
}

impl TryFrom<Lean<Spec, Status>> for LeanNode {
    type Error = &'static str;

    fn try_from(node: Lean<Spec, Status>) -> Result<Self, Self::Error> {
        let (own, spec) = (node.metadata, node.spec.unwrap_or_default());
        let status = node.status.unwrap_or_default();
        // An answer that is no Node must not be taken for a node that is gone.
        if own.name.is_none() {
            return Err("it has no name");
        }
        let annotations = own.annotations.as_ref();
        let declaration = annotations.and_then(|all| all.get(NO_SANDBOXES_ANNOTATION));
        let time = |text: &str| text.parse::<Timestamp>().ok();
        let declared = declaration.and_then(|text| time(text));
        let now = wall();
        let is_ahead = declared.is_some_and(|declared| declared.duration_since(now) > AHEAD);
        let mut conditions = status.conditions.iter().flatten();
        let ready = conditions.find(|condition| condition["type"] == "Ready");
        let ready_changed = ready.and_then(|ready| ready["lastTransitionTime"].as_str());
        let changed = ready_changed.and_then(time);
        let mut taints = spec.taints.iter().flatten();
        // A statement about a node whose changes bear no time cannot be told from an old one.
        let is_later = declared > changed && changed.is_some();
        Ok(Self {
            state: NodeState {
                uid: own.uid.as_deref().unwrap_or_default().into(),
                version: own.resource_version.as_deref().unwrap_or_default().into(),
                boot: status.node_info.and_then(boot),
                ready: ready.is_some_and(|ready| ready["status"] == "True"),
                ready_changed: ready_changed.map(Into::into),
                out_of_service: taints.any(|taint| taint["key"] == OUT_OF_SERVICE_TAINT),
                taint_is_old: false,
                declared_empty: is_later && !is_ahead,
                declared_ahead: is_ahead,
                declaration: declaration.map(|text| text.as_str().into()),
                declaration_is_old: false,
            },
            metadata: own.into(),
        })
    }
}

fn boot(info: NodeSystemInfo) -> Option<Boot> {
    (!info.boot_id.is_empty()).then(|| Boot {
        machine: (info.machine_id.into(), info.system_uuid.into()),
        id: info.boot_id.into(),
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
        node.into_state().1
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
    #[case::of_no_machine(json!({"bootID": "b"}), Some(["", "", "b"]))]
    #[case::of_half_a_machine(json!({"bootID": "b", "machineID": null, "systemUUID": "s"}), Some(["", "s", "b"]))]
    #[case::unnamed(json!({"bootID": "", "machineID": "m", "systemUUID": "s"}), None)]
    #[case::untold(json!({"machineID": "m", "systemUUID": "s"}), None)]
    fn a_boot_is_told_by_its_own_name(#[case] info: Value, #[case] told: Option<[&str; 3]>) {
        let boot = state(json!({"metadata": {"name": "n"}, "status": {"nodeInfo": info}})).boot;
        let told = told.map(|[machine, system, id]| Boot {
            machine: (machine.into(), system.into()),
            id: id.into(),
        });
        assert_eq!(boot, told);
    }

    /// The text tells two changes apart all the same; but no statement is later than a time that nobody can tell.
    #[test]
    fn a_time_that_cannot_be_told_is_no_error() {
        let state = state(json!({
            "metadata": {"name": "n", "annotations": {"ipgc.dev/no-sandboxes": "2026-01-01T10:00:01Z"}},
            "status": {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "9999-12-31T00:00:00Z"}]}
        }));
        assert_eq!(state.ready_changed.as_deref(), Some("9999-12-31T00:00:00Z"));
        assert!(!state.declared_empty && !state.is_fenced());
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
