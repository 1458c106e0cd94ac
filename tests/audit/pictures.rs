//! Pools as bars and grids: `ipgc pools`, and the grid of `ipgc explain POOL`.

use ipgc::audit::{
    grid::{Sign, bar},
    pool_table::{Style, write_pools},
    report::PoolUsage,
};
use rstest::rstest;

use super::*;

#[test]
fn pools_are_lines_with_bars() {
    let (code, stdout, stderr) = asked(&dump(&shop()), &["pools"]);
    assert_eq!((code, &*stderr), (0, ""));
    let bar = format!("█▒{}", "·".repeat(25));
    let expected = format!(
        "\
RANGE        NETWORK      SIZE  FREE  OLDEST  WAITS  USE
10.0.0.0/24  default/net  254   252   0s      3m30s  {bar}

█ live, ▓ held, ▒ stale, ? unknown, · free
"
    );
    assert_eq!(stdout, expected);
}

/// Its range would not tell which of them a line is of.
#[test]
fn a_pool_whose_range_another_has_is_shown_by_its_name() {
    let server = shop();
    server.put(fixtures::pool("other", RANGE));
    server.put(fixtures::pool(NS, "10.1.0.0/24"));
    let (_, stdout, _) = asked(&dump(&server), &["pools"]);
    for name in ["default/10.0.0.0-24 ", "other/10.0.0.0-24 ", "10.1.0.0/24 "] {
        assert!(stdout.contains(&format!("\n{name}")), "{stdout}");
    }
}

/// The bar has what the names leave of a line, and ten cells at least.
#[rstest]
#[case::usual(80, 80)]
#[case::wide(200, 200)]
#[case::too_narrow(40, 77)]
fn a_line_is_as_wide_as_the_terminal(#[case] width: usize, #[case] widest: usize) {
    let server = shop();
    let range = "192.168.100.0/24";
    define(&server, "macvlan-conf", &json!({ "range": range }));
    server.put(fixtures::pool("kube-system", range).row_of(1, "default/gone"));
    let style = Style {
        width,
        colours: false,
        wide: false,
    };
    let mut text = Vec::new();
    write_pools(&dump(&server).judged(), style, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let lines = text.lines().take(3).map(|line| line.chars().count());
    assert_eq!(lines.max(), Some(widest), "{text}");
    assert_says(&text, "192.168.100.0/24  default/macvlan-conf  254 ");
}

/// A range of two has no size, and its rows are all of its bar.
#[test]
fn rows_of_a_pool_without_a_size_have_a_bar() {
    let server = server();
    let pool = fixtures::pool(NS, "10.9.0.0/31");
    server.put(pool.row_of(1, "default/gone"));
    let file = dump(&server);
    let (_, stdout, _) = asked(&file, &["pools"]);
    let line: Vec<_> = stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(line[2], "-", "{stdout}");
    assert_eq!(line.last().unwrap().trim_matches('▒'), "", "{stdout}");
    let (_, page, _) = asked(&file, &["audit", "-o", "html"]);
    assert_says(&page, "<span>1 rows</span>");
}

/// The fullest comes first, by the share of what it hands out, and a slice of a node is a line as any.
#[test]
fn the_fullest_pool_is_the_first() {
    let server = bare();
    put_second_node(&server, true);
    put_slices(&server, &[("n1", "10.0.0.0/28"), ("n2", "10.0.1.0/24")]);
    let slice = |node: &str, range: &str| {
        let name = format!("blue-{node}-{}", range.replace('/', "-"));
        fixtures::pool(NS, range).name(&name)
    };
    // A share of one of 14, two of 254, and three of 65,534.
    server.put(
        slice("n2", "10.0.1.0/24")
            .row_of(1, "default/a")
            .row_of(2, "default/b"),
    );
    server.put(slice("n1", "10.0.0.0/28").row_of(1, "default/c"));
    let pool = fixtures::pool(NS, "10.9.0.0/16");
    server.put((1..=3).fold(pool, |pool, at| pool.row_of(at, "default/d")));
    let (_, stdout, _) = asked(&dump(&server), &["pools"]);
    let lines = stdout.lines().skip(1).take(3);
    let lines = lines.map(|line| line.split_whitespace().take(3).collect::<Vec<_>>());
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            ["10.0.0.0/28", "default/net", "14"],
            ["10.0.1.0/24", "default/net", "254"],
            ["10.9.0.0/16", "-", "65534"],
        ]
    );
}

