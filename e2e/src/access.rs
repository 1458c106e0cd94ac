//! One way into a cluster: a kubeconfig with one context, and the clients made from it.
//!
//! Clients are made anew on each call, on purpose: a kube client belongs to the runtime on which it first
//! ran, and every `#[tokio::test]` has its own. None of them retries by itself ([`kube::Config`] would, for
//! minutes), so that a test sees what the server answered.

use std::{fs, path::Path, process::Command};

use http::header::{HeaderValue, USER_AGENT};
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{Error, Result, cluster::unique, ours::clean, process::tied};

/// The user agent of clients that were not given one.
pub const HARNESS_AGENT: &str = "ipgc-e2e";

/// The way in of one user, by a bearer token.
#[derive(Clone, Debug)]
pub struct Access {
    url: String,
    ca_pem: Vec<u8>,
    user: String,
    token: String,
    namespace: String,
}

/// Where a pod finds it. The process has its own mount namespace, so the tmpfs hides `/run` from it alone.
const MOUNT: &str = "mount -t tmpfs e2e /run
    mkdir -p /run/secrets/kubernetes.io
    cp -R \"$1\" /run/secrets/kubernetes.io/serviceaccount
    shift
    exec \"$@\"";

impl Access {
    /// Access by bearer token.
    pub fn with_token(url: &str, ca_pem: &[u8], user: &str, token: &str) -> Self {
        Self {
            url: url.to_owned(),
            ca_pem: ca_pem.to_vec(),
            user: user.to_owned(),
            token: token.to_owned(),
            namespace: "default".to_owned(),
        }
    }

    /// The same access with another default namespace.
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        namespace.clone_into(&mut self.namespace);
        self
    }

    /// The same access by way of another URL.
    pub fn by_way_of(mut self, url: &str) -> Self {
        url.clone_into(&mut self.url);
        self
    }

    fn kubeconfig(&self) -> Value {
        let (user, ca) = (&self.user, base64(&self.ca_pem));
        let context = json!({"cluster": "e2e", "user": user, "namespace": self.namespace});
        json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": {"server": self.url, "certificate-authority-data": ca}}],
            "users": [{"name": user, "user": {"token": self.token}}],
            "contexts": [{"name": "e2e", "context": context}],
            "current-context": "e2e",
        })
    }

    /// Writes it as a kubeconfig that only its owner can read.
    pub fn write(&self, path: &Path) -> Result<()> {
        // JSON is YAML, too.
        write_private(path, self.kubeconfig().to_string().as_bytes())
    }

    /// Writes it as the files that a pod finds in the folder of its service account.
    pub fn write_account(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder)?;
        write_private(&folder.join("ca.crt"), &self.ca_pem)?;
        write_private(&folder.join("token"), self.token.as_bytes())?;
        write_private(&folder.join("namespace"), self.namespace.as_bytes())
    }

    /// A command that finds the way in where a pod does, in a mount namespace of its own; `dir` is made for it.
    /// That takes root or user namespaces.
    pub fn in_pod(&self, dir: &Path, program: &Path) -> Result<Command> {
        let address = self.url.trim_start_matches("https://").rsplit_once(':');
        let (host, port) =
            address.ok_or_else(|| Error::Other(format!("{} has no port", self.url)))?;
        self.write_account(dir)?;
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
            .env("KUBERNETES_SERVICE_PORT", port);
        Ok(command)
    }

    /// The kube configuration, without hidden retries.
    pub async fn config(&self, user_agent: &str) -> Result<Config> {
        let kubeconfig: Kubeconfig = serde_json::from_value(self.kubeconfig())?;
        let mut config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
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
