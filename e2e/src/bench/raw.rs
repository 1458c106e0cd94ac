//! Requests as bytes: what a load driver sends must not cost it the parsing of every answer.

use http::{Method, Request, header::CONTENT_TYPE};
use kube::Client;
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

/// DELETE at once.
pub async fn delete(client: &Client, path: &str) -> Result<()> {
    const NOW: &[u8] =
        br#"{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions","gracePeriodSeconds":0}"#;
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
