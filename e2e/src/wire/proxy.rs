//! A proxy on loopback before two API servers that share a store, as a load balancer stands before them: TLS on
//! both sides, HTTP/1.1, each request to either of them. It does to requests, answers and watches what [`Faults`]
//! tell. It changes nothing else, and asks nothing by itself.

use std::{
    future::pending,
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, header};
use http_body_util::{BodyExt as _, Full, combinators::UnsyncBoxBody};
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use kube::{Client, client::Body};
use rand::RngExt as _;
use tokio::{
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    },
};

use super::{
    bodies,
    faults::{Fault, Faults},
};
use crate::{ControlPlane, Result, control_plane::ADMIN};

/// The second API server's watches are so far behind: less than ipgc's cooldown.
const LAG: Duration = Duration::from_millis(700);

/// The part of all requests that the second API server gets.
const TO_THE_SECOND: f64 = 0.25;

/// An answer's body, and what breaks it.
pub type Answer = UnsyncBoxBody<Bytes, Broken>;
pub type Broken = Box<dyn std::error::Error + Send + Sync>;

/// The proxy. It ends when it is dropped.
pub struct Proxy {
    url: String,
    state: Arc<State>,
    task: JoinHandle<()>,
}

struct State {
    servers: [Client; 2],
    faults: Arc<Faults>,
    tls: TlsAcceptor,
    second: AtomicU64,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

impl Proxy {
    /// Before the API server of this control plane, and another one at this URL.
    pub async fn start(plane: &ControlPlane, second: &str) -> Result<Self> {
        let state = Arc::new(State {
            servers: [
                client(plane, &plane.url()).await?,
                client(plane, second).await?,
            ],
            faults: Arc::default(),
            tls: acceptor(plane)?,
            second: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            url: format!("https://{address}"),
            task: tokio::spawn(accept(Arc::clone(&state), listener)),
            state,
        })
    }

    /// Where it listens.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it does to requests.
    pub fn faults(&self) -> &Arc<Faults> {
        &self.state.faults
    }

    /// How many requests the second API server got.
    pub fn to_the_second(&self) -> u64 {
        self.state.second.load(Ordering::Relaxed)
    }

    /// How many connections are open, and how many were at the most.
    pub fn connections(&self) -> (usize, usize) {
        let read = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        (read(&self.state.open), read(&self.state.most_open))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A client that adds nothing to a request: it has the token of the program that sent it.
async fn client(plane: &ControlPlane, url: &str) -> Result<Client> {
    let mut config = plane.access_at(url, ADMIN)?.config("none").await?;
    config.auth_info = kube::config::AuthInfo::default();
    config.headers.clear();
    Ok(Client::try_from(config)?)
}

/// TLS with the API server's own certificate.
fn acceptor(plane: &ControlPlane) -> Result<TlsAcceptor> {
    let (certificate, key) = plane.certificate();
    let certificates: std::result::Result<Vec<_>, _> =
        CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let certificates = certificates?;
    let key = PrivateKeyDer::from_pem_file(key)?;
    let config = ServerConfig::builder_with_provider(ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            let config = config.with_no_client_auth();
            config.with_single_cert(certificates, key)
        });
    let config = config?;
    Ok(Arc::new(config).into())
}

async fn accept(state: Arc<State>, listener: TcpListener) {
    // They end with the proxy.
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((tcp, _)) = listener.accept() => {
                let open = state.open.fetch_add(1, Ordering::Relaxed) + 1;
                state.most_open.fetch_max(open, Ordering::Relaxed);
                let state = Arc::clone(&state);
                connections.spawn(async move {
                    // A connection that breaks is the client's to tell of.
                    serve(&state, tcp).await.ok();
                    state.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}

/// One connection.
async fn serve(state: &Arc<State>, tcp: TcpStream) -> std::result::Result<(), Broken> {
    tcp.set_nodelay(true)?;
    let tcp = tcp.into_std()?;
    // The same socket: by it the connection can be reset while hyper has it.
    let handle = Arc::new(TcpStream::from_std(tcp.try_clone()?)?);
    let tls = state.tls.accept(TcpStream::from_std(tcp)?).await?;
    let service = service_fn(|request| answer(state, &handle, request));
    let served = http1::Builder::new().serve_connection(TokioIo::new(tls), service);
    Ok(served.await?)
}

/// The client gets a reset when the connection is closed, as it is after this error.
pub fn reset(connection: &TcpStream) -> Broken {
    connection.set_zero_linger().ok();
    "reset".into()
}

async fn answer(
    state: &State,
    connection: &Arc<TcpStream>,
    request: Request<Incoming>,
) -> std::result::Result<Response<Answer>, Broken> {
    let query = request.uri().query().unwrap_or_default();
    let is_watch = query.split('&').any(|parameter| parameter == "watch=true");
    let faults = &state.faults;
    let fault = faults.of_request(is_watch);
    if let Some(fault) = fault {
        faults.count(fault);
    }
    match fault {
        Some(Fault::ResetUnsent) => return Err(reset(connection)),
        // Until the client gives up.
        Some(Fault::HalfOpenUnsent) => return pending().await,
        Some(Fault::Busy) => return Ok(busy()),
        Some(Fault::Down) => return Ok(down()),
        _ => {}
    }
    let is_for_second = rand::rng().random_bool(TO_THE_SECOND);
    if is_for_second {
        state.second.fetch_add(1, Ordering::Relaxed);
    }
    let (head, body) = request.into_parts();
    let body = Body::from(body.collect().await?.to_bytes());
    let server = &state.servers[usize::from(is_for_second)];
    let response = server.send(Request::from_parts(head, body)).await?;
    let is_watch = is_watch && response.status().is_success();
    Ok(match fault {
        Some(Fault::ResetUnanswered) => return Err(reset(connection)),
        Some(Fault::HalfOpenUnanswered) => return pending().await,
        Some(Fault::SlowBody) => response.map(|body| bodies::slow(body, Arc::clone(faults))),
        _ if is_watch => {
            let lag = if is_for_second { LAG } else { Duration::ZERO };
            let (faults, connection) = (Arc::clone(faults), Arc::clone(connection));
            response.map(|body| bodies::watch(body, lag, faults, connection))
        }
        _ => response.map(|body| body.map_err(Into::into).boxed_unsync()),
    })
}

/// Refused by the API server's priority and fairness, or by a part of it that is not ready yet.
fn busy() -> Response<Answer> {
    let (media, text) = if rand::rng().random() {
        let text = "Too many requests, please try again later.\n";
        ("text/plain; charset=utf-8", text)
    } else {
        let text = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#;
        ("application/json", text)
    };
    let mut response = refusal(429, media, text);
    let second = header::HeaderValue::from_static("1");
    response.headers_mut().insert(header::RETRY_AFTER, second);
    response
}

/// A load balancer that finds no API server.
fn down() -> Response<Answer> {
    refusal(503, "text/plain", "no healthy upstream")
}

fn refusal(code: u16, media: &'static str, text: &'static str) -> Response<Answer> {
    let body = Full::from(text).map_err(|never| match never {});
    let mut response = Response::new(body.boxed_unsync());
    // Both codes are valid.
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let media = header::HeaderValue::from_static(media);
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
