//! docs/safety.md maps every exhibit to a test that there is, and every such test to an exhibit.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

/// Words that look like the name of an exhibit's test.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words
        .filter(|word| {
            ["m1_", "m2_", "m4_"]
                .iter()
                .any(|room| word.starts_with(room))
        })
        .collect()
}

#[test]
fn the_table_of_exhibits_is_the_list_of_tests() {
    let docs = include_str!("../docs/safety.md");
    let (_, exhibits) = docs.split_once("## Exhibits").unwrap();
    let (exhibits, _) = exhibits.split_once("## ").unwrap();
    let tests = concat!(
        include_str!("museum_live.rs"),
        include_str!("museum_live_ours.rs"),
        include_str!("museum_leaks.rs"),
        include_str!("museum_found.rs"),
    );
    let tests = tests
        .lines()
        .filter_map(|line| line.strip_prefix("async fn "));
    let tests: BTreeSet<_> = tests.flat_map(names).collect();
    assert_eq!(names(exhibits), tests);
    assert_eq!(tests.len(), 30 + 14 + 10);
}
