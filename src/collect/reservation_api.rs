//! The requests on reservations: find, get, list, patch, delete.

use std::collections::HashMap;

use ipgc_core::{address::reservation_names, reservation::Reservation};
use kube::{
    Api, Client,
    api::{
        ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions,
    },
};

use super::release::Wanted;
use crate::{
    api,
    calls::{CallError, PAGE, call, next_page},
};

/// Reads and writes reservations.
#[derive(Clone)]
pub struct ReservationApi(Client);

impl ReservationApi {
    /// Talks through `client`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self(client)
    }

    /// The reservations of these rows, looked up by every name that they may have.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn find_by_name<'w>(
        &self,
        namespace: &str,
        wanted: &'w [Wanted],
    ) -> Result<Vec<(Reservation, &'w Wanted)>, CallError> {
        let api = self.of(namespace);
        let mut found = Vec::new();
        for wanted in wanted {
            for network in &wanted.networks {
                for name in reservation_names(wanted.row.address, network.as_deref()) {
                    let object = match call(api.get(&name)).await {
                        Ok(object) => object,
                        Err(error) if Self::is_absent(&error, &name) => continue,
                        Err(error) => return Err(error),
                    };
                    if let Some(reservation) = read(&object)
                        && reservation.belongs_to(&wanted.row, network.as_deref())
                    {
                        found.push((reservation, wanted));
                    }
                }
            }
        }
        Ok(found)
    }

    /// The same, of many rows: from a list of the whole namespace.
    ///
    /// # Errors
    /// When a page cannot be read.
    pub async fn find_in_list<'w>(
        &self,
        namespace: &str,
        wanted: &'w [Wanted],
    ) -> Result<Vec<(Reservation, &'w Wanted)>, CallError> {
        let api = self.of(namespace);
        let mut by_owner = HashMap::<&str, Vec<&Wanted>>::new();
        for wanted in wanted {
            let owner = wanted.row.podref.as_str();
            by_owner.entry(owner).or_default().push(wanted);
        }
        let mut found = Vec::new();
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = call(api.list(&params)).await?;
            for reservation in page.items.iter().filter_map(read) {
                let owned = by_owner.get(reservation.owner()).into_iter().flatten();
                let matching = owned.copied().find(|wanted| {
                    let mut networks = wanted.networks.iter();
                    networks.any(|n| reservation.belongs_to(&wanted.row, n.as_deref()))
                });
                if let Some(wanted) = matching {
                    found.push((reservation, wanted));
                }
            }
            match next_page(&params, &page.metadata) {
                Some(next) => params = next,
                None => return Ok(found),
            }
        }
    }

    /// A reservation by its name; `None` where there is none that can be read.
    ///
    /// # Errors
    /// When the server does not say.
    pub async fn get(&self, namespace: &str, name: &str) -> Result<Option<Reservation>, CallError> {
        match call(self.of(namespace).get(name)).await {
            Ok(object) => Ok(read(&object)),
            Err(error) if Self::is_absent(&error, name) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// One page of all reservations, or of those in `namespace`; and the next page.
    ///
    /// # Errors
    /// When the page cannot be read.
    pub async fn page(
        &self,
        namespace: Option<&str>,
        params: &ListParams,
    ) -> Result<(Vec<(String, Reservation)>, Option<ListParams>), CallError> {
        let resource = ApiResource::erase::<api::Reservation>(&());
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => self.of(namespace),
            None => Api::all_with(self.0.clone(), &resource),
        };
        let page = call(api.list(params)).await?;
        let next = next_page(params, &page.metadata);
        let named = |object: DynamicObject| {
            let namespace = object.metadata.namespace.clone()?;
            Some((namespace, read(&object)?))
        };
        Ok((page.items.into_iter().filter_map(named).collect(), next))
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
        let params = PatchParams::default();
        let object = call(self.of(namespace).patch(name, &params, &patch)).await?;
        Ok(read(&object))
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
        call(self.of(namespace).delete(&reservation.name, &params))
            .await
            .map(|_| ())
    }

    /// Whether an error is the server's word that there is no such reservation.
    #[must_use]
    pub fn is_absent(error: &CallError, name: &str) -> bool {
        error.is_absence_of::<api::Reservation>(name)
    }

    fn of(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<api::Reservation>(&());
        Api::namespaced_with(self.0.clone(), namespace, &resource)
    }
}

fn read(object: &DynamicObject) -> Option<Reservation> {
    Reservation::read(&serde_json::to_value(object).ok()?)
}
