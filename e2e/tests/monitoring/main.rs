//! Alerts and dashboard: they use what is exported, and the alerts fire when they should and only then.
//! No server is needed. The collector, whose metrics they are, runs on the in-process API server.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../../../tests/common/mod.rs"]
mod common;
mod promql;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use common::{Bench, put_pool, run_pod, scrape::Scrape, seconds, server};
use e2e::{
    ours::{self, workspace},
    process::said,
    tools::Tool,
};
use ipgc::{config::Config, metrics};
use promql::asked;
use rstest::rstest;
use serde_json::Value;
use testkit::fixtures;

const OVERLAY: &str = "manifests/overlays/monitoring";
const CASES: &str = "e2e/tests/monitoring/alerts.yaml";

fn read(relative: &str) -> String {
    std::fs::read_to_string(workspace().join(relative)).unwrap()
}

fn yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap()
}

/// The objects of the overlay, as `kubectl kustomize` renders it.
fn rendered() -> Vec<Value> {
    ours::rendered(OVERLAY).unwrap()
}

fn of_kind(kind: &str) -> Value {
    let mut found: Vec<_> = rendered()
        .into_iter()
        .filter(|object| object["kind"] == kind)
        .collect();
    assert_eq!(found.len(), 1, "{kind}");
    found.remove(0)
}

