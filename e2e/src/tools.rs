//! Finds the programs that tests run beside ipgc, or builds them with Go, once.
//!
//! They are built from the pinned go.mod files in `e2e/tools/`. The cache is
//! `$XDG_CACHE_HOME/ipgc-e2e`, else `~/.cache/ipgc-e2e`; its entries are named after the version and a
//! hash of go.mod, go.sum and the build flags, so a changed pin is a new build and nothing is ever stale.
//!
//! It writes only below the cache (and Go's own caches), never into the source tree, and it never looks
//! into `PATH` for a tool: a test must know which version it runs against.

mod build;
mod recipes;

pub(crate) use build::lock;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use futures::future::try_join_all;
use ring::digest::{Context, SHA256};

use crate::{Error, Result};
pub use recipes::Tool;
use recipes::WHEREABOUTS;

impl Tool {
    /// Those that only real nodes need.
    const OF_NODES: [Self; 3] = [Self::KubeScheduler, Self::Kubelet, Self::Multus];

    /// Those that only releases need. Each is built when it is asked for.
    const OF_RELEASES: [Self; 6] = [
        Self::Crane,
        Self::Syft,
        Self::Cosign,
        Self::ValidateKrewManifest,
        Self::Actionlint,
        Self::KubeScore,
    ];

    /// The folder of the version that the run is for: `IPGC_E2E_KUBERNETES=1.37` takes that of `kubernetes-1.37`.
    fn folder(self, usual: &str) -> String {
        let variable = match self {
            Self::Whereabouts | Self::IpControlLoop => "IPGC_E2E_WHEREABOUTS",
            _ if usual == "kubernetes" => "IPGC_E2E_KUBERNETES",
            // Older versions have no program of that name, or not all that a program of ours is made of.
            _ => return usual.to_owned(),
        };
        match env::var(variable) {
            Ok(version) if !version.is_empty() => format!("{usual}-{version}"),
            _ => usual.to_owned(),
        }
    }

    /// The name of the binary.
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    /// Where the tool is; builds it first if that must be. Blocks, for minutes at worst.
    pub fn path_blocking(self) -> Result<PathBuf> {
        let target = self.cached()?;
        if !target.is_file() {
            build::go_build(&self.recipe(), &target)?;
        }
        Ok(target)
    }

    /// Where the tool is; builds it first if that must be.
    pub async fn path(self) -> Result<PathBuf> {
        blocking(move || self.path_blocking()).await
    }

    /// The place of this version and these flags in the cache.
    fn cached(self) -> Result<PathBuf> {
        let recipe = self.recipe();
        let pins = Pins::read(&recipe.folder)?;
        let version = pins.version(recipe.module)?;
        let mut parts = build::flags(&recipe, &version);
        // A program of ours changes with its source, which the pins do not tell.
        if let Some(own) = recipe.package.strip_prefix("ipgc.dev/e2e/tools/") {
            let path = source(own).join("main.go");
            let text = fs::read_to_string(&path);
            parts.push(text?);
        }
        let key = pins.key(&parts.join("\n"));
        Ok(cache()?
            .join("bin")
            .join(format!("{}-{version}-{key}", recipe.name)))
    }
}

/// Builds what is missing of all tools, those of one go.mod beside those of another: for real nodes as well, or for all
/// other tests only.
pub async fn build_missing(nodes: bool) -> Result<()> {
    let wanted = Tool::ALL
        .iter()
        .copied()
        .filter(|tool| nodes || !Tool::OF_NODES.contains(tool))
        .filter(|tool| !Tool::OF_RELEASES.contains(tool));
    let mut by_folder = BTreeMap::<_, Vec<_>>::new();
    for tool in wanted {
        by_folder
            .entry(tool.recipe().folder)
            .or_default()
            .push(tool);
    }
    let builds = by_folder.into_values().map(|tools| {
        blocking(move || {
            for tool in tools {
                tool.path_blocking()?;
            }
            Ok(())
        })
    });
    try_join_all(builds).await?;
    Ok(())
}

/// The CRD manifests of whereabouts and of network attachments, as upstream ships them.
pub async fn crd_files() -> Result<Vec<PathBuf>> {
    blocking(|| {
        let pins = Pins::read(&Tool::Whereabouts.recipe().folder)?;
        let target = cache()?.join(format!(
            "crds-{}-{}",
            pins.version(WHEREABOUTS)?,
            pins.key("")
        ));
        if !target.is_dir() {
            build::copy_crds(&target)?;
        }
        let mut files = Vec::new();
        for entry in fs::read_dir(&target)? {
            files.push(entry?.path());
        }
        files.sort();
        Ok(files)
    })
    .await
}

/// The folder for everything that outlives a run.
pub fn cache() -> Result<PathBuf> {
    let set = |name: &str| {
        env::var_os(name)
            .filter(|v| !v.is_empty())
            .map(PathBuf::from)
    };
    let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let dir = caches.unwrap_or_else(env::temp_dir).join("ipgc-e2e");
    Ok(std::path::absolute(dir)?)
}

/// One folder of `e2e/tools`: a go.mod and its go.sum.
struct Pins {
    go_mod: String,
    go_sum: String,
}

impl Pins {
    fn read(folder: &str) -> Result<Self> {
        let read = |name: &str| fs::read_to_string(source(folder).join(name));
        Ok(Self {
            go_mod: read("go.mod")?,
            go_sum: read("go.sum")?,
        })
    }

    /// The version that the go.mod requires of a module.
    fn version(&self, module: &str) -> Result<String> {
        self.go_mod
            .lines()
            .find_map(|line| {
                let mut words = line.split_whitespace().filter(|w| *w != "require");
                (words.next() == Some(module)).then(|| words.next())?
            })
            .filter(|version| version.starts_with('v'))
            .map(str::to_owned)
            .ok_or_else(|| Error::Other(format!("go.mod requires no {module}")))
    }

    /// Twelve hex digits that change with anything that decides about the binary.
    fn key(&self, flags: &str) -> String {
        let mut hash = Context::new(&SHA256);
        for part in [&self.go_mod, &self.go_sum, flags] {
            hash.update(part.as_bytes());
            hash.update(&[0]);
        }
        let digest = hash.finish();
        let short = digest.as_ref()[..6]
            .iter()
            .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        format!("{short:012x}")
    }
}

pub(crate) fn source(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tools")
        .join(folder)
}

/// Does work that blocks, off the threads that must not.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Other(format!("the work was cut short: {error}"))),
    }
}
