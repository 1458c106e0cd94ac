//! The foreign kinds: the generated CRDs against a table written by hand and, as all generated files, against those
//! that are kept and printed, and the Rust types against objects of every whereabouts version. No server is needed;
//! that a real one takes the CRDs is shown in the e2e tier.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ipgc::api::{
    self, Allocation, IpPool, IpPoolBody, NetworkAttachmentDefinition, NodeSlicePool, Reservation,
};
use kube::core::{DeserializeGuard, ObjectList};
use kube::{CustomResourceExt, Resource};
use proptest::prelude::*;
use rstest::rstest;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

#[path = "../examples/published/files.rs"]
mod published;

const RENEW: &str = "cargo run -p ipgc --example published";

// ---- the files -------------------------------------------------------------------------------

#[test]
fn kept_files_are_what_the_generator_makes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let generated: BTreeMap<String, String> = published::generated().into_iter().collect();
    let mut kept = BTreeMap::new();
    for directory in ["crds", "schemas"] {
        for entry in std::fs::read_dir(root.join(directory)).expect("it can be read") {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            kept.insert(name.to_owned(), std::fs::read_to_string(&path).unwrap());
        }
    }
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        names(&kept),
        names(&generated),
        "other files than the generator's; renew with: {RENEW}"
    );
    for (name, text) in &generated {
        assert!(
            &kept[name] == text,
            "{name} is not what the generator makes; renew with: {RENEW}\n{text}"
        );
    }
}

#[test]
fn the_program_prints_what_the_generator_makes() {
    let named = api::CRD_FILES.map(|(name, text)| (format!("crds/{name}"), text));
    let schemas = [
        ("schemas/audit.json", ipgc::audit::report::SCHEMA),
        ("schemas/explain.json", ipgc::audit::explain::report::SCHEMA),
        ("schemas/watch.json", ipgc::audit::line::SCHEMA),
    ];
    let schemas = schemas.map(|(name, text)| (name.to_owned(), text));
    let printed: Vec<_> = named
        .into_iter()
        .chain(schemas)
        .map(|(name, text)| (name, text.to_owned()))
        .collect();
    // In the same order, too.
    assert!(printed == published::generated(), "{printed:#?}");
}

#[test]
fn stream_holds_the_same_documents_on_every_run() {
    let text = api::crds_yaml();
    assert_eq!(text, api::crds_yaml());
    let documents: Vec<Value> = serde_yaml::Deserializer::from_str(&text)
        .map(|document| Value::deserialize(document).unwrap())
        .collect();
    let expected: Vec<Value> = api::crds()
        .iter()
        .map(|crd| serde_json::to_value(crd).unwrap())
        .collect();
    assert_eq!(documents, expected);
    for document in documents {
        assert_eq!(document["apiVersion"], "apiextensions.k8s.io/v1");
        assert_eq!(document["kind"], "CustomResourceDefinition");
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

/// The generated CRD of that name.
fn generated(name: &str) -> Value {
    api::crds()
        .iter()
        .find(|crd| crd.metadata.name.as_deref() == Some(name))
        .map(|crd| serde_json::to_value(crd).unwrap())
        .expect("the generator knows the kind")
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
    let crd = generated(name);
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
    let crd = generated(&name);
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
    let expected = api::crds().into_iter().map(|crd| {
        let (spec, version) = (&crd.spec, &crd.spec.versions[0].name);
        format!(
            "/apis/{}/{version}/namespaces/n/{}",
            spec.group, spec.names.plural
        )
    });
    assert_eq!(urls.to_vec(), expected.collect::<Vec<_>>());
}

// ---- the types -------------------------------------------------------------------------------

fn object(api_version: &str, kind: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": "x", "namespace": "kube-system", "uid": "u", "resourceVersion": "7" },
    });
    let fields = object.as_object_mut().unwrap();
    fields.extend(rest.as_object().unwrap().clone());
    object
}

fn pool(rest: &Value) -> Value {
    object("whereabouts.cni.cncf.io/v1alpha1", "IPPool", rest)
}

fn reservation(rest: &Value) -> Value {
    let kind = "OverlappingRangeIPReservation";
    object("whereabouts.cni.cncf.io/v1alpha1", kind, rest)
}

fn slices(rest: &Value) -> Value {
    object("whereabouts.cni.cncf.io/v1alpha1", "NodeSlicePool", rest)
}

fn nad(rest: &Value) -> Value {
    object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", rest)
}

/// Reads an object, by way of its text and of a value, and writes it again.
fn round_trip<K: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let from_text: K = serde_json::from_str(&object.to_string()).expect("the text is accepted");
    let from_value: K = serde_json::from_value(object.clone()).expect("the value is accepted");
    let text = serde_json::to_string(&from_text).unwrap();
    // A key that is written twice shows only in the text.
    assert_eq!(text.matches("\"apiVersion\"").count(), 1);
    assert_eq!(text.matches("\"kind\"").count(), 1);
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written, serde_json::to_value(from_value).unwrap());
    written
}

