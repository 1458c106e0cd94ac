//! The cgroups of a node: one folder of its own per hierarchy, below which its kubelet makes the pods'.
//!
//! Two kubelets on one machine must not share a folder: each removes the cgroups of pods it does not know.
//! The name tells the process that made it, so that a later run finds what a killed one left.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use crate::{Error, Result, process::owner};

const ROOT: &str = "/sys/fs/cgroup";

/// The beginning of every name.
const PREFIX: &str = "ipgc-e2e.";

/// A killed process leaves its cgroup within milliseconds.
const EMPTY: Duration = Duration::from_secs(10);

/// The folders of one node. Dropping it removes them; the node's processes have to be gone.
#[derive(Debug)]
pub(super) struct Cgroups {
    name: String,
}

impl Cgroups {
    /// Makes the folders, and removes those whose makers are gone.
    pub(super) fn new(node: &str) -> Result<Self> {
        let hierarchies = hierarchies()?;
        sweep(&hierarchies);
        let name = format!(
            "{PREFIX}{}.{node}",
            owner(std::process::id()).unwrap_or_default()
        );
        for hierarchy in &hierarchies {
            let folder = hierarchy.join(&name);
            fs::create_dir_all(&folder)?;
            // In the old hierarchy of processors a new folder may use none until it is told.
            for setting in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(text) = fs::read_to_string(hierarchy.join(setting))
                    && !text.trim().is_empty()
                    && hierarchy.ends_with("cpuset")
                {
                    fs::write(folder.join(setting), text)?;
                }
            }
        }
        Ok(Self { name })
    }

    /// The name, as the kubelet's `cgroupRoot` has it.
    pub(super) fn name(&self) -> String {
        format!("/{}", self.name)
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        let started = Instant::now();
        for hierarchy in hierarchies().unwrap_or_default() {
            let folder = hierarchy.join(&self.name);
            while !remove(&folder) && started.elapsed() < EMPTY {
                thread::sleep(Duration::from_millis(50));
            }
        }
    }
}

/// Removes what the makers of other folders left, where they are gone.
pub(super) fn sweep(hierarchies: &[PathBuf]) {
    for hierarchy in hierarchies {
        for entry in fs::read_dir(hierarchy).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let maker = name
                .to_str()
                .and_then(|name| name.strip_prefix(PREFIX))
                .and_then(|rest| rest.split('.').next());
            if let Some(maker) = maker
                && !alive(maker)
            {
                remove(&entry.path());
            }
        }
    }
}

fn alive(maker: &str) -> bool {
    let pid = maker.split('-').next().and_then(|pid| pid.parse().ok());
    pid.and_then(owner).is_some_and(|present| present == maker)
}

/// One folder for all controllers, or one for each.
pub(super) fn hierarchies() -> Result<Vec<PathBuf>> {
    if Path::new(ROOT).join("cgroup.controllers").exists() {
        return Ok(vec![ROOT.into()]);
    }
    let mut all = Vec::new();
    for entry in fs::read_dir(ROOT)? {
        let path = entry?.path();
        // `cpu,cpuacct` has links of both names; a folder where nothing is mounted has no such file.
        if path.join("cgroup.procs").is_file() && !path.is_symlink() {
            all.push(path);
        }
    }
    if all.is_empty() {
        return Err(Error::Other(format!(
            "no cgroups are mounted at {ROOT}; the kubelet needs them"
        )));
    }
    Ok(all)
}

/// Removes a folder and all below it. False while a process is in one of them.
fn remove(folder: &Path) -> bool {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove(&entry.path());
        }
    }
    fs::remove_dir(folder).is_ok() || !folder.exists()
}
