//! Folders and archives of programs that gather objects: `oc adm inspect`, `oc adm must-gather`, `kubectl cluster-info dump`.

use std::{io::Write as _, path::Path, process};

use ipgc::audit::report::Problem;
use rstest::rstest;

use super::*;

/// A folder that is gone when its test is.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Folder {
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ipgc-gathered-{}-{count}", process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn yaml(&self, path: &str, object: &Value) {
        self.write(
            path,
            &format!("---\n{}", serde_yaml::to_string(object).unwrap()),
        );
    }

    fn audit(&self) -> (i32, Value, String) {
        audit_at(&self.0)
    }
}

fn audit_at(path: &Path) -> (i32, Value, String) {
    let (code, stdout, stderr) = ipgc(&["audit", "-o", "json", "-f", path.to_str().unwrap()]);
    (
        code,
        serde_json::from_str(&stdout).unwrap_or_default(),
        stderr,
    )
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
    let pods = server.list("pods");
    let pods = pods
        .into_iter()
        .filter(|it| it["metadata"]["namespace"] == NS);
    let list = json!({"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": pods.collect::<Vec<_>>()});
    folder.yaml(&format!("{root}/namespaces/{NS}/core/pods.yaml"), &list);
    folder.write(&format!("{root}/nodes/n1/podresources.json"), "[1, 2");
    folder.write(
        &format!("{root}/namespaces/{NS}/pods/web-1/c/c/logs/current.log"),
        "a: [",
    );
    folder.write(&format!("{root}/event-filter.html"), "<html>");
    folder
}

/// Nobody knows in which order the files were written, so an absent pod is no proof: nothing is stale.
#[test]
fn nothing_that_was_gathered_is_stale() {
    let server = shop();
    let (_, whole, _) = audit_at(&dump(&server).0);
    assert_eq!(whole["totals"]["stale"], 1);
    let (code, report, stderr) = inspected(&server).audit();
    assert_eq!((code, &*stderr), (1, ""));
    for (field, count) in [
        ("rows", 2),
        ("live", 1),
        ("stale", 0),
        ("unknown", 1),
        ("pods", 3),
        ("nodes", 1),
    ] {
        assert_eq!(report["totals"][field], count, "{field}");
    }
    let findings = report["findings"].as_array().unwrap();
    let unknown = json!(Problem::Unknown);
    assert!(
        findings.iter().all(|it| it["problem"] == unknown),
        "{findings:#?}"
    );
    let notes = report["notes"].to_string();
    assert_says(&notes, "not all in one file");
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
    let (_, whole, _) = audit_at(&dump(&server).0);
    let problems = |report: &Value| {
        let findings = report["findings"].as_array().unwrap().iter();
        let problems = findings.map(|it| it["problem"].as_str().unwrap().to_owned());
        problems.collect::<Vec<_>>()
    };
    assert!(
        problems(&whole).contains(&"in-use-unallocated".to_owned()),
        "{whole:#}"
    );
    assert_eq!(whole["totals"]["unknown"], 0);
    let (_, report, _) = inspected(&server).audit();
    assert_eq!(report["totals"]["stale"], 0);
    let left: Vec<_> = problems(&report)
        .into_iter()
        .filter(|it| it.starts_with("in-use"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
    assert_says(&report["notes"].to_string(), "findings of duplicates");
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
    let folder = inspected(&shop());
    let archive = Folder::new();
    archive.write("other.txt", "");
    let path = archive.0.join(name);
    let tar = process::Command::new("tar")
        .args([if name.ends_with("gz") { "-czf" } else { "-cf" }])
        .args([
            &path,
            Path::new("-C"),
            &folder.0,
            Path::new("--blocking-factor=1"),
            Path::new("."),
        ])
        .status();
    assert!(tar.unwrap().success());
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
    let (_, before, _) = folder.audit();
    let below = folder.0.join("must-gather.local");
    for (target, name) in [(".", "a"), (".", "b"), ("/dev/zero", "pods.json")] {
        std::os::unix::fs::symlink(target, below.join(name)).unwrap();
    }
    let pipe = process::Command::new("mkfifo")
        .arg(below.join("nodes.yaml"))
        .status();
    assert!(pipe.unwrap().success());
    let (code, after, stderr) = folder.audit();
    assert_eq!((code, &after["totals"]), (1, &before["totals"]), "{stderr}");
}

#[rstest]
#[case::gzip("must-gather.tar.gz", true)]
#[case::short("must-gather.tgz", true)]
#[case::plain("must-gather.tar", false)]
fn an_archive_is_as_its_folder(#[case] name: &str, #[case] is_packed: bool) {
    let folder = inspected(&shop());
    let archive = Folder::new();
    archive.write("other.txt", "");
    let path = archive.0.join(name);
    let status = process::Command::new("tar")
        .args([if is_packed { "-czf" } else { "-cf" }])
        .args([&path, Path::new("-C"), &folder.0, Path::new(".")])
        .status();
    assert!(status.unwrap().success());
    let (mut of_folder, mut of_archive) = (folder.audit(), audit_at(&path));
    for (_, report, _) in [&mut of_folder, &mut of_archive] {
        report["made"] = json!(MADE);
    }
    assert_eq!(of_folder, of_archive);
}

/// A line for each kind that is missing, and what that means.
#[rstest]
#[case::nodes(Kind::Node, "the input has no nodes")]
#[case::reservations(Kind::Reservation, "the input has no overlappingrangeipreservations")]
#[case::definitions(Kind::Definition, "the input has no network-attachment-definitions")]
#[case::pods(Kind::Pod, "the input has no pods")]
fn a_kind_that_is_missing_is_said(#[case] missing: Kind, #[case] note: &str) {
    let folder = inspected(&shop());
    let root = folder.0.join("must-gather.local/registry-sha256-1");
    for entry in files_below(&root) {
        let text = fs::read_to_string(&entry).unwrap_or_default();
        let (_, kind) = missing.type_of();
        if text.contains(&format!("kind: {kind}\n"))
            || text.contains(&format!("kind: {kind}List\n"))
        {
            fs::remove_file(entry).unwrap();
        }
    }
    let (_, report, _) = folder.audit();
    assert_says(&report["notes"].to_string(), note);
    assert_eq!(report["totals"]["stale"], 0);
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
    let mut file = fs::File::create(&path).unwrap();
    file.write_all(&text.as_bytes()[..text.len() / 2]).unwrap();
    let (code, report, stderr) = folder.audit();
    assert_eq!((code, report), (2, Value::Null));
    assert_line(&stderr, "web-1/web-1.yaml");
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
    let (_, report, stderr) = folder.audit();
    assert_eq!(report["totals"]["unknown"], 1, "{stderr}");
    assert_eq!(report["totals"]["live"], 1);
}

#[rstest]
#[case::empty_folder("", "none below it is named after a kind")]
#[case::no_archive("a.tar.gz", "the archive cannot be read")]
#[case::nothing_in_it("b.tar", "no file there is named after")]
fn an_input_without_objects_is_one_line(#[case] name: &str, #[case] expected: &str) {
    let folder = Folder::new();
    folder.write("x/other.yaml", "a: 1");
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
