//! The binary as its user meets it: help, bad input, the log.

use rstest::rstest;

use super::*;

#[rstest]
#[case::no_command(&[], "Usage: ipgc")]
#[case::unknown_flag(&["run", "--nonsense"], "--nonsense")]
#[case::mistyped_flag(&["run", "--cooldwn", "3s"], "--cooldwn")]
#[case::mistyped_command(&["rum"], "rum")]
#[case::bad_duration(&["run", "--grace", "soon"], "not a duration like 90s, 5m or 1h30m")]
#[case::negative(&["run", "--grace=-5s"], "a duration cannot be negative")]
#[case::short_cooldown(&["run", "--cooldown", "500ms"], "--cooldown must be at least 1s")]
#[case::no_podref(&["run", "--keep-podref", "web"], "'web' for '--keep-podref <GLOB>': it matches no namespace/name")]
#[case::no_podref_to_audit(&["audit", "-f", "Cargo.toml", "--keep-podref", "["], "'[' for '--keep-podref <GLOB>'")]
#[case::no_podref_to_watch(&["watch", "--keep-podref", "web"], "'web' for '--keep-podref <GLOB>'")]
#[case::no_workers(&["run", "--workers", "0"], "0 is not in 1..=1024")]
#[case::no_address(&["run", "--listen", "8080"], "neither an address like 0.0.0.0:8080 or [::]:8080 nor none")]
#[case::no_kubeconfig(&["run", "--kubeconfig", "/nonexistent/config"], "/nonexistent/config")]
#[case::no_cluster(&["run"], "ipgc: ")]
#[case::nothing_to_release(&["release"], "--force <IP>...")]
#[case::no_questions(&["release", "--force", "10.0.0.1", "--yes"], "unexpected argument '--yes'")]
#[case::no_ip(&["release", "--force", "cart-0"], "invalid IP address syntax")]
#[case::watch_has_no_yaml(&["watch", "-o", "yaml"], "invalid value 'yaml'")]
#[case::watch_too_often(&["watch", "--interval", "500ms"], "--interval must be at least 1s")]
#[case::watch_of_no_labels(&["watch", "-l", "a=="], "")]
#[case::watch_of_a_file(&["watch", "-f", "dump.json"], "unexpected argument '-f'")]
#[case::watch_without_kubeconfig(&["watch", "--kubeconfig", "/nonexistent/config"], "/nonexistent/config")]
#[case::no_directory(&["crds", "--output", "/nonexistent/dir"], "/nonexistent/dir")]
fn bad_input_is_a_clear_line_and_exit_code_2(#[case] args: &[&str], #[case] says: &str) {
    let (code, stdout, stderr) = ipgc(args);
    assert_eq!(code, 2, "{stderr}");
    assert!(stderr.contains(says), "{stderr}");
    assert!(stdout.is_empty(), "{stdout}");
    // Without a command the help is what is asked for.
    let is_line = stderr.starts_with("ipgc: ") && stderr.lines().count() == 1;
    assert!(is_line || args.is_empty(), "{stderr}");
}

/// Nobody listens there.
fn nowhere() -> File {
    kubeconfig(([127, 0, 0, 1], 1).into())
}

#[rstest]
#[case(&["audit"])]
#[case(&["explain", "10.0.0.1"])]
#[case(&["watch"])]
#[case(&["pools"])]
#[case(&["release", "--force", "10.0.0.1"])]
fn a_server_that_is_away_is_one_line_and_exit_code_2(#[case] args: &[&str]) {
    let kubeconfig = nowhere();
    assert_refused(
        ipgc(&[args, &["--kubeconfig", kubeconfig.path()]].concat()),
        "ipgc: ",
    );
}

#[test]
fn flags_are_read_from_the_environment_too() {
    let (code, _, stderr) = ipgc_with(Some(("IPGC_COOLDOWN", "10ms")), &["run"]);
    assert_eq!(code, 2);
    assert!(stderr.contains("--cooldown must be at least 1s"));
}

#[test]
fn a_port_that_is_taken_is_one_line_and_exit_code_2() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let kubeconfig = nowhere();
    let run = ["run", "--kubeconfig", kubeconfig.path(), "--listen"];
    assert_refused(
        ipgc(&[&run[..], &[&address]].concat()),
        &format!("ipgc: cannot listen on {address} (--listen): "),
    );
}

