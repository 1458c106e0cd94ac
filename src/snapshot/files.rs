//! Reads a snapshot from the files of `kubectl get … -o json` or `-o yaml`, and from folders and archives of such files, or of
//! programs that gather objects, such as `oc adm inspect`.
//!
//! Each error names the file, and says in one line what is wrong with it. Objects of another version of a kind that ipgc
//! reads are such an error. Other kinds are passed over.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::File,
    io::{self, Read, stdin},
    path::{Path, PathBuf},
};

use flate2::read::MultiGzDecoder;
use ipgc_core::{definitions, text::excerpt};
use kube::core::Selector;
use serde_json::Value;

use super::{Kind, Object, Snapshot, Source, gather::Gather, read_objects};
use crate::report;

/// The endings of the files of a directory that are read.
const FORMS: [&str; 3] = ["json", "yaml", "yml"];
/// The command that makes a dump.
pub const DUMP: &str = "kubectl get ippools,overlappingrangeipreservations,nodeslicepools,pods,nodes,network-attachment-definitions -A -o json";

/// Reads these files. `-` is standard input; of a directory or an archive all files are read whose names end as JSON or YAML, and
/// below its topmost folder those that are named after a kind.
///
/// # Errors
/// One line that names the file.
pub fn read(paths: &[PathBuf], selector: Option<&Selector>) -> Result<Snapshot, String> {
    let mut reader = Reader {
        gather: Gather::new(Source::Files, selector),
        ..Reader::default()
    };
    for path in expand(paths, &mut reader.gather.is_gathered)? {
        let named = |error: String| format!("{}: {error}", path.display());
        reader.file(&path).map_err(named)?;
        // Somebody named it, and wants to know.
        if reader.empty.last() == Some(&path) && paths.contains(&path) {
            return Err(named(EMPTY.to_owned()));
        }
    }
    reader.end()
}

/// How the names of archives end that gzip packed.
const PACKED: [&str; 2] = [".tar.gz", ".tgz"];
const EMPTY: &str = "is empty: it was cut off, or what wrote it failed";

/// Takes in the objects of all files.
#[derive(Default)]
struct Reader {
    gather: Gather,
    /// How many there are of other kinds.
    others: BTreeMap<String, usize>,
    /// How many texts were read: files, and files of archives.
    texts: usize,
    /// The kinds that tell what was read first, each with the number of its text.
    order: Vec<(usize, Kind)>,
    /// How many pods each list has, by the number of its text and of the list in it. Pods that are alone have no list.
    of_pods: BTreeMap<(usize, Option<usize>), usize>,
    /// The files without objects or lists.
    empty: Vec<PathBuf>,
}

