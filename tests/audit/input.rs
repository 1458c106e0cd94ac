//! Files: partial, foreign and odd ones.

use rstest::rstest;

use super::*;

fn without(kind: Kind) -> File {
    part(&shop(), &all_but(kind))
}

#[test]
fn without_nodes_what_is_stale_waits_for_them() {
    let report = without(Kind::Node).judged();
    let finding = only(&report);
    assert_eq!(
        (finding.problem, finding.wait_seconds),
        (Problem::HeldUnfenced, None)
    );
    assert_eq!(
        finding.detail,
        "its pod is gone; held, since the nodes are not known"
    );
    assert_eq!(
        report.notes,
        ["the input has no nodes: what is stale is held, since any node may be silent"]
    );
}

/// In one list, or in two as of `cat pods.json pools.json`.
#[test]
fn pods_that_were_read_before_the_rows_prove_nothing() {
    let kinds = [
        Kind::Pod,
        Kind::IpPool,
        Kind::Node,
        Kind::Definition,
        Kind::Reservation,
    ];
    let pods = dump_of(&shop(), &[Kind::Pod]);
    let rest = dump_of(&shop(), &all_but(Kind::Pod));
    let lists = File::new(format!("{pods}\n{rest}"));
    for file in [part(&shop(), &kinds), lists] {
        let report = file.judged();
        let finding = only(&report);
        assert_eq!(finding.problem, Problem::Unknown);
        assert_ends(
            &finding.detail,
            "the pods were read before the IPPools or their reservations",
        );
    }
}

/// As of `for ns in …; do kubectl get pods -n $ns -o json; done`: one namespace may have been refused.
#[test]
fn pods_of_several_lists_may_lack_a_namespace() {
    let server = shop();
    put_pool(&server, &[LIVE, (2, "default/gone"), (3, "third/gone")]);
    let whole = dump(&server).judged();
    assert_eq!(problems(&whole), ["stale 10.0.0.2", "stale 10.0.0.3"]);
    let list = |namespace: &str| {
        let mut pods = dump_of(&server, &[Kind::Pod]);
        let items = pods["items"].as_array_mut().unwrap();
        items.retain(|pod| pod["metadata"]["namespace"] == namespace);
        pods
    };
    let rest = dump_of(&server, &all_but(Kind::Pod));
    let lists = [rest, list("kube-system"), list(NS)];
    let yaml = lists.clone().map(|it| serde_yaml::to_string(&it).unwrap());
    for text in [
        lists.map(|it| it.to_string()).join("\n"),
        yaml.join("---\n"),
    ] {
        let report = File::new(text).judged();
        assert_eq!(problems(&report), ["stale 10.0.0.2", "unknown 10.0.0.3"]);
        let says = "the input has no pods of its namespace";
        assert_ends(&with(Problem::Unknown, &report)[0].detail, says);
    }
}

#[rstest]
#[case::empty("", "is empty: it was cut off, or what wrote it failed")]
#[case::blank(" \n\t", "is empty")]
#[case::yaml_of_nothing("---\n# nothing\n", "is empty")]
#[case::rest(
    r#"{"kind":"X","apiVersion":"v1"} hello"#,
    "is not what kubectl get -o json writes, at byte 31: expected '{'"
)]
#[case::no_objects(
    r#"{"items":[1]}"#,
    "is not what kubectl get -o json writes, at byte 10: invalid type: integer `1`, expected an object"
)]
#[case::no_list(r#"{"items":{}}"#, "items are no list")]
#[case::page(
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"x"},"items":[]}"#,
    "is only a part of a list"
)]
#[case::page(
    r#"{"kind":"PodList","apiVersion":"v1","items":[],"metadata":{"continue":"x"}}"#,
    "is only a part of a list"
)]
fn what_is_no_dump_is_one_clear_line(#[case] text: &str, #[case] says: &str) {
    let error = File::new(text).read().unwrap_err();
    assert_line(&error, says);
    // One place, from the beginning of the file.
    assert!(!error.contains(" column "), "{error}");
}

/// In a list, whose items begin at byte 10.
#[rstest]
#[case::of_no_kind(json!({"metadata": {}}), "it has no apiVersion and kind")]
#[case::of_another_version(json!({"apiVersion": "whereabouts.cni.cncf.io/v2", "kind": "IPPool"}), "IPPool is of whereabouts.cni.cncf.io/v2, and only whereabouts.cni.cncf.io/v1alpha1 is known")]
#[case::odd_pod(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 7}}), "Pod without a name cannot be read")]
#[case::nameless_pod(json!({"apiVersion": "v1", "kind": "Pod"}), "Pod without a name cannot be read: it has no namespace, name, uid")]
#[case::pod_without_uid(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "d", "creationTimestamp": "x"}}), "Pod d/a cannot be read: it has no uid")]
#[case::pod_without_a_valid_name(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a/b", "namespace": "d", "uid": "u"}}), "Pod d/a/b cannot be read: its name is none")]
#[case::nameless_node(json!({"apiVersion": "v1", "kind": "Node", "metadata": {}}), "Node without a name cannot be read: it has no name")]
#[case::odd_node(json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "spec": 7}), "Node n1 cannot be read: invalid type: integer `7`, expected struct Spec")]
fn an_object_that_is_none_is_one_clear_line(#[case] object: Value, #[case] says: &str) {
    let list = json!({ "items": [object] });
    let error = File::new(list.to_string()).read().unwrap_err();
    assert_line(&error, &format!("object at byte 10: {says}"));
    assert!(!error.contains(" column "), "{error}");
}