/// Only people get colours, and only those who want them. `script` has a terminal.
#[rstest]
#[case::terminal(true, None, true)]
#[case::terminal_of_one_who_wants_none(true, Some("1"), false)]
#[case::empty_is_unset(true, Some(""), true)]
#[case::pipe(false, None, false)]
fn colours_are_for_terminals(
    #[values("pools", "explain 10.0.0.0-24")] words: &str,
    #[case] is_terminal: bool,
    #[case] no_color: Option<&str>,
    #[case] coloured: bool,
) {
    let file = dump(&shop());
    let ipgc = assert_cmd::cargo::cargo_bin("ipgc");
    let (ipgc, file) = (ipgc.display(), file.0.display());
    let line = format!("{ipgc} {words} -f {file}");
    let mut command = if is_terminal {
        let mut command = std::process::Command::new("script");
        command.args(["-qec", &line, "/dev/null"]);
        command
    } else {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &line]);
        command
    };
    command
        .env_remove("NO_COLOR")
        .stdin(std::process::Stdio::null());
    command.envs(no_color.map(|value| ("NO_COLOR", value)));
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_says(&stdout, "10.0.0.0");
    assert_eq!(stdout.contains("\x1b["), coloured, "{stdout:?}");
}

/// A row bears no time: its reservation does, if it is of the same pod.
#[rstest]
#[case::days("2026-01-01T00:00:00Z", "default/gone", "3d")]
#[case::hours("2026-01-03T00:00:00Z", "default/gone", "25h")]
#[case::later_than_the_pods("2026-01-05T00:00:00Z", "default/gone", "-")]
#[case::of_another_pod("2026-01-01T00:00:00Z", "default/other", "-")]
fn the_age_of_the_oldest_stale_row_is_that_of_its_reservation(
    #[case] created: &str,
    #[case] podref: &str,
    #[case] age: &str,
) {
    let server = shop();
    server.edit("pods", NS, "web-1", |pod| {
        pod["metadata"]["creationTimestamp"] = "2026-01-04T01:30:00Z".into();
    });
    reserve(&server, "10.0.0.2", podref);
    server.edit("overlappingrangeipreservations", NS, "10.0.0.2", |it| {
        it["metadata"]["creationTimestamp"] = created.into();
    });
    let (_, stdout, _) = asked(&dump(&server), &["pools"]);
    let line: Vec<_> = stdout.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(line[3..5], ["252", age], "{stdout}");
}

/// A part of a range, as some definitions hand it out, stands below its pool.
#[test]
fn parts_are_lines_of_their_own() {
    let server = shop();
    let keys = json!({ "range": RANGE, "range_start": "10.0.0.1", "range_end": "10.0.0.4" });
    define(&server, "part", &keys);
    let (_, stdout, _) = asked(&dump(&server), &["pools", "-o", "wide"]);
    let lines: Vec<_> = stdout.lines().collect();
    assert_says(lines[1], "default/net,default/part");
    let part: Vec<_> = lines[2].split_whitespace().collect();
    assert_eq!(
        part[..6],
        [
            "default/10.0.0.0-24",
            "10.0.0.1",
            "to",
            "10.0.0.4",
            "default/part",
            "4"
        ]
    );
    assert_eq!(part[6..12], ["1", "0", "1", "0", "2", "50%"]);
}

#[rstest]
#[case::json("json")]
#[case::yaml("yaml")]
fn programs_get_the_pools_of_the_report(
    #[case] form: &str,
    #[values(POOL, RANGE, "default/10.0.0.0-24")] pool: &str,
) {
    let server = shop();
    server.put(fixtures::pool("other", "10.9.0.0/24"));
    let file = dump(&server);
    let (_, report, _) = asked(&file, &["audit", "-o", "json", "--pool", POOL]);
    let report: Value = serde_json::from_str(&report).unwrap();
    let (code, stdout, _) = asked(&file, &["pools", "-o", form, pool]);
    let pools: Value = serde_yaml::from_str(&stdout).unwrap();
    assert_eq!(code, 0);
    assert_eq!(
        (&pools["pools"], &pools["totals"]),
        (&report["pools"], &report["totals"])
    );
    assert_eq!(pools["findings"], json!([]));
    assert_eq!(pools["pools"][0]["waitSeconds"], 210);
    assert_eq!(pools["pools"][0]["definitions"], json!(["default/net"]));
}

