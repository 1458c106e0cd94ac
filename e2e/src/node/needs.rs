//! The requirements of a node on the machine, checked before anything is started.

use std::process::Command;

use super::{cgroups, namespaces::run};
use crate::{Error, Result};

/// The kernel modules of a node's file systems and interfaces.
const MODULES: [&str; 3] = ["overlay", "bridge", "veth"];

/// One clear line for what is missing; a module that is missing shows when the node is set up.
pub(super) async fn check() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::Other(
            "the node tier makes namespaces, mounts and bridges: run it as root (`up --bare` needs no root)".into(),
        ));
    }
    cgroups::hierarchies()?;
    let mut command = Command::new("modprobe");
    command.arg("--all").args(MODULES);
    // Most kernels have them already, and some machines have no modprobe.
    run("modprobe", command).await.ok();
    Ok(())
}
