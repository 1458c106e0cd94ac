//! One way into a cluster: a kubeconfig with one context, and the clients made from it.
//!
//! Clients are made anew on each call, on purpose: a kube client belongs to the runtime on which it first
//! ran, and every `#[tokio::test]` has its own. None of them retries by itself ([`kube::Config`] would, for
//! minutes), so that a test sees what the server answered.

use std::{fs, path::Path};

use http::header::{HeaderValue, USER_AGENT};
use k8s_openapi::ByteString;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

use crate::{Result, cluster::unique};

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
