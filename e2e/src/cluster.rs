//! A cluster as a scenario sees it: the shared servers, or a foreign cluster.
//!
//! A foreign cluster is used only when `IPGC_E2E_FOREIGN=1` is set and `KUBECONFIG` names it. `KUBECONFIG`
//! alone is ignored: many people have it set to something that matters, and these tests write and delete.
//! There, namespaces of ours carry a label and are deleted when their handle is dropped; CRDs are
//! installed only where missing and stay (deleting one would delete other people's pools) until
//! `cargo run -p e2e -- clean`.

use std::{
    env,
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Stdio,
    sync::OnceLock,
    time::Duration,
};

use k8s_openapi::api::{
    core::v1::{Namespace as NamespaceObject, Node, ServiceAccount},
    events::v1::Event,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
};
use rand::RngExt as _;
use serde_json::json;
use tokio::process::Command;

use crate::{
    Error, Result,
    access::{Access, HARNESS_AGENT},
    audit::AuditLog,
    control_plane::{ADMIN, ControlPlane},
    crds::{self, LABEL},
    rundir::RunDir,
    tools::Tool,
    wait::{self, PATIENCE, Probe},
};

/// kubectl answers in a tenth of a second; this is for a server under load.
const KUBECTL: Duration = Duration::from_secs(45);

/// A cluster and the way in.
#[derive(Clone)]
pub struct Cluster {
    access: Access,
    client: Client,
    dir: PathBuf,
    kubectl: PathBuf,
    audit: Option<AuditLog>,
}

/// A namespace of a test's own.
pub struct Namespace {
    /// Its name.
    pub name: String,
    cluster: Cluster,
}

impl Cluster {
    /// The foreign cluster if the environment asks for one, else the servers that this test binary shares.
    pub async fn get() -> Result<Self> {
        if foreign() {
            Self::foreign().await
        } else {
            Self::of(ControlPlane::shared().await?).await
        }
    }

    /// A control plane of the test's own, such as one that it will break.
    pub async fn of(plane: &ControlPlane) -> Result<Self> {
        Ok(Self {
            access: plane.access(ADMIN)?,
            client: plane.admin().await?,
            dir: plane.dir().to_owned(),
            kubectl: Tool::Kubectl.path().await?,
            audit: Some(plane.audit()),
        })
    }

    async fn foreign() -> Result<Self> {
        static DIR: OnceLock<RunDir> = OnceLock::new();
        let dir = if let Some(dir) = DIR.get() {
            dir
        } else {
            let dir = RunDir::create()?;
            DIR.get_or_init(|| dir)
        };
        let access = Access::from_env()?;
        let client = access.client(HARNESS_AGENT).await?;
        crds::install(&client).await?;
        Ok(Self {
            access,
            client,
            dir: dir.path().to_owned(),
            kubectl: Tool::Kubectl.path().await?,
            audit: None,
        })
    }

    /// A client with all rights.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The way in with all rights.
    #[must_use]
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// A folder for files, removed after the run.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kubectl that tests use.
    #[must_use]
    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    /// Whether this is somebody else's cluster.
    #[must_use]
    pub fn is_foreign(&self) -> bool {
        self.audit.is_none()
    }

    /// The audit log, which only servers of ours have.
    pub fn audit(&self) -> Result<&AuditLog> {
        self.audit.as_ref().ok_or(Error::Foreign("the audit log"))
    }

    /// A new client that is seen under a user agent of its own.
    pub async fn client_named(&self, user_agent: &str) -> Result<Client> {
        self.access.client(user_agent).await
    }

    /// Makes a namespace with a name that nobody else has.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        let name = unique(prefix);
        let object: NamespaceObject = from_json(json!({
            "metadata": {"name": name, "labels": {LABEL: "true"}},
        }))?;
        Api::<NamespaceObject>::all(self.client.clone())
            .create(&PostParams::default(), &object)
            .await
            .map_err(Error::api(format!("create namespace {name}")))?;
        let namespace = Namespace {
            name,
            cluster: self.clone(),
        };
        if self.is_foreign() {
            namespace.service_account("default").await?;
        }
        Ok(namespace)
    }

    /// A namespace that is there already. Not in a foreign cluster, where dropping the handle deletes it.
    pub fn existing(&self, name: &str) -> Result<Namespace> {
        if self.is_foreign() {
            return Err(Error::Foreign("a namespace that somebody else made"));
        }
        Ok(Namespace {
            name: name.to_owned(),
            cluster: self.clone(),
        })
    }

    /// Makes a Node object with a unique name; nothing runs on it.
    pub async fn node(&self, prefix: &str) -> Result<String> {
        let name = unique(prefix);
        let node: Node = from_json(json!({
            "metadata": {"name": name, "labels": {LABEL: "true"}},
        }))?;
        Api::<Node>::all(self.client.clone())
            .create(&PostParams::default(), &node)
            .await
            .map_err(Error::api(format!("create node {name}")))?;
        Ok(name)
    }

    /// Runs the real kubectl and returns what it printed.
    pub async fn kubectl<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
    ) -> Result<String> {
        let kubeconfig = self.dir.join("kubectl.kubeconfig");
        if !kubeconfig.exists() {
            self.access.write(&kubeconfig)?;
        }
        let mut command = Command::new(&self.kubectl);
        command
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .arg("--cache-dir")
            .arg(self.dir.join("kubectl-cache"))
            .args(args)
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let answer = tokio::time::timeout(KUBECTL, command.output())
            .await
            .map_err(|_| Error::Deadline {
                what: "kubectl".into(),
                after: KUBECTL,
                state: "it still ran".into(),
            })?
            .map_err(Error::io("start kubectl"))?;
        if answer.status.success() {
            return Ok(String::from_utf8_lossy(&answer.stdout).into_owned());
        }
        Err(Error::Command {
            what: "kubectl".into(),
            status: answer.status.to_string(),
            output: String::from_utf8_lossy(&answer.stderr).into_owned(),
        })
    }
}

