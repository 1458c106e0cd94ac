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
};
use serde::de::{DeserializeOwned, IgnoredAny};
use tokio::{sync::watch, time::sleep};
use tracing::{debug, warn};

use crate::{
    backoff::Backoff,
    calls::{Built, CallError, PAGE, call, next_page, pages_left},
};

type OnBack = Box<dyn Fn(&str) + Send + Sync>;

pub trait Page {
    /// Its version, and what follows it.
    fn metadata(&self) -> &ListMeta;
}

impl<T: Clone> Page for ObjectList<T> {
    fn metadata(&self) -> &ListMeta {
        &self.metadata
    }
}

/// The versions of all lists of one run.
#[derive(Default)]
pub struct History {
    versions: watch::Sender<Versions>,
    on_back: OnceLock<OnBack>,
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
                 from a backup: all that was known of pods and nodes is forgotten, as after a restart. Restart all \
                 kubelets, too: they may not hear which pods are gone"
            );
            warn!("{note}");
            if let Some(act) = self.on_back.get() {
                act(&note);
            }
            self.versions.send_modify(|_| ());
        }
    }

    /// Reads all pages of a list, of all namespaces or of one, and gives its objects to `each`. `begin` makes the
    /// request for a page. An error may come after some objects were given.
    pub async fn read<K: Resource<DynamicType = ()>, T: DeserializeOwned + Clone>(
        &self,
        client: &Client,
        namespace: Option<&str>,
        begin: fn(&Request, &ListParams) -> Built,
        mut each: impl FnMut(T),
    ) -> Result<(), CallError> {
        let first = ListParams::default().limit(PAGE);
        let all = |page: ObjectList<T>, _| {
            page.items.into_iter().for_each(&mut each);
            Ok(true)
        };
        let read = self.pages::<K, _>(client, namespace, first, begin, all);
        read.await.map(|_| ())
    }

    /// Reads the pages of a list from the first one on, as long as `each` says so, which is told how many are left. Whether
    /// all were read: all pages of one list are one revision, so what was in none of them did not exist then. An
    /// error, also one of `each`, may come after some pages were given.
    pub async fn pages<K: Resource<DynamicType = ()>, P: DeserializeOwned + Page>(
        &self,
        client: &Client,
        namespace: Option<&str>,
        first: ListParams,
        begin: impl Fn(&Request, &ListParams) -> Built,
        mut each: impl FnMut(P, usize) -> Result<bool, CallError>,
    ) -> Result<bool, CallError> {
        let list = Request::new(K::url_path(&(), namespace));
        let mut params = first;
        loop {
            let asked = self.ask::<K>(&params);
            let request = begin(&list, &params).map_err(kube::Error::BuildRequest)?;
            let page: P = call(client.request(request)).await?;
            self.hear(asked.as_ref(), page.metadata());
            let next = next_page(&params, page.metadata());
            let left = pages_left(&params, page.metadata());
            let goes_on = each(page, left)?;
            match next {
                None => return Ok(true),
                Some(_) if !goes_on => return Ok(false),
                Some(next) => params = next,
            }
        }
    }

    /// How often the data went back.
    pub fn epoch(&self) -> u64 {
        self.versions.borrow().epoch
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

    /// That watch has begun: the next one of its path is compared with a version that is no smaller.
    pub fn keep(&self, asked: &Asked) {
        self.versions.send_if_modified(|versions| {
            versions.keep(asked);
            false
        });
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
            match call(client.request::<ObjectList<IgnoredAny>>(request)).await {
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
