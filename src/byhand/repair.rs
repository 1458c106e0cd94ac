//! Reservations that rows of live pods lack: which, and how one is made.
//!
//! Without it, another range of the same network may give the address away. It is made only while the row is
//! as it was seen and its pod, read after the row, reports the address; and taken back if the row went meanwhile.

use std::net::IpAddr;

use ipgc_core::{
    address::reservation_names, patch::Answer, pool::RowContent, proof::Presence,
    reservation::Reservation,
};

use super::{NotDone, Pick, Subject, Writer, report::pick, row_of};
use crate::{
    audit::{
        assess::Assessor,
        pods::is_going,
        report::{Finding, Problem, Report},
    },
    core::evidence::Policy,
    snapshot::Snapshot,
};

/// A reservation that a row lacks.
#[derive(Clone, Debug)]
pub struct Missing {
    /// The row.
    pub row: Pick,
    /// The network in which it is reserved.
    pub network: Option<Box<str>>,
}

impl Missing {
    /// The name that whereabouts would give the reservation.
    pub fn name(&self) -> Option<String> {
        let IpAddr::V6(address) = self.row.address else {
            return Some(self.names().remove(0));
        };
        // Whereabouts writes the short form, and no object can have a name that begins with a dash.
        let is_possible = self.network.is_some() || !address.to_string().starts_with(':');
        is_possible.then(|| self.names().remove(0))
    }

    fn names(&self) -> Vec<String> {
        reservation_names(self.row.address, self.network.as_deref())
    }
}

/// The missing reservations of a report that can be made, and the findings about those that another pod has.
pub fn missing<'r>(snapshot: &Snapshot, report: &'r Report) -> (Vec<Missing>, Vec<&'r Finding>) {
    let policy = Policy::default();
    let assessor = Assessor::new(snapshot, &policy);
    let (mut missing, mut others) = (Vec::new(), Vec::new());
    let all = report.findings.iter();
    for finding in all.filter(|finding| finding.problem == Problem::ReservationMissing) {
        let made = (|| {
            let row = pick(finding, false).ok()?;
            let mut places = assessor.index.pools.iter();
            let place = places.find(|place| place.key == row.pool)?;
            // Of a node's slice the name of the pool tells the node as well, and the reservation does not.
            let by_length = |network: &&Option<Box<str>>| network.as_ref().map_or(0, |it| it.len());
            let network = place.networks.iter().min_by_key(by_length)?.clone();
            let is_nobodys = finding.reservation.is_none();
            is_nobodys.then_some(Missing { row, network })
        })();
        match made {
            Some(made) => missing.push(made),
            None => others.push(finding),
        }
    }
    (missing, others)
}

fn exists(name: &str) -> NotDone {
    NotDone::Kept(format!("there is reservation {name} by now"))
}

fn unsure(name: &str, error: &dyn std::error::Error) -> NotDone {
    NotDone::Kept(format!(
        "reservation {name} was made, and its row may be gone: {error}"
    ))
}

impl Writer {
    /// Makes a reservation, and says its name. With `dry_run` nothing is sent that changes anything.
    ///
    /// # Errors
    /// Why not.
    pub async fn make(&self, missing: &Missing, dry_run: bool) -> Result<String, NotDone> {
        let name = missing.name();
        let name =
            name.ok_or_else(|| NotDone::Kept("its reservation can have no name".to_owned()))?;
        let row = self.row(missing).await?.ok_or(NotDone::Gone)?;
        let namespace = &missing.row.pool.namespace;
        // The pod of the row is there by now.
        let asked = [(row.podref.clone(), true)].into();
        let (_, mut presence) = self.prover.presence(&asked).await;
        match presence.remove(&row.podref) {
            Some(Presence::Present(Some(pod)))
                if pod.status.has_address(row.address) && !is_going(&pod) => {}
            Some(Presence::Unknown(reason)) => {
                return Err(NotDone::Kept(format!(
                    "its pod could not be read: {reason}"
                )));
            }
            _ => {
                return Err(NotDone::Kept(
                    "its pod does not report the address any more".to_owned(),
                ));
            }
        }
        let names = missing.names().into_iter().collect();
        let found = self.reservations.named(namespace, &names).await?;
        if let Some((name, found)) = found.into_iter().next() {
            return if found.is_of(&row) {
                Ok(name)
            } else {
                Err(exists(&name))
            };
        }
        if dry_run {
            return Ok(name);
        }
        let made = match self.reservations.create(namespace, &name, &row).await {
            Err(error) if error.is_conflict() => return Err(exists(&name)),
            Err(error) if error.answer() == Answer::Unclear => {
                // The reservation may be there all the same.
                let found = self.reservations.get(namespace, &name).await?;
                let is_ours = |found: &Reservation| found.is_of(&row);
                Some(found.filter(is_ours).ok_or(error)?)
            }
            made => made?,
        };
        // A DEL that came in between has looked for it already.
        let is_needed = match self.row(missing).await {
            Ok(row) => row.is_some(),
            Err(error) => return Err(unsure(&name, &error)),
        };
        match made {
            Some(made) if !is_needed => {
                let back = self.reservations.delete(namespace, &made).await;
                back.map_err(|error| unsure(&name, &error))?;
                Err(NotDone::Gone)
            }
            _ => Ok(name),
        }
    }

    /// The row, if it is there as it was.
    async fn row(&self, missing: &Missing) -> Result<Option<RowContent>, NotDone> {
        let Pick {
            pool,
            subject,
            podref,
            ..
        } = &missing.row;
        let Subject::Row {
            pool_uid,
            key,
            stored,
        } = subject
        else {
            return Ok(None);
        };
        let podrefs = [podref.clone()].into();
        let observed = self.observe(pool, pool_uid, &podrefs).await?;
        let there = observed.as_ref().and_then(|it| row_of(it, key, stored));
        Ok(there.and_then(|row| row.content().ok()).cloned())
    }
}
