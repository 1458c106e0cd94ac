//! An explanation for people: a paragraph for each row, a line for each fact.

use std::fmt::Write as _;

use ipgc_core::{podref::PodRef, text::clean};
use serde_json::Value;

use super::report::{Explanation, NodeReport, PodReport, RowExplained, SubjectKind};
use crate::audit::{
    grid::{Sign, coloured, legend},
    report::ReservationReport,
};

/// The text of an explanation. The picture of a pool is for a terminal with so many cells in a line.
pub fn text(explanation: &Explanation, width: usize, colours: bool) -> String {
    let mut text = Text(String::new());
    text.head(explanation, width, colours);
    for row in explanation.rows.iter().chain(&explanation.reservations) {
        text.row(row, explanation.knows_reservations);
    }
    // A pod that has a row was told with it.
    let told = |pod: &&PodReport| !explanation.rows.iter().any(|row| row.podref == pod.podref);
    for pod in explanation.reported_by.iter().filter(told) {
        let (subject, podref) = (&explanation.subject, &pod.podref);
        text.paragraph(&format!(
            "{subject} is reported by {podref}, which has no row of it"
        ));
        text.line("pod", describe(pod));
    }
    let mut notes = explanation.notes.iter().map(|note| format!("note: {note}"));
    if let Some(first) = notes.next() {
        text.paragraph(&first);
    }
    notes.for_each(|note| text.title(&note));
    text.0
}

struct Text(String);

