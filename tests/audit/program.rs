//! `ipgc audit` of files as its user meets it: exit codes, choices, lines for people.

use rstest::rstest;

use super::*;

#[test]
fn the_exit_code_tells_what_was_found() {
    let server = shop();
    let (code, stdout, stderr) = audit_of(&dump(&server), &[]);
    assert_eq!((code, &*stderr), (1, ""));
    assert_eq!(
        stdout,
        "\
FINDING   ADDRESS    POOL                  POD            NODE   DETAIL
stale     10.0.0.2   default/10.0.0.0-24   default/gone   -      its pod is gone; goes 3m30s after a collector has begun

1 finding: 2 rows in 1 pool (1 live, 0 unreported, 1 stale, 0 unfenced, 0 unknown), 2 reservations, 3 pods, 1 node
"
    );
    server.put(pod("gone", 2));
    let (code, stdout, _) = audit_of(&dump(&server), &[]);
    assert_eq!(code, 0);
    assert_begins(&stdout, "no findings: 2 rows in 1 pool (2 live,");
}

#[rstest]
#[case::pool(&["--pool", POOL], 1)]
#[case::pool_in_full(&["--pool", "default/10.0.0.0-24"], 1)]
#[case::namespace(&["--namespace", "default"], 1)]
#[case::other_namespace(&["-n", "kube-system"], 0)]
#[case::node(&["--node", "n1"], 0)]
#[case::labels(&["--selector", "app=web"], 0)]
fn findings_are_chosen(#[case] args: &[&str], #[case] code: i32) {
    let (found, stdout, stderr) = audit_of(&dump(&shop()), args);
    assert_eq!((found, &*stderr), (code, ""), "{stdout}");
}

#[test]
fn labels_choose_what_pods_that_are_there_leave_behind() {
    let server = shop();
    put_pool(&server, &[(1, "default/web-1"), (3, "default/web-1")]);
    let (code, stdout, _) = audit_of(&dump(&server), &["-l", "app in (web)"]);
    assert_eq!(code, 1, "{stdout}");
    let line = stdout.lines().nth(1).unwrap();
    assert_eq!(line.split_whitespace().nth(1), Some("10.0.0.3"), "{stdout}");
    let (code, _, stderr) = audit_of(&dump(&server), &["-l", "app=db"]);
    assert_eq!((code, &*stderr), (2, "ipgc: the selector chooses no pod\n"));
}

#[rstest]
#[case::pool(&["--pool", "10.9.0.0-24"], "no pool 10.9.0.0-24 is known")]
#[case::node(&["--node", "n9"], "no node n9 is known")]
#[case::namespace(&["-n", "defualt"], "no pod, row or reservation of namespace defualt is known")]
#[case::foreign_text(&["--node", "a\n\u{1b}[2J\u{202e}"], "no node a\\n\\u{1b}[2J\\u{202e} is known")]
#[case::selector(&["-l", "app ~ web"], "not a label selector: \"app ~ web\"")]
#[case::columns(&["--columns", "finding"], "--columns")]
#[case::format(&["-o", "yaml"], "yaml")]
fn what_is_asked_for_and_unknown_is_one_line_and_exit_code_2(
    #[case] args: &[&str],
    #[case] says: &str,
) {
    assert_refused(audit_of(&dump(&shop()), args), says);
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let (code, _, stderr) = ipgc(&["audit", "-f", "/nonexistent/dump.json"]);
    assert_eq!(code, 2);
    assert_begins(&stderr, "ipgc: /nonexistent/dump.json: ");
    let file = File::new("{");
    let (code, _, stderr) = audit_of(&file, &[]);
    assert_eq!(code, 2);
    let path = file.0.display();
    assert_eq!(
        stderr,
        format!("ipgc: {path}: ends in the middle of its text, at byte 1: it was cut off\n")
    );
}

#[test]
fn directories_and_standard_input_are_read() {
    let server = shop();
    let folder = Folder::new();
    folder.write("notes.txt", "not a dump");
    let path = folder.0.to_str().unwrap();
    let (code, _, stderr) = ipgc(&["audit", "-f", path]);
    assert_eq!(code, 2);
    assert_says(&stderr, "no file there ends in .json");
    // By their names the nodes come before the rest, whose order is that of its file.
    let rows = [Kind::Reservation, Kind::IpPool, Kind::Pod];
    for (name, kinds) in [("b", &rows[..]), ("a", &[Kind::Node, Kind::Definition])] {
        folder.write(
            &format!("{name}.json"),
            &dump_of(&server, kinds).to_string(),
        );
    }
    let (code, stdout, _) = ipgc(&["audit", "-f", path]);
    assert_eq!(code, 1);
    assert_begins(stdout.lines().nth(1).unwrap(), "stale ");
    let mut command = Command::cargo_bin("ipgc").unwrap();
    let text = dump_of(&server, &Kind::ALL).to_string();
    let command = command
        .args(["audit", "-f", "-", "-o", "json"])
        .write_stdin(text);
    let output = command.output().unwrap();
    let report: Report = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(problems(&report), ["stale 10.0.0.2"]);
    assert!(report.made.ends_with('Z') && report.source == Source::Files);
}

#[test]
fn wide_tables_line_up_and_show_no_control_characters() {
    let server = shop();
    put_row_on(&server, POOL, 7, "a\u{1b}[2Jb", "net1", 7);
    let (_, stdout, _) = audit_of(&dump(&server), &["-o", "wide"]);
    assert!(
        !stdout.contains('\u{1b}') && stdout.contains("a\\u{1b}[2Jb"),
        "{stdout}"
    );
    let table: Vec<_> = stdout.lines().take(3).collect();
    for title in ["GRADE", "WAIT", "KEY", "SANDBOX", "DETAIL"] {
        let column = table[0].find(title).unwrap();
        for line in &table[1..] {
            assert!(
                line.is_char_boundary(column) && line[..column].ends_with("   "),
                "{title}:\n{stdout}"
            );
            assert!(!line[column..].starts_with(' '), "{title}:\n{stdout}");
        }
    }
}