fn array(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn rules() -> Vec<Value> {
    let rules = of_kind("PrometheusRule");
    let groups = array(&rules["spec"]["groups"]).iter();
    groups
        .flat_map(|group| array(&group["rules"]).clone())
        .collect()
}

fn dashboard() -> Value {
    let map = rendered();
    let map = map
        .iter()
        .find(|object| object["kind"] == "ConfigMap")
        .unwrap();
    serde_json::from_str(text(&map["data"]["ipgc.json"])).unwrap()
}

/// All names and labels that a run exports once a sweep has ended, where a silent node holds a row.
async fn exported() -> (String, BTreeMap<String, BTreeSet<String>>) {
    let server = server();
    server.put(fixtures::node("node-9", false));
    put_pool(&server, &[(1, "web-0"), (2, "gone")]);
    run_pod(&server, "web-0", 1);
    let bench = Bench::with(server, Config::default()).await;
    seconds(10).await;
    let text = metrics::text(&bench.running.context);
    bench.stop().await;
    let mut names = BTreeMap::<_, BTreeSet<_>>::new();
    for sample in Scrape::parse(&text).0.keys() {
        let (name, labels) = sample.split_once('{').unwrap_or((sample, ""));
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let own = names.entry(name.to_owned()).or_default();
        own.extend(labels.map(|(label, _)| label.to_owned()));
    }
    (text, names)
}

/// Every expression there is, with where it stands.
fn expressions() -> Vec<(String, String)> {
    let mut all = Vec::new();
    for rule in rules() {
        let name = rule.get("alert").unwrap_or(&rule["record"]);
        all.push((text(name).to_owned(), text(&rule["expr"]).to_owned()));
    }
    let dashboard = dashboard();
    for panel in array(&dashboard["panels"]) {
        for target in array(&panel["targets"]) {
            all.push((
                text(&panel["title"]).to_owned(),
                text(&target["expr"]).to_owned(),
            ));
        }
    }
    for variable in array(&dashboard["templating"]["list"]) {
        if variable["type"] == "query" {
            // label_values(metric, label)
            let query = text(&variable["definition"]);
            let (metric, label) = query.trim_end_matches(')').split_once(", ").expect(query);
            let metric = metric.strip_prefix("label_values(").unwrap();
            all.push((
                text(&variable["name"]).to_owned(),
                format!("sum by ({label}) ({metric})"),
            ));
        }
    }
    all
}

#[tokio::test(start_paused = true)]
async fn rules_and_dashboard_use_what_is_exported() {
    let (_, exported) = exported().await;
    let rules = rules();
    let recorded: BTreeSet<_> = rules
        .iter()
        .filter_map(|rule| rule["record"].as_str())
        .collect();
    // Those that Prometheus adds of its own.
    let added = ["pod", "le"];
    let mut used = BTreeSet::new();
    let expressions = expressions();
    assert!(expressions.len() > 30, "{}", expressions.len());
    for (place, expression) in expressions {
        let asked = asked(&expression);
        let mut labels: BTreeSet<_> = added.into_iter().map(str::to_owned).collect();
        for (name, matched) in &asked.metrics {
            if recorded.contains(&**name) {
                labels.insert("pool".to_owned());
                continue;
            }
            let own = exported.get(name);
            let own = own.unwrap_or_else(|| panic!("{place}: {name} is not exported"));
            assert!(
                matched.is_subset(own),
                "{place}: {name} has {own:?}, not {matched:?}"
            );
            labels.extend(own.iter().cloned());
            used.insert(name.clone());
        }
        let grouped = &asked.grouped;
        assert!(
            grouped.is_subset(&labels),
            "{place}: {grouped:?} is not in {labels:?}"
        );
    }
    // No metric is exported that neither a rule nor the dashboard uses. Of a histogram one used part is enough.
    let base = |name: &str| {
        let parts = ["_bucket", "_sum", "_count"];
        let part = parts.iter().find_map(|part| name.strip_suffix(part));
        part.unwrap_or(name).to_owned()
    };
    let used: BTreeSet<_> = used.iter().map(|name| base(name)).collect();
    let unused: Vec<_> = exported
        .keys()
        .filter(|name| !used.contains(&base(name)))
        .collect();
    assert!(unused.is_empty(), "{unused:?}");
}

/// Every metric and each of its labels is in the table of the docs, and nothing else is.
#[tokio::test(start_paused = true)]
async fn the_docs_name_every_metric_with_its_labels() {
    let (text, exported) = exported().await;
    let mut expected = BTreeSet::new();
    for line in text.lines() {
        let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|line| line.split_once(' '))
        else {
            continue;
        };
        let (sample, shown) = match kind {
            "counter" => (format!("{name}_total"), format!("{name}_total")),
            "histogram" => (format!("{name}_bucket"), name.to_owned()),
            _ => (name.to_owned(), name.to_owned()),
        };
        let labels = exported
            .get(&sample)
            .unwrap_or_else(|| panic!("no {sample}"));
        let labels = labels.iter().filter(|label| **label != "le");
        let labels: Vec<_> = labels.map(|label| format!("`{label}`")).collect();
        expected.insert(
            format!("| `{shown}` | {kind} | {} |", labels.join(", ")).replace("|  |", "| |"),
        );
    }
    let docs = read("docs/operations.md");
    let lines = docs.lines().filter(|line| line.starts_with("| `ipgc_"));
    let first_three = |line: &str| {
        let cells: Vec<_> = line.split(" | ").take(3).collect();
        let mut labels: Vec<_> = cells[2].split(", ").collect();
        labels.sort_unstable();
        format!("{} | {} | {} |", cells[0], cells[1], labels.join(", ")).replace("|  |", "| |")
    };
    let shown: BTreeSet<_> = lines
        .map(|line| first_three(&line.replace("| | ", "|  | ")))
        .collect();
    assert_eq!(shown, expected);
}

#[test]
fn every_alert_says_what_to_do_and_where_that_is_explained() {
    let docs = read("docs/operations.md");
    let rules = rules();
    let alerts = rules.iter().filter(|rule| rule.get("alert").is_some());
    let mut names = BTreeSet::new();
    for alert in alerts {
        let name = text(&alert["alert"]);
        names.insert(name);
        assert!(
            ["warning", "critical"].contains(&text(&alert["labels"]["severity"])),
            "{name}"
        );
        let annotations = &alert["annotations"];
        assert!(text(&annotations["summary"]).len() < 90, "{name}");
        assert!(text(&annotations["description"]).len() > 80, "{name}");
        let anchor = format!("docs/operations.md#{}", name.to_lowercase());
        assert!(
            text(&annotations["runbook_url"]).ends_with(&anchor),
            "{name}"
        );
        assert!(
            docs.contains(&format!("\n### {name}\n")),
            "{name} has no section"
        );
    }
    let sections = docs
        .lines()
        .filter_map(|line| line.strip_prefix("### Ipgc"));
    let sections: BTreeSet<_> = sections.map(|name| format!("Ipgc{name}")).collect();
    assert_eq!(sections, names.into_iter().map(str::to_owned).collect());
}

