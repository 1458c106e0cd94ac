//! The artifacts of a release as their users have them: signed and pushed to a registry, verified, pulled by containerd,
//! installed, upgraded and removed by helm.

use std::{
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Instant,
};

use serde_json::Value;

use e2e::{
    Error, Result,
    node::{REGISTRY, install::NAMESPACE},
    ours,
    process::{self, Process, said},
    tools::{self, Tool},
    wait,
};

use crate::{
    stage::Stage,
    support::{ADD_BUDGET, LEASE, PATIENCE, Scene, witnessed},
    wanted::Wanted,
};

/// The version of the release.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The password of the key that the run makes.
const PASSWORD: &str = "of this run";

/// The artifacts of a release, in a folder and in a registry on loopback.
pub struct Artifacts {
    folder: PathBuf,
    port: u16,
    /// The digest of the image.
    digest: String,
    // It ends with the stage.
    _registry: Process,
}

impl Artifacts {
    /// Builds, pushes and signs them.
    pub async fn new() -> Result<Self> {
        let release = ours::build("release").await?;
        tools::blocking(move || Self::made(&release)).await
    }

    fn made(release: &Path) -> Result<Self> {
        let folder = std::env::temp_dir().join(e2e::cluster::unique("ipgc-release"));
        std::fs::create_dir_all(&folder)?;
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = socket.local_addr()?.port();
        drop(socket);
        let mut registry = process::tied(Tool::Crane.path_blocking()?);
        registry.args([
            "registry",
            "serve",
            "--address",
            &format!("127.0.0.1:{port}"),
        ]);
        let registry = Process::start("registry", registry, &folder.join("registry.log"))?;
        let mut keys = cosign(&["generate-key-pair", "--output-key-prefix"])?;
        said(keys.arg(folder.join("key")))?;
        let began = Instant::now();
        let mut artifacts = Self {
            folder,
            port,
            digest: String::new(),
            _registry: registry,
        };
        let out = artifacts.folder.join("out");
        let mut made = Command::new(release);
        made.arg("--out")
            .arg(&out)
            .arg("--push")
            .arg(artifacts.image());
        made.env("COSIGN_PASSWORD", PASSWORD).arg("--key");
        let told = said(made.arg(artifacts.folder.join("key.key")))?;
        print!("{told}");
        println!("     release: {} s", began.elapsed().as_secs());
        let image = format!("{}:{VERSION}", artifacts.image());
        artifacts.digest = crane(&["digest", &image])?;
        Ok(artifacts)
    }

    /// The program for this machine.
    pub fn program(&self) -> PathBuf {
        let platform = match std::env::consts::ARCH {
            "aarch64" => "arm64",
            _ => "amd64",
        };
        self.folder
            .join("out")
            .join(format!("ipgc-linux-{platform}"))
    }

