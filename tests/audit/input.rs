//! Files: partial, cut, foreign and odd ones; and the binary as its user meets it.

use assert_cmd::Command;
use ipgc::snapshot::{ReadError, labels, read_objects};
use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// A cluster with a live row, a stale one, and the reservations of both.
fn shop() -> Server {
    let server = server();
    put_pool(&server, &[(1, "default/web-1"), (2, "default/gone")]);
    server.put(pod("web-1", 1).label("app", "web").build());
    server
}

fn without(kind: Kind) -> File {
    let kinds: Vec<_> = Kind::ALL.into_iter().filter(|it| *it != kind).collect();
    File::new(dump_of(&shop(), &kinds).to_string())
}

fn offline(file: &File) -> Report {
    judge(&file.read().unwrap(), Source::Files)
}

#[test]
fn without_pods_nothing_is_known_and_nothing_is_stale() {
    let report = offline(&without(Kind::Pod));
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|f| (f.problem, &*f.detail))
        .collect();
    let says = "its pod could not be read: the input has no pods";
    assert_eq!(found, [(Problem::Unknown, says), (Problem::Unknown, says)]);
    assert_eq!(report.totals.split.unknown, 2);
    assert_eq!(
        report.notes,
        [
            "the input has no pods",
            "the input has no pods, so the absence of a pod proves nothing: rows without a pod are unknown"
        ]
    );
}

#[test]
fn without_nodes_what_is_stale_waits_for_them() {
    let report = offline(&without(Kind::Node));
    let finding = only(&report);
    assert_eq!(
        (finding.problem, finding.wait_seconds),
        (Problem::HeldUnfenced, None)
    );
    assert_eq!(
        finding.detail,
        "its pod is gone; held, since the nodes are not known"
    );
    assert_eq!(report.notes, ["the input has no nodes"]);
}

#[test]
fn without_definitions_what_depends_on_them_is_not_looked_for() {
    let report = offline(&without(Kind::Definition));
    assert_eq!(only(&report).problem, Problem::Stale);
    assert_eq!(report.notes.len(), 2);
    assert_eq!(
        report.notes[0],
        "the input has no network-attachment-definitions"
    );
    assert!(report.notes[1].contains("duplicates"), "{:?}", report.notes);
}

#[test]
fn without_reservations_none_is_missing() {
    let report = offline(&without(Kind::Reservation));
    assert_eq!(only(&report).problem, Problem::Stale);
    assert_eq!(
        report.notes,
        ["the input has no overlappingrangeipreservations"]
    );
}

#[test]
fn without_pools_there_is_nothing_to_judge() {
    let error = without(Kind::IpPool).read().unwrap_err();
    assert!(
        error.starts_with("the input has no IPPools, so there is nothing to judge"),
        "{error}"
    );
}

#[test]
fn pods_that_were_read_before_the_rows_prove_nothing() {
    let kinds = [
        Kind::Pod,
        Kind::IpPool,
        Kind::Node,
        Kind::Definition,
        Kind::Reservation,
    ];
    let report = offline(&File::new(dump_of(&shop(), &kinds).to_string()));
    let finding = only(&report);
    assert_eq!(finding.problem, Problem::Unknown);
    assert!(
        finding
            .detail
            .ends_with("the pods were read before the IPPools or their reservations"),
        "{}",
        finding.detail
    );
}

#[test]
fn pods_of_one_namespace_prove_nothing_about_others() {
    let server = shop();
    server.delete("pods", "kube-system", "dns").unwrap();
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["3"] =
            fixtures::row(&fixtures::sandbox(3), "other/gone", "net1");
    });
    let report = offline(&dump(&server));
    assert_eq!(
        problems(&report),
        [(Problem::Stale, "10.0.0.2"), (Problem::Unknown, "10.0.0.3")]
    );
    // A pod of another namespace shows that all were asked for.
    server.put(
        fixtures::pod("kube-system", "dns")
            .node("n1")
            .running()
            .build(),
    );
    let report = offline(&dump(&server));
    assert_eq!(
        problems(&report),
        [(Problem::Stale, "10.0.0.2"), (Problem::Stale, "10.0.0.3")]
    );
}

