//! The admin server: `/livez`, `/readyz` and `/metrics` over HTTP, for kubelets and Prometheus.
//!
//! The server answers GET and HEAD, one request to a connection, and reads nothing but the head of it. Everyone in
//! the cluster may reach it, so connections are bounded in number and in time. It reads the context of the run, and
//! changes nothing.

use std::{convert::Infallible, io, net::SocketAddr, sync::Arc, time::Duration};

use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::Full;
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::{sleep, timeout},
};
use tokio_util::{bytes::Bytes, task::AbortOnDropHandle};
use tracing::{debug, warn};

use crate::{collect::context::Context, metrics};

/// Connections at a time. Two probes and a few scrapers need a handful; each takes some 20 kB.
const CONNECTIONS: usize = 32;
/// Time for the head of a request. With as many slow clients as connections, a probe waits no longer than
/// that, which is less than the three times that a kubelet tries, ten seconds apart; hundreds of them are
/// what a `NetworkPolicy` is for.
const HEAD: Duration = Duration::from_secs(3);
/// Time for a connection as a whole: Prometheus waits ten seconds for a scrape.
const CONNECTION: Duration = Duration::from_secs(10);
/// Wait after the system refused to accept a connection: mostly there are too many open files.
const REFUSED: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";

/// An admin server. It ends when this is dropped.
#[derive(Debug)]
pub struct Admin {
    address: SocketAddr,
    _task: AbortOnDropHandle<()>,
}

impl Admin {
    /// Listens, and answers from now on.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub async fn start(address: SocketAddr, context: Arc<Context>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(serve(listener, context));
        Ok(Self {
            address,
            _task: AbortOnDropHandle::new(task),
        })
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn serve(listener: TcpListener, context: Arc<Context>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        // Connections that are not accepted yet wait in the system's queue. The listener is never closed.
        let Ok(place) = Arc::clone(&connections).acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                warn!(%error, "admin server: cannot accept a connection");
                sleep(REFUSED).await;
                continue;
            }
        };
        let context = Arc::clone(&context);
        tokio::spawn(async move {
            // Clients that break off, or talk something else, are no news.
            match timeout(CONNECTION, answer(stream, &context)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => debug!(%error, "admin server: connection failed"),
                Err(_) => debug!("admin server: connection took too long"),
            }
            drop(place);
        });
    }
}

async fn answer(stream: TcpStream, context: &Arc<Context>) -> hyper::Result<()> {
    let service = service_fn(|request: Request<_>| {
        let response = page(context, request.method(), request.uri().path());
        std::future::ready(Ok::<_, Infallible>(response))
    });
    http1::Builder::new()
        .keep_alive(false)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        // The least that hyper takes.
        .max_buf_size(8_192)
        .serve_connection(TokioIo::new(stream), service)
        .await
}

fn page(context: &Arc<Context>, method: &Method, path: &str) -> Response<Full<Bytes>> {
    let is_known = ["/livez", "/readyz", "/metrics"].contains(&path);
    if is_known && ![Method::GET, Method::HEAD].contains(method) {
        let text = "only GET and HEAD\n".to_owned();
        let mut refusal = response(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
        let allowed = HeaderValue::from_static("GET, HEAD");
        refusal.headers_mut().insert(ALLOW, allowed);
        return refusal;
    }
    let health = |missing: &str| match missing {
        "" => response(StatusCode::OK, TEXT, "ok\n".to_owned()),
        missing => response(
            StatusCode::SERVICE_UNAVAILABLE,
            TEXT,
            format!("{missing}\n"),
        ),
    };
    match path {
        "/livez" if context.is_alive() => health(""),
        "/livez" => health("the sweep has hung for five minutes"),
        "/readyz" => health(&context.not_ready().join("\n")),
        "/metrics" => response(
            StatusCode::OK,
            metrics::CONTENT_TYPE,
            metrics::text(context),
        ),
        _ => response(StatusCode::NOT_FOUND, TEXT, "not found\n".to_owned()),
    }
}

fn response(status: StatusCode, kind: &'static str, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
