//! Which cluster, and with whose rights: the flags, and the clients that come of them.

use std::{error::Error, path::PathBuf, time::Duration};

use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

use crate::calls;

/// The API server sends a bookmark on each watch about once a minute. A connection that says nothing for longer is dead.
const SILENCE: Duration = Duration::from_secs(90);

/// The API server, and the pools in it that are looked at.
#[derive(Clone, Debug, Default, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// Kubeconfig file; else what kubectl would use, or the pod's service account
    #[arg(long, env = "IPGC_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, env = "IPGC_CONTEXT", value_name = "NAME")]
    context: Option<String>,

    /// Look at the cluster's IPPools in this namespace only; else in the one that WHEREABOUTS_NAMESPACE names, or in
    /// all
    #[arg(long, env = "IPGC_POOL_NAMESPACE", value_name = "NAMESPACE")]
    pool_namespace: Option<String>,
}

impl Args {
    /// One client for requests and one for watches.
    pub async fn clients(&self) -> Result<(Client, Client), String> {
        let config = self.config().await?;
        let mut watching = config.clone();
        watching.read_timeout = Some(SILENCE);
        Ok((client(config)?, client(watching)?))
    }

    pub async fn client(&self) -> Result<Client, String> {
        client(self.config().await?)
    }

    /// The only namespace whose pools are looked at, if there is one.
    pub fn pool_namespace(&self) -> Option<String> {
        let given = self.pool_namespace.clone();
        let namespace = given.or_else(|| std::env::var("WHEREABOUTS_NAMESPACE").ok());
        namespace.filter(|namespace| !namespace.is_empty())
    }

    async fn config(&self) -> Result<kube::Config, String> {
        let mut config = self.load().await.map_err(|error| said(&*error))?;
        let agent = http::HeaderValue::from_static(concat!("ipgc/", env!("CARGO_PKG_VERSION")));
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(config)
    }

    async fn load(&self) -> Result<kube::Config, Box<dyn Error>> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        Ok(if let Some(path) = &self.kubeconfig {
            let file = Kubeconfig::read_from(path)?;
            kube::Config::from_custom_kubeconfig(file, &options).await?
        } else if self.context.is_some() {
            kube::Config::from_kubeconfig(&options).await?
        } else {
            kube::Config::infer().await?
        })
    }
}

/// A client as kube makes them, but for its retries, which hide minutes: ours are counted.
fn client(mut config: kube::Config) -> Result<Client, String> {
    if let Some(proxy) = &config.proxy_url {
        let host = proxy.host().unwrap_or_default();
        return Err(format!(
            "the proxy {host} is configured, by the kubeconfig or HTTPS_PROXY, and none is supported"
        ));
    }
    config.default_retry = false;
    // No request waits longer, so no connection is of use later, TLS included.
    config.connect_timeout = Some(calls::DEADLINE);
    Client::try_from(config).map_err(|error| error.to_string())
}

/// The fault of a configuration. The parser quotes lines of a file that is no YAML, and those lines may
/// hold a token.
fn said(error: &(dyn Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(KubeconfigError::Parse(error)) = error.downcast_ref() {
            return match error.location() {
                Some(at) => format!(
                    "the kubeconfig cannot be parsed: line {}, column {}",
                    at.line(),
                    at.column()
                ),
                None => "the kubeconfig cannot be parsed".to_owned(),
            };
        }
        cause = error.source();
    }
    error.to_string()
}
