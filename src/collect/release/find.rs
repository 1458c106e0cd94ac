//! Which reservations belong to rows: those whose name says the address, and which say the same pod, or the same
//! sandbox where they say none.
//!
//! Reads only; what is found is as it was then.

use std::collections::HashMap;

use ipgc_core::{address::reservation_names, reservation::Reservation};

use super::{Releaser, Work, outcome::Left};
use crate::collect::{context::Context, gate::Access};

impl Releaser {
    /// The reservations of the rows, looked up by every name that they may have.
    ///
    /// # Errors
    /// They cannot be read: what becomes of the works.
    pub(super) async fn find<'r>(
        &self,
        context: &Context,
        namespace: &str,
        works: &[Work<'r>],
    ) -> Result<Vec<(Reservation, Work<'r>)>, Left> {
        let mut by_name = HashMap::<_, Vec<_>>::new();
        for work in works {
            for network in work.wanted.networks.iter() {
                for name in reservation_names(work.wanted.row.address, network.as_deref()) {
                    let of_name = by_name.entry(name).or_default();
                    of_name.push((*work, network.as_deref()));
                }
            }
        }
        let names = by_name.keys().cloned().collect();
        let found = self.api.named(namespace, &names).await;
        let found = found
            .map_err(|error| Left::after(context, Access::Read, "read reservations", &error))?;
        let mut own = Vec::new();
        for (name, reservation) in found {
            for (work, network) in by_name.remove(&name).unwrap_or_default() {
                if reservation.belongs_to(&work.wanted.row, network) {
                    own.push((reservation.clone(), work));
                }
            }
        }
        Ok(own)
    }
}
