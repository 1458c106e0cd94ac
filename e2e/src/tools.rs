//! Finds the programs that tests run beside ipgc, or builds them with Go, once.
//!
//! Order of search: `KUBEBUILDER_ASSETS` (only for the Kubernetes servers and etcd), an earlier build in
//! the cache, `go build` from the pinned go.mod files in `e2e/tools/`. The cache is `IPGC_E2E_CACHE`, else
//! `$XDG_CACHE_HOME/ipgc-e2e`, else `~/.cache/ipgc-e2e`; its entries are named after the version and a
//! hash of go.mod, go.sum and the build flags, so a changed pin is a new build and nothing is ever stale.
//!
//! It writes only below the cache (and Go's own caches), never into the source tree, and it never looks
//! into `PATH`: a test must know which version it runs against.

mod build;

pub(crate) use build::lock;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use futures::future::try_join_all;
use ring::digest::{Context, SHA256};

use crate::{Error, Result};

/// A program that the harness runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tool {
    /// The store below the API server.
    Etcd,
    /// The API server.
    KubeApiserver,
    /// The controllers: namespace deletion, pod garbage collection.
    KubeControllerManager,
    /// The whereabouts CNI plugin.
    Whereabouts,
    /// The command line client: scenarios use it as a person does.
    Kubectl,
    /// Checks rules and metrics.
    Promtool,
    /// Upstream's per-node collector.
    IpControlLoop,
    /// Upstream's cron collector.
    IpReconciler,
    /// Says how whereabouts reads definitions; a program of ours around its code.
    Definitions,
    /// Gives pods their nodes; for the node tier, like all below.
    KubeScheduler,
    /// The node's agent.
    Kubelet,
    /// The CNI plugin that calls the others.
    Multus,
}

/// How one tool is built.
struct Recipe {
    /// Name of the binary.
    name: &'static str,
    /// Folder in `e2e/tools` whose go.mod pins it.
    folder: &'static str,
    /// The Go module whose version is the tool's version.
    module: &'static str,
    /// The main package.
    package: String,
    /// How long it takes on two cores, for the person who waits.
    duration: &'static str,
}

const KUBERNETES: &str = "k8s.io/kubernetes";
const WHEREABOUTS: &str = "github.com/k8snetworkplumbingwg/whereabouts";
const PROMETHEUS: &str = "github.com/prometheus/prometheus";

/// Where the main packages of our own are.
const OWN: &str = "ipgc.dev/e2e/tools/";

impl Tool {
    /// All of them, in the order in which a cold start needs them.
    pub const ALL: [Self; 12] = [
        Self::Etcd,
        Self::Whereabouts,
        Self::IpControlLoop,
        Self::IpReconciler,
        Self::Definitions,
        Self::KubeApiserver,
        Self::KubeControllerManager,
        Self::Kubectl,
        Self::Promtool,
        Self::KubeScheduler,
        Self::Kubelet,
        Self::Multus,
    ];

    /// Those that only real nodes need.
    const OF_NODES: [Self; 3] = [Self::KubeScheduler, Self::Kubelet, Self::Multus];

    /// Those that `KUBEBUILDER_ASSETS` may hold.
    const IN_ASSETS: [Self; 3] = [Self::Etcd, Self::KubeApiserver, Self::KubeControllerManager];

