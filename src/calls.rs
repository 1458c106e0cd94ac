//! Every request that is not a watch: under a deadline, and with an answer that means something.
//!
//! kube's own retries are off (they hide minutes). Which requests are sent again, and how often: see [`patient`] and
//! [`asks_twice`].

use std::{future::Future, pin::pin, time::Duration};

use futures::future::select;
use http::{Method, Request, Response, StatusCode, header::RETRY_AFTER};
use hyper::body::{Body as HttpBody, Bytes};
use ipgc_core::patch::Answer;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client, Resource,
    api::ListParams,
    client::{Body, ClientBuilder},
};
use tokio::time::{sleep, timeout};
use tower::{BoxError, service_fn};

/// Deadline of one request: long enough for a page of a list from a busy server, short enough that no task is lost to a
/// hanging connection.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// Deadline of a write of a pool or a reservation. A write that hangs holds up those that were begun with it. One that the
/// server does later all the same is found by the next read. Longer than the ten seconds after which the API server by
/// default does not wait for a webhook any more.
pub const WRITE_DEADLINE: Duration = Duration::from_secs(15);

/// A GET whose answer takes longer is sent once more: its connection may be dead, or nearly so.
pub const SLOW: Duration = Duration::from_secs(5);

/// A GET that failed is sent again after that.
const PAUSE: Duration = Duration::from_millis(200);

/// Nobody waits longer than that because a server asks for it.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// A request is sent again where the server asks us to wait no longer than that, and so often.
const SHORT_WAIT: Duration = Duration::from_secs(2);
const TRIES: usize = 10;

/// How the API server begins to tell that a webhook, or an admission policy, refuses a request.
const DENIED: [&str; 2] = [" denied the request", " denied request: "];

/// Objects to a page of a list, where each may be some kilobytes.
pub const PAGE: u32 = 500;

/// Why a request gave nothing.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// No answer in time; whether the server did it is not known.
    #[error("no answer within {}s", .0.as_secs())]
    Deadline(Duration),
    /// The server refused, or the connection broke.
    #[error("{}", brief(.0))]
    Kube(#[from] kube::Error),
    /// An answer that cannot be read.
    #[error("answer cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// An answer that is none to what was asked.
    #[error("answer is not what was asked for: {0}")]
    Foreign(&'static str),
}

/// kube prints a refusal twice; the message alone says it.
fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => format!("{} ({})", status.message, status.code),
        other => with_causes(other),
    }
}

/// An error with all its causes. kube's own text of a broken connection ends where the reason
/// begins.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let reason = error.to_string();
        // Many print their cause themselves.
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        cause = error.source();
    }
    text
}

impl CallError {
    /// The meaning of the failure for the request.
    pub fn answer(&self) -> Answer {
        let Some(status) = self.status() else {
            return Answer::Unclear;
        };
        // A refusal that names fields says that the object itself is not to the server's liking.
        let details = status.details.as_ref();
        let names_fields = details.is_some_and(|details| !details.causes.is_empty());
        match Answer::of_code(status.code, names_fields) {
            // A refusal may be about our rights all the same.
            Answer::Forbidden => Answer::Forbidden,
            // A webhook chooses its code. These words before its own are the API server's.
            _ if DENIED.iter().any(|words| status.message.contains(words)) => Answer::Refused,
            answer => answer,
        }
    }

    /// How long the server asked us to wait, within reason.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = self.status()?.details.as_ref()?.retry_after_seconds;
        (seconds > 0).then(|| Duration::from_secs(seconds.into()).min(LONGEST_WAIT))
    }

    /// Whether somebody else wrote first.
    pub fn is_conflict(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409)
    }

    /// Whether the API server itself says that there is no such object. A bare 404 is no such word:
    /// whatever stands before the server answers so for what it does not know.
    pub fn is_absence_of<K: Resource<DynamicType = ()>>(&self, name: &str) -> bool {
        self.status().is_some_and(|status| {
            let details = status.details.as_ref();
            status.code == 404
                && status.reason == "NotFound"
                && details.is_some_and(|d| d.name == name && d.kind == K::plural(&()))
        })
    }

    fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Kube(kube::Error::Api(status)) => Some(status),
            _ => None,
        }
    }
}

/// What was read; `None` if the API server itself says that there is no such object.
pub fn unless_absent<K: Resource<DynamicType = ()>, T>(
    read: Result<T, CallError>,
    name: &str,
) -> Result<Option<T>, CallError> {
    match read {
        Err(error) if error.is_absence_of::<K>(name) => Ok(None),
        read => read.map(Some),
    }
}

/// A client in front of `client`: `send` answers each request, through that client or by itself.
pub fn via<F, B>(
    client: Client,
    send: impl Fn(Client, Request<Body>) -> F + Send + 'static,
) -> Client
where
    F: Future<Output = Result<Response<B>, BoxError>> + Send + 'static,
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let send = service_fn(move |request| send(client.clone(), request));
    ClientBuilder::new(send, namespace).build()
}