impl Text {
    /// Begins a paragraph below a blank line.
    fn paragraph(&mut self, title: &str) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.title(title);
    }

    fn title(&mut self, title: &str) {
        self.0.push_str(&clean(title));
        self.0.push('\n');
    }

    fn line(&mut self, name: &str, value: impl AsRef<str>) {
        // A text takes all that is written to it.
        let _ = writeln!(self.0, "  {name:<13} {}", clean(value.as_ref()));
    }

    fn head(&mut self, explanation: &Explanation, width: usize, colours: bool) {
        let (subject, rows) = (&explanation.subject, &explanation.rows);
        let are_of_claims = rows.iter().all(|row| row.resource_claim.is_some());
        let is_nobodys = explanation.pod.is_none() && !rows.is_empty() && are_of_claims;
        match explanation.kind {
            SubjectKind::Address => return,
            // DRANET writes one name for all ResourceClaims, which no pod has.
            SubjectKind::Pod if is_nobodys => {
                self.paragraph(&format!("podref {subject}"));
            }
            SubjectKind::Pod => {
                self.paragraph(&format!("pod {subject}"));
                let pod = explanation.pod.as_ref();
                self.line("state", state_of(pod, explanation.pod_is_absent));
                if rows.is_empty() {
                    self.line("rows", "none");
                }
            }
            SubjectKind::Pool => self.paragraph(&format!("pool {subject}")),
            SubjectKind::Node => self.paragraph(subject),
        }
        if let Some(node) = &explanation.node {
            self.line("state", state(node));
        }
        if let Some(split) = &explanation.split {
            self.line("rows", format!("{}: {split}", split.rows()));
        } else if explanation.kind == SubjectKind::Node {
            self.line("rows", "not known without pods");
        }
        for grid in &explanation.grids {
            if grid.each > 1 {
                self.line("cells", format!("of {} addresses each", grid.each));
            }
            let lines = grid.lines(width.saturating_sub(2)).join("\n  ");
            let lines = if colours { coloured(&lines) } else { lines };
            let _ = writeln!(self.0, "  {lines}");
            if grid.rest > 0 {
                let rest = format!("{} addresses follow, none with a row", grid.rest);
                self.line("rest", rest);
            }
            self.title(&format!("  {}", legend(Sign::ALL.len())));
        }
        if let Some(freed) = explanation.fencing_frees {
            let alone = match explanation.reservations.len() {
                0 => String::new(),
                alone => format!(" and {alone} reservations without a row"),
            };
            let after = match &explanation.node {
                Some(node) if node.state == "ready" => {
                    ", once it is shut down: no fence counts while it is ready"
                }
                _ => "",
            };
            let held = format!("{} rows{alone}", rows.len());
            self.line(
                "fencing",
                format!("of the {held} that it holds, {freed} would be held no more{after}"),
            );
            self.line(
                "by hand",
                "ipgc release --force ADDRESS, if nothing answers on it",
            );
        }
    }

    fn row(&mut self, row: &RowExplained, knows_reservations: bool) {
        let or = |text: &Option<String>, none: &str| text.as_deref().unwrap_or(none).to_owned();
        let (address, namespace) = (or(&row.address, "a row without an address"), &row.namespace);
        self.paragraph(&match &row.pool {
            Some(pool) => format!(
                "{address} in pool {namespace}/{pool} ({}, key {}, {})",
                or(&row.range, "no range"),
                or(&row.key, ""),
                or(&row.interface, "no interface")
            ),
            None => format!(
                "{address} reserved in namespace {namespace}, network {}, without a row",
                or(&row.network, "without a name")
            ),
        });
        let rule = row.rule.map(|rule| format!(", rule {rule}"));
        let rule = rule.unwrap_or_default();
        self.line("verdict", format!("{}{rule}: {}", row.verdict, row.reason));
        if let Some(grade) = &row.grade {
            self.line("evidence", grade);
        }
        let state_of_pod = state_of(row.pod.as_ref(), row.pod_is_absent);
        let pod = match &*row.podref {
            "" => "it names none".to_owned(),
            podref if !PodRef::is_valid(podref) => format!("{podref}: that names none"),
            podref => format!("{podref}: {state_of_pod}"),
        };
        if row.resource_claim.is_none() || row.pod.is_some() {
            self.line("pod", pod);
        }
        if let Some(node) = &row.node {
            self.line("node", format!("{}: {}", node.name, state(node)));
        }
        if let Some(claim) = &row.resource_claim {
            self.line("ResourceClaim", claim);
        } else if let Some(stored) = row.stored.clone().map(Value::from)
            && let Some(id) = stored["id"].as_str()
        {
            self.line("sandbox", id);
        }
        match &row.reservation {
            Some(reservation) => self.line("reservation", reserved(reservation)),
            None if knows_reservations => self.line("reservation", "none"),
            None => self.line("reservation", "not known"),
        }
        for change in &row.changes {
            self.line("changes", change);
        }
    }
}

/// The state of a pod, or whether it is known that there is none.
fn state_of(pod: Option<&PodReport>, is_absent: bool) -> String {
    match pod {
        Some(pod) => describe(pod),
        None if is_absent => "there is no such pod".to_owned(),
        None => "nobody knows whether there is such a pod".to_owned(),
    }
}

fn reserved(reservation: &ReservationReport) -> String {
    let name = &reservation.name;
    match (&*reservation.podref, &reservation.sandbox) {
        ("", Some(sandbox)) => format!("{name} of sandbox {sandbox}"),
        ("", None) => format!("{name} of no pod"),
        (podref, _) => format!("{name} of {podref}"),
    }
}

fn state(node: &NodeReport) -> String {
    let mut state = node.state.replace('-', " ");
    if node.out_of_service {
        state += ", tainted out of service";
    }
    if node.declared_empty {
        state += ", stated to run no sandboxes";
    }
    state
}

fn describe(pod: &PodReport) -> String {
    let mut text = pod.phase.clone();
    if pod.deleting {
        text += ", being deleted";
    }
    if let Some(node) = &pod.node {
        text.extend([", on ", node]);
    }
    text.extend([", network-status ", &pod.network_status]);
    if !pod.reports.is_empty() {
        text.extend([": ", &pod.reports.join("; ")]);
    }
    text
}
