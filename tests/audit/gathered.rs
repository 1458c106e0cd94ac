//! Folders and archives of programs that gather objects: `oc adm inspect`, `oc adm must-gather`, `kubectl cluster-info dump`.

use std::{path::Path, process};

use rstest::rstest;

use super::*;

impl Folder {
    fn yaml(&self, path: &str, object: &Value) {
        let text = serde_yaml::to_string(object).unwrap();
        self.write(path, &format!("---\n{text}"));
    }

    fn audit(&self) -> (i32, Option<Report>, String) {
        audit_at(&self.0)
    }

    /// The report about it.
    fn judged(&self) -> Report {
        let (_, report, stderr) = self.audit();
        report.expect(&stderr)
    }

    /// An archive of it, alone in another folder.
    fn archived(&self, name: &str, options: &[&str]) -> (Self, PathBuf) {
        let archive = Self::new();
        archive.write("other.txt", "");
        let path = archive.0.join(name);
        let is_packed = name.ends_with("gz");
        let tar = process::Command::new("tar")
            .args([if is_packed { "-czf" } else { "-cf" }])
            .arg(&path)
            .arg("-C")
            .arg(&self.0)
            .args(options)
            .arg(".")
            .status();
        assert!(tar.unwrap().success());
        (archive, path)
    }
}

fn audit_at(path: &Path) -> (i32, Option<Report>, String) {
    let (code, stdout, stderr) = ipgc(&["audit", "-o", "json", "-f", path.to_str().unwrap()]);
    (code, serde_json::from_str(&stdout).ok(), stderr)
}

/// As `oc adm inspect` writes it, among files that are none of ours.
fn inspected(server: &Server) -> Folder {
    let folder = Folder::new();
    let root = "must-gather.local/registry-sha256-1";
    for kind in Kind::ALL {
        for object in server.list(&kind.to_string()) {
            let (version, _) = kind.type_of();
            let group = version.split_once('/').map_or("core", |(group, _)| group);
            let name = object["metadata"]["name"].as_str().unwrap();
            let path = match object["metadata"]["namespace"].as_str() {
                Some(namespace) if kind == Kind::Pod => {
                    format!("namespaces/{namespace}/pods/{name}/{name}.yaml")
                }
                Some(namespace) => format!("namespaces/{namespace}/{group}/{kind}/{name}.yaml"),
                None => format!("cluster-scoped-resources/{group}/{kind}/{name}.yaml"),
            };
            folder.yaml(&format!("{root}/{path}"), &object);
        }
    }
    let mut pods = server.list("pods");
    pods.retain(|it| it["metadata"]["namespace"] == NS);
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods});
    folder.yaml(&format!("{root}/namespaces/{NS}/core/pods.yaml"), &list);
    folder.write(&format!("{root}/nodes/n1/podresources.json"), "[1, 2");
    let log = format!("{root}/namespaces/{NS}/pods/web-1/c/c/logs/current.log");
    folder.write(&log, "a: [");
    folder.write(&format!("{root}/event-filter.html"), "<html>");
    folder
}

/// Nobody knows in which order the files were written, so an absent pod is no proof: nothing is stale.
#[test]
fn nothing_that_was_gathered_is_stale() {
    let server = shop();
    assert_eq!(dump(&server).judged().totals.split.stale, 1);
    let (code, report, stderr) = inspected(&server).audit();
    assert_eq!((code, &*stderr), (1, ""));
    let report = report.unwrap();
    let (totals, split) = (&report.totals, report.totals.split);
    assert_eq!((totals.rows, totals.pods, totals.nodes), (2, 3, 1));
    assert_eq!((split.live, split.stale, split.unknown), (1, 0, 1));
    let unknown = with(Problem::Unknown, &report);
    assert_eq!(unknown.len(), report.findings.len(), "{report:#?}");
    assert_eq!(
        unknown[0].detail,
        "nobody knows whether a pod uses it: IPPools, reservations and pods are in files of different moments"
    );
    let notes = report.notes.join("; ");
    assert_says(&notes, "in files of different moments");
    assert_says(&notes, "2 objects are in the input more than once");
}

/// A pod that ended may be an earlier one than that of the row; a pod that reports an address may have come after the row was
/// written. Of one dump both are findings.
#[test]
fn nothing_is_found_that_another_moment_would_make() {
    let server = shop();
    let ended = fixtures::pod(NS, "gone").node("n1").ended("Succeeded");
    server.put(ended);
    server.put(pod("web-9", 9));
    let whole = dump(&server).judged();
    assert!(kinds_of(&whole).contains(&Problem::InUseUnallocated));
    assert_eq!(whole.totals.split.unknown, 0);
    let report = inspected(&server).judged();
    assert_eq!(report.totals.split.stale, 0);
    for problem in [Problem::InUseTwice, Problem::InUseUnallocated] {
        assert!(with(problem, &report).is_empty(), "{report:#?}");
    }
    assert_says(&report.notes.join("; "), "findings of duplicates");
}

