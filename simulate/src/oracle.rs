//! Checks a run against the true sandboxes: no removal of ipgc took an address from a sandbox that had it, and in the
//! end nothing is left that nobody needs. Reads the history of the API server, and changes nothing.

use std::{collections::BTreeMap, time::Duration};

use ipgc::{
    audit::{audit, explain::explain, filter::Filter, report::Problem},
    snapshot::live::{Scan, read},
};
use ipgc_core::{address::reservation_address, evidence::Policy};
use serde_json::Value;

use crate::{
    cni::ORIP,
    faults::OURS,
    resource_claims::PLACEHOLDER,
    world::{Address, NS, Sandbox, World, rows},
};

/// The count of reservations that stay since admission forbids their claims.
const FORBIDDEN: &str = "kept: a claim is forbidden";

/// A row that ipgc removed.
struct Removed {
    pool: String,
    key: String,
    row: Value,
    at: Duration,
}

impl World {
    /// The rows that ipgc removed, oldest first.
    fn removed(&self) -> Vec<Removed> {
        let mut all = Vec::new();
        for write in self.server.history("ippools") {
            if !write.by().starts_with(OURS) {
                continue;
            }
            let before = write.previous().unwrap_or_default();
            let object = write.object();
            let after = rows(&object);
            for (key, row) in rows(&before) {
                if !after.contains_key(&key) {
                    let pool = write.name().to_owned();
                    all.push(Removed {
                        pool,
                        key,
                        row,
                        at: write.at().duration_since(self.begun()),
                    });
                }
            }
        }
        all
    }

    /// Whether ipgc freed an address that a sandbox had, or deleted a reservation of one.
    pub fn freed_alive(&self) -> Vec<String> {
        let mut found = Vec::new();
        let removed = self.removed();
        let of_claims = removed.iter().filter(|it| it.row["podref"] == PLACEHOLDER);
        self.note("freed a row of a claim", of_claims.count());
        let state = self.state();
        let is_at = |until: Option<Duration>, at: Duration| until.is_none_or(|until| until > at);
        let running_at = |at: Duration| {
            let all = state.sandboxes.iter();
            all.filter(move |it: &&Sandbox| is_at(it.until, at))
        };
        for it in &removed {
            for sandbox in running_at(it.at) {
                let has = |address: &&Address| {
                    let is_its = address.pool == it.pool && address.key == it.key;
                    is_its && address.from < it.at && is_at(address.until, it.at)
                };
                if let Some(address) = sandbox.addresses.iter().find(has) {
                    found.push(format!(
                        "ipgc freed {} in {} while sandbox {} of {} had it (row {})",
                        address.ip,
                        it.pool,
                        &sandbox.id[..16],
                        sandbox.podref,
                        it.row
                    ));
                }
            }
        }
        for write in self.server.history(ORIP) {
            if !write.by().starts_with(OURS) || write.kind() != testkit::ChangeKind::Deleted {
                continue;
            }
            let at = write.at().duration_since(self.begun());
            for sandbox in running_at(at) {
                let has = |address: &&Address| {
                    let net = &self.nets[address.net];
                    let ip = reservation_address(write.name(), net.network_name);
                    net.reserves
                        && ip == Some(address.ip)
                        && address.accepted.unwrap_or(address.from) < at
                        && is_at(address.until, at)
                };
                let object = write.object();
                let from = object["metadata"]["annotations"]["ipgc.dev/claimed-from"].as_str();
                let owner = from.or(object["spec"]["podref"].as_str());
                if let Some(address) = sandbox.addresses.iter().find(has)
                    && owner == Some(&*sandbox.podref)
                {
                    found.push(format!(
                        "ipgc deleted the reservation of {} while sandbox {} of {} had it",
                        address.ip,
                        &sandbox.id[..16],
                        sandbox.podref
                    ));
                }
            }
        }
        for it in &state.doubled {
            let ours = removed.iter().any(|gone| {
                let is_its = (&gone.pool, &gone.key) == (&it.row.0, &it.row.1);
                is_its && it.at.0 < gone.at && gone.at < it.at.1
            });
            if ours {
                found.push(format!(
                    "{} was given to sandbox {} while sandbox {} had it, after ipgc had freed it",
                    it.ip,
                    &it.sandboxes.1[..16],
                    &it.sandboxes.0[..16]
                ));
            }
        }
        found
    }

