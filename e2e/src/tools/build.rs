//! Runs the Go toolchain: one build at a time per go.mod and cache, to a temporary name, then renamed.
//!
//! Progress goes straight to standard error, past the test runner's capture, because the first run of a
//! test that seems to hang for minutes would be ended by hand.

use std::{
    fmt::Write as _,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use super::{
    Pins, cache,
    recipes::{KUBERNETES, PROMETHEUS, Recipe, WHEREABOUTS},
    source,
};
use crate::{Result, process};

/// The module whose `artifacts/` hold the CRD of network attachments.
const NETWORK_ATTACHMENTS: &str =
    "github.com/k8snetworkplumbingwg/network-attachment-definition-client";

/// The arguments of `go build`, without the output and the package.
pub(super) fn flags(recipe: &Recipe, version: &str) -> Vec<String> {
    let mut ldflags = "-s -w".to_owned();
    if recipe.module == KUBERNETES {
        // Without these kubectl stumbles over the version text of the server.
        let mut parts = version.trim_start_matches('v').split('.');
        let package = "k8s.io/component-base/version";
        for (name, value) in [
            ("gitVersion", version),
            ("gitMajor", parts.next().unwrap_or_default()),
            ("gitMinor", parts.next().unwrap_or_default()),
        ] {
            // Writing to a String does not fail.
            write!(ldflags, " -X {package}.{name}={value}").ok();
        }
    }
    let mut flags = vec![
        "build".into(),
        "-trimpath".into(),
        // Nobody debugs them, and to write this takes a tenth of the build.
        "-gcflags=all=-dwarf=false".into(),
        "-ldflags".into(),
        ldflags,
    ];
    if recipe.module == PROMETHEUS {
        // Clients of some twenty clouds, which would be most of the build.
        flags.extend(["-tags".into(), "remove_all_sd".into()]);
    }
    flags
}

/// Builds one tool to `target`, unless another process has done so meanwhile.
pub(super) fn go_build(recipe: &Recipe, target: &Path) -> Result<()> {
    // One build at a time: packages that one build has compiled, the next one finds in Go's cache.
    let _lock = lock(&recipe.folder, recipe.name)?;
    if target.is_file() {
        return Ok(());
    }
    let pins = Pins::read(&recipe.folder)?;
    let version = pins.version(recipe.module)?;
    let temporary = beside(target, "new");
    if let Some(folder) = target.parent() {
        fs::create_dir_all(folder)?;
    }
    say(&format!(
        "building {} {}, about {} on 2 cores; once",
        recipe.name,
        version.trim_start_matches('v'),
        recipe.duration
    ));
    let mut command = go_command(&recipe.folder);
    command
        .args(flags(recipe, &version))
        .arg("-o")
        .arg(&temporary)
        .arg(&recipe.package);
    let started = Instant::now();
    process::said(&mut command)?;
    fs::rename(&temporary, target)?;
    say(&format!(
        "built {} in {} s: {}",
        recipe.name,
        started.elapsed().as_secs(),
        target.display()
    ));
    Ok(())
}

/// Copies the CRD manifests out of the Go module cache.
pub(super) fn copy_crds(target: &Path) -> Result<()> {
    let _lock = lock("crds", "the CRDs")?;
    if target.is_dir() {
        return Ok(());
    }
    let recipe = super::Tool::Whereabouts.recipe();
    // A fresh module cache knows nothing of a module until it is downloaded.
    let mut download = go_command(&recipe.folder);
    download.args(["mod", "download", WHEREABOUTS, NETWORK_ATTACHMENTS]);
    process::said(&mut download)?;
    let crds = module_dir(&recipe, WHEREABOUTS)?.join("doc").join("crds");
    let temporary = beside(target, "new");
    fs::create_dir_all(&temporary)?;
    let mut sources = vec![(
        module_dir(&recipe, NETWORK_ATTACHMENTS)?
            .join("artifacts")
            .join("networks-crd.yaml"),
        "k8s.cni.cncf.io_network-attachment-definitions.yaml".to_owned(),
    )];
    for kind in [
        "ippools",
        "nodeslicepools",
        "overlappingrangeipreservations",
    ] {
        let name = format!("whereabouts.cni.cncf.io_{kind}.yaml");
        let path = crds.join(&name);
        // whereabouts 0.8 has no node slices.
        if path.is_file() {
            sources.push((path, name));
        }
    }
    for (from, name) in sources {
        // Read and write, not copy: files of the module cache are read-only.
        let text = fs::read(&from)?;
        fs::write(temporary.join(&name), text)?;
    }
    Ok(fs::rename(&temporary, target)?)
}

fn module_dir(recipe: &Recipe, module: &str) -> Result<PathBuf> {
    let mut list = go_command(&recipe.folder);
    list.args(["list", "-m", "-f", "{{.Dir}}", module]);
    Ok(process::said(&mut list)?.trim().into())
}

/// `go` in one of our folders, with nothing taken from the caller's settings that could change a build.
fn go_command(folder: &str) -> Command {
    let mut command = process::tied("go");
    command
        .current_dir(source(folder))
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        // A compiler that seldom collects its garbage takes an eighth less of the processors, and a machine has the memory.
        .env("GOGC", "400")
        .env("GOFLAGS", "-mod=readonly -buildvcs=false")
        .stdin(Stdio::null());
    command
}

/// The lock of this name, which keeps two processes, and two tests of one, from building the same at the same time. It
/// goes with the process. `what` is about to be built.
pub(crate) fn lock(name: &str, what: &str) -> Result<File> {
    let dir = cache()?;
    fs::create_dir_all(&dir)?;
    let path = dir.join(format!("{name}.lock"));
    let file = File::create(&path)?;
    if file.try_lock().is_err() {
        say(&format!("waiting for another build before {what}"));
        file.lock()?;
    }
    Ok(file)
}

/// A name in the same folder. The holder of the lock owns it, so a file that a killed build left is
/// overwritten.
fn beside(target: &Path, suffix: &str) -> PathBuf {
    let mut name = target.as_os_str().to_owned();
    name.push(format!(".{suffix}"));
    name.into()
}

fn say(line: &str) {
    // A closed standard error is no reason to stop.
    writeln!(io::stderr(), "e2e: {line}").ok();
}
