//! Our own programs as processes: built from the present source, started, read, ended.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::{Duration, Instant},
};

use serde::Deserialize as _;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::{
    Cluster, ControlPlane, Error, Result,
    access::Access,
    cluster::unique,
    node::install::NAMESPACE,
    process::{Process, said, success, tail, tied},
    tools::{Tool, blocking},
    wait,
};

/// Waits as short as they can be set, but for that after an end which proves the sandbox stopped.
pub const SHORT_WAITS: [&str; 4] = [
    "--grace=1s",
    "--del-budget=1s",
    "--add-budget=1s",
    "--max-pod-grace=1s",
];

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The binary `ipgc` in the target directory that this test came from, built once.
pub async fn program() -> Result<PathBuf> {
    static PROGRAM: OnceCell<PathBuf> = OnceCell::const_new();
    PROGRAM.get_or_try_init(|| build("ipgc")).await.cloned()
}

/// Builds the binary of a package: cargo tells a package nothing about another package's binaries.
pub async fn build(package: &'static str) -> Result<PathBuf> {
    blocking(move || build_blocking(package)).await
}

/// The binary `ipgc` as the image has it: static, with the release profile.
pub async fn static_program() -> Result<PathBuf> {
    blocking(|| {
        let triple = format!("{}-unknown-linux-musl", env::consts::ARCH);
        let (_, target) = output_directory()?;
        let how = ["--package", "ipgc", "--release", "--target", &triple];
        cargo_build("ipgc", &how, &target)?;
        Ok(target.join(triple).join("release").join("ipgc"))
    })
    .await
}

fn build_blocking(package: &str) -> Result<PathBuf> {
    let (output, target) = output_directory()?;
    let profile = match output.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    // With an example of the workspace its dependencies have the features that they have in `cargo test --workspace`,
    // which has built all of it by now.
    let profile = format!("--profile={profile}");
    let how = ["--workspace", "--example=published", &profile];
    cargo_build(package, &how, &target)?;
    Ok(output.join(package))
}

/// Where this program was built, `<target>/<profile>`, and the target directory.
fn output_directory() -> Result<(PathBuf, PathBuf)> {
    // <target>/<profile>/<program>, or <target>/<profile>/deps/<test>-<hash>
    let program = env::current_exe()?;
    let mut places = program.ancestors().skip(1).peekable();
    places.next_if(|place| place.ends_with("deps"));
    if let (Some(output), Some(target)) = (places.next(), places.next()) {
        return Ok((output.to_owned(), target.to_owned()));
    }
    let why = format!("{} is in no target directory", program.display());
    Err(Error::Other(why))
}

fn cargo_build(binary: &str, how: &[&str], target: &Path) -> Result<()> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Cargo has set variables about this test's package. They are inputs of ring's build script: with other values,
    // ring and all that depends on it would be compiled again, here and in the next build by hand.
    for (name, _) in env::vars_os() {
        let known = name.to_string_lossy();
        if known.starts_with("CARGO_PKG_") || known.starts_with("CARGO_MANIFEST_") {
            command.env_remove(name);
        }
    }
    let built = command
        .args(["build", "--quiet", "--bin", binary])
        .args(how)
        .arg("--target-dir")
        .arg(target)
        .current_dir(workspace())
        .output()?;
    success(format!("cargo build --bin {binary}"), built).map(drop)
}

/// The objects of a kustomization of the workspace, as `kubectl kustomize` renders it.
pub fn rendered(kustomization: &str) -> Result<Vec<Value>> {
    let mut kubectl = Command::new(Tool::Kubectl.path_blocking()?);
    let path = workspace().join(kustomization);
    objects(&said(kubectl.arg("kustomize").arg(path))?)
}

/// The objects in this YAML.
pub fn objects(text: &str) -> Result<Vec<Value>> {
    let documents = serde_yaml::Deserializer::from_str(text);
    let mut objects: Vec<Value> = documents
        .map(Value::deserialize)
        .collect::<Result<_, _>>()?;
    objects.retain(|object| !object.is_null());
    Ok(objects)
}

/// `Kind namespace/name`, with `-` for objects without a namespace.
pub fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let metadata = &object["metadata"];
    let (namespace, name) = (text(&metadata["namespace"]), text(&metadata["name"]));
    format!("{} {namespace}/{name}", text(&object["kind"]))
}