/// What was lost of an archive must not look like what is not there.
#[rstest]
#[case::plain("a.tar", 512, "it was cut off")]
#[case::packed("a.tar.gz", 30, "incomplete deflate stream")]
#[case::its_sum("a.tar.gz", 4, "the archive cannot be read")]
fn an_archive_that_was_cut_off_is_refused(
    #[case] name: &str,
    #[case] lost: usize,
    #[case] expected: &str,
) {
    let (_archive, path) = inspected(&shop()).archived(name, &["--blocking-factor=1"]);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - lost]).unwrap();
    let (code, _, stderr) = audit_at(&path);
    assert_eq!(code, 2);
    assert_line(&stderr, expected);
}

/// Below a folder no link is followed, and nothing is opened that is no file.
#[test]
fn links_and_pipes_are_passed_over() {
    let folder = inspected(&shop());
    let before = folder.judged();
    let below = folder.0.join("must-gather.local");
    for (target, name) in [(".", "a"), (".", "b"), ("/dev/zero", "pods.json")] {
        std::os::unix::fs::symlink(target, below.join(name)).unwrap();
    }
    let pipe = process::Command::new("mkfifo")
        .arg(below.join("nodes.yaml"))
        .status();
    assert!(pipe.unwrap().success());
    let (code, after, stderr) = folder.audit();
    let after = after.expect(&stderr);
    assert_eq!((code, after.totals), (1, before.totals), "{stderr}");
}

#[rstest]
#[case::gzip("must-gather.tar.gz")]
#[case::short("must-gather.tgz")]
#[case::plain("must-gather.tar")]
fn an_archive_is_as_its_folder(#[case] name: &str) {
    let folder = inspected(&shop());
    let (_archive, path) = folder.archived(name, &[]);
    same_report(&folder.0, &path);
}

/// The report about a folder and about an archive of it.
fn same_report(folder: &Path, archive: &Path) -> Report {
    let [of_folder, of_archive] = [folder, archive].map(|path| {
        let (_, report, stderr) = audit_at(path);
        let mut report = report.expect(&stderr);
        MADE.clone_into(&mut report.made);
        report
    });
    assert_eq!(of_folder, of_archive);
    of_folder
}

/// A line for each kind that is missing, and what that means. Of a dump the row of shop's absent pod is stale, if the kind does
/// not matter for that.
#[rstest]
#[case::nodes(
    Kind::Node,
    "the input has no nodes: what is stale is held",
    "files of different moments, and nodes are missing, so the absence of a pod proves nothing",
    [1, 0, 1, 0]
)]
#[case::reservations(
    Kind::Reservation,
    "the input has no overlappingrangeipreservations: missing",
    "the input has no overlappingrangeipreservations: missing",
    [1, 1, 0, 0]
)]
#[case::definitions(
    Kind::Definition,
    "the input has no network-attachment-definitions: duplicates",
    "the input has no network-attachment-definitions: duplicates",
    [1, 1, 0, 0]
)]
#[case::pods(
    Kind::Pod,
    "the input has no pods, so the absence of a pod proves nothing",
    "the input has no pods, so the absence of a pod proves nothing",
    [0, 0, 0, 2]
)]
fn a_kind_that_is_missing_is_said(
    #[case] missing: Kind,
    #[case] note_of_dump: &str,
    #[case] note: &str,
    #[case] of_dump: [usize; 4],
) {
    let dump = part(&shop(), &all_but(missing)).judged();
    assert_says(&dump.notes.join("; "), note_of_dump);
    let split = dump.totals.split;
    let words = [split.live, split.stale, split.unfenced, split.unknown];
    assert_eq!(words, of_dump);
    let folder = inspected(&shop());
    let root = folder.0.join("must-gather.local/registry-sha256-1");
    for entry in files_below(&root) {
        let text = fs::read_to_string(&entry).unwrap_or_default();
        let (_, kind) = missing.type_of();
        let kinds = [format!("kind: {kind}\n"), format!("kind: {kind}List\n")];
        if kinds.iter().any(|kind| text.contains(kind)) {
            fs::remove_file(entry).unwrap();
        }
    }
    let report = folder.judged();
    let notes = report.notes.join("; ");
    assert_says(&notes, note);
    assert!(!notes.contains("is held"), "{notes}");
    assert_eq!(report.totals.split.stale, 0);
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else {
            files.push(path);
        }
    }
    files
}

/// A pod that is cut off must not look like one that is gone.
#[test]
fn a_file_that_was_cut_off_is_named() {
    let folder = inspected(&shop());
    let pod = "must-gather.local/registry-sha256-1/namespaces/default/pods/web-1/web-1.yaml";
    let path = folder.0.join(pod);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, &text.as_bytes()[..text.len() / 2]).unwrap();
    let (code, report, stderr) = folder.audit();
    assert_eq!((code, report), (2, None));
    assert_line(&stderr, "web-1/web-1.yaml");
}