    /// Where the registry listens on loopback.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn image(&self) -> String {
        format!("127.0.0.1:{}/ipgc/ipgc", self.port)
    }

    fn chart(&self) -> String {
        format!("127.0.0.1:{}/ipgc/charts/ipgc", self.port)
    }

    /// As the README tells users to verify. Another key verifies nothing.
    fn verify(&self) -> Result<()> {
        let mut other = cosign(&["generate-key-pair", "--output-key-prefix"])?;
        said(other.arg(self.folder.join("other")))?;
        let sums = Command::new("sha256sum")
            .args(["--check", "--strict", "SHA256SUMS"])
            .current_dir(self.folder.join("out"))
            .output()?;
        assert!(sums.status.success(), "{sums:?}");
        let out = self.folder.join("out");
        let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
        let image = format!("{}@{}", self.image(), self.digest);
        for platform in ["amd64", "arm64"] {
            let list = text(&format!("ipgc-linux-{platform}.spdx.json"));
            for dependency in ["kube-client", "ring", "tokio"] {
                assert!(
                    list.contains(&format!("\"name\":\"{dependency}\"")),
                    "{dependency}"
                );
            }
            let platform_of = format!("--platform=linux/{platform}");
            let config = crane(&["config", &platform_of, &image])?;
            let config: Value = serde_json::from_str(&config).expect("a configuration");
            assert_eq!(config["architecture"], platform);
            assert_eq!(config["config"]["User"], "65532:65532");
            assert_eq!(
                config["config"]["Labels"]["org.opencontainers.image.version"],
                VERSION
            );
        }
        let plugin = self
            .program()
            .file_name()
            .unwrap_or_default()
            .display()
            .to_string();
        let plugin = plugin.replace("ipgc-linux-", &format!("kubectl-ipgc_v{VERSION}_linux_"));
        let mut tar = Command::new("tar");
        tar.arg("-xzf")
            .arg(out.join(format!("{plugin}.tar.gz")))
            .arg("-C")
            .arg(&self.folder);
        said(&mut tar)?;
        let told = said(Command::new(self.folder.join("kubectl-ipgc")).arg("--version"))?;
        assert_eq!(told.trim(), format!("ipgc {VERSION}"));
        assert_eq!(
            text("cosign.pub"),
            std::fs::read_to_string(self.folder.join("key.pub")).unwrap()
        );
        for (key, fits) in [("key.pub", true), ("other.pub", false)] {
            let key = self.folder.join(key).display().to_string();
            let mut blob = cosign(&["verify-blob", "--insecure-ignore-tlog", "--key", &key])?;
            blob.arg("--bundle")
                .arg(out.join("SHA256SUMS.bundle"))
                .arg(out.join("SHA256SUMS"));
            assert_eq!(said(&mut blob).is_ok(), fits, "{key}");
            let by = [
                "--insecure-ignore-tlog",
                "--allow-http-registry",
                "--key",
                &key,
            ];
            for signed in [image.clone(), format!("{}:{VERSION}", self.chart())] {
                let verified = said(cosign(&["verify"])?.args(by).arg(&signed));
                assert_eq!(verified.is_ok(), fits, "{signed}: {verified:?}");
            }
            let one = crane(&["digest", "--platform=linux/arm64", &image])?;
            let one = format!("{}@{one}", self.image());
            let mut attested = cosign(&["verify-attestation", "--type=spdxjson"])?;
            let attested = said(attested.args(by).arg(one));
            assert_eq!(attested.is_ok(), fits, "{attested:?}");
        }
        let krew = self.folder.join("out/ipgc.yaml");
        let mut validate = Command::new(Tool::ValidateKrewManifest.path_blocking()?);
        said(validate.args(["-skip-install", "-manifest"]).arg(krew))?;
        Ok(())
    }

    fn helm(&self, stage: &Stage, args: &[&str]) -> Result<String> {
        let mut helm = Command::new(Tool::Helm.path_blocking()?);
        for name in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"] {
            helm.env(name, self.folder.join("helm"));
        }
        helm.arg("--kubeconfig")
            .arg(stage.tier.plane().kubeconfig()?);
        said(helm.args(["--namespace", NAMESPACE]).args(args))
    }

    /// The chart of the registry, with the image that containerd pulls from it.
    fn apply(&self, stage: &Stage, verb: &[&str], more: &str) -> Result<String> {
        let chart = format!("oci://{}", self.chart());
        let image = format!(
            "image.repository={REGISTRY}/ipgc/ipgc,image.digest={}",
            self.digest
        );
        let settings = format!("{image},flags.log-format=json{more}");
        let args = [
            verb,
            &[
                "ipgc",
                &chart,
                "--version",
                VERSION,
                "--plain-http",
                "--set",
                &settings,
            ],
            &["--wait", "--timeout", "180s"],
        ];
        self.helm(stage, &args.concat())
    }
}

