//! Files made of the programs: the kubectl plugin with its krew manifest, lists of dependencies, checksums.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{Error, Result, oci, ours::workspace, tools::Tool};
use serde_json::{Value, json};

use crate::{HOME, Out, VERSION, said};

/// Writes the archive of the kubectl plugin for a platform.
pub fn plugin(out: &Out, platform: &str, program: &Path) -> Result<()> {
    let read = |path: &Path| fs::read(path).map_err(Error::io(format!("read {}", path.display())));
    let (program, licence) = (read(program)?, read(&workspace().join("LICENSE"))?);
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
    let to = sbom_path(out, platform);
    said(
        Command::new(Tool::Syft.path_blocking()?)
            .env("SYFT_CHECK_FOR_APP_UPDATE", "false")
            .arg("scan")
            .arg(format!("file:{}", program.display()))
            .args(["--source-name=ipgc", &format!("--source-version={VERSION}")])
            .arg(format!("--output=spdx-json={}", to.display())),
    )?;
    Ok(())
}

/// Where the list of a platform is.
pub fn sbom_path(out: &Out, platform: &str) -> PathBuf {
    out.folder.join(format!("ipgc-linux-{platform}.spdx.json"))
}

/// Writes the manifest by which krew installs the plugin.
pub fn krew(out: &Out) -> Result<()> {
    let platforms = ["amd64", "arm64"].map(|platform| {
        let name = plugin_name(platform);
        let hash = hash(&out.folder.join(&name))?;
        Ok::<Value, Error>(json!({
            "selector": {"matchLabels": {"os": "linux", "arch": platform}},
            "uri": format!("{HOME}/releases/download/v{VERSION}/{name}"),
            "sha256": hash,
            "bin": "kubectl-ipgc",
        }))
    });
    let platforms: Vec<Value> = platforms.into_iter().collect::<Result<_>>()?;
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
    let text = serde_json::to_string_pretty(&manifest).map_err(Error::malformed("the manifest"))?;
    out.write("ipgc.yaml", text.as_bytes())?;
    Ok(())
}

/// Writes the hashes of all files. The index of the image has those of its parts.
pub fn sums(out: &Out) -> Result<()> {
    let folder = fs::read_dir(&out.folder).map_err(Error::io("read the folder"))?;
    let mut names = vec!["image/index.json".to_owned()];
    for entry in folder {
        let path = entry.map_err(Error::io("read the folder"))?.path();
        if path.is_file() {
            names.push(path.file_name().unwrap_or_default().display().to_string());
        }
    }
    names.sort();
    let lines: Vec<String> = names
        .iter()
        .map(|name| Ok(format!("{}  {name}\n", hash(&out.folder.join(name))?)))
        .collect::<Result<_>>()?;
    out.write("SHA256SUMS", lines.concat().as_bytes())?;
    Ok(())
}

fn hash(path: &Path) -> Result<String> {
    let bytes = fs::read(path).map_err(Error::io(format!("read {}", path.display())))?;
    Ok(oci::sha256(&bytes)[7..].to_owned())
}
