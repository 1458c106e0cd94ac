//! Values: each does something, a typo is refused, and the README tells of all.

use std::{collections::BTreeSet, fmt::Write as _, fs, process::Command};

use e2e::ours::program;
use rstest::rstest;
use serde_json::Value;

use crate::{chart, template};

/// A value of the chart, by its path, and something that it may be instead, in JSON.
const VALUES: [(&str, &str); 27] = [
    ("image.repository", r#""registry.example.com/ipgc""#),
    ("image.tag", r#""other""#),
    (
        "image.digest",
        r#""sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef""#,
    ),
    ("image.pullPolicy", r#""Always""#),
    ("image.pullSecrets", r#"["registry"]"#),
    ("dryRun", "true"),
    ("poolNamespace", r#""openshift-multus""#),
    ("flags", r#"{"grace":"5m"}"#),
    ("replicas", "3"),
    ("resources.requests.cpu", r#""20m""#),
    ("resources.requests.memory", r#""64Mi""#),
    ("resources.limits.memory", r#""1Gi""#),
    ("extraEnv", r#"[{"name":"RUST_LOG","value":"debug"}]"#),
    ("nodeSelector.kubernetes\\.io/os", r#""other""#),
    ("tolerations", "[]"),
    ("affinity", r#"{"podAntiAffinity":{}}"#),
    (
        "topologySpreadConstraints",
        r#"[{"maxSkew":2,"topologyKey":"topology.kubernetes.io/zone","whenUnsatisfiable":"DoNotSchedule"}]"#,
    ),
    ("priorityClassName", r#""system-cluster-critical""#),
    ("podAnnotations", r#"{"a":"b"}"#),
    ("podLabels", r#"{"a":"b"}"#),
    ("serviceAccount.annotations", r#"{"a":"b"}"#),
    ("podDisruptionBudget.enabled", "true"),
    ("networkPolicy.enabled", "true"),
    ("monitoring.enabled", "true"),
    ("monitoring.labels", r#"{"release":"prometheus"}"#),
    ("dashboard.enabled", "true"),
    ("dashboard.labels.grafana_dashboard", r#""2""#),
];

fn default_values() -> (String, Value) {
    let text = fs::read_to_string(chart().join("values.yaml")).unwrap();
    let values = serde_yaml::from_str(&text).unwrap();
    (text, values)
}

fn schema() -> Value {
    let text = fs::read_to_string(chart().join("values.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn each_value_changes_something() {
    // Labels of what is not made change nothing.
    let all = ["--set", "monitoring.enabled=true,dashboard.enabled=true"];
    for (path, value) in VALUES {
        let before = if path.ends_with(".enabled") {
            &[][..]
        } else {
            &all[..]
        };
        let value = format!("{path}={value}");
        let args = [before, &["--set-json", &value]].concat();
        assert_ne!(
            template(&args).unwrap(),
            template(before).unwrap(),
            "{path}"
        );
    }
}

/// helm reads a file's numbers otherwise than those of its command line.
#[test]
fn numbers_of_a_file_stay_numbers() {
    let file = std::env::temp_dir().join(e2e::cluster::unique("values") + ".yaml");
    let text =
        "flags: {breaker-min: 1000000, breaker-fraction: 0.25, leader-elect: true, grace: 5m}\n";
    fs::write(&file, text).unwrap();
    let all = template(&["-f", file.to_str().unwrap()]).unwrap();
    let container =
        &all["Deployment ipgc-system/ipgc"]["spec"]["template"]["spec"]["containers"][0];
    let env = container["env"].as_array().unwrap();
    for (name, value) in [
        ("IPGC_BREAKER_MIN", "1000000"),
        ("IPGC_BREAKER_FRACTION", "0.25"),
        ("IPGC_LEADER_ELECT", "true"),
        ("IPGC_GRACE", "5m"),
    ] {
        let found = env.iter().find(|it| it["name"] == name).unwrap();
        assert_eq!(found["value"], value, "{name}");
    }
    fs::remove_file(file).unwrap();
}

#[test]
fn the_table_has_all_values() {
    fn leaves(value: &Value, path: &str, all: &mut BTreeSet<String>) {
        match value.as_object().filter(|fields| !fields.is_empty()) {
            Some(fields) => {
                for (name, value) in fields {
                    let name = name.replace('.', "\\.");
                    let path = [path, &name].join(if path.is_empty() { "" } else { "." });
                    leaves(value, &path, all);
                }
            }
            None => {
                all.insert(path.to_owned());
            }
        }
    }
    let mut all = BTreeSet::new();
    leaves(&default_values().1, "", &mut all);
    let table: BTreeSet<_> = VALUES.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(all, table);
}

#[rstest]
#[case("replica=3", "replica")]
#[case("image.repo=x", "repo")]
#[case("image.pullPolicy=Sometimes", "pullPolicy")]
#[case("flags.grase=5m", "grase")]
#[case("flags.grace=soon", "grace")]
#[case("flags.listen=none", "listen")]
#[case("monitoring.enable=true", "enable")]
#[case("flags.unfenced=nonsense", "unfenced")]
#[case("flags.unwitnessed-hold=soon", "unwitnessed-hold")]
#[case("flags.log-format=xml", "log-format")]
#[case("dryRun=yes", "dryRun")]
#[case("flags.leader-elect=false", "replicas")]
#[case("poolNamespace=Foo_Bar", "poolNamespace")]
#[case("resources.request.cpu=1", "request")]
#[case("resources.limits.memmory=1Gi", "memmory")]
#[case("resources.limits.memory=1GB", "memory")]
#[case("extraEnv[0].key=x", "key")]
#[case("tolerations[0].operator=Exist", "operator")]
#[case("tolerations[0].seconds=3", "seconds")]
#[case("affinity.podAntiAfinity.x=y", "podAntiAfinity")]
#[case("topologySpreadConstraints[0].maxSkew=1", "topologyKey")]
#[case("podLabels.app\\.kubernetes\\.io/name=mine", "app.kubernetes.io/name")]
#[case("serviceAccount.create=false", "create")]
#[case("podDisruptionBudget.enable=true", "enable")]
#[case("networkPolicy.enable=true", "enable")]
#[case("dashboard.label.a=b", "label")]
fn a_mistake_is_refused_by_name(#[case] setting: &str, #[case] named: &str) {
    let refusal = template(&["--set", setting]).unwrap_err().to_string();
    assert!(refusal.contains(named), "{refusal}");
}

/// All but those that the chart sets by itself, or that make no sense in it.
#[tokio::test]
async fn flags_are_those_of_the_program() {
    const NOT_HERE: [&str; 9] = [
        "kubeconfig",
        "context",
        "pool-namespace",
        "dry-run",
        "once",
        "wait",
        "lease-namespace",
        "listen",
        "help",
    ];
    let help = Command::new(program().await.unwrap())
        .args(["run", "--help"])
        .output()
        .unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let flags = help.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("-h, ").unwrap_or(line);
        let end = |letter: char| letter != '-' && !letter.is_ascii_lowercase();
        line.strip_prefix("--")?.split(end).next()
    });
    let flags: BTreeSet<_> = flags.filter(|flag| !NOT_HERE.contains(flag)).collect();
    let schema = schema();
    let known = schema["properties"]["flags"]["properties"]
        .as_object()
        .unwrap();
    assert_eq!(
        known.keys().map(String::as_str).collect::<BTreeSet<_>>(),
        flags
    );
}

/// The values and their comments as rows of a table.
fn table() -> String {
    let (text, values) = default_values();
    let mut rows = String::from("| value | default | meaning |\n|---|---|---|\n");
    let mut above: Vec<&str> = Vec::new();
    let mut comment = None;
    for line in text.lines() {
        let depth = (line.len() - line.trim_start().len()) / 2;
        let line = line.trim_start();
        if let Some(text) = line.strip_prefix("# -- ") {
            comment = Some((depth, text));
        } else if let Some((name, _)) = line.split_once(':')
            && !line.starts_with('-')
        {
            above.truncate(depth);
            above.push(name);
            if let Some((_, text)) = comment.take_if(|(at, _)| *at == depth) {
                let value = above.iter().fold(&values, |value, name| &value[*name]);
                let path = above.join(".");
                let _ = writeln!(rows, "| `{path}` | `{value}` | {text} |");
            }
        }
    }
    rows
}

/// With `UPDATE_README=1` it is written.
#[test]
fn the_readme_has_the_table_of_values() {
    let path = chart().join("README.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, _) = text.split_once("| value |").unwrap();
    let expected = format!("{before}{}", table());
    if std::env::var_os("UPDATE_README").is_some() {
        fs::write(&path, expected).unwrap();
    } else {
        assert_eq!(text, expected, "run it with UPDATE_README=1");
    }
}
