//! Files in YAML, and with a byte order mark: the same as in JSON.

use ipgc::snapshot::{Object, read_objects};
use rstest::rstest;

use super::*;

/// Written by kubectl 1.32, `get ippools,overlappingrangeipreservations,pods,nodes,network-attachment-definitions -A`: texts
/// that YAML could take for something else are in the annotations of kube-system/dns.
const YAML: &str = include_str!("kubectl.yaml");
const JSON: &str = include_str!("kubectl.json");

/// All objects of a text, with their kinds.
fn objects(text: &str) -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut each = |object: &Object<'_>| {
        let value = serde_json::from_str(object.text).unwrap();
        all.push((object.kind.to_string(), value));
        Ok(())
    };
    read_objects(text.as_bytes(), &mut each).unwrap();
    all
}

#[test]
fn what_kubectl_writes_as_yaml_is_read_as_what_it_writes_as_json() {
    let compact: Value = serde_json::from_str(JSON).unwrap();
    let (yaml, json) = (objects(YAML), objects(&compact.to_string()));
    assert_eq!(yaml.len(), 7);
    assert_eq!(yaml, json);
    let report = File::new(YAML).judged();
    assert_eq!(report, File::new(JSON).judged());
    assert_eq!(problems(&report), ["stale 10.0.0.2", "stale 10.0.0.8"]);
}

/// It is made JSON part by part.
#[rstest]
#[case::as_it_is("", None)]
#[case::with_an_object_that_cannot_be_read(
    "- {kind: X}\n",
    Some("object at line 60003: it has no apiVersion and kind")
)]
#[case::with_a_tag("- !!binary aGk=\n", Some("at line 60003: it has a tag"))]
#[case::with_a_byte_that_is_no_text("- \u{0}\n", Some("at line 60003"))]
fn a_list_of_megabytes_is_read_whole(#[case] after: &str, #[case] fault: Option<&str>) {
    let item = |n| {
        format!(
            "- apiVersion: v1\n  kind: X\n  text: é{n:0>5}{}\n",
            "é".repeat(50)
        )
    };
    let items = (0..20_000).map(item).collect::<String>();
    let text = format!("apiVersion: v1\nitems:\n{items}{after}kind: List\nmetadata: {{}}\n");
    let mut all = 0;
    let mut each = |object: &Object<'_>| {
        assert!(
            object.text.contains(&format!("é{all:0>5}é")),
            "{}",
            object.text
        );
        all += 1;
        Ok(())
    };
    let read = read_objects(text.as_bytes(), &mut each);
    match fault {
        None => assert_eq!((read, all), (Ok(true), 20_000)),
        Some(fault) => assert_says(&read.unwrap_err(), fault),
    }
}

/// Each as it may come: with a byte order mark, with the line ends of Windows, in several documents.
#[test]
fn forms_of_a_dump_come_to_the_same() {
    let whole = File::new(JSON).judged();
    let value: Value = serde_json::from_str(JSON).unwrap();
    let items = value["items"].as_array().unwrap();
    let (pods, others): (Vec<_>, Vec<_>) = items.iter().partition(|it| it["kind"] == "Pod");
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": pods, "metadata": {} });
    let apart = others.into_iter().chain([&pods]);
    let apart: Vec<_> = apart.map(ToString::to_string).collect();
    let as_yaml = |item: &String| {
        let value: Value = serde_json::from_str(item).unwrap();
        serde_yaml::to_string(&value).unwrap()
    };
    let yamls: Vec<_> = apart.iter().map(as_yaml).collect();
    for text in [
        format!("\u{feff}{JSON}"),
        format!(" \u{feff}\n{JSON}"),
        format!("\u{feff}{YAML}"),
        format!("\u{feff}{}", apart.join("\n\u{feff}")),
        apart.join("\n---\n"),
        YAML.replace('\n', "\r\n"),
        format!("# a comment\n\n{YAML}"),
        format!("---\n{YAML}...\n"),
        format!("---\n{YAML}---\n"),
        format!("---\n{}", yamls.join("---\n")),
        format!("--- {JSON}"),
    ] {
        assert_eq!(File::new(&text).judged(), whole, "{text}");
    }
}

#[rstest]
#[case::no_yaml("a: b: c\n", "is not what kubectl get -o yaml writes, at line 1")]
#[case::text(
    "hello",
    "is not what kubectl get -o yaml writes, at line 1: it is no object"
)]
#[case::list(
    "\n- a\n",
    "is not what kubectl get -o yaml writes, at line 2: it is no object"
)]
#[case::alias("a: &x 1\nb: *x\n", "at line 2: it has an alias")]
#[case::tag("a: 1\nb: !!binary aGk=\n", "at line 2: it has a tag")]
#[case::map_as_key("? {a: b}\n: c\n", "a key is no text")]
#[case::without_separator(
    "kind: A\nmetadata: {}\nkind: B\n",
    r#"at line 3: "kind" is there twice; `---` has to stand between documents"#
)]
#[case::bad_object(
    "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: a\n- apiVersion: v1\n  kind: Pod\nkind: List\nmetadata: {}\n",
    "object at line 7: Pod without a name cannot be read: it has no namespace, name, uid"
)]
#[case::second_document(
    "apiVersion: v1\nkind: X\n---\napiVersion: v1\nkind: Pod\n",
    "object at line 4: Pod without a name cannot be read: it has no namespace, name, uid"
)]
#[case::page(
    "apiVersion: v1\nitems: []\nkind: PodList\nmetadata:\n  continue: x\n",
    "is only a part of a list"
)]
#[case::no_text("a: \u{1}\n", "at line 1")]
fn yaml_that_is_no_dump_is_one_clear_line(#[case] text: &str, #[case] says: &str) {
    assert_line(&File::new(text).read().unwrap_err(), says);
}

#[test]
fn yaml_that_is_not_utf_8_names_the_line() {
    assert_says(
        &File::new(b"a: b\nc: \xff\n").read().unwrap_err(),
        "at line 2: invalid utf-8",
    );
}

/// A list of YAML that ends early is YAML as well, and what it lacks would count as absent.
#[test]
fn a_list_of_yaml_that_was_cut_off_is_an_error() {
    let ends = YAML.match_indices('\n').map(|(at, _)| at);
    let last = YAML.find("\nmetadata:").unwrap();
    for end in ends.filter(|end| *end <= last) {
        let read = File::new(&YAML[..end]).read();
        assert!(read.is_err(), "{}", &YAML[..end]);
    }
}

#[test]
fn a_directory_is_read_in_both_forms() {
    let folder = Folder::new();
    let value: Value = serde_json::from_str(JSON).unwrap();
    let items = value["items"].as_array().unwrap();
    let (node, others): (Vec<_>, Vec<_>) = items.iter().partition(|it| it["kind"] == "Node");
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": others, "metadata": {} });
    folder.write("a.yaml", &serde_yaml::to_string(&list).unwrap());
    folder.write("b.yml", &node[0].to_string());
    folder.write("c.txt", "passed over");
    let read = files::read(std::slice::from_ref(&folder.0), None);
    assert_eq!(judge(&read.unwrap()), File::new(JSON).judged());
}
