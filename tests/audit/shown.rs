//! Output for people: wide and foreign texts in tables.

use ipgc_core::text::clean;

use super::*;

/// A row of this owner, as a table.
fn shown(podref: &str, is_wide: bool) -> String {
    let server = server();
    put_pool(&server, &[]);
    put_row(&server, POOL, 1, podref);
    put_row(&server, POOL, 2, "default/gone");
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

#[test]
fn a_pool_that_cannot_be_read_is_known_by_its_name() {
    let server = server_with_a_pool();
    let snapshot = with_bad_pool(&server).read().unwrap();
    for name in ["bad", "default/bad"] {
        let filter = Filter {
            pool: Some(name.to_owned()),
            ..Filter::default()
        };
        assert_eq!(filter.check(&snapshot), Ok(()));
    }
}

/// Spans that overlap count once, gaps between them not at all, and a range that hands out nothing has no size.
#[rstest::rstest]
#[case::two("10.0.0.0/31", &["10.0.0.0/31"], None)]
#[case::one("10.0.0.0/32", &["10.0.0.0/32"], None)]
#[case::of_six("fd00::/128", &["fd00::/128"], None)]
#[case::four("10.0.0.0/30", &["10.0.0.0/30"], Some(2))]
#[case::apart("10.0.0.0/24", &["10.0.0.2-10.0.0.3/24", "10.0.0.252-10.0.0.253/24"], Some(4))]
#[case::overlapping("10.0.0.0/24", &["10.0.0.2-10.0.0.9/24", "10.0.0.5-10.0.0.11/24"], Some(10))]
fn the_size_of_a_range(#[case] range: &str, #[case] spans: &[&str], #[case] size: Option<u64>) {
    let server = bare();
    for (number, span) in spans.iter().enumerate() {
        server.put(fixtures::nad(NS, &format!("net-{number}"), span));
    }
    server.put(fixtures::pool(NS, range).row_of(0, "default/gone"));
    let report = dump(&server).judged();
    assert_eq!(report.pools[0].size, size);
    assert!(!kinds_of(&report).contains(&Problem::NearlyFull));
}