impl Reader {
    /// Reads a file, or all of an archive.
    fn file(&mut self, path: &Path) -> Result<(), String> {
        let source: Box<dyn Read> = if is_stdin(path) {
            Box::new(stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| error.to_string())?)
        };
        let name = path.to_string_lossy();
        if PACKED.iter().any(|ending| name.ends_with(ending)) {
            self.archive(MultiGzDecoder::new(source))
        } else if path.extension().is_some_and(|it| it == "tar") {
            self.archive(source)
        } else {
            self.objects(path, source)
        }
    }

    fn objects(&mut self, path: &Path, source: impl Read) -> Result<(), String> {
        self.texts += 1;
        let text = self.texts;
        let found = read_objects(source, &mut |object| {
            if let Some(kind) = known(object)? {
                if matches!(kind, Kind::IpPool | Kind::Reservation | Kind::Pod)
                    && self.order.last() != Some(&(text, kind))
                {
                    self.order.push((text, kind));
                }
                if kind == Kind::Pod {
                    *self.of_pods.entry((text, object.list)).or_default() += 1;
                }
                return self.gather.object(kind, object.text);
            }
            refuse_list(object)?;
            *self.others.entry(object.kind.to_string()).or_default() += 1;
            Ok(())
        })?;
        self.empty.extend((!found).then(|| path.to_owned()));
        Ok(())
    }

    /// The files of an archive that would be read of its folder.
    fn archive(&mut self, source: impl Read) -> Result<(), String> {
        let broken = |error: io::Error| format!("the archive cannot be read: {error}");
        let mut archive = tar::Archive::new(source);
        let mut found = false;
        let mut top = None;
        for entry in archive.entries().map_err(broken)? {
            let entry = entry.map_err(broken)?;
            let path = entry.path().map_err(broken)?.into_owned();
            let is_folder = entry.header().entry_type().is_dir();
            let begin = path.ancestors().nth(usize::from(!is_folder));
            let top = top.get_or_insert_with(|| begin.map(Path::to_owned));
            let is_top = path.parent() == top.as_deref();
            if !(has_form(&path) && (is_top || is_of_a_kind(&path))) {
                continue;
            }
            self.gather.is_gathered |= !is_top;
            if !entry.header().entry_type().is_file() {
                *self.others.entry("file that is a link".into()).or_default() += 1;
                continue;
            }
            found = true;
            let read = self.objects(&path, entry);
            read.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        // The entries end at a block of zeros, and a whole archive has a second one. The sum of a packed file stands at its end.
        let rest = io::copy(&mut archive.into_inner(), &mut io::sink()).map_err(broken)?;
        if rest < BLOCK {
            return Err("the archive has no end: it was cut off".to_owned());
        }
        if found {
            Ok(())
        } else {
            Err(NOTHING_THERE.to_owned())
        }
    }

    /// The snapshot, with what the choice of the input means for it.
    fn end(mut self) -> Result<Snapshot, String> {
        let others = self.others.iter();
        let notes = others.map(|(kind, count)| format!("passed over {count} of kind {kind}"));
        self.gather.snapshot.notes.extend(notes);
        let mut snapshot = self.gather.end();
        note_empty_files(&mut snapshot, &self.empty);
        if snapshot.no_proof.is_none() {
            let unordered = unproven(&self.order);
            snapshot.is_unordered = unordered.is_some();
            let reason = unordered.or(may_lack_pods(&self.of_pods));
            let reason = reason.or_else(|| of_one_node(&snapshot));
            snapshot.no_proof = reason.map(Into::into);
        }
        if !snapshot.kinds.contains(&Kind::IpPool) {
            let empty = self.empty.first();
            let empty = empty.map(|path| format!("; {} is empty", path.display()));
            let empty = empty.unwrap_or_default();
            return Err(format!(
                "the input has no IPPools, so there is nothing to judge{empty}; dump it by: {DUMP}"
            ));
        }
        // Most clusters have no slices of nodes.
        let mut sections = snapshot.definitions.values().flatten().flatten();
        let sliced = sections.any(|section| section.slices.is_some());
        let mut missing = Kind::ALL.to_vec();
        missing.retain(|kind| match kind {
            kind if snapshot.kinds.contains(kind) => false,
            Kind::NodeSlicePool => sliced,
            // Without a proof nothing is stale, and the gap tells of nodes.
            Kind::Node => snapshot.no_proof.is_none(),
            _ => true,
        });
        let note = |kind: &Kind| Some(format!("the input has no {kind}: {}", kind.without()?));
        snapshot.notes.extend(missing.iter().filter_map(note));
        if snapshot.kinds.contains(&Kind::Node) {
            let used = snapshot.pods.iter().filter_map(|pod| pod.node.as_deref());
            let mut unknown = used.filter(|node| !snapshot.nodes.contains_key(*node));
            if let Some(node) = unknown.next() {
                snapshot.nodes_are_partial = true;
                snapshot.notes.push(format!(
                    "a pod is on node {}, which is not in the input: others may be missing too, so no row is stale",
                    excerpt(node)
                ));
            }
        }
        let pods = snapshot.pods.iter();
        let namespaces: BTreeSet<Box<str>> =
            pods.map(|pod| pod.podref.namespace().into()).collect();
        // One list of kubectl is of one namespace or of all of them, and the cluster's own pods are in this one. Of several
        // lists, that of a namespace may be missing.
        let is_one_list = self.of_pods.len() == 1;
        let is_whole = is_one_list && namespaces.len() > 1 && namespaces.contains("kube-system");
        snapshot.confined = (!is_whole).then_some(namespaces);
        Ok(snapshot)
    }
}

/// The size of a block of a tar.
const BLOCK: u64 = 512;

const NOTHING_THERE: &str =
    "no file there ends in .json, .yaml or .yml, and none below it is named after a kind";

/// Why a pod that was born between the reads may look like one that is gone, by the order in which rows, reservations and
/// pods were read. This order is known only within one file.
fn unproven(order: &[(usize, Kind)]) -> Option<&'static str> {
    if order.first().map(|(file, _)| file) != order.last().map(|(file, _)| file) {
        return Some("IPPools, reservations and pods are in files of different moments");
    }
    let mut behind_pods = order.iter().skip_while(|(_, kind)| *kind != Kind::Pod);
    behind_pods
        .any(|(_, kind)| *kind != Kind::Pod)
        .then_some("the pods were read before the IPPools or their reservations")
}

/// The objects of a list within a list would be taken for absent.
fn refuse_list(object: &Object<'_>) -> Result<(), String> {
    let kind = object.kind;
    if !(kind.ends_with("List") || kind == "Table") {
        return Ok(());
    }
    let object: Value = serde_json::from_str(object.text).map_err(|error| error.to_string())?;
    if object["items"].is_null() && object["rows"].is_null() {
        return Ok(());
    }
    let kind = excerpt(kind);
    Err(format!(
        "a {kind} in which there are objects stands where one object should"
    ))
}