#[rstest]
#[case::empty("", "ends in the middle of its text, at byte 0")]
#[case::blank(" \n\t", "ends in the middle of its text, at byte 3")]
#[case::text(
    "hello",
    "is not what kubectl get -o json writes, at byte 0: expected '{'"
)]
#[case::yaml(
    "apiVersion: v1\nitems:\n",
    "is not what kubectl get -o json writes, at byte 0: expected '{'"
)]
#[case::list(
    "[]",
    "is not what kubectl get -o json writes, at byte 0: expected '{'"
)]
#[case::no_objects(r#"{"items":[1]}"#, "object at byte 10: invalid type: integer `1`")]
#[case::no_list(r#"{"items":{}}"#, "items are no list")]
#[case::no_kind(
    r#"{"items":[{"metadata":{}}]}"#,
    "object at byte 10: it has no apiVersion and kind"
)]
#[case::page(
    r#"{"kind":"PodList","apiVersion":"v1","metadata":{"continue":"x"},"items":[]}"#,
    "is only a part of a list"
)]
#[case::page(
    r#"{"kind":"PodList","apiVersion":"v1","items":[],"metadata":{"continue":"x"}}"#,
    "is only a part of a list"
)]
#[case::another_version(
    r#"{"items":[{"apiVersion":"whereabouts.cni.cncf.io/v2","kind":"IPPool"}]}"#,
    "object at byte 10: IPPool is of whereabouts.cni.cncf.io/v2, and only whereabouts.cni.cncf.io/v1alpha1 is known"
)]
#[case::odd_pod(
    r#"{"items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":7}}]}"#,
    "object at byte 10: Pod without a name cannot be read"
)]
#[case::nameless_pod(
    r#"{"items":[{"apiVersion":"v1","kind":"Pod"}]}"#,
    "object at byte 10: a Pod without namespace, name or uid"
)]
#[case::odd_node(
    r#"{"items":[{"apiVersion":"v1","kind":"Node","spec":7,"metadata":{"name":"n1"}}]}"#,
    "object at byte 10: Node n1 cannot be read"
)]
fn what_is_no_dump_is_one_clear_line(#[case] text: &str, #[case] says: &str) {
    let error = File::new(text).read().unwrap_err();
    assert!(error.contains(says), "{error}");
    assert_eq!(error.lines().count(), 1);
}

#[test]
fn utf_16_is_named() {
    let text: Vec<u8> = std::iter::once(0xfeff)
        .chain("{}".encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    let error = File::new(text).read().unwrap_err();
    assert!(error.contains("it is UTF-16, not UTF-8"), "{error}");
}

#[test]
fn an_object_that_is_there_twice_is_an_error() {
    let dump = dump_of(&shop(), &Kind::ALL).to_string();
    let error = File::new(format!("{dump}\n{dump}")).read().unwrap_err();
    assert!(
        error.contains("IPPool default/10.0.0.0-24 is in the input twice"),
        "{error}"
    );
    let slices = fixtures::node_slice_pool(NS, "s", RANGE, "/28", &[]);
    let dump = format!("{dump}{slices}");
    let twice = File::new(format!("{dump}{slices}")).read().unwrap_err();
    assert!(
        twice.contains("NodeSlicePool default/s is in the input twice"),
        "{twice}"
    );
    for kind in [Kind::Pod, Kind::Node, Kind::Reservation, Kind::Definition] {
        let again = dump_of(&shop(), &[kind]).to_string();
        let error = File::new(format!("{dump}{again}")).read().unwrap_err();
        assert!(error.contains("is in the input twice"), "{kind}: {error}");
    }
}

#[test]
fn lists_objects_and_several_of_them_come_to_the_same() {
    let server = shop();
    let whole = offline(&dump(&server));
    let items = dump_of(&server, &Kind::ALL);
    let items = items["items"].as_array().unwrap();
    let apart: Vec<_> = items.iter().map(ToString::to_string).collect();
    assert_eq!(offline(&File::new(apart.join("\n"))), whole);
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
        offline(&File::new(lists.join("\n"))).findings,
        whole.findings
    );
    // A kind that is none of ours is passed over, and told.
    let other = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"}}"#;
    let more = offline(&File::new(format!("{other}{}", apart.join("\n"))));
    assert_eq!(more.findings, whole.findings);
    assert_eq!(more.notes, ["passed over 1 of kind ConfigMap"]);
}