fn promtool(args: &[&str], directory: &Path, input: Stdio) -> e2e::Result<String> {
    let mut promtool = Command::new(Tool::Promtool.path_blocking()?);
    said(promtool.args(args).current_dir(directory).stdin(input))
}

/// A directory with the rules as Prometheus reads them, `change`d, and the cases.
fn stage(name: &str, change: impl FnOnce(String) -> String) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&directory).unwrap();
    let rules = serde_yaml::to_string(&of_kind("PrometheusRule")["spec"]).unwrap();
    std::fs::write(directory.join("rules.yaml"), change(rules)).unwrap();
    std::fs::write(directory.join("alerts.yaml"), read(CASES)).unwrap();
    directory
}

#[test]
fn alerts_fire_when_they_should_and_only_then() {
    let directory = stage("alerts", |rules| rules);
    for args in [
        ["check", "rules", "rules.yaml"],
        ["test", "rules", "alerts.yaml"],
    ] {
        promtool(&args, &directory, Stdio::null()).unwrap();
    }
}

/// The cases tell a good rule from a bad one.
#[rstest]
#[case::threshold("ratio > 0.9\n", "ratio > 0.95\n")]
#[case::patience("for: 3h", "for: 5h")]
#[case::one_replica("max by (pool) (ipgc_pool_taken)", "sum by (pool) (ipgc_pool_taken)")]
#[case::all_rows("max by (pool) (ipgc_pool_taken) ", "sum by (pool) (ipgc_pool_rows) ")]
#[case::any_leader("ipgc_leader == 1", "ipgc_leader")]
#[case::last_hours_alone(
    "deriv(pool:ipgc_used:ratio[3h] offset 3h)",
    "deriv(pool:ipgc_used:ratio[3h])"
)]
#[case::hours_before_alone(
    "deriv(pool:ipgc_used:ratio[3h]) ",
    "deriv(pool:ipgc_used:ratio[3h] offset 3h) "
)]
#[case::every_start("> 4\n", "> 1\n")]
fn a_rule_that_is_wrong_fails_its_case(#[case] right: &str, #[case] wrong: &str) {
    let directory = stage(&format!("wrong-{}", right.len()), |rules| {
        assert!(rules.contains(right), "{rules}");
        rules.replace(right, wrong)
    });
    let tested = promtool(&["test", "rules", "alerts.yaml"], &directory, Stdio::null());
    assert!(tested.is_err(), "{tested:?}");
}

#[test]
fn every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() {
    let rules = rules();
    let alerts: BTreeSet<_> = rules
        .iter()
        .filter_map(|rule| rule["alert"].as_str())
        .collect();
    let cases = yaml(&read(CASES));
    let cases = array(&cases["tests"]).iter();
    let cases: Vec<_> = cases
        .flat_map(|case| array(&case["alert_rule_test"]).clone())
        .collect();
    for fires in [true, false] {
        let own = cases
            .iter()
            .filter(|case| array(&case["exp_alerts"]).is_empty() != fires);
        let own: BTreeSet<_> = own.map(|case| text(&case["alertname"])).collect();
        assert_eq!(own, alerts, "fires: {fires}");
    }
}

