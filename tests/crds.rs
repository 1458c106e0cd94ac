//! The foreign kinds: the JSON Schemas against those that the types make, and the Rust types against objects. The e2e tier
//! compares the CRDs with upstream's.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use ipgc::{
    api::{CRD_FILES, IpPool, NetworkAttachmentDefinition, NodeSlicePool, Reservation},
    audit,
    core::ipam::InvalidConfig,
    watch::LeanDefinition,
};
use kube::Resource;
use rstest::rstest;
use schemars::{Schema, schema_for};
use serde_json::{Value, json};

#[rstest]
#[case(include_str!("../schemas/audit.json"), schema_for!(audit::report::Report))]
#[case(include_str!("../schemas/explain.json"), schema_for!(audit::explain::report::Explanation))]
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

/// The CRDs.
fn crds() -> [Value; 4] {
    CRD_FILES.map(|(_, text)| serde_yaml::from_str(text).unwrap())
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
    let read = read.map(|pool| pool.slices().map(|(_, slice)| slice.unwrap()).collect());
    let read = read.map(|all: Vec<_>| all.into_iter().map(|it| (it.node, it.range.to_string())));
    let slices = slices.map(|all| {
        all.iter()
            .map(|(node, range)| ((*node).into(), (*range).into()))
    });
    assert_eq!(read.map(Vec::from_iter), slices.map(Vec::from_iter));
}

#[rstest]
#[case(json!({ "spec": { "config": "{}" }, "status": {} }), InvalidConfig::NoPlugin)]
#[case::empty(json!({ "spec": { "config": "" } }), InvalidConfig::Empty)]
#[case::null(json!({ "spec": { "config": null } }), InvalidConfig::Empty)]
#[case::null_spec(json!({ "spec": null }), InvalidConfig::Empty)]
#[case::nothing(json!({}), InvalidConfig::Empty)]
#[case::no_text(json!({ "spec": { "config": {} } }), shapeless())]
#[case::no_object(json!({ "spec": "{}" }), shapeless())]
fn configurations_are_read(#[case] mut nad: Value, #[case] fault: InvalidConfig) {
    nad["metadata"] = json!({ "name": "x" });
    let read: LeanDefinition = serde_json::from_value(nad).unwrap();
    assert_eq!(read.definition, Err(fault));
}

fn shapeless() -> InvalidConfig {
    InvalidConfig::Json("the object has not the shape of a definition".to_owned())
}
