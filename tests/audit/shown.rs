//! What people are shown: wide and foreign texts in tables.

use ipgc::audit::table::{Column, clean, table};

use super::*;

/// A row of this owner, as a table.
fn shown(podref: &str, columns: &[Column]) -> String {
    let server = server();
    put_pool(&server, &[]);
    server.edit("ippools", NS, POOL, |pool| {
        for (key, podref) in [("1", podref), ("2", "default/gone")] {
            pool["spec"]["allocations"][key] = fixtures::row(&fixtures::sandbox(1), podref, "net1");
        }
    });
    table(
        &judge(&dump(&server).read().unwrap(), Source::Files),
        columns,
    )
}

#[test]
fn a_text_without_an_end_is_cut() {
    let text = shown(&"x".repeat(100_000), &Column::WIDE);
    assert!(text.contains("xxx…   "), "{}", &text[..200]);
    let longest = text.lines().map(str::len).max();
    assert!(longest < Some(2_000), "{longest:?}");
}

#[test]
fn columns_are_as_wide_as_a_terminal_shows_them() {
    // Two columns each, and none for the mark over the e.
    let text = shown("名前/e\u{301}", &[Column::Pod, Column::Address]);
    let lines: Vec<_> = text.lines().take(3).collect();
    assert_eq!(
        lines,
        [
            "POD            ADDRESS",
            "default/gone   10.0.0.2",
            "名前/e\u{301}         10.0.0.1",
        ]
    );
}

#[test]
fn what_turns_or_hides_text_is_shown_by_its_number() {
    assert_eq!(
        clean("a\u{202e}b\u{200b}\n\u{1b}é"),
        r"a\u{202e}b\u{200b}\n\u{1b}é"
    );
}

#[test]
fn of_many_pods_a_few_are_shown() {
    let server = server();
    put_pool(&server, &[(1, "default/web-1")]);
    for number in 1..=12 {
        server.put(pod(&format!("web-{number}"), 1).build());
    }
    let report = judge(&dump(&server).read().unwrap(), Source::Files);
    assert_eq!(report.findings[0].pods.len(), 12);
    let text = table(&report, &[Column::Finding, Column::Pod, Column::Address]);
    let line = text.lines().nth(1).unwrap();
    assert!(line.contains(" and 4 more   "), "{line}");
}
