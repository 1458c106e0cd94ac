//! The objects in the API server, read anew each time, as tables.

use std::collections::BTreeMap;

use ipgc::api::{IpPool, Reservation};
use jiff::Timestamp;
use k8s_openapi::api::{core::v1::Pod, events::v1::Event};
use kube::{ResourceExt, api::ListParams};

use crate::{
    failure::Failure,
    play::{self, Row},
    print::{Cell, Table, Tone},
    stage::Stage,
};

/// The demo's namespace at one moment.
pub struct Look {
    pods: BTreeMap<String, Pod>,
    /// Rows by address.
    rows: BTreeMap<String, Row>,
    /// Reservations by address, which is their name.
    reservations: BTreeMap<String, Reservation>,
}

impl Stage {
    /// Reads pool, reservations and pods.
    pub async fn look(&self) -> Result<Look, Failure> {
        let all = ListParams::default();
        let pool = self.api::<IpPool>().get(&play::pool()?).await;
        let pool = pool.map_err(Failure::api("read the IPPool"))?;
        let reservations = self.api::<Reservation>().list(&all).await;
        let reservations = reservations.map_err(Failure::api("list reservations"))?;
        let pods = self.api::<Pod>().list(&all).await;
        let pods = pods.map_err(Failure::api("list pods"))?;
        Ok(Look {
            rows: play::rows(&pool)
                .into_iter()
                .filter_map(|(key, row)| Some((play::address(&key)?, row)))
                .collect(),
            reservations: reservations
                .into_iter()
                .map(|r| (r.name_any(), r))
                .collect(),
            pods: pods.into_iter().map(|p| (p.name_any(), p)).collect(),
        })
    }

    /// The events of the demo's namespace, oldest first.
    pub async fn events(&self) -> Result<Vec<Event>, Failure> {
        let events = self.api::<Event>().list(&ListParams::default()).await;
        let mut events = events.map_err(Failure::api("list events"))?.items;
        events.sort_by_key(last_seen);
        Ok(events)
    }
}

impl Look {
    /// The row of an address.
    pub fn row(&self, address: &str) -> Option<&Row> {
        self.rows.get(address)
    }

    /// Whose the reservation of an address is.
    pub fn reserved_for(&self, address: &str) -> Option<&str> {
        self.reservations.get(address)?.spec.spec["podref"].as_str()
    }

    /// Whether there is a pod of this name.
    pub fn has_pod(&self, name: &str) -> bool {
        self.pods.contains_key(name)
    }

    /// One line for each address that is taken, by a row or by a reservation: the row, its
    /// reservation, its pod, and a remark.
    pub fn address_table(&self, remarks: &[(&str, Tone, String)]) -> Table {
        let head = [
            "ADDRESS", "PODREF", "IFNAME", "SANDBOX", "RESERVED", "POD", "",
        ];
        let mut table = Table::new(&head);
        let mut addresses: Vec<_> = self.rows.keys().chain(self.reservations.keys()).collect();
        addresses.sort_unstable();
        addresses.dedup();
        for address in addresses {
            let row = self.rows.get(address);
            let podref = row
                .and_then(|row| row.podref.as_deref())
                .unwrap_or("<none>");
            let ifname = row
                .and_then(|row| row.ifname.as_deref())
                .unwrap_or("<none>");
            let sandbox = row.map_or("<none>", |row| row.id.get(..8).unwrap_or(&row.id));
            let reserved = match self.reserved_for(address) {
                Some(owner) if owner == podref => "yes",
                Some(owner) => owner,
                None => "no",
            };
            let name = podref.rsplit('/').next().unwrap_or_default();
            let pod = match self.pods.get(name) {
                Some(pod) => phase(pod).into(),
                None => Cell::new(Tone::Bad, "gone"),
            };
            let remark = remarks.iter().find(|(of, ..)| *of == address);
            let remark = remark.map(|(_, tone, text)| Cell::new(*tone, text));
            table.row([
                address.into(),
                podref.into(),
                ifname.into(),
                sandbox.into(),
                reserved.into(),
                pod,
                remark.unwrap_or_default(),
            ]);
        }
        table
    }
}

/// As `kubectl get events` has it.
pub fn event_table(events: &[Event]) -> Table {
    let mut table = Table::new(&["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]);
    for event in events {
        let regarding = event.regarding.clone().unwrap_or_default();
        let kind = regarding.kind.unwrap_or_default().to_lowercase();
        let name = regarding.name.unwrap_or_default();
        table.row([
            age(last_seen(event)).into(),
            event.type_.clone().unwrap_or_default().into(),
            event.reason.clone().unwrap_or_default().into(),
            format!("{kind}/{name}").into(),
            event.note.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

/// Events of older reporters have the old field.
fn last_seen(event: &Event) -> Option<Timestamp> {
    let old = event.deprecated_last_timestamp.as_ref().map(|time| time.0);
    old.or(event.event_time.as_ref().map(|time| time.0))
}

/// The STATUS column of kubectl, as far as the demo's pods can come.
fn phase(pod: &Pod) -> &str {
    if pod.metadata.deletion_timestamp.is_some() {
        return "Terminating";
    }
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    match phase {
        Some("Succeeded") => "Completed",
        phase => phase.unwrap_or("Unknown"),
    }
}

/// How long ago, as kubectl says it for the first two minutes.
fn age(then: Option<Timestamp>) -> String {
    let Some(then) = then else {
        return "<unknown>".to_owned();
    };
    let seconds = Timestamp::now().duration_since(then).as_secs().max(0);
    format!("{seconds}s")
}