#[rstest]
#[case::gzip(b"\x1f\x8b\x08\0\0", "is compressed by gzip")]
#[case::xz(b"\xfd7zXZ\0\0", "is compressed by xz")]
#[case::zstd(b"(\xb5/\xfd\x04", "is compressed by zstd")]
#[case::bzip2(b"BZh91AY", "is compressed by bzip2")]
#[case::zip(b"PK\x03\x04\x14", "is a zip archive")]
#[case::utf_16(b"\xff\xfe{\0}\0", "is UTF-16, not UTF-8")]
#[case::other(b"\0\x01\x02", "is binary")]
fn a_file_that_is_no_text_is_named(#[case] bytes: &[u8], #[case] says: &str) {
    let error = File::new(bytes).read().unwrap_err();
    assert_begins(&error, says);
    assert_line(
        &error,
        ": ipgc reads JSON, YAML, and .tar, .tar.gz or .tgz archives of them",
    );
}

/// No rule judges by it. But ages are reckoned from it.
#[test]
fn an_object_whose_time_is_none_is_told_and_read() {
    let server = shop();
    let whole = dump(&server).judged();
    let mut dump = dump_of(&server, &Kind::ALL);
    for item in dump["items"].as_array_mut().unwrap() {
        let name = item["metadata"]["name"].as_str();
        if name == Some("10.0.0.2") || name == Some("web-1") {
            item["metadata"]["creationTimestamp"] = "yesterday".into();
        }
    }
    let report = File::new(dump.to_string()).judged();
    let says = "the age is not known, since metadata.creationTimestamp is no time: OverlappingRangeIPReservation \
                default/10.0.0.2, Pod default/web-1";
    assert_eq!(report.notes, [says]);
    assert_eq!(
        (report.findings, report.totals),
        (whole.findings, whole.totals)
    );
}

/// The fault of an object is told, and not the place of it within the object.
#[rstest]
#[case::uid("uid", "missing field `uid`")]
#[case::version("resourceVersion", "missing field `resourceVersion`")]
fn a_reservation_that_cannot_be_read_says_why(#[case] field: &str, #[case] says: &str) {
    let mut reservation = fixtures::reservation(NS, "10.0.0.7", "default/gone", "net1");
    reservation["metadata"] =
        json!({ "namespace": NS, "name": "10.0.0.7", "uid": "u", "resourceVersion": "1" });
    reservation["metadata"]
        .as_object_mut()
        .unwrap()
        .remove(field);
    let text = format!("{}{reservation}", dump_of(&live_one(), &Kind::ALL));
    let report = File::new(text).judged();
    let detail = format!("OverlappingRangeIPReservation default/10.0.0.7: {says}");
    assert_eq!(only(&report).detail, detail);
}

#[test]
fn an_object_that_is_there_twice_is_an_error() {
    let dump = dump_of(&shop(), &Kind::ALL).to_string();
    let error = File::new(format!("{dump}\n{dump}")).read().unwrap_err();
    assert_says(&error, "OverlappingRangeIPReservation default/10.0.0.");
    let pools = dump_of(&shop(), &[Kind::IpPool]);
    let error = File::new(format!("{dump}\n{pools}")).read().unwrap_err();
    assert_says(&error, "IPPool default/10.0.0.0-24 is in the input twice");
    let slices = fixtures::node_slice_pool(NS, "s", RANGE, "/28", &[]);
    let dump = format!("{dump}{slices}");
    let twice = File::new(format!("{dump}{slices}")).read().unwrap_err();
    assert_says(&twice, "NodeSlicePool default/s is in the input twice");
    for kind in [Kind::Pod, Kind::Node, Kind::Reservation, Kind::Definition] {
        let again = dump_of(&shop(), &[kind]).to_string();
        let error = File::new(format!("{dump}{again}")).read().unwrap_err();
        assert_says(&error, "is in the input twice");
    }
}

#[test]
fn lists_objects_and_several_of_them_come_to_the_same() {
    let server = shop();
    let whole = dump(&server).judged();
    let list = dump_of(&server, &Kind::ALL);
    let items = list["items"].as_array().unwrap();
    let apart: Vec<_> = items.iter().map(ToString::to_string).collect();
    // A pod alone does not tell that there is no other.
    let alone = File::new(apart.join("\n")).judged();
    assert_eq!(alone.totals.rows, whole.totals.rows);
    assert_eq!(problems(&alone), ["unknown 10.0.0.2"]);
    assert_ends(&only(&alone).detail, "beside which others may be missing");
    // As the API server writes lists: the type first, and none in the items.
    let lists = Kind::ALL.map(|kind| {
        let (version, name) = kind.type_of();
        let items = server.list(&kind.to_string()).into_iter();
        let items = items.map(|mut item| {
            item.as_object_mut()
                .unwrap()
                .retain(|key, _| key != "kind" && key != "apiVersion");
            item.to_string()
        });
        let items: Vec<_> = items.collect();
        format!(
            r#"{{"kind":"{name}List","apiVersion":"{version}","metadata":{{}},"items":[{}]}}"#,
            items.join(",")
        )
    });
    assert_eq!(
        File::new(lists.join("\n")).judged().findings,
        whole.findings
    );
    // A kind that is none of ours is passed over, and told.
    let other = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    let more = File::new(format!("{other}{list}")).judged();
    assert_eq!(more.findings, whole.findings);
    assert_eq!(more.notes, ["passed over 1 of kind ConfigMap"]);
}