/// An empty file may have held any object. So no absence is proven.
fn note_empty_files(snapshot: &mut Snapshot, empty: &[PathBuf]) {
    let names = empty.iter().map(|path| path.display().to_string());
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        return;
    }
    let is_definition = |name: &&String| name.contains(&Kind::Definition.to_string());
    for name in names.iter().filter(is_definition) {
        let definition = definitions::read(name, Err("its file is empty".to_owned()));
        let definitions = &mut snapshot.definitions;
        definitions.insert(name.as_str().into(), definition);
    }
    let reason = "files of the input are empty";
    snapshot.no_proof.get_or_insert(reason.into());
    snapshot.is_unordered = true;
    snapshot.nodes_are_partial = true;
    snapshot.notes.push(format!(
        "empty, as after a gather that failed, so nobody knows what is missing: {}",
        report::names(&names)
    ));
}

/// kubectl reads so many objects at a time. If it cannot read more, it prints those that it has as a whole list.
const PAGE: usize = 500;

/// Why pods may be missing in the input, by how many each list has.
fn may_lack_pods(of_pods: &BTreeMap<(usize, Option<usize>), usize>) -> Option<&'static str> {
    if of_pods.keys().any(|(_, list)| list.is_none()) {
        return Some("some pods are single objects, beside which others may be missing");
    }
    let mut counts = of_pods.values();
    counts
        .any(|pods| pods.is_multiple_of(PAGE))
        .then_some("a list of pods may have been cut off between pages")
}

/// Each node runs some pod, those of DaemonSets at least: where all are of one, others were left out.
fn of_one_node(snapshot: &Snapshot) -> Option<&'static str> {
    let mut nodes = snapshot.pods.iter().filter_map(|pod| pod.node.as_ref());
    let first = nodes.next()?;
    let is_one = snapshot.nodes.len() > 1 && nodes.all(|node| node == first);
    is_one.then_some("all pods are of one node, though there are several")
}

/// The kind of an object, if ipgc reads it.
fn known(object: &Object<'_>) -> Result<Option<Kind>, String> {
    let Object { version, kind, .. } = *object;
    let group = |version: &str| version.split_once('/').map(|(group, _)| group.to_owned());
    for known in Kind::ALL {
        let (known_version, known_kind) = known.type_of();
        if kind != known_kind || group(version) != group(known_version) {
            continue;
        }
        // The name and uid of a ResourceClaim are the same in all versions.
        if version == known_version || known == Kind::ResourceClaim {
            return Ok(Some(known));
        }
        let version = excerpt(version);
        return Err(format!(
            "{kind} is of {version}, and only {known_version} is known"
        ));
    }
    Ok(None)
}

fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The files of the input, and whether some are of many below a folder, each of a moment of its own.
fn expand(paths: &[PathBuf], is_gathered: &mut bool) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths {
        if is_stdin(path) || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let before = files.len();
        *is_gathered |= folder(path, true, &mut files)?;
        if files.len() == before {
            return Err(format!("{}: {NOTHING_THERE}", path.display()));
        }
    }
    Ok(files)
}

/// Adds the files of the first folder, and below it those that are named after a kind: what lies beside them there may be
/// anything, so no links are followed there. Whether there are some below it.
fn folder(path: &Path, is_first: bool, files: &mut Vec<PathBuf>) -> Result<bool, String> {
    let named = |error: io::Error| format!("{}: {error}", path.display());
    let entries = path.read_dir().map_err(named)?;
    let entries = entries.map(|entry| entry.and_then(|it| Ok((it.path(), it.file_type()?))));
    let mut entries: Vec<_> = entries.collect::<Result<_, _>>().map_err(named)?;
    entries.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut is_gathered = false;
    for (path, kind) in entries {
        if kind.is_dir() {
            is_gathered |= folder(&path, false, files)?;
        } else if has_form(&path) && (is_first || kind.is_file() && is_of_a_kind(&path)) {
            is_gathered |= !is_first;
            files.push(path);
        }
    }
    Ok(is_gathered)
}

fn has_form(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| FORMS.iter().any(|form| extension == *form))
}

/// Whether a file is named as oc adm inspect and kubectl cluster-info dump name those of a kind: `pods.yaml`,
/// `ippools/NAME.yaml`, `pods/NAME/NAME.yaml`.
fn is_of_a_kind(path: &Path) -> bool {
    let is_kind = |name: Option<&OsStr>| {
        let name = name.and_then(OsStr::to_str);
        name.is_some_and(|name| Kind::ALL.iter().any(|kind| kind.to_string() == name))
    };
    let mut above = path.ancestors().skip(1).map(Path::file_name);
    let (parent, grandparent) = (above.next().flatten(), above.next().flatten());
    is_kind(path.file_stem())
        || is_kind(parent)
        || grandparent.is_some_and(|name| name == "pods") && path.file_stem() == parent
}
