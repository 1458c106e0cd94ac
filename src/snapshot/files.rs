//! Reads a snapshot from the files of `kubectl get … -o json` or `-o yaml`.
//!
//! Each error names the file, and says in one line what is wrong with it. Objects of another version of a kind that ipgc
//! reads are such an error. Other kinds are passed over.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, Metadata},
    io::{self, Read, stdin},
    path::{Path, PathBuf},
};

use ipgc_core::{definitions::Definition, text::excerpt};
use kube::core::Selector;
use serde_json::Value;

use super::{Kind, Object, Snapshot, gather::Gather, read_objects};

/// The endings of the files of a directory that are read.
const FORMS: [&str; 3] = ["json", "yaml", "yml"];
/// The command that makes a dump.
pub const DUMP: &str = "kubectl get ippools,overlappingrangeipreservations,nodeslicepools,pods,nodes,network-attachment-definitions -A -o json";

/// Reads these files. `-` is standard input; of a directory all files are read whose names end as JSON or YAML.
/// `progress` is told how many bytes were read, and of how many if that is known.
///
/// # Errors
/// One line that names the file.
pub fn read(
    paths: &[PathBuf],
    selector: Option<&Selector>,
    progress: &mut dyn FnMut(u64, Option<u64>),
) -> Result<Snapshot, String> {
    let files = expand(paths)?;
    let size = |path: &PathBuf| {
        let metadata = path.metadata().ok().filter(Metadata::is_file);
        metadata.map(|metadata| metadata.len())
    };
    let total = files.iter().map(size).sum();
    let mut progress = |read| progress(read, total);
    let mut done = 0;
    let mut gather = Gather::new(selector);
    let mut others = BTreeMap::<String, usize>::new();
    let mut order = Vec::new();
    for (file, path) in files.iter().enumerate() {
        let named = |error: String| format!("{}: {error}", path.display());
        let source: Box<dyn Read> = if is_stdin(path) {
            Box::new(stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| named(error.to_string()))?)
        };
        let source = Told {
            source,
            done: &mut done,
            progress: &mut progress,
        };
        let read = read_objects(source, &mut |object| {
            if let Some(kind) = known(object)? {
                if matches!(kind, Kind::IpPool | Kind::Reservation | Kind::Pod)
                    && order.last() != Some(&(file, kind))
                {
                    order.push((file, kind));
                }
                return gather.object(kind, object.text);
            }
            refuse_list(object)?;
            *others.entry(object.kind.to_string()).or_default() += 1;
            Ok(())
        });
        read.map_err(named)?;
    }
    let others = others.into_iter();
    let notes = others.map(|(kind, count)| format!("passed over {count} of kind {kind}"));
    gather.snapshot.notes.extend(notes);
    finish(gather.end(), &order)
}

/// A file that tells how much was read, those before it included.
struct Told<'t, R> {
    source: R,
    done: &'t mut u64,
    progress: &'t mut dyn FnMut(u64),
}

impl<R: Read> Read for Told<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        *self.done += read as u64;
        (self.progress)(*self.done);
        Ok(read)
    }
}

/// Why a pod that was born between the reads may look like one that is gone, by the order in which rows, reservations and
/// pods were read. This order is known only within one file.
fn unproven(order: &[(usize, Kind)]) -> Option<&'static str> {
    if order.first().map(|(file, _)| file) != order.last().map(|(file, _)| file) {
        return Some(
            "IPPools, reservations and pods are not all in one file, so nobody knows what was read first",
        );
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

/// Adds to a snapshot what the choice of the input means for it.
fn finish(mut snapshot: Snapshot, order: &[(usize, Kind)]) -> Result<Snapshot, String> {
    if snapshot.no_proof.is_none() {
        let reason = unproven(order).or_else(|| of_one_node(&snapshot));
        snapshot.no_proof = reason.map(Into::into);
    }
    if !snapshot.kinds.contains(&Kind::IpPool) {
        return Err(format!(
            "the input has no IPPools, so there is nothing to judge; dump it by: {DUMP}"
        ));
    }
    // Most clusters have no slices of nodes.
    let sliced = snapshot
        .definitions
        .values()
        .any(|definition| match definition {
            Definition::Read(sections) => sections.iter().any(|section| section.slices.is_some()),
            Definition::Invalid(_) => false,
        });
    let wanted = Kind::ALL
        .into_iter()
        .filter(|kind| sliced || *kind != Kind::NodeSlicePool);
    let missing = wanted.filter(|kind| !snapshot.kinds.contains(kind));
    let missing: Vec<_> = missing.map(|kind| kind.to_string()).collect();
    if !missing.is_empty() {
        let note = format!("the input has no {}", missing.join(", "));
        snapshot.notes.push(note);
    }
    if snapshot.kinds.contains(&Kind::Node) {
        let nodes = snapshot.pods.iter().filter_map(|pod| pod.node.as_deref());
        let mut unknown = nodes.filter(|node| !snapshot.nodes.contains_key(*node));
        if let Some(node) = unknown.next() {
            snapshot.nodes_are_partial = true;
            snapshot.notes.push(format!(
                "a pod is on node {}, which is not in the input: others may be missing too, so what is stale is held",
                excerpt(node)
            ));
        }
    }
    let mut namespaces = BTreeSet::<Box<str>>::new();
    for pod in &snapshot.pods {
        if !namespaces.contains(pod.podref.namespace()) {
            namespaces.insert(pod.podref.namespace().into());
        }
    }
    // kubectl reads one namespace or all of them, and the cluster's own pods are in this one.
    let is_whole = namespaces.len() > 1 && namespaces.contains("kube-system");
    snapshot.confined = (!is_whole).then_some(namespaces);
    Ok(snapshot)
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
        if version == known_version {
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

fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for path in paths {
        if is_stdin(path) || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let named = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut within = Vec::new();
        for entry in path.read_dir().map_err(named)? {
            let entry = entry.map_err(named)?.path();
            if entry
                .extension()
                .is_some_and(|extension| FORMS.iter().any(|form| extension == *form))
            {
                within.push(entry);
            }
        }
        if within.is_empty() {
            return Err(format!(
                "{}: no file there ends in .json, .yaml or .yml",
                path.display()
            ));
        }
        within.sort();
        files.extend(within);
    }
    Ok(files)
}
