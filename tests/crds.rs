//! The foreign kinds: the CRDs against a table written by hand, the JSON Schemas against those that the types make, and the
//! Rust types against objects. No server is needed; that a real one takes the CRDs is shown in the e2e tier.
// Whether a configuration is read, and what it says.
#![allow(clippy::option_option)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use ipgc::{
    api::{CRD_FILES, IpPool, NetworkAttachmentDefinition, NodeSlicePool, Reservation},
    audit,
};
use kube::{CustomResourceExt, Resource};
use rstest::rstest;
use schemars::{Schema, schema_for};
use serde_json::{Value, json};

#[rstest]
#[case(audit::report::SCHEMA, schema_for!(audit::report::Report))]
#[case(audit::explain::report::SCHEMA, schema_for!(audit::explain::report::Explanation))]
#[case(audit::line::SCHEMA, schema_for!(audit::line::Message))]
fn kept_schemas_are_those_of_the_types(#[case] kept: &str, #[case] made: Schema) {
    let made = format!("{:#}\n", made.to_value());
    assert!(
        kept == made,
        "renew it: cargo run -p ipgc --example published"
    );
}

#[test]
fn the_folder_has_the_crds_that_are_printed() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("crds");
    let files = std::fs::read_dir(&root).unwrap();
    let files: BTreeSet<_> = files
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(files, CRD_FILES.map(|(name, _)| name.to_owned()).into());
    for (name, text) in CRD_FILES {
        assert_eq!(std::fs::read_to_string(root.join(name)).unwrap(), text);
    }
}

// ---- the schemas -----------------------------------------------------------------------------

/// One line per node of a schema: path, type, `!` when its parent requires it.
///
/// Panics on every keyword that upstream's schemas do not use (`nullable`, `default`, `format`,
/// `x-kubernetes-preserve-unknown-fields`, ...), so that a table of lines says all there is.
fn outline(path: &str, required: bool, schema: &Value, lines: &mut Vec<String>) {
    const KNOWN: [&str; 6] = [
        "additionalProperties",
        "description",
        "items",
        "properties",
        "required",
        "type",
    ];
    let schema = schema.as_object().expect("a schema is an object");
    for keyword in schema.keys() {
        assert!(
            KNOWN.contains(&keyword.as_str()),
            "{path} has the keyword {keyword}"
        );
    }
    let kind = schema["type"].as_str().expect("every node has one type");
    let mark = if required { "!" } else { "" };
    lines.push(format!("{path}: {kind}{mark}"));

    let needed: BTreeSet<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(|name| name.as_str().unwrap())
        .collect();
    let mut known = BTreeSet::new();
    if let Some(properties) = schema.get("properties") {
        for (name, child) in properties.as_object().unwrap() {
            known.insert(name.as_str());
            assert!(
                child["description"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty()),
                "{path}.{name} is not described"
            );
            outline(
                &format!("{path}.{name}"),
                needed.contains(name.as_str()),
                child,
                lines,
            );
        }
    }
    assert!(
        needed.is_subset(&known),
        "{path} requires what it does not have"
    );
    if let Some(child) = schema.get("additionalProperties") {
        outline(&format!("{path}.*"), false, child, lines);
    }
    if let Some(child) = schema.get("items") {
        outline(&format!("{path}[]"), false, child, lines);
    }
}

/// The CRDs.
fn crds() -> [Value; 4] {
    CRD_FILES.map(|(_, text)| serde_yaml::from_str(text).unwrap())
}

/// The CRD of that name.
fn crd(name: &str) -> Value {
    let mut all = crds().into_iter();
    all.find(|crd| crd["metadata"]["name"] == name).unwrap()
}

/// The schemas of whereabouts 0.9.4 and network-attachment-definition-client 1.7.
#[rstest]
#[case::pool(IpPool::crd_name(), &[
    ": object",
    ".spec: object",
    ".spec.allocations: object!",
    ".spec.allocations.*: object",
    ".spec.allocations.*.id: string!",
    ".spec.allocations.*.ifname: string",
    ".spec.allocations.*.podref: string!",
    ".spec.range: string!",
])]
#[case::reservation(Reservation::crd_name(), &[
    ": object",
    ".spec: object!",
    ".spec.containerid: string",
    ".spec.ifname: string",
    ".spec.podref: string!",
])]
#[case::node_slice(NodeSlicePool::crd_name(), &[
    ": object",
    ".spec: object",
    ".spec.range: string!",
    ".spec.sliceSize: string!",
    ".status: object",
    ".status.allocations: array!",
    ".status.allocations[]: object",
    ".status.allocations[].nodeName: string!",
    ".status.allocations[].sliceRange: string!",
])]
#[case::nad(NetworkAttachmentDefinition::crd_name(), &[
    ": object",
    ".spec: object",
    ".spec.config: string",
])]
fn schema_is_upstreams(#[case] name: &str, #[case] expected: &[&str]) {
    let crd = crd(name);
    let versions = crd["spec"]["versions"].as_array().unwrap();
    assert_eq!(versions.len(), 1);
    let version = versions[0].as_object().unwrap();
    let keys: Vec<&str> = version.keys().map(String::as_str).collect();
    // No subresources, no printer columns, no selectable fields.
    assert_eq!(keys, ["name", "schema", "served", "storage"]);
    assert_eq!(version["served"], true);
    assert_eq!(version["storage"], true);

    let mut lines = Vec::new();
    let schema = &version["schema"]["openAPIV3Schema"];
    assert!(schema["description"].is_string());
    outline("", false, schema, &mut lines);
    assert_eq!(lines, expected);
}