/// Removes the variables that a person has set for clusters and logs: a test must not depend on them. The program
/// listens on no port unless the test sets one.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let ours = text.starts_with("IPGC_") || text.starts_with("KUBE");
        if ours || text == "WHEREABOUTS_NAMESPACE" || text == "RUST_LOG" {
            command.env_remove(name);
        }
    }
    // Many run at a time, and one port is for one of them.
    command.env("IPGC_LISTEN", "none");
    command
}

/// The way in of ipgc's own account, once the manifests that were applied give it all its rights.
pub async fn account(plane: &ControlPlane) -> Result<Access> {
    let account = plane.service_account(NAMESPACE, "ipgc").await?;
    let config = ipgc::config::Config {
        lease_namespace: Some(NAMESPACE.to_owned()),
        ..Default::default()
    };
    until_missing(&account, &config, &[]).await?;
    Ok(account)
}

/// Waits until the authorizer, which learns of new bindings by a watch, misses just these rights.
pub async fn until_missing(
    account: &Access,
    config: &ipgc::config::Config,
    rights: &[&str],
) -> Result<()> {
    let client = &account.client("rights").await?;
    let missing = || async move {
        let missing = ipgc::access::missing(client, config.rights()).await;
        Ok(missing.map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>()))
    };
    let what = "the bindings to count";
    let waited = wait::until_state(what, wait::PATIENCE, missing, |missing| {
        missing.as_ref().is_ok_and(|missing| missing == rights)
    });
    waited.await.map(drop)
}

/// `ipgc run` as a process of its own. It ends with the test.
#[derive(Debug)]
pub struct Ipgc(Process);

impl Ipgc {
    /// Starts it with this way in, these arguments, and these settings as `IPGC_<name>`. It is the only
    /// copy unless they say otherwise: many run side by side on one cluster.
    pub async fn start(
        cluster: &Cluster,
        access: &Access,
        args: &[&str],
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        Self::start_program(&program().await?, cluster, access, args, settings)
    }

    /// The same of a binary that was built elsewhere.
    pub fn start_program(
        program: &Path,
        cluster: &Cluster,
        access: &Access,
        args: &[&str],
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let place = cluster.dir().join(unique("ipgc"));
        let kubeconfig = place.with_extension("kubeconfig");
        access.write(&kubeconfig)?;
        let mut command = clean(tied(program));
        command.args(["run", "--kubeconfig"]).arg(kubeconfig);
        command.args(args);
        let alone = ("LEADER_ELECT", "false");
        for (name, value) in [&[alone], settings].concat() {
            command.env(format!("IPGC_{name}"), value);
        }
        let log = place.with_extension("log");
        Ok(Self(Process::start("ipgc", command, &log)?))
    }

    /// Its process, to look at what it costs.
    pub fn process(&self) -> &Process {
        &self.0
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        tail(self.0.log(), 100)
    }

    /// Waits for words in its log.
    pub async fn says(&self, words: &str) -> Result<()> {
        let what = format!("ipgc to say {words:?}");
        let log = || async {
            let log = self.log();
            // It may say it last.
            if !log.contains(words) {
                self.still_up()?;
            }
            Ok(log)
        };
        wait::until_state(&what, wait::PATIENCE, log, |log| log.contains(words)).await?;
        Ok(())
    }

    /// Waits until its caches are complete and its workers run. That it will serve `/readyz` it says before.
    pub async fn is_ready(&self) -> Result<()> {
        self.says("workers").await
    }

    /// An error with the end of its log, if it has ended by itself.
    pub fn still_up(&self) -> Result<()> {
        self.0.still_up()
    }

    /// SIGTERM, and SIGKILL after `patience`; how it ended, after how long, and the end of its log.
    pub async fn terminate(self, patience: Duration) -> Result<(ExitStatus, Duration, String)> {
        let asked = Instant::now();
        self.0.stop(patience).await?;
        let took = asked.elapsed();
        let status = self.0.exited()?.ok_or_else(|| {
            // `stop` waits for the end.
            Error::Other("ipgc was stopped and still runs".into())
        })?;
        Ok((status, took, self.log()))
    }
}
