//! Notices when the API server's data went back in time, by the versions of all lists (see
//! [`ipgc_core::history`]), and tells it.
//!
//! A watch that is taken up at a version of the future is told nothing, without an error. So whenever a watch
//! begins, a list is read after it.

use std::{
    sync::{OnceLock, Weak},
    time::Duration,
};

use ipgc_core::history::{Asked, Heard, Versions};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client, Resource,
    api::{ListParams, ObjectList, Request},
    core::request,
};
use serde::{Deserialize, de::DeserializeOwned};
use tokio::{sync::watch, time::sleep};
use tracing::{debug, warn};

use crate::{
    backoff::Backoff,
    calls::{CallError, PAGE, call, next_page},
};

type OnBack = Box<dyn Fn(&str) + Send + Sync>;
type Built = Result<http::Request<Vec<u8>>, request::Error>;

/// The versions of all lists of one run.
#[derive(Default)]
pub struct History {
    versions: watch::Sender<Versions>,
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
        is_first.then(|| self.versions.borrow().ask(&K::url_path(&(), None), None))
    }

    /// The page is there, and shows whether the data went back.
    pub fn hear(&self, asked: Option<&Asked>, page: &ListMeta) {
        let (Some(asked), Some(version)) = (asked, page.resource_version.as_deref()) else {
            return;
        };
        let mut heard = Heard::Forward;
        // The act comes before anybody is told.
        self.versions.send_if_modified(|versions| {
            heard = versions.hear(asked, version);
            false
        });
        if let Heard::Back(from, to) = heard {
            let note = format!(
                "the API server's data went back in time, from version {from} to {to}, as when etcd is restored \
                 from a backup: all that was known of pods and nodes is forgotten, as after a restart"
            );
            warn!("{note}");
            if let Some(act) = self.on_back.get() {
                act(&note);
            }
            self.versions.send_modify(|_| ());
        }
    }

    /// Reads all pages of a list, of all namespaces or of one, and gives its objects to `each`. `begin` makes the
    /// request for a page.
    ///
    /// # Errors
    /// When a page cannot be read. Some objects may have been given by then.
    pub async fn read<K: Resource<DynamicType = ()>, T: DeserializeOwned + Clone>(
        &self,
        client: &Client,
        namespace: Option<&str>,
        begin: fn(&Request, &ListParams) -> Built,
        mut each: impl FnMut(T),
    ) -> Result<(), CallError> {
        let list = Request::new(K::url_path(&(), namespace));
        let mut next = Some(ListParams::default().limit(PAGE));
        while let Some(params) = next {
            let asked = self.ask::<K>(&params);
            let request = begin(&list, &params).map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<T> = call(client.request(request)).await?;
            self.hear(asked.as_ref(), &page.metadata);
            next = next_page(&params, &page.metadata);
            page.items.into_iter().for_each(&mut each);
        }
        Ok(())
    }

    /// How often the data went back.
    pub fn epoch(&self) -> u64 {
        self.versions.borrow().epoch()
    }

    /// Tells whenever the data goes back.
    pub fn subscribe(&self) -> watch::Receiver<Versions> {
        self.versions.subscribe()
    }

    /// The version at which this request for a watch takes it up, if it does.
    pub fn ask_for_watch<B>(&self, watch: &http::Request<B>) -> Option<Asked> {
        let query = watch.uri().query()?;
        let mut parameters = query.split('&');
        let version = parameters.find_map(|it| it.strip_prefix("resourceVersion="))?;
        let version = version.parse().ok();
        Some(self.versions.borrow().ask(watch.uri().path(), version))
    }

    /// A watch of `path` has begun: looks whether the data went back since the version that it began at, until that
    /// can be told or the run has ended.
    pub async fn look(this: Weak<Self>, client: Client, path: String, asked: Asked) {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(30));
        while let Some(history) = this.upgrade() {
            let request = Request::new(&path);
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
