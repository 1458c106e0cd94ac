//! A real cluster: the checks before anything is made, the demo's namespace, and its removal.
//!
//! The demo makes one namespace of its own and, only if told to, CRDs that are missing. Its pods are
//! bound to a node that does not exist: no kubelet ever sees them, no image is pulled, no taint
//! applies. The pod garbage collector would remove such pods after about a minute; the story takes
//! a few seconds. For the same reason nobody would ever confirm their graceful deletion, so
//! [`Cluster::clean_up`] removes them by force before the namespace goes.

use std::{path::PathBuf, time::Duration};

use ipgc::api::{CRD_FILES, NetworkAttachmentDefinition};
use k8s_openapi::{
    api::core::v1::{Namespace, Pod, ServiceAccount},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, ResourceExt,
    api::{DeleteParams, ListParams, PostParams, Preconditions},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::{
    failure::{Failure, brief, is_status},
    stage::Stage,
};

/// Marks the namespace as this run's; its value is different in each run.
const LABEL: &str = "ipgc.dev/demo";
/// Longest wait for a new CRD to be served.
const CRD_WAIT: Duration = Duration::from_secs(20);
/// Longest wait for the namespace to be gone.
const REMOVAL_WAIT: Duration = Duration::from_secs(45);
/// Deadline of one request where nothing else bounds it.
const DEADLINE: Duration = Duration::from_secs(20);

/// Which cluster, and what the demo may do there.
#[derive(Debug, clap::Args)]
pub struct Place {
    /// Play on the cluster of this kubeconfig instead of the embedded API server
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig; its current one if not set
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    context: Option<String>,

    /// Install the CRDs that are missing (IPPool and its kin, NetworkAttachmentDefinition); they
    /// stay there afterwards
    #[arg(long, requires = "kubeconfig")]
    install_crds: bool,
}

/// A cluster that the demo was let into.
pub struct Cluster {
    client: Client,
    namespace: String,
    token: String,
    /// CRDs that this run installed.
    pub installed: Vec<String>,
}

impl Cluster {
    /// Looks whether the story can be played, and makes nothing but missing CRDs if told to.
    pub async fn open(args: &Place, file: &PathBuf) -> Result<(Self, Stage), Failure> {
        let config = config(args, file).await?;
        let url = config.cluster_url.to_string();
        let client = Client::try_from(config.clone()).map_err(setup("use the kubeconfig"))?;
        let ipgc = || Client::try_from(config.clone()).map_err(setup("use the kubeconfig"));
        let ipgc = (ipgc()?, ipgc()?);

        let version = deadline(client.apiserver_version()).await?;
        let version = version.map_err(setup("reach the API server"))?;
        let installed = require_crds(&client, args.install_crds).await?;
        may_watch::<Pod>(&client, "pods").await?;
        may_watch::<NetworkAttachmentDefinition>(&client, "network-attachment-definitions").await?;

        let namespace = format!("ipgc-demo-{:06x}", rand::random::<u32>() >> 8);
        let server = format!("{} ({})", url.trim_end_matches('/'), version.git_version);
        let stage = Stage::new(server, namespace.clone(), client.clone(), ipgc);
        let cluster = Self {
            client,
            namespace,
            token: format!("{:016x}", rand::random::<u64>()),
            installed,
        };
        Ok((cluster, stage))
    }

    /// Makes the demo's namespace. Not to be interrupted: whether it was made must be known.
    pub async fn make_namespace(&self) -> Result<(), Failure> {
        let name = &self.namespace;
        let namespace = from_json(json!({
            "metadata": { "name": name, "labels": { LABEL: self.token } },
        }))?;
        let made = deadline(self.namespaces().create(&PostParams::default(), &namespace)).await?;
        made.map_err(setup(&format!("create namespace {name}")))?;
        // A controller makes it too, but pods are refused until it has.
        let account = from_json(json!({ "metadata": { "name": "default" } }))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), name);
        match deadline(accounts.create(&PostParams::default(), &account)).await? {
            Err(error) if !is_status(&error, 409) => {
                Err(setup("create the default service account")(error))
            }
            _ => Ok(()),
        }
    }

    /// Removes the namespace with everything in it. Returns what is left to say.
    pub async fn clean_up(&self) -> String {
        let name = &self.namespace;
        let by_hand = format!("remove it with: kubectl delete namespace {name}");
        let end = Instant::now() + REMOVAL_WAIT;
        let mut asked = false;
        loop {
            match self.remove(asked).await {
                Ok(false) => return format!("namespace {name} is removed"),
                Ok(true) => asked = true,
                Err(Failure::Story(reason)) => return reason,
                Err(error) if Instant::now() > end => return format!("{error}; {by_hand}"),
                Err(_) => {}
            }
            if Instant::now() > end {
                return format!("namespace {name} is still on its way out, the cluster goes on");
            }
            sleep(Duration::from_millis(300)).await;
        }
    }

    /// One step of the removal; whether the namespace is still there.
    async fn remove(&self, asked: bool) -> Result<bool, Failure> {
        let name = &self.namespace;
        let read = deadline(self.namespaces().get_opt(name)).await?;
        let Some(namespace) = read.map_err(Failure::api("read the namespace"))? else {
            return Ok(false);
        };
        if namespace.labels().get(LABEL) != Some(&self.token) {
            return Err(Failure::Story(format!(
                "namespace {name} is not the demo's and stays"
            )));
        }
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), name);
        let all = deadline(pods.list(&ListParams::default())).await?;
        for pod in all.map_err(Failure::api("list pods"))? {
            let removed = deadline(pods.delete(&pod.name_any(), &now(pod.uid()))).await?;
            gone_is_fine(removed.map(drop)).map_err(Failure::api("delete a pod"))?;
        }
        if !asked {
            let params = DeleteParams {
                grace_period_seconds: None,
                ..now(namespace.uid())
            };
            let removed = deadline(self.namespaces().delete(name, &params)).await?;
            gone_is_fine(removed.map(drop)).map_err(Failure::api("delete the namespace"))?;
        }
        Ok(true)
    }

    fn namespaces(&self) -> Api<Namespace> {
        Api::all(self.client.clone())
    }
}

