//! The output around the story: the words before it, the sums after it, and the table of requests.
//!
//! Everything here is read: from the stage, from the ledger of requests, from the outcomes.

use std::time::Duration;

use ipgc::core::evidence::Policy;
use testkit::{Request, Verb};

use crate::{
    ledger::{target, terms},
    print::{Cell, Paper, Table, Tone},
    stage::{COOLDOWN, Stage, long_wait},
};

/// The result for an address.
pub struct Outcome<'a> {
    /// The address.
    pub address: &'a str,
    /// The pod that had it in the beginning.
    pub pod: &'a str,
    /// How long after the end of the pod it was free; none if it was kept.
    pub freed: Option<Duration>,
    /// Why.
    pub why: &'a str,
}

/// Says what this is about and where it is played.
pub fn introduce(stage: &Stage, paper: Paper) {
    paper.line(
        Tone::Strong,
        "ipgc gives back leaked IP addresses, and only those",
    );
    paper.gap();
    paper.text(
        "whereabouts gives pods addresses on secondary networks. Its books are in the API server: a\n\
         row in an IPPool and a reservation for each address. When a pod ends, a CNI call named DEL\n\
         removes both. A DEL that gets lost (a node dies, the API server is away) leaks the address:\n\
         taken for good, by a pod that is gone. ipgc finds such addresses and gives them back.",
    );
    paper.gap();
    let Policy { cooldown, .. } = Policy::default();
    let by_default = Policy::default().wait(None, Duration::ZERO, 1);
    let mut table = Table::new(&[]);
    let waits = format!(
        "{} after a known end, {} after an unknown one (by default {} and {})",
        seconds(COOLDOWN),
        seconds(long_wait()),
        seconds(cooldown),
        seconds(by_default),
    );
    for (name, words) in [
        ("  server", stage.server.as_str()),
        ("  namespace", &stage.namespace),
        (
            "  ipgc",
            "the real one; it looks for pools in this namespace only, and the client that",
        ),
        ("", "it is given refuses to write anywhere else"),
        ("  waits", &waits),
        (
            "  played",
            "the kubelet and whereabouts, except for DEL, which is always lost",
        ),
    ] {
        table.row([Cell::new(Tone::Faint, name), words.into()]);
    }
    paper.table(&table);
    paper.gap();
    paper.text(&format!(
        "First it lets {} pass, to be sure that nobody who was there before it left a row.",
        seconds(long_wait()),
    ));
}

/// Prints the result for each address, the cost, and the things that never happen.
pub fn sum_up(stage: &Stage, paper: Paper, outcomes: &[Outcome<'_>]) {
    paper.title("In short");
    let mut table = Table::new(&["  ADDRESS", "POD", "", "WHY"]);
    for Outcome {
        address,
        pod,
        freed,
        why,
    } in outcomes
    {
        let (word, why) = match freed {
            Some(after) => (
                Cell::new(Tone::Good, "freed"),
                format!("{} {why}", seconds(*after)),
            ),
            None => (Cell::new(Tone::Kept, "kept"), (*why).to_owned()),
        };
        table.row([
            format!("  {address}").into(),
            (*pod).into(),
            word,
            why.into(),
        ]);
    }
    paper.table(&table);
    paper.gap();

    let counts = stage.ledger.counts();
    let total: usize = counts.values().sum();
    paper.text(&format!(
        "It took ipgc {total} requests, those at its start included:"
    ));
    paper.gap();
    let mut table = Table::new(&["  RESOURCE", "REQUESTS"]);
    let mut resources: Vec<_> = counts.keys().map(|(resource, _)| resource).collect();
    resources.dedup();
    for resource in resources {
        let of_it = counts.iter().filter(|((name, _), _)| name == resource);
        let words: Vec<_> = of_it
            .map(|((_, verb), count)| format!("{count} {}", in_capitals(*verb)))
            .collect();
        table.row([format!("  {resource}").into(), words.join(", ").into()]);
    }
    paper.table(&table);
    paper.gap();
    let refused = stage.ledger.refused();
    paper.text(&format!(
        "Writes tried outside of namespace {}: {refused}",
        stage.namespace
    ));

    paper.title("What ipgc never does");
    paper.text(
        "- free an address that its pod uses, or may still answer on\n\
         - take an error or a timeout for the absence of a pod\n\
         - remove a row that changed since it was read\n\
         - change or delete a pod\n\n\
         What it cannot prove dead it keeps.",
    );
}

/// Requests, with what each was for, or on what terms it wrote.
pub fn requests(entries: &[Request]) -> Table {
    let mut table = Table::new(&["  REQUEST", "TARGET", "ANSWER", ""]);
    let mut is_claimed = false;
    for entry in entries {
        let terms = terms(entry);
        let purpose = match (entry.verb, entry.resource.as_str()) {
            // No sweep has seen the pool yet, so its range may overlap another's.
            (Verb::List, "ippools") if is_claimed => "does a row hold it in any pool?",
            (Verb::List, "ippools") => "find the pool",
            (Verb::Get, "ippools") => "observe its rows",
            (Verb::List, "nodeslicepools" | "overlappingrangeipreservations") => "sweep",
            (Verb::Get, "pods") => "is the pod there?",
            (Verb::Get, "overlappingrangeipreservations") => "find the reservation",
            (Verb::Create, "events") => "tell",
            _ => terms.as_str(),
        };
        is_claimed |=
            entry.verb == Verb::Patch && entry.resource == "overlappingrangeipreservations";
        let status = entry
            .status
            .map_or("none".to_owned(), |status| status.to_string());
        table.row([
            format!("  {}", in_capitals(entry.verb)).into(),
            target(entry).into(),
            status.into(),
            Cell::new(Tone::Faint, purpose),
        ]);
    }
    table
}

fn in_capitals(verb: Verb) -> String {
    verb.as_str().to_uppercase()
}

/// `1.5 s`, `4 s`, `3.5 min`.
pub fn seconds(time: Duration) -> String {
    let (number, unit) = match time.as_secs_f64() {
        seconds if seconds < 120.0 => (seconds, "s"),
        seconds => (seconds / 60.0, "min"),
    };
    format!("{} {unit}", (number * 10.0).round() / 10.0)
}
