//! The images of the node tier, as archives that `ctr image import` takes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::json;

use crate::{Result, oci, process::success, tools};

/// Sandbox and workload of the tier. Its source is in `e2e/tools/pause`.
pub const PAUSE: &str = "e2e.ipgc.dev/pause:1";

/// ipgc, built from the present source.
pub const IPGC: &str = "e2e.ipgc.dev/ipgc:1";

/// The static program of [`PAUSE`], compiled into `folder`.
pub(super) async fn pause(folder: &Path) -> Result<PathBuf> {
    let target = folder.join("pause");
    tools::blocking(move || {
        let answer = Command::new("cc")
            .args(["-static", "-Os", "-s", "-o"])
            .arg(&target)
            .arg(tools::source("pause").join("pause.c"))
            .stdin(Stdio::null())
            .output()?;
        success("cc -static (Debian: gcc, libc6-dev)", answer)?;
        Ok(target)
    })
    .await
}

/// Writes the archive of an image that runs `program` as `/<name>`.
pub(super) fn archive(image: &str, name: &str, program: &Path, target: &Path) -> Result<()> {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let folder = target.with_extension("layout");
    let content = oci::Content {
        image,
        program: name,
        config: json!({}),
        created: 0,
    };
    oci::layout(&folder, &content, &[(architecture, program)])?;
    let file = fs::File::create(target)?;
    let mut archive = tar::Builder::new(file);
    Ok(archive
        .append_dir_all(".", &folder)
        .and_then(|()| archive.finish())?)
}