#[rstest]
#[case::unknown_pool(&["pools", "10.9.0.0-24"], "no pool 10.9.0.0-24 is known")]
#[case::range_of_no_pool(&["pools", "10.9.0.0/24"], "no pool 10.9.0.0/24 is known")]
#[case::watch_of_files(&["pools", "--watch"], "cannot be used with")]
#[case::page_of_a_watch(&["pools", "-o", "html"], "html")]
fn mistakes_are_named(#[case] args: &[&str], #[case] named: &str) {
    assert_refused(asked(&dump(&shop()), args), named);
}

/// Live, held, stale and unknown rows in a range of this size; the cells of a bar of ten.
#[rstest]
#[case::empty([0, 0, 0, 0], 254, [0, 0, 0, 0, 10])]
#[case::full([254, 0, 0, 0], 254, [10, 0, 0, 0, 0])]
#[case::one_of_each([1, 1, 1, 1], 254, [1, 1, 1, 1, 6])]
#[case::one_is_free([253, 0, 0, 0], 254, [9, 0, 0, 0, 1])]
#[case::half([100, 27, 0, 0], 254, [4, 2, 0, 0, 4])]
#[case::more_than_there_is([300, 0, 0, 0], 254, [10, 0, 0, 0, 0])]
#[case::endless([5, 0, 0, 0], u64::MAX, [1, 0, 0, 0, 9])]
#[case::all_but_nothing([250, 1, 1, 1], 254, [6, 1, 1, 1, 1])]
fn a_bar_shows_all_that_there_is(
    #[case] rows: [usize; 4],
    #[case] size: u64,
    #[case] expected: [usize; 5],
) {
    let mut usage = PoolUsage {
        size: Some(size),
        ..PoolUsage::default()
    };
    [
        usage.taken.live,
        usage.taken.unfenced,
        usage.taken.stale,
        usage.taken.unknown,
    ] = rows;
    let cells = bar(&usage, 10);
    assert_eq!(
        cells.iter().map(|(_, cells)| *cells).collect::<Vec<_>>(),
        expected
    );
    let signs = [
        Sign::Live,
        Sign::Held,
        Sign::Stale,
        Sign::Unknown,
        Sign::Free,
    ];
    assert_eq!(
        cells.iter().map(|(sign, _)| *sign).collect::<Vec<_>>(),
        signs
    );
}

#[test]
fn a_pool_is_explained_with_its_grid() {
    let server = shop();
    let reserved = fixtures::reservation(NS, "10.0.0.5", "default/gone", "net1");
    server.put(reserved);
    let (code, stdout, stderr) = asked(&dump(&server), &["explain", POOL]);
    assert_eq!(code, 0, "{stderr}");
    let lines: Vec<_> = stdout.lines().collect();
    let free = |cells: usize| "·".repeat(cells);
    assert_eq!(lines[2], format!("  10.0.0.0    ×█▒··○{}", free(58)));
    assert_eq!(lines[3], format!("  10.0.0.64   {}", free(64)));
    assert_eq!(lines[5], format!("  10.0.0.192  {}×", free(63)));
    assert_says(lines[6], "○ reserved, × excluded");
}

/// Of long addresses a line has half as many cells.
#[rstest]
#[case::ipv4("192.168.100.0/24")]
#[case::ipv6("2001:db8:1234:5678::/120")]
fn a_grid_fits_a_terminal(#[case] range: &str) {
    let server = server();
    server.put(fixtures::pool(NS, range));
    let (_, stdout, _) = asked(&dump(&server), &["explain", range]);
    let picture = stdout.lines().take_while(|line| !line.is_empty());
    let widths: Vec<_> = picture.map(|line| line.chars().count()).collect();
    assert_eq!(widths.len(), 11, "{stdout}");
    assert!(widths.iter().all(|width| *width <= 80), "{stdout}");
}

/// The grid of a pool.
fn grid_of(server: &Server, range: &str) -> Value {
    let (_, stdout, stderr) = asked(&dump(server), &["explain", range, "-o", "json"]);
    let mut explained: Value = serde_json::from_str(&stdout).expect(&stderr);
    explained["grids"][0].take()
}

