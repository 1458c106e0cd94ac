//! Pods in protobuf, the form in which Kubernetes' own components read them.
//!
//! A pod is nine kilobytes of JSON, nearly all of it fields that decide nothing here, and who reads
//! JSON reads every letter. In protobuf the length of a field stands before it: the server writes
//! pods faster than JSON (and once for all who watch them so), and here what is of no interest is
//! stepped over.
//!
//! kube reads JSON. [`speak`] stands before it: asks for pods in protobuf, and gives kube the JSON of
//! the fields that [`super::LeanPod`] reads. An answer in JSON passes untouched. Should an answer be unreadable, that request fails, and all later ones ask for JSON.

mod answer;
mod messages;

use std::{
    error::Error,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures::TryStreamExt;
use http::{
    HeaderValue, Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use tokio::time::timeout;
use tokio_util::{
    bytes::{Bytes, BytesMut},
    codec::{Decoder, LengthDelimitedCodec},
};
use tower::service_fn;
use tracing::warn;

use self::{answer::Answer, messages::Unreadable};
use super::{freshness::HEAD_DEADLINE, is_of_pods, is_watch};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// Largest event of a watch, in bytes. etcd takes objects of a megabyte and a half.
const LARGEST_EVENT: usize = 16 << 20;

type AnyError = Box<dyn Error + Send + Sync>;
type AnyBody = UnsyncBoxBody<Bytes, AnyError>;

/// A client whose lists and watches of pods travel as protobuf.
#[must_use]
pub fn speak(client: Client) -> Client {
    let namespace = client.default_namespace().to_owned();
    let is_unreadable = Arc::new(AtomicBool::new(false));
    let send = service_fn(move |mut request: Request<Body>| {
        let (client, is_unreadable) = (client.clone(), Arc::clone(&is_unreadable));
        async move {
            let is_asked = is_of_pods(&request);
            if is_asked && !is_unreadable.load(Ordering::Relaxed) {
                let accept = "application/vnd.kubernetes.protobuf,application/json";
                let accept = HeaderValue::from_static(accept);
                request.headers_mut().insert(ACCEPT, accept);
            }
            let is_watch = is_watch(&request);
            let response = client.send(request).await?;
            match form_of(&response, is_watch) {
                Form::Other => Ok(response.map(|body| body.map_err(Into::into).boxed_unsync())),
                Form::Watch => Ok(as_json(response, |body| watch(body, is_unreadable))),
                Form::Whole => {
                    let (head, body) = response.into_parts();
                    let json = timeout(HEAD_DEADLINE, whole(body)).await?;
                    let json = json.inspect_err(|error| {
                        if let Some(error) = error.downcast_ref::<Unreadable>() {
                            give_up(&is_unreadable, error);
                        }
                    })?;
                    let body = Full::from(json)
                        .map_err(|never| match never {})
                        .boxed_unsync();
                    Ok::<_, AnyError>(as_json(Response::from_parts(head, body), |body| body))
                }
            }
        }
    });
    ClientBuilder::new(send, namespace).build()
}

/// All of a body, as JSON. Of its parts, which [`BodyExt::collect`] would hold until the end, each goes as soon as it
/// is copied, and the connection reads the next one into the same memory.
async fn whole(mut body: Body) -> Result<Vec<u8>, AnyError> {
    let mut answer = Answer::default();
    while let Some(frame) = body.frame().await {
        if let Ok(part) = frame?.into_data() {
            answer.push(&part)?;
        }
    }
    Ok(answer.finish()?)
}

enum Form {
    Whole,
    Watch,
    Other,
}

/// The parameter `stream=watch` is not asked for: there may be somebody between who drops it.
fn form_of<B>(response: &Response<B>, is_watch: bool) -> Form {
    let form = response.headers().get(CONTENT_TYPE);
    let is_protobuf = form.is_some_and(|form| form.as_bytes().starts_with(PROTOBUF.as_bytes()));
    match (is_protobuf, is_watch && response.status().is_success()) {
        (false, _) => Form::Other,
        (true, true) => Form::Watch,
        (true, false) => Form::Whole,
    }
}

fn as_json<B>(mut response: Response<B>, body: impl FnOnce(B) -> AnyBody) -> Response<AnyBody> {
    let headers = response.headers_mut();
    headers.remove(CONTENT_LENGTH);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.map(body)
}

/// The events of a watch, each of which stands behind its length.
fn watch(body: Body, is_unreadable: Arc<AtomicBool>) -> AnyBody {
    let mut frames = LengthDelimitedCodec::builder()
        .max_frame_length(LARGEST_EVENT)
        .new_codec();
    let mut bytes = BytesMut::new();
    let chunks = body.into_data_stream().map_err(AnyError::from);
    let lines = chunks.and_then(move |chunk| {
        bytes.extend_from_slice(&chunk);
        let mut lines = Vec::new();
        let mut read = || -> Result<(), AnyError> {
            while let Some(frame) = frames.decode(&mut bytes)? {
                messages::event_to_json(frame.freeze(), &mut lines)?;
                lines.push(b'\n');
            }
            Ok(())
        };
        let read = read().inspect_err(|error| give_up(&is_unreadable, &**error));
        std::future::ready(read.map(|()| http_body::Frame::data(lines.into())))
    });
    StreamBody::new(lines).boxed_unsync()
}

fn give_up(is_unreadable: &AtomicBool, error: &(dyn Error + 'static)) {
    warn!(error = %error, "pods in protobuf cannot be read, from now on they are read as JSON");
    is_unreadable.store(true, Ordering::Relaxed);
}