/// A gather that failed leaves a file with nothing, or with the first line of `oc adm inspect`. The rest is read, and nothing is
/// stale because of what may be missing; somebody who names the file wants to know that it is empty.
#[rstest]
#[case::nothing("")]
#[case::separator("---\n")]
fn a_file_that_is_empty_is_named_and_nothing_is_stale(#[case] text: &str) {
    let folder = Folder::new();
    let server = shop();
    server.put(pod("web-9", 9));
    folder.write("dump.json", &dump_of(&server, &Kind::ALL).to_string());
    let whole = folder.judged();
    assert_eq!(
        problems(&whole),
        ["in-use-unallocated 10.0.0.9", "stale 10.0.0.2"]
    );
    folder.write("ns/network-attachment-definitions/other.yaml", text);
    folder.write("ns/nodes.yaml", text);
    let (_archive, path) = folder.archived("a.tar.gz", &[]);
    for (code, report, stderr) in [folder.audit(), audit_at(&path)] {
        let report = report.expect(&stderr);
        assert_eq!((code, report.totals.rows), (1, 2));
        assert_eq!(problems(&report), ["unknown 10.0.0.2"]);
        let notes = report.notes.join("; ");
        assert_says(
            &notes,
            "empty, as after a gather that failed, so nobody knows what is missing: ",
        );
        assert_says(&notes, "ns/nodes.yaml");
    }
    let (code, _, stderr) = audit_at(&folder.0.join("ns/nodes.yaml"));
    assert_eq!(code, 2);
    assert_line(
        &stderr,
        "nodes.yaml: is empty: it was cut off, or what wrote it failed",
    );
    fs::remove_file(folder.0.join("dump.json")).unwrap();
    let (code, _, stderr) = folder.audit();
    assert_eq!(code, 2);
    assert_line(
        &stderr,
        "the input has no IPPools, so there is nothing to judge; ",
    );
    assert_says(&stderr, "other.yaml is empty");
}

/// A definition that was lost may lead to a pool.
#[test]
fn an_empty_definition_leaves_no_pool_unused() {
    let folder = Folder::new();
    let server = live_one();
    server.put(fixtures::pool(NS, "10.9.0.0/24"));
    folder.write("dump.json", &dump_of(&server, &Kind::ALL).to_string());
    let detail = |report: &Report| only(report).detail.clone();
    assert_eq!(kinds_of(&folder.judged()), [Problem::PoolWithoutDefinition]);
    let name = "ns/network-attachment-definitions/other.yaml";
    assert!(!detail(&folder.judged()).contains(name));
    folder.write(name, "");
    assert_says(&detail(&folder.judged()), name);
}

/// Of a folder in which a whole dump has any name.
#[rstest]
#[case::of_the_folder(&["-C", "one", "."])]
#[case::of_the_file(&["-C", "one", "x.json"])]
#[case::with_the_folder(&["one"])]
#[case::with_the_file(&["one/x.json"])]
fn a_dump_in_an_archive_is_as_in_its_folder(#[case] of: &[&str]) {
    let folder = Folder::new();
    folder.write("one/x.json", &dump_of(&shop(), &Kind::ALL).to_string());
    let path = folder.0.join("a.tar.gz");
    let mut tar = process::Command::new("tar");
    let tar = tar.current_dir(&folder.0).arg("-czf").arg(&path).args(of);
    assert!(tar.status().unwrap().success());
    let report = same_report(&folder.0.join("one"), &path);
    assert_eq!(problems(&report), ["stale 10.0.0.2"]);
}

/// `kubectl cluster-info dump --output-directory` has nodes and pods, and no pools.
#[test]
fn a_cluster_info_dump_is_read_beside_pools() {
    let server = shop();
    let folder = Folder::new();
    let list = |kind: &str| json!({"apiVersion": "v1", "kind": "List", "items": server.list(kind)});
    folder.write("nodes.json", &list("nodes").to_string());
    folder.write("default/pods.json", &list("pods").to_string());
    folder.write("default/web-1/logs.txt", "a log");
    folder.write("default/events.json", "{}");
    let (code, _, stderr) = folder.audit();
    assert_eq!(code, 2);
    assert_says(&stderr, "no IPPools");
    folder.write("pools.json", &list("ippools").to_string());
    let split = folder.judged().totals.split;
    assert_eq!((split.unknown, split.live), (1, 1));
}

#[rstest]
#[case::empty_folder("", "none below it is named after a kind")]
#[case::no_archive("a.tar.gz", "the archive cannot be read")]
#[case::nothing_in_it("b.tar", "none below it is named after a kind")]
fn an_input_without_objects_is_one_line(#[case] name: &str, #[case] expected: &str) {
    let folder = Folder::new();
    folder.write("x/y/other.yaml", "a: 1");
    folder.write("a.tar.gz", "no archive");
    let tar = process::Command::new("tar")
        .current_dir(&folder.0)
        .args(["-cf", "b.tar", "x"])
        .status();
    assert!(tar.unwrap().success());
    let (code, _, stderr) = audit_at(&folder.0.join(name));
    assert_eq!(code, 2);
    assert_line(&stderr, expected);
}
