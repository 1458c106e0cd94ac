//! The requirements of a node on the machine, checked before anything is started, one line each.

use std::{fs, process::Command};

use super::{
    cgroups,
    namespaces::{Kind, Namespaces, run},
};
use crate::{Error, Result, tools};

/// File systems and interfaces that a node uses, by the kernel modules that bring them.
const FILE_SYSTEMS: [&str; 1] = ["overlay"];
const INTERFACES: [&str; 2] = ["bridge", "veth"];

/// The one clear line for the first thing that is missing.
pub(super) async fn check() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Other(
            "the node tier makes namespaces, mounts and bridges: run it as root (`up --bare` needs no root)".into(),
        ));
    }
    for module in FILE_SYSTEMS {
        file_system(module).await?;
    }
    cgroups::hierarchies()?;
    // One per process: two may begin at the same time.
    let log = tools::cache()?.join(format!("needs-{}.log", std::process::id()));
    let scratch = Namespaces::new(Kind::Network, "needs", "", &[], &log).await?;
    for module in INTERFACES {
        let try_it = r#"ip link add probe type "$1"; ip link delete probe"#;
        if scratch.shell(try_it, &[module]).await.is_err() {
            load(module).await;
            if let Err(error) = scratch.shell(try_it, &[module]).await {
                return Err(missing(module, &error.to_string()));
            }
        }
    }
    fs::remove_file(&log).ok();
    fs::remove_file(log.with_extension("ready")).ok();
    Ok(())
}

async fn file_system(module: &str) -> Result<()> {
    if !has_file_system(module) {
        load(module).await;
    }
    if !has_file_system(module) {
        return Err(missing(module, "it is not in /proc/filesystems"));
    }
    Ok(())
}

fn has_file_system(name: &str) -> bool {
    fs::read_to_string("/proc/filesystems").is_ok_and(|text| {
        text.lines()
            .any(|line| line.split_whitespace().last() == Some(name))
    })
}

/// Loads a module; whether it helped is seen by trying again.
async fn load(module: &str) {
    let mut command = Command::new("modprobe");
    command.arg(module);
    run("modprobe", command).await.ok();
}

fn missing(module: &str, why: &str) -> Error {
    Error::Other(format!(
        "the kernel lacks the module `{module}`, which a node needs, and modprobe could not load it: {}",
        why.lines().last().unwrap_or_default()
    ))
}
