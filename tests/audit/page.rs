//! The page of `ipgc audit -o html`.

use rstest::rstest;

use super::*;

/// What the script of a page reads.
fn data_of(page: &str) -> Value {
    let (_, rest) = page.split_once("id=data>").unwrap();
    let (data, _) = rest.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

/// The row of the page that has this text, with the texts that it names.
fn told_of(data: &Value, words: &str) -> Vec<Value> {
    let pools = data["pools"].as_array().unwrap().iter();
    let mut rows = pools.flat_map(|it| it["rows"].as_array().unwrap());
    let row = rows.find(|row| row[1] == words || row[2] == words);
    let cells = row.unwrap().as_array().unwrap().iter().enumerate();
    let cells = cells.map(|(at, cell)| match cell.as_u64() {
        Some(text) if (3..9).contains(&at) => data["texts"][usize::try_from(text).unwrap()].clone(),
        _ => cell.clone(),
    });
    cells.collect()
}

/// A reservation without a row is told as a row is, since it was made; so is a stale row, by its reservation.
#[test]
fn the_page_tells_of_reservations_and_since_when() {
    let server = shop();
    reserve(&server, "10.0.0.5", "default/lone");
    for address in ["10.0.0.2", "10.0.0.5"] {
        server.edit("overlappingrangeipreservations", NS, address, |it| {
            it["metadata"]["creationTimestamp"] = "2025-12-24T00:00:00Z".into();
        });
    }
    let (_, page, _) = asked(&dump(&server), &["audit", "-o", "html"]);
    let data = data_of(&page);
    let of = |words: &str, state: &str, sign: &str| {
        let row = told_of(&data, words);
        let shown = [&row[4], &row[5], &row[8]];
        assert_eq!(shown, ["2025-12-24T00:00:00Z", state, sign], "{row:?}");
        assert_begins(row[6].as_str().unwrap(), "its pod is gone");
        assert_ends(row[7].as_str().unwrap(), "after a collector has begun");
    };
    of("default/gone", "stale", "stale");
    of("default/lone", "reserved, stale", "reserved");
}

/// A command has an address, or a name that a shell takes for a name.
#[test]
fn the_page_has_no_command_with_foreign_words() {
    const EVIL: &str = "$(touch /tmp/pwn)";
    let server = shop();
    let evil = fixtures::pool("other", "10.9.0.0/24").name("a;reboot");
    server.put(evil);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"][EVIL] = fixtures::row("c1", "default/gone", "net1");
    });
    let file = dump(&server);
    let (_, page, _) = asked(&file, &["audit", "-o", "html"]);
    let data = data_of(&page);
    assert_eq!(data["from"], format!(" -f {}", file.path()));
    assert_eq!(told_of(&data, EVIL)[9], 0, "it has no address");
    assert_eq!(told_of(&data, "10.0.0.2")[9], 1);
    let mut pools = data["pools"].as_array().unwrap().iter();
    let mut command_of = |name: &str| &pools.find(|it| it["name"] == name).unwrap()["command"];
    assert_eq!(
        command_of("default/10.0.0.0-24"),
        "ipgc explain default/10.0.0.0-24"
    );
    assert_eq!(command_of("other/a;reboot"), &Value::Null);
}

/// What came through a pipe cannot be read again.
#[rstest]
#[case::cluster(&[], Some(""))]
#[case::files(&["a.json", "/b-1/c.2"], Some(" -f a.json -f /b-1/c.2"))]
#[case::foreign(&["it's $(reboot)"], Some(r" -f 'it'\''s $(reboot)'"))]
#[case::like_flags(&["-x.json", "-x y"], Some(" -f ./-x.json -f './-x y'"))]
#[case::standard_input(&["a.json", "-"], None)]
#[case::pipe(&["/dev/fd/63"], None)]
fn a_command_reads_the_same_files(#[case] files: &[&str], #[case] flags: Option<&str>) {
    let files: Vec<_> = files.iter().map(PathBuf::from).collect();
    assert_eq!(ipgc::audit::words::from_files(&files).as_deref(), flags);
}

/// The page needs nothing from elsewhere, and what others wrote is text in it. A real browser opens it in `.ci/run`.
#[test]
fn the_page_is_alone_and_escapes() {
    const EVIL: &str = "</script><script>alert(1)</script><img src=x onerror='alert(2)'>&\"";
    let server = shop();
    server.put(fixtures::pool("other", "10.9.0.0/24").row_of(3, EVIL));
    let (code, page, stderr) = asked(&dump(&server), &["audit", "-o", "html"]);
    assert_eq!((code, &*stderr), (1, ""));
    for foreign in [
        "<script>alert",
        "<img",
        "http:",
        "https:",
        "//cdn",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("<script").count(), 2);
    let data = data_of(&page);
    let pools = data["pools"].as_array().unwrap();
    let rows: Vec<_> = pools
        .iter()
        .flat_map(|it| it["rows"].as_array().unwrap())
        .collect();
    assert_eq!(rows.len(), 3);
    assert!(rows.iter().any(|row| row[2] == EVIL));
    assert!(page.contains("&lt;img src=x onerror=&#39;alert(2)&#39;&gt;&amp;&quot;"));
}

#[test]
fn findings_can_be_no_failure() {
    let file = dump(&shop());
    assert_eq!(asked(&file, &["audit"]).0, 1);
    assert_eq!(asked(&file, &["audit", "--exit-zero"]).0, 0);
    let nothing = File::new("{}");
    assert_eq!(asked(&nothing, &["audit", "--exit-zero"]).0, 2);
}