/// promtool lints Prometheus' own form, in which a counter's family bears the suffix `_total` as well.
#[tokio::test(start_paused = true)]
async fn promtool_has_nothing_against_the_metrics() {
    let (text, _) = exported().await;
    let counters: Vec<_> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut own = text.clone();
    for counter in counters {
        for head in ["HELP", "TYPE"] {
            own = own.replace(
                &format!("# {head} {counter} "),
                &format!("# {head} {counter}_total "),
            );
        }
    }
    let own = own.replace("# EOF\n", "");
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(directory.join("metrics"), own).unwrap();
    let own = std::fs::File::open(directory.join("metrics")).unwrap();
    let found = promtool(&["check", "metrics"], directory, own.into()).unwrap();
    assert_eq!(found, "");
}

#[test]
fn the_component_adds_what_prometheus_and_grafana_look_for() {
    let added: BTreeSet<_> = rendered()
        .iter()
        .map(|object| {
            format!(
                "{} {}",
                text(&object["kind"]),
                text(&object["metadata"]["name"])
            )
        })
        .collect();
    for expected in [
        "ConfigMap ipgc-dashboard",
        "Deployment ipgc",
        "PrometheusRule ipgc",
        "Service ipgc",
        "ServiceMonitor ipgc",
    ] {
        assert!(added.contains(expected), "{expected} is not in {added:?}");
    }
    let service = of_kind("Service");
    let monitor = of_kind("ServiceMonitor");
    let deployment = of_kind("Deployment");
    let labels =
        |object: &Value, at: &str| object.pointer(at).unwrap().as_object().unwrap().clone();
    let selects = |selector: &serde_json::Map<String, Value>,
                   labels: &serde_json::Map<String, Value>| {
        selector
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value))
    };
    let monitored = labels(&monitor, "/spec/selector/matchLabels");
    assert!(selects(&monitored, &labels(&service, "/metadata/labels")));
    let pods = labels(&deployment, "/spec/template/metadata/labels");
    assert!(selects(&labels(&service, "/spec/selector"), &pods));
    // One port, by one name, from the monitor to the container.
    let port = &service["spec"]["ports"][0];
    assert_eq!(monitor["spec"]["endpoints"][0]["port"], port["name"]);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(port["targetPort"], container["ports"][0]["name"]);
    assert_eq!(container["ports"][0]["containerPort"], 8080);
    for object in [&service, &monitor, &deployment] {
        assert_eq!(object["metadata"]["namespace"], "ipgc-system");
    }
    let scrape = text(&monitor["spec"]["endpoints"][0]["path"]);
    assert_eq!(scrape, "/metrics");
}

#[test]
fn the_dashboard_is_whole() {
    let dashboard = dashboard();
    let panels = array(&dashboard["panels"]);
    let ids: BTreeSet<_> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(ids.len(), panels.len(), "ids are unique");
    let mut taken = BTreeSet::new();
    for panel in panels {
        let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        for x in place("x")..place("x") + place("w") {
            for y in place("y")..place("y") + place("h") {
                assert!(
                    x < 24 && taken.insert((x, y)),
                    "{} overlaps",
                    panel["title"]
                );
            }
        }
        assert_eq!(
            panel["datasource"]["uid"], "${datasource}",
            "{}",
            panel["title"]
        );
    }
}

/// A link to a heading that is not there leads to the top of a long page.
#[test]
fn the_dashboard_links_to_what_there_is() {
    let runbook = std::fs::read_to_string(workspace().join("docs/operations.md")).unwrap();
    let heading = |line: &str| {
        Some(
            line.strip_prefix("##")?
                .trim_start_matches('#')
                .trim()
                .to_lowercase(),
        )
    };
    let anchors: BTreeSet<_> = runbook.lines().filter_map(heading).collect();
    let dashboard = dashboard();
    let panels = array(&dashboard["panels"]).iter();
    let links = panels.flat_map(|panel| panel["links"].as_array().into_iter().flatten());
    let mut count = 0;
    for link in links {
        let (_, anchor) = text(&link["url"])
            .split_once("docs/operations.md#")
            .unwrap();
        assert!(anchors.contains(anchor), "{anchor}");
        count += 1;
    }
    assert!(count >= 10, "{count}");
}