/// At once, and this object only.
pub fn now(uid: Option<String>) -> DeleteParams {
    DeleteParams {
        grace_period_seconds: Some(0),
        preconditions: Some(Preconditions {
            uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    }
}

fn gone_is_fine(answer: Result<(), kube::Error>) -> Result<(), kube::Error> {
    match answer {
        Err(error) if is_status(&error, 404) => Ok(()),
        other => other,
    }
}

async fn config(args: &Place, file: &PathBuf) -> Result<Config, Failure> {
    let kubeconfig = Kubeconfig::read_from(file);
    let kubeconfig = kubeconfig.map_err(|error| Failure::Setup(error.to_string()))?;
    let options = KubeConfigOptions {
        context: args.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config
        .map_err(|error| Failure::Setup(format!("cannot use {}: {error}", file.display())))?;
    // Its retries hide minutes; ipgc switches them off for the same reason.
    config.default_retry = false;
    let agent = http::HeaderValue::from_static(concat!("ipgc-demo/", env!("CARGO_PKG_VERSION")));
    config.headers.push((http::header::USER_AGENT, agent));
    Ok(config)
}

/// Every kind that the story needs is served, or is installed and then served. Returns what was
/// installed. A CRD that is there is never changed.
async fn require_crds(client: &Client, install: bool) -> Result<Vec<String>, Failure> {
    let missing = missing(client).await?;
    if missing.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<_> = missing.iter().map(ResourceExt::name_any).collect();
    if !install {
        return Err(Failure::Setup(format!(
            "the cluster lacks these CRDs: {}; install whereabouts and multus, or add --install-crds",
            names.join(", ")
        )));
    }
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for crd in &missing {
        let made = deadline(api.create(&PostParams::default(), crd)).await?;
        made.map_err(setup(&format!("create CRD {}", crd.name_any())))?;
    }
    let end = Instant::now() + CRD_WAIT;
    while !self::missing(client).await?.is_empty() {
        if Instant::now() > end {
            return Err(Failure::Setup("the new CRDs are not served".to_owned()));
        }
        sleep(Duration::from_millis(200)).await;
    }
    Ok(names)
}

/// Those of our CRDs whose kinds the server does not serve.
async fn missing(client: &Client) -> Result<Vec<CustomResourceDefinition>, Failure> {
    let mut missing = Vec::new();
    for (name, text) in CRD_FILES {
        let crd = serde_yaml::from_str::<CustomResourceDefinition>(text);
        let crd = crd.map_err(|error| Failure::Setup(format!("{name}: {error}")))?;
        let Some(version) = crd.spec.versions.first() else {
            continue;
        };
        let version = format!("{}/{}", crd.spec.group, version.name);
        let served = match deadline(client.list_api_group_resources(&version)).await? {
            Ok(list) => list.resources,
            Err(error) if is_status(&error, 404) => Vec::new(),
            Err(error) => return Err(setup("ask what the API server serves")(error)),
        };
        if !served.iter().any(|kind| kind.name == crd.spec.names.plural) {
            missing.push(crd);
        }
    }
    Ok(missing)
}

/// ipgc cannot begin without this right; better one line now than a wait for nothing.
async fn may_watch<K>(client: &Client, what: &str) -> Result<(), Failure>
where
    K: kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let api: Api<K> = Api::all(client.clone());
    let page = deadline(api.list_metadata(&ListParams::default().limit(1))).await?;
    page.map_err(setup(&format!("list {what} in all namespaces")))?;
    Ok(())
}

async fn deadline<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<Result<T, kube::Error>, Failure> {
    let late = |_| Failure::Setup(format!("no answer within {}s", DEADLINE.as_secs()));
    tokio::time::timeout(DEADLINE, request).await.map_err(late)
}

fn setup(what: &str) -> impl FnOnce(kube::Error) -> Failure {
    move |error| Failure::Setup(format!("cannot {what}: {}", brief(&error)))
}

/// A typed object of a literal.
pub fn from_json<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, Failure> {
    serde_json::from_value(value).map_err(|error| Failure::Story(format!("bad object: {error}")))
}
