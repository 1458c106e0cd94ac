//! A snapshot from the files of `kubectl get … -o json`.
//!
//! Every error names the file and says in one line what is wrong with it. An object of another version of a
//! kind that we read is such an error, for what it says is not what we know; a kind that is none of ours is
//! passed over.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, stdin},
    path::{Path, PathBuf},
};

use super::{Gather, Kind, Object, Snapshot, read_objects};

/// Reads these files, `-` for standard input; of a directory all files that end in `.json`. `progress` is told
/// how many bytes of how many are read.
///
/// # Errors
/// One line that names the file.
pub fn read(
    paths: &[PathBuf],
    selector: Option<&kube::core::Selector>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Snapshot, String> {
    let files = expand(paths)?;
    let size = |path: &PathBuf| path.metadata().map_or(0, |metadata| metadata.len());
    let total = files.iter().map(size).sum();
    let mut done = 0;
    let mut gather = Gather::default();
    if selector.is_some() {
        gather.select([]);
    }
    let mut others = BTreeMap::new();
    for path in &files {
        let named = |error: String| format!("{}: {error}", path.display());
        let mut report = |read: usize| {
            done += read as u64;
            progress(done, total);
        };
        let source: Box<dyn Read> = if is_stdin(path) {
            Box::new(stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| named(error.to_string()))?)
        };
        let source = Counted(source, &mut report);
        let mut pods_seen = false;
        let mut pods_first = false;
        let read = read_objects(source, selector.is_some(), |object| {
            let is_pod = match object {
                Object::Pod(pod) => {
                    gather.pod(*pod);
                    true
                }
                Object::Reservation(reservation) => {
                    gather.reservation(*reservation);
                    false
                }
                Object::Text {
                    version,
                    kind,
                    text,
                } => {
                    if let Some(kind) = known(&version, &kind)? {
                        pods_first |= pods_seen && kind == Kind::IpPool;
                        gather.object(kind, text, selector)?;
                        kind == Kind::Pod
                    } else {
                        *others.entry(kind.into_owned()).or_insert(0) += 1;
                        false
                    }
                }
            };
            pods_seen |= is_pod;
            Ok(())
        });
        read.map_err(|error| named(error.to_string()))?;
        if pods_first {
            gather.pods_came_first();
        }
    }
    for (kind, count) in others {
        gather.note(format!("passed over {count} of kind {kind}"));
    }
    finish(gather)
}

fn finish(gather: Gather) -> Result<Snapshot, String> {
    let mut snapshot = gather.end()?;
    if !snapshot.kinds.contains(&Kind::IpPool) {
        return Err(format!(
            "the input has no IPPools, so there is nothing to judge; dump it by: {DUMP}"
        ));
    }
    // Most clusters have no slices of nodes.
    let wanted = Kind::ALL
        .into_iter()
        .filter(|kind| *kind != Kind::NodeSlicePool);
    let missing = wanted.filter(|kind| !snapshot.kinds.contains(kind));
    let missing: Vec<_> = missing.map(|kind| kind.to_string()).collect();
    if !missing.is_empty() {
        let note = format!("the input has no {}", missing.join(", "));
        snapshot.notes.push(note);
    }
    // Some pod of the cluster's own is everywhere, so this was asked for one namespace.
    let first = snapshot.pods.first().map(|pod| pod.podref.namespace());
    let last = snapshot.pods.last().map(|pod| pod.podref.namespace());
    if first == last {
        snapshot.confined = first.map(Into::into);
    }
    Ok(snapshot)
}

/// How a dump is made.
pub const DUMP: &str = "kubectl get ippools,overlappingrangeipreservations,nodeslicepools,pods,nodes,network-attachment-definitions -A -o json";

/// The kind of ours that an object is of, if any.
fn known(version: &str, kind: &str) -> Result<Option<Kind>, String> {
    let group = |version: &str| match version.split_once('/') {
        Some((group, _)) => group.to_owned(),
        None => String::new(),
    };
    for known in Kind::ALL {
        let (known_version, known_kind) = known.type_of();
        if kind == known_kind && group(version) == group(known_version) {
            return if version == known_version {
                Ok(Some(known))
            } else {
                Err(format!(
                    "{kind} is of {version}, and only {known_version} is known"
                ))
            };
        }
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
                .is_some_and(|extension| extension == "json")
            {
                within.push(entry);
            }
        }
        if within.is_empty() {
            return Err(format!("{}: no file there ends in .json", path.display()));
        }
        within.sort();
        files.extend(within);
    }
    Ok(files)
}

/// Says how much is read.
struct Counted<'r, R>(R, &'r mut dyn FnMut(usize));

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        (self.1)(read);
        Ok(read)
    }
}
