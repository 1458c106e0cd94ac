//! An OCI image without an engine: one static program over nothing, for one platform or several.
//!
//! It writes an image layout (OCI image specification 1.1), which registries' clients push and containerd imports. The
//! same programs give the same bytes. It writes only into the folder that it is told.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, GzBuilder};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::{Error, Result};

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The parts of an image that all platforms share.
pub struct Content<'a> {
    /// Its whole name with its tag.
    pub image: &'a str,
    /// The program's name in the root folder of the image.
    pub program: &'a str,
    /// The part `config` of the image's configuration: user, arguments, labels.
    pub config: Value,
    /// Seconds since 1970, for the configuration.
    pub created: i64,
}

/// Writes the layout of an image with one program for each platform (`amd64`, `arm64`). Returns the digest of its index.
///
/// # Errors
/// If a program is not static, or a file cannot be read or written.
pub fn layout(folder: &Path, content: &Content<'_>, programs: &[(&str, &Path)]) -> Result<String> {
    let blobs = Blobs(folder.join("blobs/sha256"));
    fs::create_dir_all(&blobs.0)?;
    let created = jiff::Timestamp::from_second(content.created)?.to_string();
    let mut manifests = Vec::new();
    for (architecture, program) in programs {
        let bytes = fs::read(program)?;
        if !is_program_of(&bytes, architecture) || interpreted(&bytes) {
            let why = "is no static program for it, and an empty image has no libraries";
            let what = format!("{} for {architecture} {why}", program.display());
            return Err(Error::Other(what));
        }
        let layer = archive(&[(content.program, 0o755, &bytes)], content.created)?;
        let mut config = content.config.clone();
        config["Entrypoint"] = json!([format!("/{}", content.program)]);
        let config = json!({
            "created": created,
            "architecture": architecture,
            "os": "linux",
            "config": config,
            "rootfs": {"type": "layers", "diff_ids": [sha256(&layer)]},
            "history": [{"created": created, "created_by": "COPY the program"}],
        });
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": blobs.json(CONFIG, &config)?,
            "layers": [blobs.write(LAYER, &gzip(&layer)?)?],
        });
        let mut manifest = blobs.json(MANIFEST, &manifest)?;
        manifest["platform"] = json!({"architecture": architecture, "os": "linux"});
        manifests.push(manifest);
    }
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    let mut index = blobs.json(INDEX, &index)?;
    let found = index["digest"].as_str().unwrap_or_default().to_owned();
    index["annotations"] = json!({"io.containerd.image.name": content.image});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [index]});
    for (name, text) in [
        ("index.json", index.to_string()),
        (
            "oci-layout",
            json!({"imageLayoutVersion": "1.0.0"}).to_string(),
        ),
    ] {
        fs::write(folder.join(name), text)?;
    }
    Ok(found)
}

/// A tar of files that belong to root, with their modes.
///
/// # Errors
/// If a name is too long for it.
pub fn archive(files: &[(&str, u32, &[u8])], modified: i64) -> Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, mode, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(*mode);
        header.set_size(content.len() as u64);
        header.set_mtime(u64::try_from(modified).unwrap_or_default());
        archive.append_data(&mut header, name, *content)?;
    }
    Ok(archive.into_inner()?)
}

/// Compresses; equal bytes give equal bytes.
///
/// # Errors
/// Never, in memory.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut packed = GzBuilder::new().write(Vec::new(), Compression::best());
    Ok(packed.write_all(bytes).and_then(|()| packed.finish())?)
}

/// `sha256:` and the hash in hex.
pub fn sha256(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let hash = digest(&SHA256, bytes);
    hash.as_ref()
        .iter()
        .fold("sha256:".to_owned(), |mut text, byte| {
            // Writing to a String does not fail.
            write!(text, "{byte:02x}").ok();
            text
        })
}

/// The folder of blobs, each named by its hash.
struct Blobs(PathBuf);

impl Blobs {
    /// Writes a blob and returns its descriptor.
    fn write(&self, kind: &str, bytes: &[u8]) -> Result<Value> {
        let digest = sha256(bytes);
        let name = digest.trim_start_matches("sha256:");
        fs::write(self.0.join(name), bytes)?;
        Ok(json!({"mediaType": kind, "digest": digest, "size": bytes.len()}))
    }

    fn json(&self, kind: &str, value: &Value) -> Result<Value> {
        self.write(kind, value.to_string().as_bytes())
    }
}

/// Whether it is an ELF file of 64 bits for this architecture, little-endian.
fn is_program_of(elf: &[u8], architecture: &str) -> bool {
    let machine = match architecture {
        "amd64" => 62,
        "arm64" => 183,
        _ => return false,
    };
    elf.starts_with(b"\x7fELF\x02\x01") && elf.get(18..20) == Some(&[machine, 0][..])
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_a_static_program_of_its_platform_becomes_an_image() {
        let folder = std::env::temp_dir().join(crate::cluster::unique("layout"));
        let shell = fs::read("/bin/sh").unwrap();
        let this = if cfg!(target_arch = "aarch64") {
            "arm64"
        } else {
            "amd64"
        };
        assert!(is_program_of(&shell, this) && interpreted(&shell));
        let text = folder.with_extension("text");
        fs::write(&text, "#!/bin/sh").unwrap();
        let content = Content {
            image: "i",
            program: "p",
            config: json!({}),
            created: 0,
        };
        for (architecture, program) in [
            (this, Path::new("/bin/sh")),
            (this, &text),
            ("riscv64", &text),
        ] {
            let refused = layout(&folder, &content, &[(architecture, program)]);
            assert!(refused.is_err(), "{architecture} {}", program.display());
        }
        fs::remove_file(text).unwrap();
        fs::remove_dir_all(folder).unwrap();
    }
}
