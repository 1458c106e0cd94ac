//! The client that ipgc gets: it writes down every request, and it lets nothing be written outside
//! of the demo's namespace.
//!
//! The limits of ipgc itself (`--pool-namespace`) would do. On somebody's cluster the demo does not
//! rely on them: a write that names another namespace, or none, never leaves this process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::{Method, Response};
use http_body_util::BodyExt;
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use serde::Deserialize;
use testkit::{Request, Verb};
use tower::{BoxError, service_fn};

/// All requests of ipgc, in their order.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Book>>);

#[derive(Debug, Default)]
struct Book {
    entries: Vec<Request>,
    refused: usize,
}

impl Ledger {
    /// A client that sends through `client`, writes down, and refuses writes outside of
    /// `namespace`.
    pub fn client(&self, client: Client, namespace: &str) -> Client {
        let inside = format!("/namespaces/{namespace}/");
        let ledger = self.clone();
        let send = service_fn(move |request: http::Request<Body>| {
            let (client, ledger) = (client.clone(), ledger.clone());
            let reads = request.method() == Method::GET;
            let allowed = reads || request.uri().path().contains(&inside);
            async move {
                if !allowed {
                    ledger.book().refused += 1;
                    let reason = "the demo lets ipgc write in its own namespace only";
                    return Err::<Response<Body>, BoxError>(reason.into());
                }
                ledger.send(client, request).await
            }
        });
        ClientBuilder::new(send, namespace).build()
    }

    async fn send(
        &self,
        client: Client,
        request: http::Request<Body>,
    ) -> Result<Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let entry = Request::parse(&parts, body.clone(), "ipgc".into());
        let request = http::Request::from_parts(parts, Body::from(body));
        let number = {
            let mut book = self.book();
            book.entries.push(entry);
            book.entries.len() - 1
        };
        let response = client.send(request).await?;
        self.book().entries[number].status = Some(response.status().as_u16());
        Ok(response)
    }

    /// How many requests there were so far.
    pub fn len(&self) -> usize {
        self.book().entries.len()
    }

    /// The requests since there were `mark` of them.
    pub fn since(&self, mark: usize) -> Vec<Request> {
        self.book().entries.get(mark..).unwrap_or_default().to_vec()
    }

    /// How many requests of each verb and resource there were.
    pub fn counts(&self) -> BTreeMap<(String, Verb), usize> {
        let mut counts = BTreeMap::new();
        for entry in &self.book().entries {
            *counts
                .entry((entry.resource.clone(), entry.verb))
                .or_default() += 1;
        }
        counts
    }

    /// How many writes were refused.
    pub fn refused(&self) -> usize {
        self.book().refused
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// On what terms a request writes: the operations of a JSON Patch, or the preconditions of a DELETE.
pub fn terms(request: &Request) -> String {
    match request.verb {
        Verb::Patch => operations(&request.body),
        Verb::Delete => preconditions(&request.body),
        _ => String::new(),
    }
}

/// `resource` or `resource/name`.
pub fn target(request: &Request) -> String {
    if request.name.is_empty() {
        return request.resource.clone();
    }
    format!("{}/{}", request.resource, request.name)
}

/// `test uid, row 2; remove row 2`: what the operations of a JSON Patch do.
fn operations(patch: &[u8]) -> String {
    #[derive(Deserialize)]
    struct Operation {
        op: String,
        path: String,
    }
    let operations: Vec<Operation> = serde_json::from_slice(patch).unwrap_or_default();
    let words: Vec<_> = operations
        .chunk_by(|a, b| a.op == b.op)
        .map(|same| {
            let mut targets: Vec<_> = same.iter().map(|o| part(&o.path)).collect();
            targets.dedup();
            format!("{} {}", same[0].op, targets.join(", "))
        })
        .collect();
    words.join("; ")
}

/// `row 2` for the row with that key, else the last part of the path.
fn part(path: &str) -> String {
    match path.split('/').collect::<Vec<_>>()[..] {
        ["", "spec", "allocations", key] => format!("row {key}"),
        ["", "metadata", "annotations", ..] => "annotation".to_owned(),
        [.., last] => last.to_owned(),
        [] => String::new(),
    }
}

/// `if uid, resourceVersion are the same`: what a DELETE asks for.
fn preconditions(options: &[u8]) -> String {
    #[derive(Default, Deserialize)]
    struct Options {
        #[serde(default)]
        preconditions: serde_json::Map<String, serde_json::Value>,
    }
    let options: Options = serde_json::from_slice(options).unwrap_or_default();
    let words: Vec<_> = options.preconditions.keys().map(String::as_str).collect();
    if words.is_empty() {
        return String::new();
    }
    format!("if {} are the same", words.join(", "))
}