/// A client that sends a GET or a PATCH again where the API server was too busy to begin with it, and asks for it again
/// within seconds. A GET that failed is sent once more.
///
/// A list has hundreds of pages: without this, one answer of 429 in twenty would let none come to its end. A PATCH that
/// may have been done is not sent again, since the second answer would hide that. A DELETE must not begin long after its
/// proof.
pub fn patient(client: Client) -> Client {
    via(client, |client, request| async move {
        let mut may_fail = *request.method() == Method::GET;
        let is_repeatable = may_fail || *request.method() == Method::PATCH;
        let (parts, body) = request.into_parts();
        for _ in 1..TRIES {
            let Some(body) = body.try_clone().filter(|_| is_repeatable) else {
                break;
            };
            let answer = client.send(Request::from_parts(parts.clone(), body)).await;
            let has_failed = has_failed(&answer);
            let wait = match &answer {
                _ if has_failed && may_fail => Some(PAUSE),
                Ok(response) => short_wait(response),
                Err(_) => None,
            };
            let Some(wait) = wait else { return Ok(answer?) };
            may_fail &= !has_failed;
            sleep(wait).await;
        }
        Ok(client.send(Request::from_parts(parts, body)).await?)
    })
}

/// A client that sends a GET once more if the whole answer is not there after [`SLOW`]. The first answer counts, a failure
/// only if the other one fails as well.
///
/// Not for watches, which have no whole answer, and not for a person's network: where that is slow, the second answer
/// would take half of it.
pub fn asks_twice(client: Client) -> Client {
    via(client, |client, request| async move {
        if *request.method() != Method::GET {
            return Ok(client.send(request).await?);
        }
        let (parts, _) = request.into_parts();
        let ask = async || {
            let request = Request::from_parts(parts.clone(), Body::empty());
            let (head, body) = client.send(request).await?.into_parts();
            let body = body.collect_bytes().await?;
            Ok(Response::from_parts(head, Body::from(body)))
        };
        let mut first = pin!(ask());
        if let Ok(answer) = timeout(SLOW, first.as_mut()).await {
            return Ok(answer?);
        }
        let second = pin!(ask());
        let (answer, other) = select(first, second).await.factor_first();
        let is_busy = |it: &Response<_>| it.status() == StatusCode::TOO_MANY_REQUESTS;
        if has_failed(&answer) || answer.as_ref().is_ok_and(is_busy) {
            return Ok(other.await?);
        }
        Ok(answer?)
    })
}

/// Whether a request is a watch.
pub fn is_watch<B>(request: &Request<B>) -> bool {
    let query = request.uri().query().unwrap_or_default();
    query.split('&').any(|parameter| parameter == "watch=true")
}

/// Whether the API server could not do what was asked, or did not answer.
fn has_failed<B>(answer: &kube::Result<Response<B>>) -> bool {
    let is_failure = |it: &Response<_>| it.status().is_server_error();
    answer.as_ref().map_or(true, is_failure)
}

/// How long the server asks us to wait which was too busy, if that is short.
fn short_wait<B>(response: &Response<B>) -> Option<Duration> {
    if response.status() != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    let wait = Duration::from_secs(seconds.parse().ok()?);
    (wait <= SHORT_WAIT).then_some(wait)
}

/// Awaits one request under [`DEADLINE`].
pub async fn call<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    within(DEADLINE, request).await
}

/// Awaits one request under this deadline.
pub async fn within<T>(
    deadline: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match timeout(deadline, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(CallError::Deadline(deadline)),
    }
}

/// Awaits this, and holds the `permit` meanwhile, for so long at the most: what hangs must not hold up others.
pub async fn with_permit<T>(
    permit: impl Sized,
    longest: Duration,
    work: impl Future<Output = T>,
) -> T {
    let mut work = pin!(work);
    if let Ok(done) = timeout(longest, work.as_mut()).await {
        return done;
    }
    drop(permit);
    work.await
}

/// A request, or why it cannot be made.
pub type Built = Result<Request<Vec<u8>>, kube::core::request::Error>;

/// Sends one request, and reads the text of the answer: a read under [`DEADLINE`], a write under [`WRITE_DEADLINE`].
pub async fn text(client: &Client, request: Built) -> Result<String, CallError> {
    let request = request.map_err(kube::Error::BuildRequest)?;
    let deadline = if *request.method() == Method::GET {
        DEADLINE
    } else {
        WRITE_DEADLINE
    };
    within(deadline, client.request_text(request)).await
}

/// How many pages follow one with this metadata, at the least one. Every server since 1.15 tells how many
/// objects are left; of one that does not the list is read to its end.
pub fn pages_left(params: &ListParams, page: &ListMeta) -> usize {
    let objects = page.remaining_item_count.unwrap_or(0);
    let objects = usize::try_from(objects).unwrap_or(0);
    let size = params.limit.map_or(usize::MAX, |limit| limit as usize);
    objects / size.max(1) + 1
}

/// The parameters of the page after one with this metadata; `None` after the last page.
pub fn next_page(params: &ListParams, page: &ListMeta) -> Option<ListParams> {
    let token = page.continue_.as_deref()?;
    (!token.is_empty()).then(|| params.clone().continue_token(token))
}