#[rstest]
#[case::current(json!({ "spec": { "range": "10.0.0.0/24", "allocations": {
    "5": { "id": "c1", "podref": "ns/a", "ifname": "net1" },
} } }))]
#[case::no_spec(json!({}))]
#[case::no_rows(json!({ "spec": { "range": "10.0.0.0/24", "allocations": {} } }))]
#[case::empty_texts(json!({ "spec": { "range": "", "allocations": {
    "": { "id": "", "podref": "", "ifname": "" },
} } }))]
#[case::without_ifname(json!({ "spec": { "range": "10.0.0.0/24", "allocations": {
    "5": { "id": "c1", "podref": "ns/a" },
} } }))]
#[case::without_podref(json!({ "spec": { "range": "10.0.0.0/24", "allocations": {
    "5": { "id": "c1" },
} } }))]
#[case::odd_keys(json!({ "spec": { "range": "fd00::/64", "allocations": {
    "-3844666706890850303": { "id": "c1", "podref": "ns/a" },
    "18446463705355360228": { "id": "c2", "podref": "ns/b" },
    "five": { "id": "c3", "podref": "ns/c" },
} } }))]
#[case::unknown_fields(json!({
    "status": { "usedIPs": 1 },
    "top": ["level", 1, null, { "a": 1.5 }],
    "spec": {
        "range": "10.0.0.0/24",
        "enable_l3": true,
        "allocations": {
            "5": { "id": "c1", "podref": "ns/a", "claim": { "name": "x", "uids": [1, 2] } },
        },
    },
}))]
fn pools_come_back_as_they_were(#[case] rest: Value) {
    assert_eq!(round_trip::<IpPool>(&pool(&rest)), pool(&rest));
}

#[rstest]
#[case::current(json!({ "spec": { "podref": "ns/a", "ifname": "net1" } }))]
#[case::with_container(json!({ "spec": { "containerid": "c1", "podref": "ns/a" } }))]
#[case::without_podref(json!({ "spec": { "containerid": "c1" } }))]
#[case::unknown_fields(json!({ "spec": { "podref": "ns/a", "poduid": "u" }, "top": {} }))]
fn reservations_come_back_as_they_were(#[case] rest: Value) {
    assert_eq!(
        round_trip::<Reservation>(&reservation(&rest)),
        reservation(&rest)
    );
}

#[rstest]
#[case::current(json!({
    "spec": { "range": "10.0.0.0/8", "sliceSize": "/22" },
    "status": { "allocations": [
        { "nodeName": "n1", "sliceRange": "10.0.0.0/22" },
        { "nodeName": "", "sliceRange": "10.0.4.0/22" },
    ] },
}))]
#[case::no_spec(json!({}))]
#[case::no_status(json!({ "spec": { "range": "10.0.0.0/8", "sliceSize": "22" } }))]
#[case::unknown_fields(json!({
    "spec": { "range": "10.0.0.0/8", "sliceSize": "22", "family": 4 },
    "status": {
        "allocations": [{ "nodeName": "n1", "sliceRange": "10.0.0.0/22", "since": "now" }],
        "conditions": [],
    },
    "top": null,
}))]
fn node_slices_come_back_as_they_were(#[case] rest: Value) {
    assert_eq!(round_trip::<NodeSlicePool>(&slices(&rest)), slices(&rest));
}

#[rstest]
#[case::current(json!({ "spec": { "config": "{\"type\":\"bridge\"}" } }))]
#[case::no_spec(json!({}))]
#[case::no_config(json!({ "spec": {} }))]
#[case::unknown_fields(json!({ "spec": { "config": "", "mode": 1 }, "status": { "ok": true } }))]
fn nads_come_back_as_they_were(#[case] rest: Value) {
    assert_eq!(
        round_trip::<NetworkAttachmentDefinition>(&nad(&rest)),
        nad(&rest)
    );
}

/// `null` reads like absence, and is written as absence (or as the empty value it stands for).
#[test]
fn null_reads_like_absence() {
    assert_eq!(
        round_trip::<IpPool>(&pool(&json!({ "spec": null }))),
        pool(&json!({}))
    );
    assert_eq!(
        round_trip::<IpPool>(&pool(
            &json!({ "spec": { "range": "r", "allocations": null } })
        )),
        pool(&json!({ "spec": { "range": "r", "allocations": {} } }))
    );
    assert_eq!(
        round_trip::<IpPool>(&pool(&json!({ "spec": { "range": "r", "allocations": {
            "1": { "id": "c", "podref": null, "ifname": null }
        } } }))),
        pool(&json!({ "spec": { "range": "r", "allocations": { "1": { "id": "c" } } } }))
    );
    assert_eq!(
        round_trip::<NodeSlicePool>(&slices(&json!({ "spec": null, "status": null }))),
        slices(&json!({}))
    );
    assert_eq!(
        round_trip::<NodeSlicePool>(&slices(&json!({ "status": { "allocations": null } }))),
        slices(&json!({ "status": { "allocations": [] } }))
    );
    for rest in [
        json!({ "spec": null }),
        json!({ "spec": { "config": null } }),
    ] {
        let nad: NetworkAttachmentDefinition = serde_json::from_value(nad(&rest)).unwrap();
        assert_eq!(nad.config(), None);
    }
}

