//! Notices when the API server's data went back in time, by the versions of all lists (see
//! [`ipgc_core::history`]), and tells it.
//!
//! A watch that is taken up at a version of the future is told nothing, without an error. So whenever a watch
//! begins, a list is read after it.

use std::{
    sync::{Mutex, OnceLock, Weak},
    time::Duration,
};

use http::Request;
use ipgc_core::history::{Asked, Heard, Versions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{Client, Resource, api::ListParams};
use serde::Deserialize;
use tokio::{sync::watch, time::sleep};
use tracing::{debug, warn};

use crate::{backoff::Backoff, calls::call, lock::lock};

type OnBack = Box<dyn Fn(&str) + Send + Sync>;

/// The versions of all lists of one run.
#[derive(Default)]
pub struct History {
    versions: Mutex<Versions>,
    epoch: watch::Sender<u64>,
    on_back: OnceLock<OnBack>,
}

/// A list of which the metadata is all that is read.
#[derive(Deserialize)]
struct Head {
    metadata: ListMeta,
}

impl History {
    /// Sets the act that comes before anything else when the data went back; the act is given a text that tells it.
    pub fn on_back(&self, act: impl Fn(&str) + Send + Sync + 'static) {
        // A run begins once.
        let _ = self.on_back.set(Box::new(act));
    }

    /// A page of a list is asked for. Only the first one tells: later ones are as old as that.
    pub fn ask<K: Resource<DynamicType = ()>>(&self, page: &ListParams) -> Option<Asked> {
        let is_first = page.continue_token.is_none();
        is_first.then(|| lock(&self.versions).ask(&K::url_path(&(), None), None))
    }

    /// The page is there. False where it was asked for before the data went back, or shows that it did.
    pub fn hear(&self, asked: Option<&Asked>, page: &ListMeta) -> bool {
        let (Some(asked), Some(version)) = (asked, page.resource_version.as_deref()) else {
            return true;
        };
        let heard = lock(&self.versions).hear(asked, version);
        if let Heard::Back(from, to) = heard {
            let note = format!(
                "the API server's data went back in time, from version {from} to {to}, as when etcd is restored \
                 from a backup: all that was known of pods and nodes is forgotten, as after a restart"
            );
            warn!("{note}");
            if let Some(act) = self.on_back.get() {
                act(&note);
            }
            self.epoch.send_modify(|epoch| *epoch += 1);
        }
        heard == Heard::Forward
    }

    /// How often the data went back.
    pub fn epoch(&self) -> u64 {
        lock(&self.versions).epoch()
    }

    /// Tells whenever the data goes back.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.epoch.subscribe()
    }

    /// The version at which this request for a watch takes it up, if it does.
    pub fn ask_for_watch<B>(&self, watch: &Request<B>) -> Option<Asked> {
        let query = watch.uri().query()?;
        let mut parameters = query.split('&');
        let version = parameters.find_map(|it| it.strip_prefix("resourceVersion="))?;
        let version = version.parse().ok();
        Some(lock(&self.versions).ask(watch.uri().path(), version))
    }

    /// A watch of `path` has begun: looks whether the data went back since the version that it began at, until that
    /// can be told or the run has ended.
    pub async fn look(this: Weak<Self>, client: Client, path: String, asked: Asked) {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        while let Some(history) = this.upgrade() {
            let request = kube::core::Request::new(&path);
            let Ok(request) = request.list_metadata(&ListParams::default().limit(1)) else {
                return;
            };
            match call(client.request::<Head>(request)).await {
                Ok(list) => {
                    history.hear(Some(&asked), &list.metadata);
                    return;
                }
                Err(error) => debug!(path, %error, "a watch began, and no list tells of when"),
            }
            drop(history);
            sleep(backoff.next_wait()).await;
        }
    }
}