#[rstest]
#[case("bash")]
#[case("zsh")]
#[case("fish")]
#[case("elvish")]
#[case("powershell")]
fn the_script_of_a_shell_asks_the_program(#[case] shell: &str) {
    let (code, stdout, stderr) = ipgc(&["completions", shell]);
    assert_eq!(code, 0, "{stderr}");
    assert!(
        stdout.contains("ipgc") && stdout.contains("COMPLETE"),
        "{stdout}"
    );
}

/// kubectl asks its plugins so (its documentation, "Extend kubectl with plugins").
#[rstest]
#[case::command(&["ex"], "explain\t", 4)]
#[case::flag(&["run", "--lease"], "--lease-namespace\t", 4)]
#[case::value(&["audit", "-o", "js"], "json\t", 4)]
#[case::nothing(&["no-such-command", "x"], "", 0)]
fn a_plugin_of_kubectl_completes(#[case] words: &[&str], #[case] first: &str, #[case] rest: u8) {
    let (code, stdout, stderr) = ipgc(&[&["__complete"], words].concat());
    assert_eq!(code, 0, "{stderr}");
    assert!(stdout.starts_with(first), "{stdout}");
    assert_eq!(stdout.lines().last(), Some(&*format!(":{rest}")));
}

#[rstest]
#[case::named(&["run", "--kubeconfig"], false)]
#[case::inferred(&["run"], true)]
fn no_secret_of_a_broken_kubeconfig_is_printed(#[case] args: &[&str], #[case] inferred: bool) {
    let file = File::new("users:\n- name: me\n  user:\n    token: eyJSECRET\n    : - [}\n");
    let (code, _, stderr) = if inferred {
        ipgc_with(Some(("KUBECONFIG", file.path())), args)
    } else {
        ipgc(&[args, &[file.path()]].concat())
    };
    assert_eq!(code, 2, "{stderr}");
    assert!(!stderr.contains("SECRET"), "{stderr}");
    assert!(stderr.contains("cannot be parsed: line "), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_proxy_is_named_without_its_secret() {
    let cluster =
        r#"{"server": "https://127.0.0.1:1", "proxy-url": "http://me:SECRET@proxy.example:3128"}"#;
    let text = format!(
        r#"{{"clusters": [{{"name": "a", "cluster": {cluster}}}], "users": [{{"name": "a", "user": {{}}}}],
            "contexts": [{{"name": "a", "context": {{"cluster": "a", "user": "a"}}}}], "current-context": "a"}}"#
    );
    let file = File::new(text);
    let (code, _, stderr) = ipgc(&["run", "--kubeconfig", file.path()]);
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.contains("the proxy proxy.example is configured"),
        "{stderr}"
    );
    assert!(!stderr.contains("SECRET"), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

/// The output of `ipgc run` within two seconds while no server answers.
fn said_in_vain(args: &[&str], log: Option<&str>) -> String {
    let kubeconfig = nowhere();
    let mut command = Command::cargo_bin("ipgc").unwrap();
    command.env_clear().envs(log.map(|log| ("RUST_LOG", log)));
    let run = ["run", "--kubeconfig", kubeconfig.path(), "--listen", "none"];
    let output = command
        .args(run)
        .args(args)
        .timeout(Duration::from_secs(2))
        .output()
        .unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn the_log_is_text_or_json_from_the_level_on_that_is_asked_for() {
    let text = said_in_vain(&[], None);
    assert!(text.contains("WARN ipgc::"), "{text}");
    let json = said_in_vain(&["--log-format", "json"], None);
    assert!(!json.is_empty());
    for line in json.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(
            line["level"].is_string() && line["fields"]["message"].is_string(),
            "{line}"
        );
    }
    assert_eq!(said_in_vain(&[], Some("error")), "");
    assert!(said_in_vain(&[], Some("debug")).lines().count() > text.lines().count());
    let (code, _, stderr) = ipgc_with(Some(("RUST_LOG", "ipgc=loud")), &["run"]);
    assert_eq!(code, 2, "{stderr}");
    assert!(
        stderr.starts_with("ipgc: RUST_LOG: ") && stderr.lines().count() == 1,
        "{stderr}"
    );
}
