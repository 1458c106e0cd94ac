//! The static programs for each platform: equal bytes from each folder, with the list of their dependencies inside.
//!
//! Zig compiles and links the few lines of C for both platforms. It and the two helpers of cargo are fetched once, in the
//! versions that are pinned here, into the cache of the tools.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{Result, ours::workspace, process::said, tools};

use crate::Out;

/// Platforms as images name them, and as Rust does.
const PLATFORMS: [(&str, &str); 2] = [
    ("amd64", "x86_64-unknown-linux-musl"),
    ("arm64", "aarch64-unknown-linux-musl"),
];

const AUDITABLE: &str = "0.7.7";

/// Builds the programs, and copies them to `ipgc-linux-<platform>`.
pub fn programs(out: &Out) -> Result<Vec<(&'static str, PathBuf)>> {
    let zig = zig()?;
    let auditable = auditable()?;
    let mut programs = Vec::new();
    for (platform, target) in PLATFORMS {
        said(Command::new("rustup").args(["target", "add", target]))?;
        let folder = workspace().join("target/artifacts");
        eprintln!("release: building for {platform}, minutes");
        said(&mut build(target, &folder, &zig, &auditable, out)?)?;
        let built = folder.join(target).join("release/ipgc");
        let path = out.folder.join(format!("ipgc-linux-{platform}"));
        fs::copy(&built, &path)?;
        programs.push((platform, path));
    }
    Ok(programs)
}

fn build(target: &str, folder: &Path, zig: &Path, auditable: &Path, out: &Out) -> Result<Command> {
    let cargo_home = env::var_os("CARGO_HOME").map_or_else(
        || PathBuf::from(env::var_os("HOME").unwrap_or_default()).join(".cargo"),
        PathBuf::from,
    );
    // No path of this machine may be in the program.
    let flags = format!(
        "build.rustflags=['--remap-path-prefix={}=/ipgc','--remap-path-prefix={}=/cargo']",
        workspace().display(),
        cargo_home.display()
    );
    let mut command = Command::new("cargo");
    let path = env::var_os("PATH").unwrap_or_default();
    let path = [zig.join("bin"), auditable.join("bin")]
        .into_iter()
        .chain(env::split_paths(&path));
    let path = env::join_paths(path)?;
    command
        .env("PATH", path)
        .env("CARGO_ZIGBUILD_ZIG_PATH", zig.join("ziglang/zig"))
        .env("SOURCE_DATE_EPOCH", out.epoch.to_string())
        .args(["auditable", "zigbuild", "--config", &flags, "--locked"])
        .args([
            "--release",
            "--package=ipgc",
            "--bin=ipgc",
            "--target",
            target,
            "--target-dir",
        ])
        .arg(folder)
        .current_dir(workspace());
    // Flags of the caller would take the place of ours; build scripts have no need of secrets; and cargo has set variables
    // about this package, which change the key of ring's build.
    for (name, _) in env::vars_os() {
        let known = name.to_string_lossy();
        let is_foreign = ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER"]
            .contains(&&*known)
            || ["CARGO_PKG_", "CARGO_MANIFEST_", "COSIGN_"]
                .iter()
                .any(|it| known.starts_with(it));
        if is_foreign {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// The folder with zig and cargo-zigbuild.
fn zig() -> Result<PathBuf> {
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("zig.txt");
    once("zig", &pins, |folder| {
        said(
            Command::new("python3")
                .args([
                    "-m",
                    "pip",
                    "install",
                    "--quiet",
                    "--disable-pip-version-check",
                ])
                .args(["--root-user-action=ignore", "--require-hashes", "--target"])
                .arg(folder)
                .arg("--requirement")
                .arg(&pins),
        )
    })
}

/// The folder with cargo-auditable.
fn auditable() -> Result<PathBuf> {
    let pins = Path::new(env!("CARGO_MANIFEST_DIR")).join("zig.txt");
    once(&format!("auditable-{AUDITABLE}"), &pins, |folder| {
        said(
            Command::new("cargo")
                .args(["install", "--quiet", "--locked", "--root"])
                .arg(folder)
                .arg(format!("cargo-auditable@{AUDITABLE}")),
        )
    })
}

/// A folder of the cache, made once for each state of its pins.
fn once(name: &str, pins: &Path, make: impl FnOnce(&Path) -> Result<String>) -> Result<PathBuf> {
    let hash = e2e::oci::sha256(&fs::read(pins).unwrap_or_default());
    let folder = tools::cache()?.join(format!("{name}-{}", &hash[7..19]));
    if !folder.is_dir() {
        let partial = folder.with_extension(std::process::id().to_string());
        make(&partial)?;
        fs::rename(&partial, &folder)?;
    }
    Ok(folder)
}
