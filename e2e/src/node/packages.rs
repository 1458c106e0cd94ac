//! Programs of a node that come as Debian packages: containerd, runc, the standard CNI plugins.
//!
//! They are unpacked into the tool cache, not installed: a package of containerd would start a daemon, and
//! the machine may have one of its own. `apt-get` downloads them, so they are the versions of this
//! machine's release, checked by its keys. Programs that the machine itself must have (`ip`,
//! `unshare`, `nsenter`) are installed when they are missing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
};

use crate::{
    Error, Result,
    process::{said, tied},
    tools,
};

/// The packages that are unpacked.
const UNPACKED: [&str; 3] = ["containerd", "runc", "containernetworking-plugins"];

/// Files that must be there afterwards.
const PROGRAMS: [&str; 6] = [
    "usr/bin/containerd",
    "usr/bin/containerd-shim-runc-v2",
    "usr/bin/ctr",
    "usr/sbin/runc",
    "usr/lib/cni/bridge",
    "usr/lib/cni/host-local",
];

/// Commands of the machine, and the packages that have them.
const COMMANDS: [(&str, &str); 6] = [
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
    ("cc", "gcc"),
];

/// The folder that holds the unpacked packages; downloads them at the first time.
pub(super) async fn unpacked() -> Result<PathBuf> {
    tools::blocking(|| {
        for (command, package) in COMMANDS {
            if !on_path(command) {
                apt(
                    &[
                        "install",
                        "--yes",
                        "-qq",
                        "--no-install-recommends",
                        package,
                    ],
                    Path::new("/"),
                )?;
            }
        }
        let target = tools::cache()?.join(format!("debian-{}", release()));
        if whole(&target) {
            return Ok(target);
        }
        let _lock = tools::lock("debian", "the Debian packages")?;
        if !whole(&target) {
            unpack(&target)?;
        }
        Ok(target)
    })
    .await
}

fn unpack(target: &Path) -> Result<()> {
    let fresh = target.with_extension("new");
    fs::remove_dir_all(&fresh).ok();
    fs::create_dir_all(&fresh)?;
    let mut download = vec!["download", "-qq"];
    download.extend(UNPACKED);
    apt(&download, &fresh)?;
    for entry in fs::read_dir(&fresh)? {
        let package = entry?.path();
        if package
            .extension()
            .is_some_and(|extension| extension == "deb")
        {
            let mut command = tied("dpkg-deb");
            command.arg("--extract").arg(&package).arg(&fresh);
            said(&mut command)?;
            fs::remove_file(&package)?;
        }
    }
    if !whole(&fresh) {
        return Err(Error::Other(format!(
            "the packages {} of this release lack one of {}",
            UNPACKED.join(", "),
            PROGRAMS.join(", ")
        )));
    }
    fs::remove_dir_all(target).ok();
    Ok(fs::rename(&fresh, target)?)
}

/// `apt-get` with these words; its lists are fetched anew if it fails.
fn apt(words: &[&str], folder: &Path) -> Result<()> {
    let names = words.join(" ");
    if !on_path("apt-get") || !on_path("dpkg-deb") {
        return Err(Error::Other(format!(
            "the node tier takes containerd, runc and the CNI plugins from Debian packages, and there is \
             no apt-get here (wanted: apt-get {names})"
        )));
    }
    let call = |words: &[&str]| {
        let mut command = tied("apt-get");
        command
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .current_dir(folder);
        said(command.stdin(Stdio::null()))
    };
    if call(words).is_ok() {
        return Ok(());
    }
    let updated = call(&["update", "-qq"]);
    match (call(words), updated) {
        (Ok(_), _) => Ok(()),
        (Err(error), Ok(_)) | (Err(_), Err(error)) => Err(Error::Other(format!(
            "cannot be had: apt-get {names}: {}",
            error.to_string().replace('\n', " ")
        ))),
    }
}

fn whole(folder: &Path) -> bool {
    PROGRAMS
        .iter()
        .all(|program| folder.join(program).is_file())
}

/// Whether a command can be found; without a shell, which might not be there either.
fn on_path(command: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(command).is_file())
}

/// The release's name, so that an upgraded machine gets new packages.
fn release() -> String {
    let text = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="))
        .unwrap_or("unknown");
    name.trim_matches('"').to_owned()
}
