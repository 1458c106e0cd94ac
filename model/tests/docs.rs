//! Every guard and every assumption is needed: without it the checker finds a course of events, the one in traces.md.
#![allow(clippy::expect_used)]

use ipgc_model::traces::{self, BEGIN, END};

#[test]
fn the_courses_of_events_in_the_docs_are_those_that_are_found() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/traces.md");
    let page = std::fs::read_to_string(page).expect("traces.md");
    let (_, rest) = page
        .split_once(BEGIN)
        .expect("the marker before the traces");
    let (written, _) = rest.split_once(END).expect("the marker after the traces");
    let found = traces::all();
    // In the place of a course of events.
    assert!(!found.contains("nothing was found"), "{found}");
    assert_eq!(
        written.trim(),
        found.trim(),
        "run `cargo run -p ipgc-model -- traces` and put its output between the markers"
    );
}
