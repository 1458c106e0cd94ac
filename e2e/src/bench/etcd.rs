//! Objects put straight into etcd, through its JSON gateway, many at a time.
//!
//! The API server knows what it finds there by its content, and JSON is one of the forms that it reads.
//! Each object is a put of its own: several in one transaction would share a revision, which the server's
//! watch cache does not expect. Nothing here knows what an object means.

use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::ByteString;
use kube::{Client, Config};
use serde_json::json;

use super::raw;
use crate::{ControlPlane, Error, Result};

/// Puts in flight. More do not make etcd faster.
const CONCURRENCY: usize = 16;

/// The store of a control plane.
#[derive(Clone)]
pub struct Etcd(Client);

impl Etcd {
    /// The store of these servers.
    pub fn of(plane: &ControlPlane) -> Result<Self> {
        let url = plane.etcd_url();
        let url = url.parse().map_err(Error::malformed(url))?;
        let mut config = Config::new(url);
        config.default_retry = false;
        let client = Client::try_from(config).map_err(Error::api("make a client for etcd"))?;
        Ok(Self(client))
    }

    /// Puts one object.
    pub async fn put(&self, key: &str, object: &str) -> Result<()> {
        // In JSON they are base64.
        let bytes = |text: &str| ByteString(text.as_bytes().to_vec());
        let body = json!({"key": bytes(key), "value": bytes(object)});
        raw::post(&self.0, "/v3/kv/put", body.to_string().into_bytes()).await?;
        Ok(())
    }

    /// Puts many, each as a key and an object, in any order. They are made as they are sent.
    pub async fn put_all(&self, objects: impl Iterator<Item = (String, String)>) -> Result<()> {
        let puts = stream::iter(objects).map(|(key, object)| async move {
            // A literal async block: the object is dropped as soon as it is sent.
            self.put(&key, &object).await
        });
        puts.buffer_unordered(CONCURRENCY).try_collect::<()>().await
    }
}
