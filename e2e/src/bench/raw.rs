//! Requests as bytes: what a load driver sends must not cost it the parsing of every answer.

use http::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use kube::{Client, client::Body, core::Status};
use serde_json::Value;

use crate::{Error, Result};

/// Sends a request and returns the answer's text. A refusal is an error.
pub async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
) -> Result<String> {
    let what = format!("{method} {path}");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, content_type)
        .body(body)
        .map_err(Error::malformed(&*what))?;
    client.request_text(request).await.map_err(Error::api(what))
}

/// Sends a change and does not look at the answer but for its status. As a kubelet it takes answers in
/// protobuf, which cost the server less.
pub async fn tell(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
) -> Result<()> {
    let what = format!("{method} {path}");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(CONTENT_TYPE, content_type)
        .header(ACCEPT, "application/vnd.kubernetes.protobuf")
        .body(Body::from(body))
        .map_err(Error::malformed(&*what))?;
    let answer = client.send(request).await;
    let answer = answer.map_err(Error::api(&*what))?;
    let code = answer.status().as_u16();
    // To its end, or the connection is of no use to the next request.
    let rest = answer.into_body().collect_bytes().await;
    rest.map_err(Error::api(&*what))?;
    if code < 300 {
        return Ok(());
    }
    let status = Status::failure("a refusal in protobuf", "").with_code(code);
    Err(Error::api(what)(kube::Error::Api(status.boxed())))
}

/// GET.
pub async fn get(client: &Client, path: &str) -> Result<String> {
    send(client, Method::GET, path, "application/json", Vec::new()).await
}

/// POST of an object, and the object as the server stored it.
pub async fn create(client: &Client, path: &str, object: &Value) -> Result<Value> {
    let body = object.to_string().into_bytes();
    let text = send(client, Method::POST, path, "application/json", body).await?;
    parse(path, &text)
}

/// PATCH of a kind such as `strategic-merge-patch`, and the answer's text.
pub async fn patch(client: &Client, path: &str, kind: &str, change: &Value) -> Result<String> {
    let kind = format!("application/{kind}+json");
    let body = change.to_string().into_bytes();
    send(client, Method::PATCH, path, &kind, body).await
}

/// JSON patch that is answered with the object's metadata.
pub async fn patch_for_metadata(client: &Client, path: &str, change: &Value) -> Result<()> {
    let body = serde_json::to_vec(change).map_err(Error::malformed(path))?;
    let request = Request::patch(path)
        .header(CONTENT_TYPE, "application/json-patch+json")
        .header(
            ACCEPT,
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        )
        .body(body)
        .map_err(Error::malformed(path))?;
    let answer = client.request_text(request).await;
    answer.map_err(Error::api(path)).map(drop)
}

/// The body of a DELETE at once.
pub const NOW: &[u8] =
    br#"{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions","gracePeriodSeconds":0}"#;

/// DELETE at once.
pub async fn delete(client: &Client, path: &str) -> Result<()> {
    send(
        client,
        Method::DELETE,
        path,
        "application/json",
        NOW.to_vec(),
    )
    .await?;
    Ok(())
}

/// JSON from an answer.
pub fn parse(what: &str, text: &str) -> Result<Value> {
    serde_json::from_str(text).map_err(Error::malformed(what))
}
