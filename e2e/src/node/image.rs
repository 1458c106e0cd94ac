//! Images without an engine: one program in one layer, as an archive that `ctr image import` takes.
//!
//! The format is the one of `docker save`: a tar with `manifest.json`, the configuration, and one tar per
//! layer. Nothing is compressed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ring::digest::{SHA256, digest};
use serde_json::json;

use crate::{Error, Result, tools};

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
            .output()
            .map_err(Error::io("start cc"))?;
        if answer.status.success() {
            return Ok(target);
        }
        Err(Error::Command {
            what: "cc -static (Debian: gcc, libc6-dev)".into(),
            status: answer.status.to_string(),
            output: String::from_utf8_lossy(&answer.stderr).into_owned(),
        })
    })
    .await
}

/// Writes the archive of an image that runs `program` as `/<name>`.
pub(super) fn archive(image: &str, name: &str, program: &Path, target: &Path) -> Result<()> {
    let content = fs::read(program).map_err(Error::io(format!("read {}", program.display())))?;
    if interpreted(&content) {
        return Err(Error::Unsupported(format!(
            "{} is not static, and an empty image has no libraries",
            program.display()
        )));
    }
    let mut layer = Tar::default();
    layer.file(name, 0o755, &content);
    let layer = layer.end();
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let config = json!({
        "architecture": architecture,
        "os": "linux",
        "config": {"Entrypoint": [format!("/{name}")]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        "history": [{"created_by": "ipgc e2e"}],
    })
    .to_string();
    let config_name = format!("{}.json", sha256(config.as_bytes()));
    let manifest = json!([{
        "Config": config_name, "RepoTags": [image], "Layers": ["layer.tar"],
    }])
    .to_string();
    let mut archive = Tar::default();
    archive.file("layer.tar", 0o644, &layer);
    archive.file(&config_name, 0o644, config.as_bytes());
    archive.file("manifest.json", 0o644, manifest.as_bytes());
    fs::write(target, archive.end()).map_err(Error::io(format!("write {}", target.display())))
}

/// Whether an ELF file of 64 bits asks for a dynamic loader (a program header of type `PT_INTERP`).
fn interpreted(elf: &[u8]) -> bool {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, length: usize| {
        let bytes = elf.get(at..at + length)?;
        Some(
            bytes
                .iter()
                .rev()
                .fold(0_usize, |all, byte| all << 8 | usize::from(*byte)),
        )
    };
    let (Some(table), Some(size), Some(count)) = (number(32, 8), number(54, 2), number(56, 2))
    else {
        return false;
    };
    (0..count).any(|entry| number(table + entry * size, 4) == Some(PT_INTERP as usize))
}

fn sha256(data: &[u8]) -> String {
    use std::fmt::Write as _;
    digest(&SHA256, data)
        .as_ref()
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a String does not fail.
            write!(text, "{byte:02x}").ok();
            text
        })
}

/// A tar of plain files that belong to root, in the oldest common format.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    const BLOCK: usize = 512;

    fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        let mut header = [0_u8; Self::BLOCK];
        let mut put =
            |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
        put(0, name);
        put(100, &format!("{mode:07o}"));
        put(108, "0000000");
        put(116, "0000000");
        put(124, &format!("{:011o}", content.len()));
        put(136, "00000000000");
        // The sum counts its own field as blanks.
        put(148, "        ");
        put(156, "0");
        put(257, "ustar\u{0}00");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(Self::BLOCK), 0);
    }

    fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 2 * Self::BLOCK, 0);
        self.0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn tar_reads_what_is_written() {
        let mut tar = Tar::default();
        tar.file("one", 0o755, b"first");
        tar.file("two", 0o644, &[7; 513]);
        let bytes = tar.end();
        assert_eq!(bytes.len() % 512, 0);
        let folder = std::env::temp_dir().join(crate::cluster::unique("tar"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.tar"), bytes).unwrap();
        let status = Command::new("tar")
            .args(["-xf", "a.tar"])
            .current_dir(&folder)
            .status();
        assert!(status.unwrap().success());
        assert_eq!(fs::read(folder.join("one")).unwrap(), b"first");
        assert_eq!(fs::read(folder.join("two")).unwrap(), [7; 513]);
        fs::remove_dir_all(folder).unwrap();
    }
}