#[test]
fn accessors_reach_through_the_body() {
    let read: IpPool = serde_json::from_value(pool(&json!({ "spec": {
        "range": "10.0.0.0/24",
        "allocations": { "5": { "id": "c1", "podref": "ns/a", "claim": 1 } },
    } })))
    .unwrap();
    assert_eq!(read.range(), Some("10.0.0.0/24"));
    let row = Allocation {
        id: "c1".into(),
        podref: Some("ns/a".into()),
        ifname: None,
        extra: BTreeMap::from([("claim".into(), json!(1))]),
    };
    assert_eq!(read.rows().collect::<Vec<_>>(), [("5", &row)]);
    assert!(
        read.spec.extra.is_empty(),
        "the type is no unknown field: {:?}",
        read.spec.extra
    );

    let bare = IpPool::new("x", IpPoolBody::default());
    assert_eq!(bare.range(), None);
    assert_eq!(bare.rows().count(), 0);

    let read: Reservation = serde_json::from_value(reservation(&json!({ "spec": {
        "podref": "ns/a", "ifname": "net1",
    } })))
    .unwrap();
    assert_eq!((read.podref(), read.ifname()), (Some("ns/a"), Some("net1")));

    let read: NodeSlicePool = serde_json::from_value(slices(&json!({ "status": { "allocations": [
        { "nodeName": "", "sliceRange": "10.0.4.0/22" },
        { "nodeName": "n1", "sliceRange": "10.0.0.0/22" },
    ] } })))
    .unwrap();
    assert_eq!(read.assigned().collect::<Vec<_>>(), [("n1", "10.0.0.0/22")]);

    let read: NetworkAttachmentDefinition =
        serde_json::from_value(nad(&json!({ "spec": { "config": "{}" } }))).unwrap();
    assert_eq!(read.config(), Some("{}"));
    let read: NetworkAttachmentDefinition =
        serde_json::from_value(nad(&json!({ "spec": { "config": "" } }))).unwrap();
    assert_eq!(read.config(), None);
}

/// The items of a LIST name no type, and one broken object must not cost the others.
#[test]
fn lists_read_with_a_guard() {
    let list = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPoolList",
        "metadata": { "resourceVersion": "9" },
        "items": [
            { "metadata": { "name": "good" }, "spec": { "range": "r", "allocations": {} } },
            { "metadata": { "name": "bad" }, "spec": { "range": 1, "allocations": {} } },
        ],
    });
    let list: ObjectList<DeserializeGuard<IpPool>> = serde_json::from_value(list).unwrap();
    let good = list.items[0].0.as_ref().unwrap();
    assert_eq!(good.metadata.name.as_deref(), Some("good"));
    let bad = list.items[1].0.as_ref().unwrap_err();
    assert_eq!(bad.metadata.name.as_deref(), Some("bad"));
}

/// Any JSON, nested three deep.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Unknown fields: their names cannot meet a known one.
fn any_extra() -> impl Strategy<Value = BTreeMap<String, Value>> {
    proptest::collection::btree_map("x-[a-zA-Z0-9]{0,4}", any_json(), 0..3)
}

proptest! {
    #[test]
    fn nothing_unknown_is_lost(
        top in any_extra(),
        spec in any_extra(),
        rows in proptest::collection::btree_map(
            ".{0,8}",
            (".{0,8}", proptest::option::of(".{0,8}"), proptest::option::of(".{0,8}"), any_extra()),
            0..4,
        ),
    ) {
        let rows: serde_json::Map<String, Value> = rows
            .into_iter()
            .map(|(key, (id, podref, ifname, extra))| {
                let mut row = json!({ "id": id });
                let fields = row.as_object_mut().unwrap();
                fields.extend(podref.map(|text| ("podref".to_owned(), json!(text))));
                fields.extend(ifname.map(|text| ("ifname".to_owned(), json!(text))));
                fields.extend(extra);
                (key, row)
            })
            .collect();
        let mut body = json!({ "range": "10.0.0.0/24", "allocations": rows });
        body.as_object_mut().unwrap().extend(spec);
        let mut object = pool(&json!({ "spec": body }));
        object.as_object_mut().unwrap().extend(top);
        prop_assert_eq!(round_trip::<IpPool>(&object), object);
    }
}