/// `group/version kind plural singular [short name]`.
#[rstest]
#[case::pool("whereabouts.cni.cncf.io/v1alpha1 IPPool ippools ippool")]
#[case::reservation(
    "whereabouts.cni.cncf.io/v1alpha1 OverlappingRangeIPReservation \
     overlappingrangeipreservations overlappingrangeipreservation"
)]
#[case::node_slice("whereabouts.cni.cncf.io/v1alpha1 NodeSlicePool nodeslicepools nodeslicepool")]
#[case::nad(
    "k8s.cni.cncf.io/v1 NetworkAttachmentDefinition \
     network-attachment-definitions network-attachment-definition net-attach-def"
)]
fn names_are_upstreams(#[case] row: &str) {
    let words: Vec<&str> = row.split(' ').collect();
    let (group, version) = words[0].split_once('/').unwrap();
    let name = format!("{}.{group}", words[2]);
    let crd = crd(&name);
    assert_eq!(crd["metadata"], json!({ "name": name }));
    let spec = &crd["spec"];
    assert_eq!(spec["group"], group);
    assert_eq!(spec["scope"], "Namespaced");
    assert_eq!(spec["versions"][0]["name"], version);
    let mut names = json!({ "kind": words[1], "plural": words[2], "singular": words[3] });
    if let Some(short_name) = words.get(4) {
        names["shortNames"] = json!([short_name]);
    }
    assert_eq!(spec["names"], names);
}

#[test]
fn types_and_crds_name_the_same_resource() {
    let urls = [
        IpPool::url_path(&(), Some("n")),
        Reservation::url_path(&(), Some("n")),
        NodeSlicePool::url_path(&(), Some("n")),
        NetworkAttachmentDefinition::url_path(&(), Some("n")),
    ];
    let expected = crds().map(|crd| {
        let text = |pointer| crd.pointer(pointer).and_then(Value::as_str).unwrap();
        format!(
            "/apis/{}/{}/namespaces/n/{}",
            text("/spec/group"),
            text("/spec/versions/0/name"),
            text("/spec/names/plural")
        )
    });
    assert_eq!(urls, expected);
}

// ---- the types -------------------------------------------------------------------------------

#[rstest]
#[case(json!({ "spec": { "range": "10.0.0.0/8", "sliceSize": "/22" }, "status": { "allocations": [
    { "nodeName": "", "sliceRange": "10.0.4.0/22" },
    { "nodeName": "n1", "sliceRange": "10.0.0.0/22", "since": "now" },
] } }), Some(&[("n1", "10.0.0.0/22")][..]))]
#[case::nothing(json!({}), Some(&[][..]))]
#[case::null(json!({ "spec": null, "status": null }), Some(&[][..]))]
#[case::null_list(json!({ "status": { "allocations": null } }), Some(&[][..]))]
#[case::no_range(json!({ "spec": { "sliceSize": "22" } }), None)]
#[case::no_list(json!({ "status": {} }), None)]
#[case::no_slice(json!({ "status": { "allocations": [{ "nodeName": "n1" }] } }), None)]
fn slices_are_read(#[case] mut pool: Value, #[case] slices: Option<&[(&str, &str)]>) {
    pool["metadata"] = json!({ "name": "x" });
    let read = serde_json::from_value::<NodeSlicePool>(pool).ok();
    let read = read
        .as_ref()
        .map(|pool| pool.assigned().collect::<Vec<_>>());
    assert_eq!(read.as_deref(), slices);
}

#[rstest]
#[case(json!({ "spec": { "config": "{}" }, "status": {} }), Some(Some("{}")))]
#[case::empty(json!({ "spec": { "config": "" } }), Some(None))]
#[case::null(json!({ "spec": { "config": null } }), Some(None))]
#[case::null_spec(json!({ "spec": null }), Some(None))]
#[case::nothing(json!({}), Some(None))]
#[case::no_text(json!({ "spec": { "config": {} } }), None)]
#[case::no_object(json!({ "spec": "{}" }), None)]
fn configurations_are_read(#[case] mut nad: Value, #[case] config: Option<Option<&str>>) {
    nad["metadata"] = json!({ "name": "x" });
    let read = serde_json::from_value::<NetworkAttachmentDefinition>(nad).ok();
    assert_eq!(
        read.as_ref().map(NetworkAttachmentDefinition::config),
        config
    );
}
