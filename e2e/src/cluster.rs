//! A cluster as a scenario sees it: the servers that a test binary shares, or its own.

use std::{
    ffi::OsStr,
    fmt::Debug,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace as NamespaceObject;
use kube::{Api, Client, api::PostParams};
use rand::RngExt as _;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use crate::{
    Result,
    access::Access,
    audit::AuditLog,
    control_plane::{ADMIN, ControlPlane},
    ours::workspace,
    process::{success, within},
    tools::Tool,
};

/// kubectl answers in a tenth of a second, unless it is told to wait for something, for two minutes at the most.
const KUBECTL: Duration = Duration::from_secs(150);

/// A cluster and the way in.
#[derive(Clone)]
pub struct Cluster {
    access: Access,
    client: Client,
    dir: PathBuf,
    kubectl: PathBuf,
    audit: AuditLog,
}

/// A namespace of a test's own.
#[derive(Clone)]
pub struct Namespace {
    /// Its name.
    pub name: String,
    cluster: Cluster,
}

impl Cluster {
    /// The servers that this test binary shares.
    pub async fn get() -> Result<Self> {
        Self::of(ControlPlane::shared().await?).await
    }

    /// A control plane of the test's own, such as one that it will break.
    pub async fn of(plane: &ControlPlane) -> Result<Self> {
        Ok(Self {
            access: plane.access(ADMIN)?,
            client: plane.admin().await?,
            dir: plane.dir().to_owned(),
            kubectl: Tool::Kubectl.path().await?,
            audit: plane.audit(),
        })
    }

    /// A client with all rights.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The way in with all rights.
    pub fn access(&self) -> &Access {
        &self.access
    }

    /// A folder for files, removed after the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kubectl that tests use.
    pub fn kubectl_program(&self) -> &Path {
        &self.kubectl
    }

    /// The audit log.
    pub fn audit(&self) -> &AuditLog {
        &self.audit
    }

    /// A new client that is seen under a user agent of its own.
    pub async fn client_named(&self, user_agent: &str) -> Result<Client> {
        self.access.client(user_agent).await
    }

    /// Makes a namespace with a name that nobody else has.
    pub async fn namespace(&self, prefix: &str) -> Result<Namespace> {
        let name = unique(prefix);
        let all: Api<NamespaceObject> = Api::all(self.client.clone());
        create(&all, json!({"metadata": {"name": name}})).await?;
        Ok(self.existing(&name))
    }

    /// A namespace that is there already.
    pub fn existing(&self, name: &str) -> Namespace {
        Namespace {
            name: name.to_owned(),
            cluster: self.clone(),
        }
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
            .args(args);
        success("kubectl", within("kubectl", command, KUBECTL).await?)
    }

    /// Applies the manifests as people do. Returns what kubectl says.
    pub async fn apply_manifests(&self) -> Result<String> {
        let base = workspace().join("manifests/base");
        self.kubectl(["apply".as_ref(), "-k".as_ref(), base.as_os_str()])
            .await
    }
}

impl Namespace {
    /// The cluster it is in.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A client with all rights.
    pub fn client(&self) -> &Client {
        &self.cluster.client
    }

    /// A typed way to the objects of this namespace.
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
}

/// A name that nobody else has.
pub fn unique(prefix: &str) -> String {
    format!("{prefix}-{:08x}", rand::rng().random::<u32>())
}

/// Makes an object of its JSON.
pub async fn create<K>(api: &Api<K>, object: Value) -> Result<K>
where
    K: kube::Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    Ok(api
        .create(&PostParams::default(), &from_json(object)?)
        .await?)
}

/// An object of ours from its JSON.
pub(crate) fn from_json<T: DeserializeOwned>(value: Value) -> Result<T> {
    Ok(serde_json::from_value(value)?)
}
