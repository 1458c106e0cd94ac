//! The requests on reservations: get, list, patch, delete.
//!
//! Answers are read as text, so that one reservation that cannot be read never spoils a page, and
//! nothing is kept of them but what decides.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::{StreamExt, TryStreamExt, stream};
use ipgc_core::reservation::Reservation;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client, Resource,
    api::{DeleteParams, GetParams, ListParams, Patch, PatchParams, Preconditions, Request},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{
    api,
    calls::{CallError, next_page, text},
    history::History,
};

/// Reservations to a page of a list: about half a kilobyte each.
const PAGE: u32 = 2_000;
/// The reservations of up to this many addresses are looked up by name, more by a LIST of the namespace.
pub const FEW: usize = 8;
/// Reads in flight at a time.
const CONCURRENCY: usize = 8;

/// Reads and writes reservations.
#[derive(Clone)]
pub struct ReservationApi(Client, Arc<History>);

#[derive(Deserialize)]
struct RawPage<'a> {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(borrow)]
    items: Vec<&'a RawValue>,
}

impl ReservationApi {
    /// Talks through `client`.
    pub fn new(client: Client, history: Arc<History>) -> Self {
        Self(client, history)
    }

    /// Reservations by their names: a few one by one, more from a list of the namespace. Those that
    /// are not there, or cannot be read, are not among them.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn named(
        &self,
        namespace: &str,
        names: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Reservation>, CallError> {
        let mut found = BTreeMap::new();
        // An address of IPv6 has two names.
        if names.len() <= 2 * FEW {
            let reads: Vec<_> = names.iter().map(|name| self.get(namespace, name)).collect();
            let mut reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
            while let Some(read) = reads.try_next().await? {
                found.extend(read.map(|reservation| (reservation.name.clone(), reservation)));
            }
            return Ok(found);
        }
        let mut page = Some(Self::first_page());
        while let Some(params) = page {
            let wanted = |it: &Reservation| names.contains(&it.name);
            let (reservations, next) = self.page(Some(namespace), &params, wanted).await?;
            found.extend(reservations.into_iter().map(|it| (it.name.clone(), it)));
            page = next;
        }
        Ok(found)
    }

    /// A reservation by its name; `None` where there is none that can be read.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Reservation>, CallError> {
        let request = of(Some(namespace)).get(name, &GetParams::default());
        match self.text(request).await {
            Ok(text) => Ok(Reservation::parse(&text).ok()),
            Err(error) if Self::is_absent(&error, name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The parameters of the first page.
    pub fn first_page() -> ListParams {
        ListParams::default().limit(PAGE)
    }

    /// The `wanted` reservations of one page, of all or of those in `namespace`; and the next page.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub async fn page(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
        wanted: impl FnMut(&Reservation) -> bool,
    ) -> Result<(Vec<Reservation>, Option<ListParams>), CallError> {
        let asked = self.1.ask::<api::Reservation>(params);
        let text = self.text(of(namespace).list(params)).await?;
        let page: RawPage = serde_json::from_str(&text)?;
        self.1.hear(asked.as_ref(), &page.metadata);
        let items = page.items.into_iter();
        let reservations = items.filter_map(|item| Reservation::parse(item.get()).ok());
        let wanted = reservations.filter(wanted).collect();
        Ok((wanted, next_page(params, &page.metadata)))
    }

    /// Sends a JSON Patch. The reservation as it is then, if it can still be read.
    ///
    /// # Errors
    /// When the server did not say that it was done.
    pub async fn patch(
        &self,
        namespace: &str,
        name: &str,
        patch: json_patch::Patch,
    ) -> Result<Option<Reservation>, CallError> {
        let patch = Patch::<()>::Json(patch);
        let request = of(Some(namespace)).patch(name, &PatchParams::default(), &patch);
        let text = self.text(request).await?;
        Ok(Reservation::parse(&text).ok())
    }

    /// Deletes it, if it is still the one that was read.
    ///
    /// # Errors
    /// When the server did not say that it was done.
    pub async fn delete(
        &self,
        namespace: &str,
        reservation: &Reservation,
    ) -> Result<(), CallError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(reservation.uid.clone()),
                resource_version: Some(reservation.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let request = of(Some(namespace)).delete(&reservation.name, &params);
        self.text(request).await.map(|_| ())
    }

    /// Whether an error is the server's word that there is no such reservation.
    pub fn is_absent(error: &CallError, name: &str) -> bool {
        error.is_absence_of::<api::Reservation>(name)
    }

    async fn text(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, CallError> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        text(&self.0, request).await
    }
}

fn of(namespace: Option<&str>) -> Request {
    Request::new(api::Reservation::url_path(&(), namespace))
}
