//! The binary as a person runs it: on the embedded API server, and with bad arguments.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{process::Output, sync::LazyLock, time::Duration};

use assert_cmd::Command;

fn run(arguments: &[&str]) -> Output {
    Command::cargo_bin("demo")
        .unwrap()
        .args(arguments)
        .timeout(Duration::from_secs(60))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The story is played once for all tests.
static TOLD: LazyLock<String> = LazyLock::new(|| {
    let output = run(&[]);
    let (told, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{told}\n{errors}");
    assert_eq!(errors, "");
    told
});

/// The lines from the one that begins like this to the next empty one.
fn block(start: &str) -> Vec<&'static str> {
    let lines = TOLD.lines().skip_while(|line| !line.starts_with(start));
    let block: Vec<_> = lines.take_while(|line| !line.is_empty()).collect();
    assert!(
        !block.is_empty(),
        "nothing begins with {start:?} in\n{}",
        *TOLD
    );
    block
}

#[test]
fn it_tells_what_is_freed_and_what_is_kept() {
    let in_short: Vec<Vec<_>> = block("  ADDRESS")[1..]
        .iter()
        .map(|line| line.split_whitespace().take(3).collect())
        .collect();
    assert_eq!(
        in_short,
        [
            ["192.0.2.1", "web-0", "kept"],
            ["192.0.2.2", "web-1", "freed"],
            ["192.0.2.3", "api-0", "freed"],
            ["192.0.2.4", "db-0", "kept"],
        ]
    );
    for line in [
        "web-1 is gone, its row is not",
        "the row of 192.0.2.2 is freed",
        "the reservation of 192.0.2.2 is freed",
        "<- held until",
        "db-0 is back and took its row over",
        "the row of 192.0.2.3 is freed",
        "web-2 starts and gets 192.0.2.2",
        "Writes tried outside of namespace demo: 0",
    ] {
        assert!(TOLD.contains(line), "no {line:?} in\n{}", *TOLD);
    }
}

#[test]
fn the_requests_of_a_free_are_in_their_order() {
    let requests: Vec<_> = block("  REQUEST")[1..]
        .iter()
        .map(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            format!("{} {} {}", words[0], words[1], words[2])
        })
        .filter(|request| !request.contains("events"))
        .collect();
    let reservation = "overlappingrangeipreservations/192.0.2.2";
    let steps = [
        // As soon as the pod is gone, and after the cooldown.
        "GET ippools/192.0.2.0-29 200".to_owned(),
        "GET ippools/192.0.2.0-29 200".to_owned(),
        "GET pods/web-1 404".to_owned(),
        "PATCH ippools/192.0.2.0-29 200".to_owned(),
        format!("GET {reservation} 200"),
        format!("PATCH {reservation} 200"),
        // When no ADD is at work any more that accepted the reservation.
        format!("GET {reservation} 200"),
        "GET pods/web-1 404".to_owned(),
        // Whether a row has the address again.
        "LIST ippools 200".to_owned(),
        format!("DELETE {reservation} 200"),
    ];
    // A sweep may come between them.
    let mut left = requests.iter();
    for step in steps {
        assert!(
            left.any(|request| *request == step),
            "{step} in {requests:#?}"
        );
    }
    let writes = requests
        .iter()
        .filter(|it| !it.starts_with("GET") && !it.starts_with("LIST"));
    assert_eq!(writes.count(), 3, "{requests:#?}");
}

#[test]
fn events_look_as_kubectl_prints_them() {
    let events = block("LAST SEEN");
    let seen = |start: &str, end: &str| {
        events
            .iter()
            .any(|line| line.contains(start) && line.ends_with(end))
    };
    assert_eq!(events.len(), 5, "{events:#?}");
    for (pod, address) in [("web-1", "192.0.2.2"), ("api-0", "192.0.2.3")] {
        let start = format!("Normal   IPAddressGarbageCollected   pod/{pod} ");
        let end = format!("successful cleanup of IP address [{address}] from network net");
        assert!(seen(&start, &end), "{events:#?}");
        let start = "Normal   IPAddressGarbageCollected   ippool/192.0.2.0-29 ";
        assert!(
            seen(start, &format!("{address} (demo/{pod})")),
            "{events:#?}"
        );
    }
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_one_line_and_exit_code_2() {
    let output = run(&["--kubeconfig", "no-such-file"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let errors = text(&output.stderr);
    assert_eq!(errors.lines().count(), 1, "{errors}");
    assert!(
        errors.starts_with("demo: ") && errors.contains("no-such-file"),
        "{errors}"
    );
}
