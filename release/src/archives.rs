//! Files made of the programs and of the chart: the image and the chart as one file each, the kubectl plugin with its krew manifest,
//! lists of dependencies, checksums. The time in all of them is that of the commit.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, SystemTime},
};

use e2e::{Error, Result, oci, ours::workspace, process::said, tools::Tool};
use serde_json::{Value, json};

use crate::{HOME, Out, VERSION};

/// Writes the image as one file, which containerd imports and `skopeo copy oci-archive:` takes.
pub fn image(out: &Out) -> Result<()> {
    let mut files = Vec::new();
    for (name, path) in below(&out.folder.join("image"))? {
        files.push((name, fs::read(path)?));
    }
    let files: Vec<_> = files
        .iter()
        .map(|(name, bytes)| (&**name, 0o644, &**bytes))
        .collect();
    let archive = oci::archive(&files, out.epoch)?;
    out.write(&format!("ipgc-{VERSION}-image.tar"), &archive)?;
    Ok(())
}

/// All files of a folder: their names below it, and their paths.
fn below(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.strip_prefix(folder).unwrap_or(&path).display();
        if path.is_dir() {
            let inside = below(&path)?.into_iter();
            files.extend(inside.map(|(inner, path)| (format!("{name}/{inner}"), path)));
        } else {
            files.push((name.to_string(), path));
        }
    }
    files.sort_by(|(_, a), (_, b)| a.cmp(b));
    Ok(files)
}

/// The name of the chart's file.
pub fn chart_name() -> String {
    format!("ipgc-{VERSION}.tgz")
}

/// Writes the chart as one file. helm puts the times of the files into it, which differ in each clone.
pub fn chart(out: &Out) -> Result<()> {
    let (from, to) = (workspace().join("charts/ipgc"), out.folder.join("chart"));
    let time =
        SystemTime::UNIX_EPOCH + Duration::from_secs(out.epoch.try_into().unwrap_or_default());
    for (name, path) in below(&from)? {
        let copy = to.join(name);
        fs::create_dir_all(copy.parent().unwrap_or(&to))?;
        fs::write(&copy, fs::read(path)?)?;
        let file = fs::File::options().write(true).open(&copy)?;
        file.set_modified(time)?;
    }
    let mut helm = Command::new(Tool::Helm.path_blocking()?);
    helm.args(["package", "--version", VERSION, "--app-version", VERSION])
        .arg(&to)
        .arg("--destination")
        .arg(&out.folder);
    said(&mut helm)?;
    Ok(fs::remove_dir_all(&to)?)
}

/// Writes the archive of the kubectl plugin for a platform.
pub fn plugin(out: &Out, platform: &str, program: &Path) -> Result<()> {
    let (program, licence) = (fs::read(program)?, fs::read(workspace().join("LICENSE"))?);
    let files = [
        ("kubectl-ipgc", 0o755, &*program),
        ("LICENSE", 0o644, &*licence),
    ];
    let archive = oci::gzip(&oci::archive(&files, out.epoch)?)?;
    out.write(&plugin_name(platform), &archive)?;
    Ok(())
}

fn plugin_name(platform: &str) -> String {
    format!("kubectl-ipgc_v{VERSION}_linux_{platform}.tar.gz")
}

/// Writes the list of a program's dependencies, in SPDX.
pub fn sbom(out: &Out, platform: &str, program: &Path) -> Result<()> {
    let to = out.folder.join(sbom_name(platform));
    said(
        Command::new(Tool::Syft.path_blocking()?)
            .env("SYFT_CHECK_FOR_APP_UPDATE", "false")
            .arg("scan")
            .arg(format!("file:{}", program.display()))
            .args(["--source-name=ipgc", &format!("--source-version={VERSION}")])
            .arg(format!("--output=spdx-json={}", to.display())),
    )?;
    // The time of the run and a random name, which syft writes.
    let mut list: Value = serde_json::from_slice(&fs::read(&to)?)?;
    let created = jiff::Timestamp::from_second(out.epoch)?;
    list["creationInfo"]["created"] = json!(created.to_string());
    list["documentNamespace"] = json!(format!(
        "{HOME}/spdx/{VERSION}/{platform}/{}",
        hash(program)?
    ));
    out.write(&sbom_name(platform), list.to_string().as_bytes())?;
    Ok(())
}

/// The name of a platform's list.
pub fn sbom_name(platform: &str) -> String {
    format!("ipgc-linux-{platform}.spdx.json")
}

/// Writes the manifest by which krew installs the plugin.
pub fn krew(out: &Out) -> Result<()> {
    let platforms = ["amd64", "arm64"].iter().map(|platform| {
        let name = plugin_name(platform);
        let hash = hash(&out.folder.join(&name))?;
        Ok::<Value, Error>(json!({
            "selector": {"matchLabels": {"os": "linux", "arch": platform}},
            "uri": format!("{HOME}/releases/download/v{VERSION}/{name}"),
            "sha256": hash,
            "bin": "kubectl-ipgc",
        }))
    });
    let platforms: Vec<Value> = platforms.collect::<Result<_>>()?;
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "ipgc"},
        "spec": {
            "version": format!("v{VERSION}"),
            "homepage": HOME,
            "shortDescription": "Shows who holds IP addresses of whereabouts, and why",
            "description": "Finds IP addresses that the CNI IPAM plugin whereabouts holds for pods that are gone \
                (audit, watch), tells why an address is held (explain), and frees it by hand (release).\n",
            "platforms": platforms,
        },
    });
    // JSON is YAML, too.
    let text = serde_json::to_string_pretty(&manifest)?;
    out.write("ipgc.yaml", text.as_bytes())?;
    Ok(())
}

/// Writes the hashes of all files. Those below `image/` are also in the image's own file.
pub fn sums(out: &Out) -> Result<()> {
    let mut sums = Vec::new();
    for (name, path) in below(&out.folder)? {
        if !name.starts_with("image/") {
            writeln!(sums, "{}  {name}", hash(&path)?)?;
        }
    }
    out.write("SHA256SUMS", &sums)?;
    Ok(())
}

fn hash(path: &Path) -> Result<String> {
    Ok(oci::sha256(&fs::read(path)?)[7..].to_owned())
}
