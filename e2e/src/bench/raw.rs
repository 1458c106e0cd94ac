//! Requests as bytes, so that a load driver need not parse every answer.

use std::fmt::Display;

use http::{
    Method, Request,
    header::{ACCEPT, CONTENT_TYPE},
};
use kube::{Client, Resource, client::Body, core::Status};
use serde_json::Value;

use crate::Result;

/// Asks for metadata in place of an object.
pub const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// Asks for objects as JSON.
pub const JSON: &str = "application/json";

/// The path of all objects of a kind in a namespace.
pub fn all<K: Resource<DynamicType = ()>>(namespace: &str) -> String {
    K::url_path(&(), Some(namespace))
}

/// The path of one of them.
pub fn one<K: Resource<DynamicType = ()>>(namespace: &str, name: impl Display) -> String {
    format!("{}/{name}", all::<K>(namespace))
}

/// Sends a request and returns the answer's text. A refusal is an error.
async fn send(
    client: &Client,
    method: Method,
    path: &str,
    content_type: &str,
    body: Vec<u8>,
) -> Result<String> {
    let request = request(method, path, JSON, content_type, body)?;
    Ok(client.request_text(request).await?)
}

fn request<B>(
    method: Method,
    path: &str,
    accept: &str,
    content_type: &str,
    body: B,
) -> Result<Request<B>> {
    Ok(Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, accept)
        .header(CONTENT_TYPE, content_type)
        .body(body)?)
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
    let accept = "application/vnd.kubernetes.protobuf";
    let request = request(method, path, accept, content_type, Body::from(body))?;
    let answer = client.send(request).await?;
    let code = answer.status().as_u16();
    // To its end, or the connection is of no use to the next request.
    answer.into_body().collect_bytes().await?;
    if code < 300 {
        return Ok(());
    }
    let status = Status::failure("a refusal in protobuf", "").with_code(code);
    Err(kube::Error::Api(status.boxed()).into())
}

/// GET.
pub async fn get(client: &Client, path: &str) -> Result<String> {
    send(client, Method::GET, path, JSON, Vec::new()).await
}

/// GET, and the JSON of the answer.
pub async fn read(client: &Client, path: &str) -> Result<Value> {
    Ok(serde_json::from_str(&get(client, path).await?)?)
}

/// POST, and the answer's text.
pub async fn post(client: &Client, path: &str, body: Vec<u8>) -> Result<String> {
    send(client, Method::POST, path, JSON, body).await
}

/// POST of an object, and the object as the server stored it.
pub async fn create(client: &Client, path: &str, object: &Value) -> Result<Value> {
    let body = object.to_string().into_bytes();
    Ok(serde_json::from_str(&post(client, path, body).await?)?)
}

/// PATCH of a kind such as `strategic-merge-patch`, and the answer's text.
pub async fn patch(client: &Client, path: &str, kind: &str, change: &Value) -> Result<String> {
    let kind = format!("application/{kind}+json");
    let body = change.to_string().into_bytes();
    send(client, Method::PATCH, path, &kind, body).await
}

/// The body of a DELETE at once.
pub const NOW: &[u8] =
    br#"{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions","gracePeriodSeconds":0}"#;

/// DELETE at once.
pub async fn delete(client: &Client, path: &str) -> Result<()> {
    send(client, Method::DELETE, path, JSON, NOW.to_vec()).await?;
    Ok(())
}
