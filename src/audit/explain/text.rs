//! An explanation for people: a paragraph for each row, a line for each fact.

use std::fmt::Write as _;

use ipgc_core::podref::PodRef;

use super::report::{
    Explanation, NodeReport, OrphanExplained, PodReport, RowExplained, SubjectKind,
};
use crate::audit::{report::ReservationReport, table::clean};

/// The text of an explanation.
#[must_use]
pub fn text(explanation: &Explanation) -> String {
    let mut text = Text(String::new());
    text.head(explanation);
    for row in &explanation.rows {
        text.row(row, explanation.knows_reservations);
    }
    for orphan in &explanation.reservations {
        text.orphan(orphan);
    }
    // Those whose rows are told above were told with them.
    let told = |pod: &&PodReport| !explanation.rows.iter().any(|row| row.podref == pod.podref);
    for pod in explanation.reported_by.iter().filter(told) {
        text.paragraph(&format!(
            "{} is reported by {}, which has no row of it",
            explanation.subject, pod.podref
        ));
        text.line("pod", &describe(pod));
    }
    for (at, note) in explanation.notes.iter().enumerate() {
        if at == 0 {
            text.blank();
        }
        text.title(&format!("note: {note}"));
    }
    text.0
}

struct Text(String);

impl Text {
    fn paragraph(&mut self, title: &str) {
        self.blank();
        self.title(title);
    }

    /// Between what was told and what comes.
    fn blank(&mut self) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
    }

    fn title(&mut self, title: &str) {
        self.0.push_str(&clean(title));
        self.0.push('\n');
    }

    fn line(&mut self, name: &str, value: &str) {
        // A text takes all that is written to it.
        let _ = writeln!(self.0, "  {name:<12} {}", clean(value));
    }

    fn head(&mut self, explanation: &Explanation) {
        let Explanation { subject, .. } = explanation;
        match explanation.kind {
            SubjectKind::Address => return,
            SubjectKind::Pod => {
                self.paragraph(&format!("pod {subject}"));
                let pod = explanation.pod.as_ref();
                self.line(
                    "state",
                    &pod.map_or_else(|| absent(explanation.pod_is_absent).to_owned(), describe),
                );
                if explanation.rows.is_empty() {
                    self.line("rows", "none");
                }
            }
            SubjectKind::Pool => self.paragraph(&format!("pool {subject}")),
            SubjectKind::Node => self.paragraph(subject),
        }
        if let Some(node) = &explanation.node {
            self.line("state", &state(node));
        }
        if let Some(split) = &explanation.split {
            self.line("rows", &format!("{}: {split}", split.rows()));
        } else if explanation.kind == SubjectKind::Node {
            self.line("rows", "not known without pods");
        }
        if let Some(freed) = explanation.fencing_frees {
            let mut held = format!("{} rows", explanation.rows.len());
            let alone = explanation.reservations.len();
            if alone > 0 {
                held = format!("{held} and {alone} reservations without a row");
            }
            let is_ready = explanation
                .node
                .as_ref()
                .is_some_and(|node| node.state == "ready");
            let after = if is_ready {
                ", once it is shut down: no fence counts while it is ready"
            } else {
                ""
            };
            self.line(
                "fencing",
                &format!("of the {held} that it holds, {freed} would be held no more{after}"),
            );
            self.line(
                "by hand",
                &format!("ipgc release --held-by {subject}, if nothing answers on any of them"),
            );
        }
    }

    fn row(&mut self, row: &RowExplained, knows_reservations: bool) {
        let address = row.address.as_deref().unwrap_or("a row without an address");
        let interface = row.interface.as_deref().unwrap_or("no interface");
        let range = row.range.as_deref().unwrap_or("no range");
        self.paragraph(&format!(
            "{address} in pool {}/{} ({range}, key {}, {interface})",
            row.namespace, row.pool, row.key
        ));
        let rule = row
            .rule
            .map_or_else(String::new, |rule| format!(", rule {rule}"));
        self.line("verdict", &format!("{}{rule}: {}", row.verdict, row.reason));
        if let Some(grade) = &row.grade {
            self.line("evidence", grade);
        }
        let no_pod = || match &*row.podref {
            "" => "the row names none".to_owned(),
            podref if !PodRef::is_valid(podref) => format!("{podref}: that names none"),
            podref => format!("{podref}: {}", absent(row.pod_is_absent)),
        };
        self.line(
            "pod",
            &row.pod
                .as_ref()
                .map_or_else(no_pod, |pod| format!("{}: {}", pod.podref, describe(pod))),
        );
        if let Some(node) = &row.node {
            self.line("node", &format!("{}: {}", node.name, state(node)));
        }
        if let Some(id) = row.stored.value()["id"].as_str() {
            self.line("sandbox", id);
        }
        let reservation = row.reservation.as_ref();
        let none = if knows_reservations {
            "none"
        } else {
            "not known"
        };
        self.line(
            "reservation",
            &reservation.map_or_else(|| none.to_owned(), reserved),
        );
        for change in &row.changes {
            self.line("changes", change);
        }
    }

    fn orphan(&mut self, orphan: &OrphanExplained) {
        let network = orphan.network.as_deref().unwrap_or("without a name");
        self.paragraph(&format!(
            "{} reserved in namespace {}, network {network}, without a row",
            orphan.address, orphan.namespace
        ));
        self.line("verdict", &format!("{}: {}", orphan.verdict, orphan.reason));
        if let Some(grade) = &orphan.grade {
            self.line("evidence", grade);
        }
        self.line("reservation", &reserved(&orphan.reservation));
        if PodRef::is_valid(&orphan.reservation.podref) {
            let pod = orphan.pod.as_ref();
            self.line(
                "pod",
                &pod.map_or_else(|| absent(orphan.pod_is_absent).to_owned(), describe),
            );
        }
        for change in &orphan.changes {
            self.line("changes", change);
        }
    }
}

fn absent(is_known: bool) -> &'static str {
    if is_known {
        "there is no such pod"
    } else {
        "nobody knows whether there is such a pod"
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