    fn recipe(self) -> Recipe {
        let (name, folder, place, duration) = match self {
            Self::Etcd => ("etcd", "etcd", "", "half a minute"),
            Self::KubeApiserver => ("kube-apiserver", "kubernetes", "/cmd/", "4 minutes"),
            Self::KubeControllerManager => {
                ("kube-controller-manager", "kubernetes", "/cmd/", "1 minute")
            }
            Self::Whereabouts => ("whereabouts", "whereabouts", "/cmd", "1 minute"),
            Self::IpControlLoop => (
                "ip-control-loop",
                "whereabouts",
                "/cmd/controlloop",
                "20 seconds",
            ),
            Self::IpReconciler => (
                "ip-reconciler",
                "whereabouts",
                "/cmd/reconciler",
                "20 seconds",
            ),
            Self::Definitions => ("definitions", "whereabouts", OWN, "20 seconds"),
            Self::Kubectl => ("kubectl", "kubernetes", "/cmd/", "half a minute"),
            Self::Promtool => ("promtool", "prometheus", "/cmd/", "1.5 minutes"),
            Self::KubeScheduler => ("kube-scheduler", "kubernetes", "/cmd/", "1 minute"),
            Self::Kubelet => ("kubelet", "kubernetes", "/cmd/", "2 minutes"),
            Self::Multus => ("multus", "multus", "/cmd/", "1 minute"),
        };
        let module = match folder {
            "etcd" => "go.etcd.io/etcd/server/v3",
            "kubernetes" => KUBERNETES,
            "whereabouts" => WHEREABOUTS,
            "prometheus" => PROMETHEUS,
            _ => "gopkg.in/k8snetworkplumbingwg/multus-cni.v4",
        };
        let package = match place {
            OWN => format!("{OWN}{folder}/{name}"),
            "/cmd/" => format!("{module}/cmd/{name}"),
            place => format!("{module}{place}"),
        };
        Recipe {
            name,
            folder,
            module,
            package,
            duration,
        }
    }

    /// The name of the binary.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    /// The version that go.mod pins, with its `v`.
    pub fn version(self) -> Result<String> {
        let recipe = self.recipe();
        Pins::read(recipe.folder)?.version(recipe.module)
    }

    /// Where the tool is; builds it first if that must be. Blocks, for minutes at worst.
    pub fn path_blocking(self) -> Result<PathBuf> {
        let assets = env::var_os("KUBEBUILDER_ASSETS").filter(|value| !value.is_empty());
        if let Some(assets) = assets.filter(|_| Self::IN_ASSETS.contains(&self)) {
            let path = PathBuf::from(assets).join(self.name());
            if path.is_file() {
                return Ok(path);
            }
            // envtest's own archives hold no controller manager; everything else there is a mistake.
            if self != Self::KubeControllerManager {
                return Err(Error::Assets { path });
            }
        }
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
        let pins = Pins::read(recipe.folder)?;
        let version = pins.version(recipe.module)?;
        let mut parts = build::flags(&recipe, &version);
        // A program of ours changes with its source, which the pins do not tell.
        if let Some(own) = recipe.package.strip_prefix(OWN) {
            let path = source(own).join("main.go");
            let text = fs::read_to_string(&path);
            parts.push(text.map_err(Error::io(format!("read {}", path.display())))?);
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
        .into_iter()
        .filter(|tool| nodes || !Tool::OF_NODES.contains(tool));
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
        let pins = Pins::read("whereabouts")?;
        let target = cache()?.join(format!(
            "crds-{}-{}",
            pins.version(WHEREABOUTS)?,
            pins.key("")
        ));
        if !target.is_dir() {
            build::copy_crds(&target)?;
        }
        let mut files = Vec::new();
        for entry in
            fs::read_dir(&target).map_err(Error::io(format!("read {}", target.display())))?
        {
            files.push(entry.map_err(Error::io("read a folder"))?.path());
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
    let dir = set("IPGC_E2E_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|d| d.join("ipgc-e2e")))
        .or_else(|| set("HOME").map(|d| d.join(".cache").join("ipgc-e2e")))
        .unwrap_or_else(|| env::temp_dir().join("ipgc-e2e"));
    std::path::absolute(&dir).map_err(Error::io(format!("find {}", dir.display())))
}

/// One folder of `e2e/tools`: a go.mod and its go.sum.
struct Pins {
    go_mod: String,
    go_sum: String,
}

impl Pins {
    fn read(folder: &str) -> Result<Self> {
        let read = |name: &str| {
            let path = source(folder).join(name);
            fs::read_to_string(&path).map_err(Error::io(format!("read {}", path.display())))
        };
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
            .ok_or_else(|| Error::Malformed {
                what: "go.mod".into(),
                why: format!("it requires no {module}"),
            })
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
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => Err(Error::Unsupported(format!(
            "the work was cut short: {error}"
        ))),
    }
}