/// The cells are of blocks in a large range, and end after the last row in one without an end.
#[rstest]
#[case::large("10.0.0.0/16", 16, 4096, 0)]
#[case::endless("fd00::/64", 1, 4096, u64::MAX - 4095)]
fn a_large_range_has_a_grid_of_blocks(
    #[case] range: &str,
    #[case] each: u64,
    #[case] cells: usize,
    #[case] rest: u64,
) {
    let server = server();
    server.put(fixtures::pool(NS, range).row_of(40, "default/gone"));
    let grid = grid_of(&server, range);
    let signs: Vec<char> = grid["cells"].as_str().unwrap().chars().collect();
    assert_eq!((&grid["each"], signs.len()), (&json!(each), cells));
    assert_eq!(grid["rest"], rest);
    let at = usize::try_from(40 / each).unwrap();
    let taken: Vec<_> = (0..cells)
        .filter(|at| "█▓▒?".contains(signs[*at]))
        .collect();
    assert_eq!(taken, [at]);
}

/// Ranges at the ends of what there is.
#[rstest]
#[case::all("::/0", 0)]
#[case::half("8000::/1", 40)]
#[case::two("10.0.0.0/31", 1)]
#[case::one("10.0.0.4/32", 0)]
#[case::one_of_ipv6("fd00::1/128", 0)]
#[case::short("fd00::/16", u64::MAX)]
fn each_range_has_a_picture_or_none(#[case] range: &str, #[case] offset: u64) {
    let server = server();
    server.put(fixtures::pool(NS, range).row_of(offset, "default/gone"));
    let file = dump(&server);
    for args in [
        &["pools", "-o", "wide"][..],
        &["audit", "-o", "html", "--exit-zero"],
    ] {
        let (code, stdout, stderr) = asked(&file, args);
        assert_eq!((code, &*stderr), (0, ""));
        assert_says(&stdout, range);
    }
}

/// Nor do rows of the first and the last address, whatever leads to the pool.
#[rstest]
#[case::of_a_part(Some(("10.0.0.1", "10.0.0.9")), &[2, 100, 101, 102, 103, 104, 105, 106, 107, 108], 9, 1, "11%")]
#[case::all_but_the_edges(None, &[0, 2, 255], 254, 1, "0%")]
fn rows_outside_of_what_is_handed_out_take_no_room(
    #[case] part: Option<(&str, &str)>,
    #[case] rows: &[u64],
    #[case] size: u64,
    #[case] taken: u64,
    #[case] full: &str,
) {
    let server = bare();
    if let Some((first, last)) = part {
        let keys = json!({ "range": RANGE, "range_start": first, "range_end": last });
        define(&server, "net", &keys);
    }
    let pool = fixtures::pool(NS, RANGE);
    let add = |pool: fixtures::PoolBuilder, offset: &u64| pool.row_of(*offset, "default/gone");
    server.put(rows.iter().fold(pool, add));
    let file = dump(&server);
    let (_, stdout, _) = asked(&file, &["audit", "-o", "json"]);
    let report: Report = serde_json::from_str(&stdout).unwrap();
    let pool = &report.pools[0];
    assert_eq!((pool.size, pool.free), (Some(size), Some(size - taken)));
    assert_eq!(
        (pool.split.stale, pool.taken.stale as u64),
        (rows.len(), taken)
    );
    assert!(!kinds_of(&report).contains(&Problem::NearlyFull));
    let (_, page, _) = asked(&file, &["audit", "-o", "html"]);
    assert_says(&page, &format!("<span>{taken} of {size} taken</span>"));
    let (_, stdout, _) = asked(&file, &["pools", "-o", "wide"]);
    let line = stdout.lines().nth(1).unwrap();
    assert_says(line, full);
    let bar = line.split_whitespace().last().unwrap();
    assert_says(bar, "▒·");
}

/// A large grid shows what no definition hands out.
#[test]
fn a_large_grid_shows_what_is_excluded() {
    let server = bare();
    let excluded = json!({ "range": "10.4.0.0/16", "exclude": ["10.4.128.0/17"] });
    define(&server, "large", &excluded);
    server.put(fixtures::pool(NS, "10.4.0.0/16"));
    let grid = grid_of(&server, "10.4.0.0/16");
    let cells = grid["cells"].as_str().unwrap();
    assert_eq!(cells.matches('×').count(), 2048);
}