/// Objects larger than what is read at a time, wherever the text is divided.
#[test]
fn an_object_may_be_larger_than_the_window() {
    let mut pool = fixtures::pool(NS, "10.0.0.0/8").build();
    pool["metadata"]["uid"] = "u".into();
    let rows: serde_json::Map<_, _> = (0..20_000_u64)
        .map(|at| {
            (
                at.to_string(),
                fixtures::row(&fixtures::sandbox(at), "default/gone", "net1"),
            )
        })
        .collect();
    pool["spec"]["allocations"] = rows.into();
    let mut dump = dump_of(&shop(), &Kind::ALL);
    dump["items"].as_array_mut().unwrap().insert(0, pool);
    let text = serde_json::to_string_pretty(&dump).unwrap();
    assert!(text.len() > 3 << 20);
    let report = offline(&File::new(text));
    assert_eq!(report.totals.rows, 20_002);
    assert_eq!(report.pools.len(), 2);
}

/// Of a dump that is so large that it is read in pieces.
fn large() -> Value {
    let mut dump = dump_of(&shop(), &Kind::ALL);
    let items = dump["items"].as_array_mut().unwrap();
    for number in 0..600_u64 {
        let name = format!("many-{number}");
        let pod = fixtures::pod(NS, &name).uid(&name).node("n1").running();
        items.push(pod.annotation("long", &"x, y\n".repeat(1_000)).build());
        let address = format!("10.0.{}.{}", 1 + number / 250, number % 250);
        let owner = if number % 2 == 0 { &name } else { "gone" };
        let mut reservation = fixtures::reservation(NS, &address, &format!("{NS}/{owner}"), "net1");
        reservation["metadata"]["uid"] = format!("r{number}").into();
        reservation["metadata"]["resourceVersion"] = "1".into();
        // Pods last, or their absence proves nothing.
        items.insert(0, reservation);
    }
    dump
}

/// The text with this indentation.
fn indented(value: &Value, indent: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(indent);
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
    serde::Serialize::serialize(value, &mut serializer).unwrap();
    text
}

#[test]
fn however_a_dump_is_read_the_report_is_the_same_to_the_byte() {
    let dump = large();
    let report = |text: &[u8]| serde_json::to_string(&offline(&File::new(text))).unwrap();
    // Read one after the other.
    let plain = report(dump.to_string().as_bytes());
    assert!(plain.contains("reservation-orphaned") && plain.contains("\"stale\""));
    for indent in ["  ", "    ", "\t"] {
        let text = indented(&dump, indent.as_bytes());
        assert!(text.len() > 3 << 20);
        assert_eq!(report(&text), plain, "{indent:?}");
    }
    // Items that look as if they ended where they do not.
    let odd = String::from_utf8(indented(&dump, b"  ")).unwrap();
    let odd = odd.replace(
        "\n      \"kind\"",
        "\n      \"odd\": [{\n    },\n    {}],\n      \"kind\"",
    );
    assert!(odd.contains("\n    },\n    {}],"));
    assert_eq!(report(odd.as_bytes()), plain);
}

