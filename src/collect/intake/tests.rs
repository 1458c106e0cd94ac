//! Definitions on their way into the evidence.

#![allow(clippy::unwrap_used)]

use serde_json::json;

use super::*;
use crate::config::Config;

fn definition(name: &str) -> LeanDefinition {
    let ipam = json!({ "type": "whereabouts", "range": "10.0.0.0/24" });
    serde_json::from_value(testkit::fixtures::nad_with_ipam("d", name, &ipam)).unwrap()
}

#[tokio::test]
async fn a_relist_drops_what_is_gone() {
    // Nobody asks it.
    let client = testkit::Server::new().client();
    let mut sink = NadSink {
        context: Context::new(client, Config::default()).into(),
        listed: HashSet::new(),
    };
    sink.begin_list();
    sink.apply(definition("a"));
    sink.apply(definition("b"));
    sink.end_list();
    sink.begin_list();
    sink.apply(definition("b"));
    // The list begins again before it ended.
    sink.begin_list();
    sink.apply(definition("a"));
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