impl Namespace {
    /// The cluster it is in.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client with all rights.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.cluster.client
    }

    /// A typed way to the objects of this namespace.
    #[must_use]
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client().clone(), &self.name)
    }

    /// kubectl in this namespace.
    pub async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let place = ["--namespace", &self.name];
        self.cluster.kubectl(place.iter().chain(args)).await
    }

    /// Makes a service account, or waits for the one that the cluster makes.
    pub async fn service_account(&self, name: &str) -> Result<()> {
        let api: &Api<ServiceAccount> = &self.api();
        if !self.cluster.is_foreign() || name != "default" {
            let account = from_json(json!({"metadata": {"name": name}}))?;
            api.create(&PostParams::default(), &account)
                .await
                .map_err(Error::api(format!("create service account {name}")))?;
            return Ok(());
        }
        wait::until("the default service account", PATIENCE, || async move {
            let found = api
                .get_opt(name)
                .await
                .map_err(Error::api("get a service account"))?;
            Ok(found.map_or_else(|| Probe::NotYet("not there".into()), |_| Probe::Done(())))
        })
        .await
    }

    /// The events about objects of this namespace, oldest first.
    pub async fn events(&self) -> Result<Vec<Event>> {
        let mut events = self
            .api::<Event>()
            .list(&ListParams::default())
            .await
            .map_err(Error::api("list events"))?
            .items;
        events.sort_by_key(|event| event.metadata.creation_timestamp.clone().map(|time| time.0));
        Ok(events)
    }

    /// Deletes it, without waiting for the end. Our own servers end it only if they run the
    /// `namespace-controller`.
    pub async fn delete(&self) -> Result<()> {
        Api::<NamespaceObject>::all(self.client().clone())
            .delete(&self.name, &kube::api::DeleteParams::default())
            .await
            .map_err(Error::api(format!("delete namespace {}", self.name)))?;
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        if !self.cluster.is_foreign() {
            // It goes away with the servers.
            return;
        }
        let kubeconfig = self.cluster.dir.join("kubectl.kubeconfig");
        if kubeconfig.exists() || self.cluster.access.write(&kubeconfig).is_ok() {
            // Dropping cannot wait for a future; what fails here is found by `e2e clean`.
            std::process::Command::new(&self.cluster.kubectl)
                .arg("--kubeconfig")
                .arg(&kubeconfig)
                .args(["delete", "namespace", "--wait=false", &self.name])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .ok();
        }
    }
}

/// Removes from the foreign cluster whatever carries our label: namespaces, nodes, and the CRDs that were
/// missing before. Returns the names.
pub async fn clean() -> Result<Vec<String>> {
    if !foreign() {
        return Err(Error::Unsupported(
            "only a foreign cluster needs cleaning: set IPGC_E2E_FOREIGN=1 and KUBECONFIG".into(),
        ));
    }
    let client = Access::from_env()?.client(HARNESS_AGENT).await?;
    let mut gone = delete_labelled::<NamespaceObject>(&client).await?;
    gone.extend(delete_labelled::<Node>(&client).await?);
    gone.extend(
        delete_labelled::<
            k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
        >(&client)
        .await?,
    );
    Ok(gone)
}

async fn delete_labelled<K>(client: &Client) -> Result<Vec<String>>
where
    K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(client.clone());
    let kind = K::kind(&K::DynamicType::default()).into_owned();
    let found = api
        .list_metadata(&ListParams::default().labels(LABEL))
        .await
        .map_err(Error::api(format!("list {kind}")))?;
    let mut gone = Vec::new();
    for object in found {
        let name = object.name_any();
        api.delete(&name, &kube::api::DeleteParams::default())
            .await
            .map_err(Error::api(format!("delete {kind} {name}")))?;
        gone.push(format!("{kind} {name}"));
    }
    Ok(gone)
}

/// Whether the environment asks for a foreign cluster.
fn foreign() -> bool {
    env::var_os("IPGC_E2E_FOREIGN").is_some_and(|value| value == "1")
}

/// A name that nobody else has.
#[must_use]
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{:08x}", rand::rng().random::<u32>())
}

/// An object of ours from its JSON.
pub(crate) fn from_json<T: serde::de::DeserializeOwned>(value: serde_json::Value) -> Result<T> {
    serde_json::from_value(value).map_err(Error::malformed("an object of ours"))
}
