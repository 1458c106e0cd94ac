//! Image and chart to a registry, signed.

use std::{path::Path, process::Command};

use e2e::{Error, Result, tools::Tool};

use crate::{Out, VERSION, archives, said};

/// Pushes the image to `to`, and the chart beside it. With a key both are signed, and the lists of dependencies attached.
pub fn all(out: &Out, to: &str, index: &str, chart: &Path, key: Option<&Path>) -> Result<()> {
    let (place, _) = to
        .rsplit_once('/')
        .ok_or_else(|| Error::Unsupported(format!("{to} is no image: write REGISTRY/NAME")))?;
    let plain = is_plain(to);
    let crane = || -> Result<Command> {
        let mut crane = Command::new(Tool::Crane.path_blocking()?);
        crane.args(plain.then_some("--insecure"));
        Ok(crane)
    };
    let image = format!("{to}:{VERSION}");
    said(
        crane()?
            .arg("push")
            .arg(out.folder.join("image"))
            .arg(&image),
    )?;
    let there = said(crane()?.args(["digest", &image]))?;
    if there.trim() != index {
        let why = format!("{image} has the digest {}, not {index}", there.trim());
        return Err(Error::Unsupported(why));
    }
    let charts = format!("{place}/charts");
    let mut helm = Command::new(Tool::Helm.path_blocking()?);
    helm.arg("push")
        .arg(chart)
        .arg(format!("oci://{charts}"))
        .args(plain.then_some("--plain-http"));
    said(&mut helm)?;
    let chart = said(crane()?.args(["digest", &format!("{charts}/ipgc:{VERSION}")]))?;
    println!("chart oci://{charts}/ipgc:{VERSION}@{}", chart.trim());
    let Some(key) = key else {
        println!("no key: nothing is signed, and the SBOMs are files only");
        return Ok(());
    };
    for signed in [
        format!("{to}@{index}"),
        format!("{charts}/ipgc@{}", chart.trim()),
    ] {
        said(cosign("sign", key, plain)?.arg(&signed))?;
        println!("signed {signed}");
    }
    for platform in ["amd64", "arm64"] {
        let image =
            said(crane()?.args(["digest", &format!("--platform=linux/{platform}"), &image]))?;
        let mut attest = cosign("attest", key, plain)?;
        attest
            .args(["--type=spdxjson", "--predicate"])
            .arg(archives::sbom_path(out, platform))
            .arg(format!("{to}@{}", image.trim()));
        said(&mut attest)?;
    }
    Ok(())
}

/// A registry of this machine, which speaks plain HTTP.
fn is_plain(to: &str) -> bool {
    to.starts_with("127.0.0.1:") || to.starts_with("localhost:")
}

/// Signatures of a key need no public log.
fn cosign(verb: &str, key: &Path, plain: bool) -> Result<Command> {
    let mut cosign = Command::new(Tool::Cosign.path_blocking()?);
    cosign
        .args([
            verb,
            "--yes",
            "--tlog-upload=false",
            "--use-signing-config=false",
            "--key",
        ])
        .arg(key)
        .args(plain.then_some("--allow-http-registry"));
    Ok(cosign)
}
