//! Which cluster, and with whose rights: the flags, and the clients that come of them.

use std::{error::Error, path::PathBuf};

use kube::{
    Client,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

/// Where the API server is.
#[derive(Clone, Debug, Default, clap::Args)]
// Else its group would have the name of the command's own.
#[group(skip)]
pub struct Args {
    /// Kubeconfig file; without it, what kubectl would use, or the pod's service account
    #[arg(long, env = "IPGC_KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, env = "IPGC_CONTEXT", value_name = "NAME")]
    context: Option<String>,
}

impl Args {
    /// One client for requests and one for watches.
    ///
    /// # Errors
    /// One line that says what is wrong with the configuration.
    pub async fn clients(&self) -> Result<(Client, Client), String> {
        let config = self.config().await?;
        let requests = Client::try_from(config.clone()).map_err(|error| error.to_string())?;
        let watches = Client::try_from(config).map_err(|error| error.to_string())?;
        Ok((requests, watches))
    }

    /// One client for requests.
    ///
    /// # Errors
    /// As [`Args::clients`].
    pub async fn client(&self) -> Result<Client, String> {
        let config = self.config().await?;
        Client::try_from(config).map_err(|error| error.to_string())
    }

    async fn config(&self) -> Result<kube::Config, String> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        let mut config = match &self.kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(|error| said(&error))?;
                kube::Config::from_custom_kubeconfig(file, &options)
                    .await
                    .map_err(|error| said(&error))?
            }
            None if self.context.is_some() => kube::Config::from_kubeconfig(&options)
                .await
                .map_err(|error| said(&error))?,
            None => kube::Config::infer().await.map_err(|error| said(&error))?,
        };
        // Its retries hide minutes, and ours are counted.
        config.default_retry = false;
        let agent = http::HeaderValue::from_static(concat!("ipgc/", env!("CARGO_PKG_VERSION")));
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(config)
    }
}

/// What is wrong with the configuration. Of a file that is no YAML the parser quotes lines, and those may
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

/// The only namespace whose pools are looked at, if there is one: what was `given`, or else what whereabouts goes by.
pub(super) fn pool_namespace(given: Option<&str>) -> Option<String> {
    let from_environment = || std::env::var("WHEREABOUTS_NAMESPACE").ok();
    let namespace = given.map(str::to_owned).or_else(from_environment);
    namespace.filter(|namespace| !namespace.is_empty())
}
