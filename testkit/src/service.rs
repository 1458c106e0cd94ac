//! The way of a request: logged, put through the rules, authorised, done, answered.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::BodyExt;
use kube::client::Body;
use tower::{BoxError, Service};

use crate::body::{ResponseBody, broken_connection};
use crate::faults::{Action, RuleState};
use crate::handlers;
use crate::request::Request;
use crate::server::Server;
use crate::status::Failure;
use crate::{access, garble};

/// Largest request body: 3 MiB.
const BODY_LIMIT: usize = 3 * 1024 * 1024;

type Response = http::Response<ResponseBody>;

/// The server as an HTTP service, for one client.
#[derive(Clone, Debug)]
pub struct ApiService {
    server: Server,
    label: Arc<str>,
}

impl ApiService {
    pub(crate) fn new(server: Server, label: &str) -> Self {
        Self {
            server,
            label: label.into(),
        }
    }
}

impl Service<http::Request<Body>> for ApiService {
    type Response = Response;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        serve(self.server.clone(), Arc::clone(&self.label), request).boxed()
    }
}

async fn serve(
    server: Server,
    label: Arc<str>,
    request: http::Request<Body>,
) -> Result<Response, BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let mut request = Request::parse(&parts, body, label);
    server.inner.log.begin(&mut request);
    let number = request.number;
    let answer = run(server.clone(), request).await;
    let status = answer.as_ref().ok().map(|answer| answer.status().as_u16());
    server.inner.log.finish(number, status);
    answer
}

async fn run(server: Server, request: Request) -> Result<Response, BoxError> {
    let plan = server.inner.rules.plan(&request);
    let mut stale = None;
    for rule in &plan {
        match &rule.action {
            Action::Answer(failure) => return Ok(failure.clone().into_response()),
            Action::Disconnect => return Err(broken_connection()),
            Action::Hang => rule.removed.cancelled().await,
            Action::Delay(duration) => tokio::time::sleep(*duration).await,
            Action::Before(hook) => hook(server.clone()).await,
            Action::Stale(revision) => stale = Some(*revision),
            Action::Deny => {
                let refusal = access::refusal(&server, &request);
                return Ok(refusal.into_response());
            }
            Action::Late(duration) => {
                let duration = *duration;
                tokio::spawn(async move {
                    tokio::time::sleep(duration).await;
                    drop(perform(&server, &request, stale));
                });
                return Err(broken_connection());
            }
            _ => {}
        }
    }
    let answer = perform(&server, &request, stale);
    let answer = answer.unwrap_or_else(Failure::into_response);
    after(&server, &plan, answer).await
}

/// Does the request, with no rule in the way.
fn perform(server: &Server, request: &Request, stale: Option<u64>) -> Result<Response, Failure> {
    if request.body.len() > BODY_LIMIT {
        return Err(Failure::too_large(&format!("limit is {BODY_LIMIT}")));
    }
    handlers::dispatch(server, request, stale)
}

async fn after(
    server: &Server,
    plan: &[Arc<RuleState>],
    mut answer: Response,
) -> Result<Response, BoxError> {
    for rule in plan {
        match &rule.action {
            Action::After(hook) => hook(server.clone()).await,
            Action::ThenAnswer(failure) => answer = failure.clone().into_response(),
            Action::ThenDisconnect => return Err(broken_connection()),
            Action::ThenHang => rule.removed.cancelled().await,
            Action::Garble(how) => answer = garble::garble(answer, *how).await,
            _ => {}
        }
    }
    Ok(answer)
}
