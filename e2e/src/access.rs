//! One way into a cluster: a kubeconfig with one context, and the clients made from it.
//!
//! Clients are made anew on each call, on purpose: a kube client belongs to the runtime on which it first
//! ran, and every `#[tokio::test]` has its own. None of them retries by itself ([`kube::Config`] would, for
//! minutes), so that a test sees what the server answered.

use std::{fs, path::Path, process::Command};

use http::{
    Uri,
    header::{HeaderValue, USER_AGENT},
};
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;

use crate::{Error, Result, cluster::unique, ours::clean, process::tied};

/// The user agent of clients that were not given one.
pub const HARNESS_AGENT: &str = "ipgc-e2e";

/// A kubeconfig in memory.
#[derive(Clone, Debug)]
pub struct Access {
    kubeconfig: Kubeconfig,
    account: Account,
}

/// The access that a pod has by its service account.
#[derive(Clone, Debug)]
struct Account {
    url: String,
    ca_pem: Vec<u8>,
    token: String,
}

/// Where a pod finds it. The process has its own mount namespace, so the tmpfs hides `/run` from it alone.
const MOUNT: &str = "mount -t tmpfs e2e /run
    mkdir -p /run/secrets/kubernetes.io
    cp -R \"$1\" /run/secrets/kubernetes.io/serviceaccount
    shift
    exec \"$@\"";

impl Access {
    /// Access by bearer token.
    pub fn with_token(url: &str, ca_pem: &[u8], user: &str, token: &str) -> Result<Self> {
        let ca = base64(ca_pem);
        let kubeconfig = serde_json::from_value(json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": url, "certificate-authority-data": ca}}],
            "users": [{"name": user, "user": {"token": token}}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": user}}],
            "current-context": "e2e",
        }))?;
        let account = Account {
            url: url.to_owned(),
            ca_pem: ca_pem.to_vec(),
            token: token.to_owned(),
        };
        Ok(Self {
            kubeconfig,
            account,
        })
    }

    /// The same access with another default namespace.
    pub fn in_namespace(&self, namespace: &str) -> Result<Self> {
        let mut kubeconfig = self.kubeconfig.clone();
        let current = kubeconfig.current_context.clone().unwrap_or_default();
        let context = kubeconfig
            .contexts
            .iter_mut()
            .find(|context| context.name == current)
            .and_then(|named| named.context.as_mut())
            .ok_or_else(|| Error::Other(format!("a kubeconfig without its context {current:?}")))?;
        context.namespace = Some(namespace.to_owned());
        Ok(Self {
            kubeconfig,
            account: self.account.clone(),
        })
    }

    /// The same access by way of another URL.
    pub fn by_way_of(&self, url: &str) -> Result<Self> {
        Self::with_token(url, &self.account.ca_pem, "way", &self.account.token)
    }

    /// Writes it as a file that only its owner can read.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_yaml::to_string(&self.kubeconfig)?;
        write_private(path, text.as_bytes())
    }

    /// A command that finds the way in where a pod does, in a mount namespace of its own; `dir` is made for it.
    /// That takes root or user namespaces.
    pub fn in_pod(&self, dir: &Path, program: &Path) -> Result<Command> {
        let Account { url, ca_pem, token } = &self.account;
        let uri: Uri = url.parse()?;
        let (host, port) = (uri.host(), uri.port());
        let (host, port) = host
            .zip(port)
            .ok_or_else(|| Error::Other(format!("{url} has no host or no port")))?;
        fs::create_dir(dir)?;
        write_private(&dir.join("ca.crt"), ca_pem)?;
        write_private(&dir.join("token"), token.as_bytes())?;
        write_private(&dir.join("namespace"), b"default")?;
        let mut command = clean(tied("unshare"));
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command
            .args(["--mount", "sh", "-euc", MOUNT, "in-pod"])
            .args([dir, program]);
        command
            // Where no kubeconfig is.
            .env("HOME", dir)
            .env("KUBERNETES_SERVICE_HOST", host)
            .env("KUBERNETES_SERVICE_PORT", port.as_str());
        Ok(command)
    }

    /// The kube configuration, without hidden retries.
    pub async fn config(&self, user_agent: &str) -> Result<Config> {
        let mut config =
            Config::from_custom_kubeconfig(self.kubeconfig.clone(), &KubeConfigOptions::default())
                .await?;
        config.default_retry = false;
        let agent = HeaderValue::from_str(user_agent)?;
        config.headers.push((USER_AGENT, agent));
        Ok(config)
    }

    /// A new client that the audit log shows under `user_agent`.
    pub async fn client(&self, user_agent: &str) -> Result<Client> {
        let config = self.config(user_agent).await?;
        Ok(Client::try_from(config)?)
    }
}

/// Writes a file with mode 0600. A reader meanwhile gets all of the old content or all of the
/// new.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> Result<()> {
    use std::{io::Write as _, os::unix::fs::OpenOptionsExt as _};
    let fresh = path.with_extension(unique("new"));
    fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&fresh)?
        .write_all(content)?;
    Ok(fs::rename(&fresh, path)?)
}

/// Base64, padded, as Kubernetes has bytes in JSON.
pub(crate) fn base64(data: &[u8]) -> String {
    let text = serde_json::to_value(ByteString(data.to_owned())).unwrap_or_default();
    text.as_str().unwrap_or_default().to_owned()
}
