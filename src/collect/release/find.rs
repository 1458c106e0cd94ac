//! Which reservations belong to rows: those whose name says the address, and which say the same pod, or the same
//! sandbox where they say none.
//!
//! Reads only; what is found is as it was then.

use std::collections::HashMap;

use futures::{StreamExt, TryStreamExt, stream};
use ipgc_core::{address::reservation_names, reservation::Reservation, text::Text};

use super::{Releaser, Work, outcome::Outcomes};
use crate::{
    calls::CallError,
    collect::reservation_api::{FEW, ReservationApi},
};

/// Reads in flight at a time.
const CONCURRENCY: usize = 8;

impl Releaser {
    /// The reservations of the rows.
    pub(super) async fn find<'r>(
        &self,
        namespace: &str,
        works: &[Work<'r>],
        outcomes: &mut Outcomes,
    ) -> Vec<(Reservation, Work<'r>)> {
        let found = if works.len() <= FEW {
            self.find_by_name(namespace, works).await
        } else {
            self.find_in_list(namespace, works).await
        };
        found.unwrap_or_else(|error| {
            for work in works {
                outcomes.fail(*work, &error);
            }
            Vec::new()
        })
    }

    /// The reservations of these rows, looked up by every name that they may have.
    async fn find_by_name<'w>(
        &self,
        namespace: &str,
        wanted: &[Work<'w>],
    ) -> Result<Vec<(Reservation, Work<'w>)>, CallError> {
        let mut reads = Vec::new();
        for work in wanted {
            for network in &work.wanted.networks {
                for name in reservation_names(work.wanted.row.address, network.as_deref()) {
                    reads.push(async move {
                        let found = self.api.get(namespace, &name).await?;
                        let row = &work.wanted.row;
                        let found = found.filter(|it| it.belongs_to(row, network.as_deref()));
                        Ok::<_, CallError>(found.map(|reservation| (reservation, *work)))
                    });
                }
            }
        }
        let reads = stream::iter(reads).buffer_unordered(CONCURRENCY);
        reads
            .try_filter_map(async |found| Ok(found))
            .try_collect()
            .await
    }

    /// The same, of many rows: from a list of the whole namespace.
    async fn find_in_list<'w>(
        &self,
        namespace: &str,
        wanted: &[Work<'w>],
    ) -> Result<Vec<(Reservation, Work<'w>)>, CallError> {
        let mut by_owner = HashMap::<&str, Vec<Work<'w>>>::new();
        for work in wanted {
            let row = &work.wanted.row;
            for owner in [row.podref.as_str(), &row.sandbox] {
                by_owner.entry(owner).or_default().push(*work);
            }
        }
        let mut found = Vec::new();
        let mut page = Some(ReservationApi::first_page());
        while let Some(params) = page {
            let is_owned = |it: &Reservation<Text<'_>>| by_owner.contains_key(it.whose());
            let page_of = self.api.page(Some(namespace), &params, is_owned);
            let (reservations, next) = page_of.await?;
            for reservation in reservations {
                let owned = by_owner.get(reservation.whose()).into_iter().flatten();
                let matching = owned.copied().find(|work| {
                    let mut networks = work.wanted.networks.iter();
                    networks.any(|n| reservation.belongs_to(&work.wanted.row, n.as_deref()))
                });
                if let Some(work) = matching {
                    found.push((reservation, work));
                }
            }
            page = next;
        }
        Ok(found)
    }
}
