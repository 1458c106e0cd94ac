//! The requests on reservations: get, list, patch, delete.
//!
//! Answers are read as text, so that one reservation that cannot be read never spoils a page, and
//! nothing is kept of them but what decides.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use ipgc_core::reservation::Reservation;
use kube::{
    Resource,
    api::{
        DeleteParams, GetParams, ListParams, ObjectList, Patch, PatchParams, Preconditions, Request,
    },
};
use serde_json::value::RawValue;

use super::context::Context;
use crate::{
    api,
    calls::{CallError, text, unless_absent},
};

/// Reservations to a page of a list: about half a kilobyte each.
const PAGE: u32 = 2_000;
/// The reservations of up to this many addresses are looked up by name, more by a LIST of the namespace.
const FEW: usize = 8;
/// Reads in flight at a time.
const CONCURRENCY: usize = 8;

/// Whether an error is the server's word that there is no such reservation.
pub fn is_absent(error: &CallError, name: &str) -> bool {
    error.is_absence_of::<api::Reservation>(name)
}

impl Context {
    /// Reservations by their names: a few one by one, more from a list of the namespace. Those that
    /// are not there, or cannot be read, are not among them.
    pub async fn reservations_named(
        &self,
        namespace: &str,
        names: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, Reservation>, CallError> {
        let mut found = BTreeMap::new();
        // An address of IPv6 has two names.
        if names.len() <= 2 * FEW {
            let reads: Vec<_> = names
                .iter()
                .map(|name| self.reservation(namespace, name))
                .collect();
            let mut reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
            while let Some(read) = reads.try_next().await? {
                found.extend(read.map(|reservation| (reservation.name.clone(), reservation)));
            }
            return Ok(found);
        }
        let find = |page: Vec<Reservation>| {
            let wanted = page.into_iter().filter(|it| names.contains(&it.name));
            found.extend(wanted.map(|it| (it.name.clone(), it)));
        };
        self.each_page_of_reservations(Some(namespace), find)
            .await?;
        Ok(found)
    }

    /// A reservation by its name; `None` where there is none that can be read.
    pub async fn reservation(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Reservation>, CallError> {
        let request = in_namespace(namespace).get(name, &GetParams::default());
        let read = text(&self.client, request).await;
        let there = unless_absent::<api::Reservation, _>(read, name)?;
        Ok(there.and_then(|text| Reservation::parse(&text).ok()))
    }

    /// Lists all reservations, or those in `namespace`, and gives each page of them to `each`. Those that cannot be read
    /// are left out. An error may come after some pages were given.
    pub async fn each_page_of_reservations(
        &self,
        namespace: Option<&str>,
        mut each: impl FnMut(Vec<Reservation>),
    ) -> Result<(), CallError> {
        let first = ListParams::default().limit(PAGE);
        let all = |page: ObjectList<Box<RawValue>>, _| {
            let items = page.items.iter();
            let reservations = items.filter_map(|item| Reservation::parse(item.get()).ok());
            each(reservations.collect());
            Ok(true)
        };
        self.history
            .pages::<api::Reservation, _>(&self.client, namespace, first, Request::list, all)
            .await?;
        Ok(())
    }

    /// Sends a JSON Patch. The reservation as it is then, if it can still be read.
    pub async fn patch_reservation(
        &self,
        reservation: &Reservation,
        patch: json_patch::Patch,
    ) -> Result<Option<Reservation>, CallError> {
        let patch = Patch::<()>::Json(patch);
        let request = in_namespace(&reservation.namespace);
        let request = request.patch(&reservation.name, &PatchParams::default(), &patch);
        let text = text(&self.client, request).await?;
        Ok(Reservation::parse(&text).ok())
    }

    /// Deletes it, if it is still the one that was read.
    pub async fn delete_reservation(&self, reservation: &Reservation) -> Result<(), CallError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(reservation.uid.clone()),
                resource_version: Some(reservation.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let request = in_namespace(&reservation.namespace).delete(&reservation.name, &params);
        text(&self.client, request).await.map(|_| ())
    }
}

fn in_namespace(namespace: &str) -> Request {
    Request::new(api::Reservation::url_path(&(), Some(namespace)))
}