#[test]
fn what_is_wrong_far_into_a_dump_is_named_with_its_place() {
    let text = String::from_utf8(indented(&large(), b"    ")).unwrap();
    let wrong = text.find("\"many-500\"").unwrap();
    let begins = text[..wrong].rfind("\n        {").unwrap() + "\n        ".len();
    let says = |text: String| File::new(text).read().unwrap_err();
    let with = |other: &str| format!("{}{other}{}", &text[..wrong], &text[wrong + 10..]);
    let error = says(with("many"));
    assert!(error.contains(&format!("at byte {begins}: ")), "{error}");
    let error = says(with("7"));
    let object = format!("object at byte {begins}: Pod ");
    assert!(error.starts_with(&object), "{error}");
    let error = says(with("\"many-499\""));
    assert!(
        error.contains("Pod default/many-499 is in the input twice"),
        "{error}"
    );
    let error = says(text[..wrong].to_owned());
    assert!(error.contains("it was cut off"), "{error}");
}

fn read(text: &[u8], at_a_time: usize) -> Result<usize, ReadError> {
    /// Gives a few bytes at a time.
    struct Slow<'t>(&'t [u8], usize);
    impl std::io::Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(buffer.len()).min(self.0.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }
    let mut count = 0;
    read_objects(Slow(text, at_a_time), false, |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

#[test]
fn a_dump_that_was_cut_off_is_an_error_wherever_that_was() {
    let text = dump_of(&shop(), &Kind::ALL).to_string();
    assert_eq!(read(text.as_bytes(), 100).unwrap(), 8);
    for length in (0..text.len())
        .step_by(13)
        .chain(text.len() - 40..text.len())
    {
        let error = read(&text.as_bytes()[..length], 4_096).unwrap_err();
        assert!(matches!(error, ReadError::Cut(_)), "{length}: {error}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,60}", like in r#"[\[\]{}":,a-z0-9 \\]{0,60}"#) {
        for bytes in [&*bytes, text.as_bytes(), like.as_bytes()] {
            let _ = read(bytes, 3);
            let _ = File::new(bytes).read();
        }
    }

    /// One byte of a dump is another: an error or another report, and never a panic.
    #[test]
    fn no_change_of_a_dump_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = dump_of(&shop(), &Kind::ALL).to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(snapshot) = File::new(text).read() {
            let report = judge(&snapshot, Source::Files);
            let _ = ipgc::audit::table::table(&report, &ipgc::audit::table::Column::WIDE);
        }
    }

    #[test]
    fn whatever_stands_in_a_row_it_is_counted(key in "\\PC{0,12}", podref in "\\PC{0,20}", id in "[0-9a-f]{0,70}") {
        let mut pool = fixtures::pool(NS, RANGE).raw_row(&key, fixtures::row(&id, &podref, "net1")).build();
        pool["metadata"]["uid"] = "u".into();
        // With pods and nodes, so that what can be read may be stale.
        let others = dump_of(&server(), &[Kind::Pod, Kind::Node]);
        let report = offline(&File::new(format!("{pool}{others}")));
        let ipgc::audit::report::Split { live, stale, held, unknown } = report.totals.split;
        prop_assert_eq!((report.totals.rows, live + stale + held + unknown), (1, 1));
        if id.len() != 64 || !podref.contains('/') {
            prop_assert_eq!(unknown, 1);
        }
    }
}

fn ipgc(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::cargo_bin("ipgc").unwrap();
    let output = command.env_clear().args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn audit_of(file: &File, args: &[&str]) -> (i32, String, String) {
    let path = file.0.to_str().unwrap();
    ipgc(&[&["audit", "-f", path], args].concat())
}

#[test]
fn the_exit_code_tells_what_was_found() {
    let server = shop();
    let (code, stdout, stderr) = audit_of(&dump(&server), &[]);
    assert_eq!((code, &*stderr), (1, ""));
    assert_eq!(
        stdout,
        "\
FINDING   ADDRESS    POOL                  POD            NODE   DETAIL
stale     10.0.0.2   default/10.0.0.0-24   default/gone   -      its pod is gone; goes 3m30s after a collector has begun

1 finding: 2 rows in 1 pool (1 live, 1 stale, 0 held, 0 unknown), 2 reservations, 3 pods, 1 node
"
    );
    server.put(pod("gone", 2).build());
    let (code, stdout, _) = audit_of(&dump(&server), &[]);
    assert_eq!(code, 0);
    assert!(
        stdout.starts_with("no findings: 2 rows in 1 pool (2 live,"),
        "{stdout}"
    );
}

#[rstest]
#[case::pool(&["--pool", POOL], 1)]
#[case::pool_in_full(&["--pool", "default/10.0.0.0-24"], 1)]
#[case::namespace(&["--namespace", "default"], 1)]
#[case::other_namespace(&["-n", "kube-system"], 0)]
#[case::node(&["--node", "n1"], 0)]
#[case::labels(&["--selector", "app=web"], 0)]
fn findings_are_chosen(#[case] args: &[&str], #[case] code: i32) {
    let (found, stdout, stderr) = audit_of(&dump(&shop()), args);
    assert_eq!((found, &*stderr), (code, ""), "{stdout}");
}

#[test]
fn findings_of_every_kind_are_chosen() {
    let server = shop();
    server.put(pod("web-9", 9).build());
    server.put(fixtures::reservation(
        NS,
        "10.0.0.8",
        "default/gone",
        "net1",
    ));
    let columns = "--columns=finding";
    let lines = |args: &[&str]| {
        let (_, stdout, _) = audit_of(&dump(&server), &[args, &[columns]].concat());
        stdout.lines().count()
    };
    // A title, three findings, a blank line and the totals.
    assert_eq!(lines(&[]), 6);
    assert_eq!(lines(&["-n", "default"]), 6);
    assert_eq!(lines(&["-n", "kube-system"]), 1);
    assert_eq!(lines(&["--node", "n1"]), 4);
}

#[test]
fn labels_choose_what_pods_that_are_there_leave_behind() {
    let server = shop();
    put_pool(&server, &[(1, "default/web-1"), (3, "default/web-1")]);
    let (code, stdout, _) = audit_of(&dump(&server), &["-l", "app in (web)", "--columns=address"]);
    assert_eq!(
        (code, stdout.lines().nth(1)),
        (1, Some("10.0.0.3")),
        "{stdout}"
    );
    let (code, _, stderr) = audit_of(&dump(&server), &["-l", "app=db"]);
    assert_eq!((code, &*stderr), (2, "ipgc: the selector chooses no pod\n"));
}

#[rstest]
#[case::pool(&["--pool", "10.9.0.0-24"], "no pool 10.9.0.0-24 is known")]
#[case::node(&["--node", "n9"], "no node n9 is known")]
#[case::namespace(&["-n", "defualt"], "no pod, row or reservation of namespace defualt is known")]
#[case::foreign_text(&["--node", "a\n\u{1b}[2J\u{202e}"], "no node a\\n\\u{1b}[2J\\u{202e} is known")]
#[case::selector(&["-l", "app ~ web"], "not a label selector: \"app ~ web\"")]
#[case::column(&["--columns", "colour"], "colour")]
#[case::format(&["-o", "yaml"], "yaml")]
fn what_is_asked_for_and_unknown_is_one_line_and_exit_code_2(
    #[case] args: &[&str],
    #[case] says: &str,
) {
    let (code, stdout, stderr) = audit_of(&dump(&shop()), args);
    assert_eq!((code, &*stdout), (2, ""));
    assert!(
        stderr.starts_with("ipgc: ") && stderr.contains(says),
        "{stderr}"
    );
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let (code, _, stderr) = ipgc(&["audit", "-f", "/nonexistent/dump.json"]);
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("ipgc: /nonexistent/dump.json: "),
        "{stderr}"
    );
    let file = File::new("{");
    let (code, _, stderr) = audit_of(&file, &[]);
    assert_eq!(code, 2);
    let path = file.0.display();
    assert_eq!(
        stderr,
        format!("ipgc: {path}: ends in the middle of its text, at byte 1: it was cut off\n")
    );
}

#[test]
fn directories_and_standard_input_are_read() {
    let server = shop();
    let directory = std::env::temp_dir().join(format!("ipgc-audit-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.to_str().unwrap();
    let (code, _, stderr) = ipgc(&["audit", "-f", path]);
    assert_eq!(code, 2);
    assert!(stderr.contains("no file there ends in .json"), "{stderr}");
    // By their names the nodes come before the rest, whose order is that of its file.
    let rows = [Kind::Reservation, Kind::IpPool, Kind::Pod];
    for (name, kinds) in [("b", &rows[..]), ("a", &[Kind::Node, Kind::Definition])] {
        let text = dump_of(&server, kinds).to_string();
        fs::write(directory.join(format!("{name}.json")), text).unwrap();
    }
    fs::write(directory.join("notes.txt"), "not a dump").unwrap();
    let (code, stdout, _) = ipgc(&["audit", "-f", path, "--columns", "finding"]);
    assert_eq!((code, stdout.lines().nth(1)), (1, Some("stale")));
    fs::remove_dir_all(&directory).unwrap();
    let mut command = Command::cargo_bin("ipgc").unwrap();
    let text = dump_of(&server, &Kind::ALL).to_string();
    let command = command
        .args(["audit", "-f", "-", "-o", "json"])
        .write_stdin(text);
    let output = command.output().unwrap();
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(problems(&report), [(Problem::Stale, "10.0.0.2")]);
    assert!(report.made.ends_with('Z') && report.source == Source::Files);
}

#[test]
fn wide_tables_line_up_and_show_no_control_characters() {
    let server = shop();
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["7"] =
            fixtures::row(&fixtures::sandbox(7), "a\u{1b}[2Jb", "net1");
    });
    let (_, stdout, _) = audit_of(&dump(&server), &["-o", "wide"]);
    assert!(
        !stdout.contains('\u{1b}') && stdout.contains("a\\u{1b}[2Jb"),
        "{stdout}"
    );
    let table: Vec<_> = stdout.lines().take(3).collect();
    for title in ["GRADE", "WAIT", "KEY", "SANDBOX", "DETAIL"] {
        let column = table[0].find(title).unwrap();
        for line in &table[1..] {
            assert!(
                line.is_char_boundary(column) && line[..column].ends_with("   "),
                "{title}:\n{stdout}"
            );
            assert!(!line[column..].starts_with(' '), "{title}:\n{stdout}");
        }
    }
}

#[test]
fn the_schema_is_printed_without_a_cluster() {
    for command in ["audit", "explain"] {
        let (code, stdout, _) = ipgc(&[command, "--schema"]);
        let schema: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(code, 0);
        assert!(
            schema["properties"]["version"]["description"].is_string(),
            "{stdout}"
        );
    }
}

/// What is read of its text chooses the same labels as what kube is told in its own words.
#[test]
fn a_selector_of_labels_is_kube_s() {
    use kube::core::{Expression, Selector, SelectorExt};

    let (key, value) = (|| "a".to_owned(), || "b".to_owned());
    for (text, own) in [
        ("a=b", Expression::Equal(key(), value())),
        ("a==b", Expression::Equal(key(), value())),
        ("a!=b", Expression::NotEqual(key(), value())),
        ("a in (b)", Expression::In(key(), [value()].into())),
        ("a notin (b)", Expression::NotIn(key(), [value()].into())),
        ("a", Expression::Exists(key())),
        ("!a", Expression::DoesNotExist(key())),
    ] {
        let (read, own) = (labels::parse(text).unwrap(), Selector::from(own));
        assert_eq!(read.to_string(), own.to_string());
        for pairs in [&[][..], &[("a", "b")], &[("a", "c")], &[("b", "b")]] {
            let pairs = pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
            let of_object: labels::Labels = pairs.collect();
            let chosen = own.matches(&of_object);
            assert_eq!(read.matches(&of_object), chosen, "{text} of {of_object:?}");
        }
    }
    // All parts have to hold.
    let both = labels::parse("a=b,c!=d").unwrap();
    assert_eq!(both.to_string(), "a=b,c!=d");
    let of_object = [("a", "b"), ("c", "d")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert!(!both.matches(&labels::Labels::from(of_object)));
}
