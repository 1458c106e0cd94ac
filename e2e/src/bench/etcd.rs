//! Objects put straight into etcd, through its JSON gateway, many at a time.
//!
//! The API server knows what it finds there by its content, and JSON is one of the forms that it reads.
//! Each object is a put of its own: several in one transaction would share a revision, which the server's
//! watch cache does not expect. Nothing here knows what an object means.

use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{Client, Config};
use serde_json::Value;
use tokio::time::sleep;

use super::raw;
use crate::{ControlPlane, Result, access::base64};

/// Puts in flight. More do not make etcd faster.
const CONCURRENCY: usize = 16;

/// The store of a control plane.
#[derive(Clone)]
pub struct Etcd(Client);

impl Etcd {
    /// The store of these servers.
    pub fn of(plane: &ControlPlane) -> Result<Self> {
        let url = plane.etcd_url();
        let url = url.parse()?;
        let mut config = Config::new(url);
        config.default_retry = false;
        let client = Client::try_from(config)?;
        Ok(Self(client))
    }

    /// Puts one object, once more if etcd is too busy to answer.
    pub async fn put(&self, key: &str, object: &Value) -> Result<()> {
        let key = base64(key.as_bytes());
        let value = base64(object.to_string().as_bytes());
        let body = format!(r#"{{"key":"{key}","value":"{value}"}}"#).into_bytes();
        if raw::post(&self.0, "/v3/kv/put", body.clone())
            .await
            .is_err()
        {
            sleep(Duration::from_secs(1)).await;
            raw::post(&self.0, "/v3/kv/put", body).await?;
        }
        Ok(())
    }

    /// Puts many, each as a key and an object, in any order. They are made as they are sent.
    pub async fn put_all(&self, objects: impl Iterator<Item = (String, Value)>) -> Result<()> {
        let puts = stream::iter(objects).map(|(key, object)| async move {
            // A literal async block: the object is dropped as soon as it is sent.
            self.put(&key, &object).await
        });
        puts.buffer_unordered(CONCURRENCY).try_collect::<()>().await
    }
}
