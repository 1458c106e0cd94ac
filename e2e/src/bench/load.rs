//! The kubelet's part in the end of pods, at full speed or at an even pace.
//!
//! For each pod: the status in which all containers have terminated, then the deletion without a grace
//! period. Both are what a kubelet writes last.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use tokio::sync::Semaphore;

use super::{population::Population, raw, template};
use crate::Result;

/// Connections of an even pace. On a server that cannot keep it, more of them would make it slower still.
const CONNECTIONS: usize = 64;

/// How often a request is tried again that a busy server could not serve, and after what time.
const TRIES: usize = 5;
const AGAIN: Duration = Duration::from_millis(500);

/// Ends pods.
#[derive(Clone)]
pub struct Kubelet {
    client: Client,
    ended: Arc<str>,
    slots: Arc<Semaphore>,
}

impl Kubelet {
    /// Through this client, which should bear a kubelet's user agent: it names the manager of the fields.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            ended: template::ended().to_string().into(),
            slots: Semaphore::new(CONNECTIONS).into(),
        }
    }

    /// The terminal phase.
    pub async fn finish(&self, population: &Population, pod: usize) -> Result<()> {
        let path = format!("{}/status?fieldManager=kubelet", path(population, pod));
        let how = "application/strategic-merge-patch+json";
        let ended = || self.ended.as_bytes().to_vec();
        persist(|| raw::tell(&self.client, Method::PATCH, &path, how, ended())).await
    }

    /// The deletion.
    pub async fn delete(&self, population: &Population, pod: usize) -> Result<()> {
        let path = path(population, pod);
        let (how, now) = ("application/json", raw::NOW);
        let deletion = || raw::tell(&self.client, Method::DELETE, &path, how, now.to_vec());
        let deleted = persist(deletion).await;
        match deleted {
            // An earlier try came through, and its answer did not.
            Err(error) if error.api_code() == Some(404) => Ok(()),
            deleted => deleted,
        }
    }

    /// Does it when a connection is free.
    pub async fn in_turn(&self, request: impl Future<Output = Result<()>>) -> Result<()> {
        let _turn = self.slots.acquire().await?;
        request.await
    }

    /// Ends these pods as fast as so many connections can. Returns when the last of them was gone.
    pub async fn end_all(
        &self,
        population: &Population,
        pods: impl Iterator<Item = usize>,
        connections: usize,
    ) -> Result<Instant> {
        let ends = stream::iter(pods).map(|pod| async move {
            self.finish(population, pod).await?;
            self.delete(population, pod).await
        });
        let ends = ends.buffer_unordered(connections);
        ends.try_collect::<()>().await?;
        Ok(Instant::now())
    }

    /// Ends these pods one after the other, `every` apart, each terminal for `lead` before it is deleted.
    /// Returns when the last of them was gone.
    pub async fn end_evenly(
        &self,
        population: &Population,
        pods: impl Iterator<Item = usize>,
        every: Duration,
        lead: Duration,
    ) -> Result<Instant> {
        let mut ticks = tokio::time::interval(every);
        let mut ends = tokio::task::JoinSet::new();
        for pod in pods {
            ticks.tick().await;
            let (kubelet, population) = (self.clone(), population.clone());
            ends.spawn(async move {
                kubelet.in_turn(kubelet.finish(&population, pod)).await?;
                tokio::time::sleep(lead).await;
                kubelet.in_turn(kubelet.delete(&population, pod)).await
            });
            // A failure is told now, not after a minute.
            while let Some(end) = ends.try_join_next() {
                end??;
            }
        }
        while let Some(end) = ends.join_next().await {
            end??;
        }
        Ok(Instant::now())
    }
}

/// Tries again while the server is too busy or gives no answer, as a kubelet does.
pub async fn persist<F: Future<Output = Result<()>>>(request: impl Fn() -> F) -> Result<()> {
    for _ in 0..TRIES {
        match request().await {
            Err(error) if matches!(error.api_code(), None | Some(429 | 500 | 503 | 504)) => {
                tokio::time::sleep(AGAIN).await;
            }
            done => return done,
        }
    }
    request().await
}

fn path(population: &Population, pod: usize) -> String {
    let (namespace, name) = (&population.namespace, population.pod(pod));
    raw::one::<Pod>(namespace, name)
}
