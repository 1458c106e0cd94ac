//! Image and chart to a registry, signed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{Error, Result, process::said, tools::Tool};
use serde_json::Value;

use crate::{VERSION, archives};

/// Where artifacts are pushed to, and the key that signs them.
pub struct Place {
    image: String,
    charts: String,
    /// A registry of this machine, which speaks plain HTTP.
    plain: bool,
    key: Option<String>,
}

impl Place {
    /// The image is pushed to `to`, and the chart to `charts/ipgc` beside it.
    pub fn parse(to: &str, key: Option<&str>) -> Result<Self> {
        let refuse = |why: String| Err(Error::Other(why));
        let Some((folder, _)) = to.rsplit_once('/') else {
            return refuse(format!("{to} is no image: write REGISTRY/NAME"));
        };
        if let Some(key) = key {
            let known = match key.strip_prefix("env://") {
                Some(name) => std::env::var_os(name).is_some_and(|value| !value.is_empty()),
                None => key.contains("://") || Path::new(key).is_file(),
            };
            if !known {
                return refuse(format!("there is no key {key}"));
            }
        }
        Ok(Self {
            image: to.to_owned(),
            charts: format!("{folder}/charts"),
            plain: to.starts_with("127.0.0.1:") || to.starts_with("localhost:"),
            key: key.map(str::to_owned),
        })
    }

    /// Pushes what is in a folder. With a key all is signed, and the lists of dependencies are attached.
    pub fn push(&self, folder: &Path) -> Result<()> {
        let index = index(folder)?;
        let image = format!("{}:{VERSION}", self.image);
        // An unknown tag has no digest. One that is there is never moved: pods that pulled it do not pull it again.
        if let Ok(there) = self.digest(&image)
            && there != index
        {
            let why = format!("{image} exists with the digest {there}, and this one is {index}");
            return Err(Error::Other(why));
        }
        said(
            self.crane()?
                .arg("push")
                .arg(folder.join("image"))
                .arg(&image),
        )?;
        let there = self.digest(&image)?;
        if there != index {
            let why = format!("{image} has the digest {there}, not {index}");
            return Err(Error::Other(why));
        }
        println!("image {image}@{index}");
        let mut helm = Command::new(Tool::Helm.path_blocking()?);
        helm.arg("push")
            .arg(folder.join(archives::chart_name()))
            .arg(format!("oci://{}", self.charts))
            .args(self.plain.then_some("--plain-http"));
        said(&mut helm)?;
        let chart = self.digest(&format!("{}/ipgc:{VERSION}", self.charts))?;
        println!("chart oci://{}/ipgc:{VERSION}@{chart}", self.charts);
        if let Some(key) = &self.key {
            return self.sign(folder, key, &index, &chart);
        }
        println!("no key: nothing is signed, and the SBOMs are files only");
        Ok(())
    }

    fn sign(&self, folder: &Path, key: &str, index: &str, chart: &str) -> Result<()> {
        let sums = folder.join("SHA256SUMS");
        let bundle = PathBuf::from(format!("{}.bundle", sums.display()));
        said(
            cosign("sign-blob", key)?
                .arg("--bundle")
                .arg(bundle)
                .arg(sums),
        )?;
        let mut public = Command::new(Tool::Cosign.path_blocking()?);
        let public = said(public.args(["public-key", "--key", key]))?;
        fs::write(folder.join("cosign.pub"), public)?;
        let plain = self.plain.then_some("--allow-http-registry");
        for signed in [
            format!("{}@{index}", self.image),
            format!("{}/ipgc@{chart}", self.charts),
        ] {
            said(cosign("sign", key)?.args(plain).arg(&signed))?;
            println!("signed {signed}");
        }
        for platform in ["amd64", "arm64"] {
            let mut crane = self.crane()?;
            crane
                .arg("digest")
                .arg(format!("--platform=linux/{platform}"));
            let image = said(crane.arg(format!("{}@{index}", self.image)))?;
            let mut attest = cosign("attest", key)?;
            attest
                .args(plain)
                .args(["--type=spdxjson", "--predicate"])
                .arg(folder.join(archives::sbom_name(platform)))
                .arg(format!("{}@{}", self.image, image.trim()));
            said(&mut attest)?;
        }
        Ok(())
    }

    fn digest(&self, of: &str) -> Result<String> {
        let digest = said(self.crane()?.args(["digest", of]))?;
        Ok(digest.trim().to_owned())
    }

    fn crane(&self) -> Result<Command> {
        let mut crane = Command::new(Tool::Crane.path_blocking()?);
        crane.args(self.plain.then_some("--insecure"));
        Ok(crane)
    }
}

/// The digest of the image in a folder.
fn index(folder: &Path) -> Result<String> {
    let path = folder.join("image/index.json");
    let text = fs::read(&path)?;
    let index: Value = serde_json::from_slice(&text)?;
    let digest = index["manifests"][0]["digest"].as_str();
    let digest = digest.ok_or_else(|| Error::Other(format!("{} has no image", path.display())))?;
    Ok(digest.to_owned())
}

/// Signatures of a key need no public log.
fn cosign(verb: &str, key: &str) -> Result<Command> {
    let mut cosign = Command::new(Tool::Cosign.path_blocking()?);
    cosign.args([
        verb,
        "--yes",
        "--tlog-upload=false",
        "--use-signing-config=false",
        "--key",
        key,
    ]);
    Ok(cosign)
}
