//! The stale rows of a report, as picks.
//!
//! A report says what was stale when it was made, and nothing of now. Only which rows it means counts, and
//! since when they were as they are.

use std::{collections::BTreeSet, time::Duration};

use ipgc_core::{podref::PodRef, pool::PoolKey};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::{
    audit::{
        report::{Finding, Problem, REPORT_VERSION, Report},
        words,
    },
    collect::picked::{Pick, Picked, Subject},
};

/// No wait is as long: what was seen before counts as seen then.
const OLDEST: Duration = Duration::from_hours(24);

/// Reads a report.
///
/// # Errors
/// One line that says what it is instead.
pub fn parse(text: &str) -> Result<Report, String> {
    let value: Value =
        serde_json::from_str(text).map_err(|error| format!("no report, since no JSON: {error}"))?;
    if value.get("kind").is_some() || value.get("items").is_some() {
        let how = "make a report of it by ipgc audit -f FILE -o json";
        return Err(format!("no report, but objects of Kubernetes: {how}"));
    }
    match value.get("version").and_then(Value::as_u64) {
        None => return Err("no report of ipgc audit: it has no version".to_owned()),
        Some(version) if version != u64::from(REPORT_VERSION) => {
            return Err(format!(
                "a report of version {version}, and this ipgc reads version {REPORT_VERSION}"
            ));
        }
        Some(_) => {}
    }
    serde_json::from_value(value).map_err(|error| format!("no report of ipgc audit: {error}"))
}

/// The stale rows of a report, and its stale reservations without a row. Those that nodes hold are left out unless
/// `with_held`. Since the report was made, they count as seen; `now` is the present by the wall clock.
///
/// # Errors
/// One line that names the finding which lacks something.
pub fn picks(report: &Report, with_held: bool, now: Timestamp) -> Result<Picked, String> {
    let made = report.made.parse::<Timestamp>();
    let made = made.map_err(|error| format!("its time {:?} is none: {error}", report.made))?;
    // A clock that is behind the other one makes it no older than now.
    let age = now.duration_since(made).max(SignedDuration::ZERO);
    let age = Duration::try_from(age).unwrap_or_default().min(OLDEST);
    let wanted = |finding: &&Finding| match finding.problem {
        Problem::Stale | Problem::Leftover | Problem::ReservationOrphaned => true,
        Problem::HeldUnfenced => with_held,
        _ => false,
    };
    let picks = report.findings.iter().filter(wanted).map(|finding| {
        pick(finding, false).map_err(|reason| {
            let address = finding.address.as_deref().unwrap_or("?");
            let problem = finding.problem;
            format!("its finding {problem} about {address} cannot be used: {reason}")
        })
    });
    Ok(Picked::new(picks.collect::<Result<_, _>>()?, age))
}

/// One line about a report without anything to free.
pub fn nothing_in(report: &Report) -> String {
    let findings = report.findings.iter();
    let held = findings.filter(|finding| finding.problem == Problem::HeldUnfenced);
    // Only what silent nodes hold bears the command that declares them empty.
    let (silent, ready): (Vec<_>, Vec<_>) = held.partition(|finding| finding.command.is_some());
    let of = |held: &[&Finding]| {
        let nodes: BTreeSet<_> = held.iter().flat_map(|it| it.nodes.iter()).collect();
        words::names(&Vec::from_iter(nodes))
    };
    let mut text = vec!["nothing in it is stale".to_owned()];
    if !silent.is_empty() {
        text.push(format!(
            "{} are held by silent nodes, which --assume-dead names if they run nothing: {}",
            silent.len(),
            of(&silent)
        ));
    }
    if !ready.is_empty() {
        text.push(format!(
            "{} are held by nodes that --assume-dead cannot name, as those that are ready: --held-by node/NAME frees what \
             one of them holds, if nothing answers on it: {}",
            ready.len(),
            of(&ready)
        ));
    }
    text.join("; ")
}

/// The row or reservation that a finding is about, and its pool.
pub(super) fn subject(finding: &Finding) -> Result<(PoolKey, Subject), String> {
    let name = |name: &Option<String>, what| {
        let name = name.as_deref().filter(|name| !name.is_empty());
        name.map(str::to_owned).ok_or(format!("it has no {what}"))
    };
    let namespace = name(&finding.namespace, "namespace")?;
    let (subject, pool) = match (&finding.row, &finding.reservation) {
        (Some(row), _) => (
            Subject::Row {
                pool_uid: row.pool_uid.clone(),
                key: row.key.clone(),
                stored: row.stored.clone().into(),
            },
            name(&finding.pool, "pool")?,
        ),
        (None, Some(reservation)) => (
            Subject::Reservation {
                name: reservation.name.clone(),
                uid: reservation.uid.clone(),
            },
            // There may be no pool that it would be in.
            name(&finding.pool, "pool").unwrap_or_else(|_| reservation.name.clone()),
        ),
        (None, None) => return Err("it has neither row nor reservation".to_owned()),
    };
    let name = pool;
    Ok((PoolKey { namespace, name }, subject))
}

pub(super) fn pick(finding: &Finding, forced: bool) -> Result<Pick, String> {
    let address = finding.address.as_deref().ok_or("it has no address")?;
    let address = address
        .parse()
        .map_err(|_| format!("{address:?} is no address"))?;
    let [podref] = finding.pods.as_slice() else {
        return Err("it names not one pod".to_owned());
    };
    let podref: PodRef = podref
        .parse()
        .map_err(|_| format!("{podref:?} is no namespace/name"))?;
    let (pool, subject) = subject(finding)?;
    if let Subject::Row { stored, .. } = &subject
        && stored.get("podref").and_then(Value::as_str) != Some(podref.as_str())
    {
        return Err(format!("its row is not of {podref}"));
    }
    Ok(Pick {
        pool,
        subject,
        podref,
        address,
        forced,
    })
}
