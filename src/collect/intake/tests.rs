//! Definitions on their way into the evidence.

#![allow(clippy::unwrap_used)]

use ipgc_core::ipam::InvalidConfig;
use serde_json::{Value, json};

use super::*;
use crate::config::Config;

const WHEREABOUTS: &str =
    r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}"#;

fn definition(name: &str, spec: &Value) -> LeanDefinition {
    let object = json!({ "metadata": { "namespace": "d", "name": name }, "spec": spec });
    serde_json::from_value(object).unwrap()
}

fn sink() -> NadSink {
    // Nobody asks it.
    let client = testkit::Server::new().client();
    NadSink {
        context: Context::new(client, Config::default()).into(),
        listed: HashSet::new(),
    }
}

#[tokio::test]
async fn a_relist_drops_what_is_gone() {
    let mut sink = sink();
    let whereabouts = json!({ "config": WHEREABOUTS });
    sink.begin_list();
    sink.apply(definition("a", &whereabouts));
    sink.apply(definition("b", &whereabouts));
    sink.end_list();
    sink.begin_list();
    sink.apply(definition("b", &whereabouts));
    // The list begins again before it ended.
    sink.begin_list();
    sink.apply(definition("a", &whereabouts));
    sink.end_list();
    let names: Vec<_> = sink
        .context
        .evidence()
        .definitions
        .keys()
        .cloned()
        .collect();
    assert_eq!(names, ["d/a".into()]);
}

#[tokio::test]
async fn unreadable_is_not_missing() {
    let mut sink = sink();
    sink.apply(definition("empty", &json!({})));
    sink.apply(definition("broken", &json!({ "config": "{" })));
    sink.apply(definition("shapeless", &json!({ "config": 7 })));
    let evidence = sink.context.evidence();
    let is_invalid = |name| matches!(evidence.definitions.get(name), Some(Err(_)));
    assert!(is_invalid("d/broken") && is_invalid("d/shapeless"));
    let empty = evidence.definitions.get("d/empty");
    assert_eq!(empty, Some(&Err(InvalidConfig::Empty)));
    assert!(!evidence.definitions.contains_key("d/missing"));
}
