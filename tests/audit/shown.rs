//! Output for people: wide and foreign texts in tables.

use ipgc_core::text::clean;

use super::*;

/// A row of this owner, as a table.
fn shown(podref: &str, is_wide: bool) -> String {
    let server = server();
    put_pool(&server, &[]);
    put_row_on(&server, POOL, 1, podref, "net1", 1);
    put_row_on(&server, POOL, 2, "default/gone", "net1", 2);
    table(&dump(&server).judged(), is_wide)
}

#[test]
fn a_text_without_an_end_is_cut() {
    let text = shown(&"x".repeat(100_000), true);
    assert_says(&text, "xxx…   ");
    let longest = text.lines().map(str::len).max();
    assert!(longest < Some(2_000), "{longest:?}");
}

#[test]
fn columns_are_as_wide_as_a_terminal_shows_them() {
    // Two columns each, and none for the mark over the e.
    let text = shown("名前/e\u{301}", false);
    let lines = text.lines().take(3);
    let cells: Vec<_> = lines
        .map(|line| line.split_once("10.0.0.0-24   ").unwrap_or((line, "")).1)
        .collect();
    assert_begins(cells[1], "default/gone   -");
    assert_begins(cells[2], "名前/e\u{301}         -");
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
        server.put(pod(&format!("web-{number}"), 1));
    }
    let report = dump(&server).judged();
    assert_eq!(report.findings[0].pods.len(), 12);
    let text = table(&report, false);
    assert_says(text.lines().nth(1).unwrap(), " and 4 more   ");
}

#[test]
fn an_error_is_one_line_however_long_a_name_is() {
    let file = dump(&server_with_a_pool());
    let name = "x".repeat(100_000);
    let (code, _, stderr) = audit_of(&file, &["--node", &name]);
    assert_eq!(code, 2);
    assert!(stderr.len() < 1_100 && stderr.starts_with("ipgc: no node xxx"));
}

fn server_with_a_pool() -> Server {
    let server = server();
    put_pool(&server, &[]);
    server
}

#[test]
fn definitions_that_tell_no_range_are_told_up_to_a_few() {
    let server = server_with_a_pool();
    for number in 0..300 {
        server.put(fixtures::nad_with_config(NS, &format!("odd-{number}"), ""));
    }
    let notes = dump(&server).judged().notes;
    assert_eq!(notes.len(), 8, "{notes:?}");
    assert_eq!(
        notes[5],
        "295 more definitions do not tell all of their ranges"
    );
}