impl Drop for Artifacts {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// A release is verified and installed; it frees what was lost before it came and after; an upgrade in the middle of a
/// mass delete loses nothing; nothing of it is left when it is removed.
pub async fn installed_upgraded_and_removed(stage: Arc<Stage>) -> Result<()> {
    const PODS: usize = 40;
    let artifacts = stage.artifacts.as_ref().expect("a run with --release");
    tokio::task::block_in_place(|| artifacts.verify())?;
    let scene = Scene::new(&stage, "release").await?;
    let network = scene.network_apart("net-a", "10.150.0.0/24").await?;
    let wanted = Wanted::pod("web", &["net-a"]);
    scene.replicas(&wanted, 4).await?;

    // Lost before ipgc is there.
    network.lose()?;
    scene.scale(2).await?;
    let two = || scene.pods();
    wait::until_state("two pods to go", PATIENCE * 2, two, |it| *it == (2, 2)).await?;
    assert_eq!(scene.rows().await?.len(), 4, "DEL was lost");

    let began = Instant::now();
    let installed = tokio::task::block_in_place(|| {
        artifacts.apply(&stage, &["install", "--create-namespace"], "")
    });
    if let Err(error) = installed {
        let events = stage
            .cluster
            .kubectl(["get", "events", "-n", NAMESPACE])
            .await?;
        return Err(Error::Other(format!("{error}\n{events}")));
    }
    println!(
        "     helm install: ready after {} s",
        began.elapsed().as_secs()
    );
    // Lost while it is there: the kubelet's DEL burns a minute, and then the pod's end proves the sandbox stopped.
    scene.scale(0).await?;
    let first = scene.freed_one().await?;
    println!(
        "     helm install: first row freed after {} s ({first})",
        began.elapsed().as_secs()
    );
    scene.empty(witnessed(1) + LEASE + PATIENCE).await?;
    println!(
        "     helm install: all rows freed after {} s",
        began.elapsed().as_secs()
    );

    network.mend()?;
    scene.scale(PODS).await?;
    let up = || scene.pods();
    wait::until_state("all pods to run", PATIENCE * 4, up, |it| {
        *it == (PODS, PODS)
    })
    .await?;
    network.lose()?;
    scene.scale(0).await?;
    let going = |it: &(usize, usize)| it.1 < PODS && it.1 > 0;
    let (_, before) = wait::until_state("some pods to go", PATIENCE * 4, up, going).await?;
    tokio::task::block_in_place(|| {
        artifacts.apply(
            &stage,
            &["upgrade"],
            ",podAnnotations.upgraded=yes,flags.workers=2",
        )
    })?;
    let (_, there) = scene.pods().await?;
    println!(
        "     helm upgrade: {before} of {PODS} pods were there when it began, {there} when it was done"
    );
    wait::until_state("all pods to go", PATIENCE * 4, up, |it| it.1 == 0).await?;
    scene.ends_clean(witnessed(1) + LEASE + PATIENCE).await?;

    let audit = tokio::task::block_in_place(|| {
        artifacts.helm(&stage, &["test", "ipgc", "--logs", "--timeout", "60s"])
    })?;
    assert!(
        audit.contains("Phase:          Succeeded") && audit.contains(" in 1 pool "),
        "{audit}"
    );
    tokio::task::block_in_place(|| artifacts.helm(&stage, &["uninstall", "ipgc", "--wait"]))?;
    nothing_is_left(&stage).await
}

async fn nothing_is_left(stage: &Stage) -> Result<()> {
    const KINDS: &str = "deployments,replicasets,pods,serviceaccounts,services,configmaps,secrets,clusterroles,\
        clusterrolebindings,roles,rolebindings,poddisruptionbudgets,networkpolicies,leases";
    let args = ["get", KINDS, "-A", "-o", "name", "--ignore-not-found"];
    let args = [&args[..], &["-l", "app.kubernetes.io/instance=ipgc"]].concat();
    let left = || async { stage.cluster.kubectl(&args).await };
    wait::until_state("nothing to be left", ADD_BUDGET, left, String::is_empty).await?;
    // Nor is anything that has no label; Kubernetes itself makes an account and a ConfigMap in each namespace.
    let args = [
        "get",
        "leases,secrets,configmaps,serviceaccounts,roles,rolebindings,pods",
    ];
    let args = [&args[..], &["-n", NAMESPACE, "-o", "name"]].concat();
    let all = stage.cluster.kubectl(&args).await?;
    let others = ["serviceaccount/default", "configmap/kube-root-ca.crt"];
    let left: Vec<_> = all.lines().filter(|it| !others.contains(it)).collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

/// The answer of the registry, which speaks plain HTTP.
fn crane(args: &[&str]) -> Result<String> {
    let mut crane = Command::new(Tool::Crane.path_blocking()?);
    let said = said(crane.arg("--insecure").args(args))?;
    Ok(said.trim().to_owned())
}

fn cosign(args: &[&str]) -> Result<Command> {
    let mut cosign = Command::new(Tool::Cosign.path_blocking()?);
    cosign.env("COSIGN_PASSWORD", PASSWORD).args(args);
    Ok(cosign)
}
