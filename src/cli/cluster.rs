//! Which cluster, and with whose rights: the flags, and the clients that come of them.

use std::{
    error::Error,
    io,
    path::PathBuf,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::{Request, Uri};
use hyper_util::{
    client::legacy::connect::{Connected, Connection, HttpConnector},
    rt::{TokioExecutor, TokioIo},
};
use kube::{
    Client,
    client::{Body, ClientBuilder, ConfigExt as _},
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::TcpStream,
    time::timeout,
};
use tower::{BoxError, ServiceExt, service_fn, util::option_layer};

use crate::calls;

/// hyper reads up to 400 kB at once where a server is quick, and keeps as much for each connection for as long as it
/// is open. It takes new memory for each read, and what is always of one size is found among what was given back.
const READ_AT_ONCE: usize = 16 * 1024;

/// Most bytes that one read of a socket takes: as many as a record of TLS can hold.
const READ_FROM_SOCKET: usize = 16 * 1024;

/// Longest until a connection is there, TLS included: no request waits longer.
const CONNECT: Duration = calls::DEADLINE;

/// Where the API server is, and which of its pools are looked at.
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

    /// Look for IPPools of the cluster in this namespace only; where it is not set, in the one that
    /// WHEREABOUTS_NAMESPACE names, or else in all
    #[arg(long, env = "IPGC_POOL_NAMESPACE", value_name = "NAMESPACE")]
    pool_namespace: Option<String>,
}

impl Args {
    /// One client for requests and one for watches.
    pub async fn clients(&self) -> Result<(Client, Client), String> {
        let config = self.config().await?;
        Ok((client(&config)?, client(&config)?))
    }

    /// One client for requests.
    pub async fn client(&self) -> Result<Client, String> {
        client(&self.config().await?)
    }

    /// The only namespace whose pools are looked at, if there is one.
    pub fn pool_namespace(&self) -> Option<String> {
        let given = self.pool_namespace.clone();
        let namespace = given.or_else(|| std::env::var("WHEREABOUTS_NAMESPACE").ok());
        namespace.filter(|namespace| !namespace.is_empty())
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
        let agent = http::HeaderValue::from_static(concat!("ipgc/", env!("CARGO_PKG_VERSION")));
        config.headers.push((http::header::USER_AGENT, agent));
        Ok(config)
    }
}

/// A client as kube makes them, but for what hyper reads at once, and without retries, which hide minutes: ours are
/// counted.
fn client(config: &kube::Config) -> Result<Client, String> {
    if let Some(proxy) = &config.proxy_url {
        let host = proxy.host().unwrap_or_default();
        return Err(format!(
            "the proxy {host} is configured, by the kubeconfig or HTTPS_PROXY, and none is supported"
        ));
    }
    let said = |error: kube::Error| error.to_string();
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    let connector = connector.map_response(|connection| {
        TokioIo::new(Buffered(BufReader::with_capacity(
            READ_FROM_SOCKET,
            connection.into_inner(),
        )))
    });
    let connector = config.rustls_https_connector_with_connector(connector);
    let connector = connector.map_err(said)?;
    // Others may get the connection that it was made for: then nobody else gives it up.
    let connect = service_fn(move |uri: Uri| {
        let connector = connector.clone();
        Box::pin(async move {
            let connected = timeout(CONNECT, connector.oneshot(uri)).await;
            connected.unwrap_or_else(|_| Err(BoxError::from("no connection in time")))
        })
    });
    let mut http = hyper_util::client::legacy::Builder::new(TokioExecutor::new());
    http.http1_read_buf_exact_size(READ_AT_ONCE);
    let http = http.build::<_, Body>(connect);
    let http = ServiceExt::<Request<Body>>::map_err(http, BoxError::from);
    Ok(ClientBuilder::new(http, &*config.default_namespace)
        .with_layer(&config.extra_headers_layer().map_err(said)?)
        .with_layer(&option_layer(config.auth_layer().map_err(said)?))
        .with_layer(&config.base_uri_layer())
        .build())
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

/// A connection that is read in large pieces: rustls asks for 4 kB at a time.
struct Buffered(BufReader<TcpStream>);

impl Connection for Buffered {
    fn connected(&self) -> Connected {
        self.0.get_ref().connected()
    }
}

impl AsyncRead for Buffered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl AsyncWrite for Buffered {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