    /// The verdicts on all rows that do not live, in the middle of it all, with rule and grade.
    pub async fn verdicts(&self, policy: &Policy) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        let client = self.server.client_named("audit");
        let Ok(mut snapshot) = read(&client, &Scan::default()).await else {
            return counts;
        };
        snapshot.made = self.server.now().to_string();
        for pool in self.server.list("ippools") {
            let subject = pool["metadata"]["name"].as_str().unwrap_or_default();
            let told = explain(&snapshot, policy, subject);
            for row in told.map(|it| it.rows).unwrap_or_default() {
                let rule = row
                    .rule
                    .map_or_else(|| "no rule".to_owned(), |rule| format!("rule {rule}"));
                let grade = row.grade.unwrap_or_default();
                *counts
                    .entry(format!("verdict {} {rule} {grade}", row.verdict))
                    .or_default() += 1;
            }
        }
        counts
    }

    /// How many reservations there are.
    pub fn reservations(&self) -> u64 {
        self.server.list(ORIP).len() as u64
    }

    /// Whether something is left at the end that nobody needs; and the counts of what is kept. Where claims `are_forbidden`,
    /// reservations may stay that an audit tells of.
    pub async fn left_over(
        &self,
        policy: &Policy,
        are_forbidden: bool,
    ) -> (Vec<String>, BTreeMap<String, u64>) {
        let mut found = Vec::new();
        let mut counts = BTreeMap::new();
        let client = self.server.client_named("audit");
        let scan = Scan::default();
        let mut snapshot = match read(&client, &scan).await {
            Ok(snapshot) => snapshot,
            Err(error) => return (vec![format!("no audit: {error}")], counts),
        };
        snapshot.made = self.server.now().to_string();
        let report = audit(&snapshot, policy, &Filter::default());
        for finding in &report.findings {
            *counts
                .entry(format!("kept: {}", finding.problem))
                .or_default() += 1;
            // Doubles and the like that whereabouts makes by itself are none of ours.
            let is_ours = matches!(
                finding.problem,
                Problem::Stale
                    | Problem::Leftover
                    | Problem::HeldUnfenced
                    | Problem::ReservationOrphaned
                    | Problem::Unknown
            );
            // An audit does not read ResourceClaims.
            let is_reservation = finding.problem == Problem::ReservationOrphaned
                || finding.problem == Problem::Unknown && finding.pods == [PLACEHOLDER];
            let may_stay = are_forbidden && is_reservation;
            if may_stay {
                *counts.entry(FORBIDDEN.to_owned()).or_default() += 1;
            } else if is_ours {
                let pods = finding.pods.join(",");
                let address = finding.address.as_deref().unwrap_or("?");
                found.push(format!(
                    "left at the end: {} {address} of {pods}: {}",
                    finding.problem, finding.detail
                ));
            }
        }
        let of_no_claim = self.rows_of_no_claim().into_iter();
        found.extend(of_no_claim.map(|row| format!("left at the end: row {row}")));
        let pools = self.all_rows();
        for reserved in self.server.list(ORIP) {
            // However it is spelled: an audit reads names as ipgc does.
            let owner = reserved["spec"]["podref"].as_str().unwrap_or_default();
            let pod = owner.rsplit('/').next().unwrap_or_default();
            let mut rows = pools.values().flat_map(|rows| rows.values());
            let is_needed = self.server.get("pods", NS, pod).is_some()
                || rows.any(|row| row["podref"] == owner);
            if owner == "ipgc.dev/releasing" || !is_needed && !are_forbidden {
                let name = reserved["metadata"]["name"].as_str().unwrap_or_default();
                found.push(format!("left at the end: {name} of {owner}"));
            }
        }
        (found, counts)
    }
}
