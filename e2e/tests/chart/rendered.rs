//! The chart renders what the kustomizations render. Only labels that name the tool may differ, and the Namespace, which helm
//! makes itself.

use e2e::ours::rendered;
use rstest::rstest;
use serde_json::{Value, json};

use crate::{Objects, chart, helm, release, template, titled};

/// Labels that tell which tool made an object.
const OF_TOOLS: [&str; 3] = [
    "helm.sh/chart",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
];

fn kustomize(path: &str) -> Objects {
    let mut all = titled(rendered(path).unwrap());
    all.retain(|title, _| !title.starts_with("Namespace "));
    all.values_mut().for_each(forget_tools);
    all
}

/// What `helm install` makes.
fn installed(args: &[&str]) -> Objects {
    let mut all = template(args).unwrap();
    let is_hook = |it: &Value| it["metadata"]["annotations"].get("helm.sh/hook").is_some();
    all.retain(|_, object| !is_hook(object));
    // ipgc makes it where helm does not.
    let lease = all.remove("Lease ipgc-system/ipgc");
    assert_eq!(lease.is_some(), !args.contains(&"dryRun=true"));
    all.values_mut().for_each(forget_tools);
    all
}

fn forget_tools(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !OF_TOOLS.contains(&name.as_str()));
            fields.values_mut().for_each(forget_tools);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_tools),
        _ => {}
    }
}

#[rstest]
#[case::default("manifests/base", &[])]
#[case::one_namespace("manifests/overlays/other-namespace", &["--set", "poolNamespace=openshift-multus"])]
#[case::monitoring(
    "manifests/overlays/monitoring",
    &["--set", "monitoring.enabled=true,dashboard.enabled=true"]
)]
fn the_chart_is_the_kustomization(#[case] path: &str, #[case] args: &[&str]) {
    let (ours, theirs) = (installed(args), kustomize(path));
    let titles = |all: &Objects| all.keys().cloned().collect::<Vec<_>>();
    assert_eq!(titles(&ours), titles(&theirs));
    for (title, object) in &ours {
        assert_eq!(object, &theirs[title], "{title}");
    }
}

#[test]
fn a_dry_run_has_no_right_to_write() {
    let all = installed(&["--set", "dryRun=true"]);
    let roles = all.iter().filter(|(title, _)| title.contains("Role "));
    let granted = roles.flat_map(|(_, role)| role["rules"].as_array().unwrap());
    let verbs: Vec<_> = granted
        .flat_map(|rule| rule["verbs"].as_array().unwrap())
        .collect();
    assert!(verbs.len() > 8, "{verbs:?}");
    for verb in verbs {
        assert!(["get", "list", "watch"].contains(&verb.as_str().unwrap()));
    }
}

/// The flag comes with the right that it takes, and that right with no other flag.
#[rstest]
#[case("resourceclaims", "list", "flags.resource-claims=true", true)]
#[case("resourceclaims", "list", "flags.resource-claims=false", false)]
#[case("resourceclaims", "list", "flags.grace=5m", false)]
#[case("ippools", "delete", "flags.collect-empty-pools=true", true)]
#[case("ippools", "delete", "flags.collect-empty-pools=false", false)]
#[case(
    "ippools",
    "delete",
    "flags.collect-empty-pools=true,dryRun=true",
    false
)]
#[case("ippools", "delete", "flags.grace=5m", false)]
fn a_right_comes_with_its_flag(
    #[case] resource: &str,
    #[case] verb: &str,
    #[case] flags: &str,
    #[case] granted: bool,
) {
    let args = flags.split(',').flat_map(|flag| ["--set", flag]);
    let all = installed(&args.collect::<Vec<_>>());
    let roles = all.values().filter(|it| it["kind"] == "ClusterRole");
    let rules = roles.flat_map(|role| role["rules"].as_array().unwrap());
    let grants = |resource: &str, verb: &str| {
        let has = |list: &Value, it: &str| list.as_array().unwrap().contains(&json!(it));
        let mut rules = rules.clone();
        rules.any(|rule| has(&rule["resources"], resource) && has(&rule["verbs"], verb))
    };
    assert!(grants("ippools", "get"));
    assert_eq!(grants(resource, verb), granted);
}

/// Texts that YAML reads as something else, if nothing quotes them.
#[rstest]
#[case("n")]
#[case("on")]
#[case("null")]
#[case("123")]
#[case("1e3")]
fn each_name_stays_a_text(#[case] name: &str) {
    let text = format!(
        "poolNamespace={name},priorityClassName={name},image.pullSecrets[0]={name},image.tag={name}"
    );
    let all = "monitoring.enabled=true,dashboard.enabled=true,podDisruptionBudget.enabled=true,networkPolicy.enabled=true";
    let render = |name: &str, text: &str| {
        release(name, name, &["--set-string", text, "--set", all]).unwrap()
    };
    let named = render(name, &text);
    let other = render("other", &text.replace(name, "other"));
    let quoted = |objects: &Objects, name: &str| {
        let text = serde_json::to_string(&objects.values().collect::<Vec<_>>()).unwrap();
        text.matches(&format!("\"{name}\"")).count()
    };
    assert!(quoted(&other, "other") > 30);
    assert_eq!(quoted(&named, name), quoted(&other, "other"));
}

/// The pod of `helm test` audits as the collector would, and is none of the collector's pods.
#[test]
fn the_test_audits_beside_the_collector() {
    let args = [
        "--set",
        "flags.grace=5m,priorityClassName=high,image.pullSecrets[0]=key,poolNamespace=one",
    ];
    let all = template(&args).unwrap();
    let (audit, collector) = (
        &all["Pod ipgc-system/ipgc-audit"],
        &all["Deployment ipgc-system/ipgc"],
    );
    let template = &collector["spec"]["template"];
    let (pod, other) = (&audit["spec"], &template["spec"]);
    for field in [
        "serviceAccountName",
        "automountServiceAccountToken",
        "priorityClassName",
        "imagePullSecrets",
        "nodeSelector",
        "tolerations",
        "securityContext",
    ] {
        assert!(!pod[field].is_null(), "{field}");
        assert_eq!(pod[field], other[field], "{field}");
    }
    let (container, other) = (&pod["containers"][0], &other["containers"][0]);
    assert_eq!(
        container["args"],
        serde_json::json!(["audit", "--exit-zero"])
    );
    for field in ["image", "resources", "securityContext"] {
        assert_eq!(container[field], other[field], "{field}");
    }
    let env = container["env"].as_array().unwrap();
    assert_eq!(env.len(), 2, "{env:?}");
    assert!(
        env.iter()
            .all(|it| other["env"].as_array().unwrap().contains(it))
    );
    let selected = collector["spec"]["selector"]["matchLabels"]
        .as_object()
        .unwrap();
    assert!(
        selected
            .iter()
            .any(|(name, value)| audit["metadata"]["labels"][name] != *value)
    );
}

#[test]
fn helm_lint_finds_nothing() {
    let chart = chart();
    let args = ["lint", "--strict", chart.to_str().unwrap()];
    let said = helm(&std::env::temp_dir(), &args).unwrap();
    assert!(said.contains("0 chart(s) failed"), "{said}");
    assert!(!said.contains("[WARNING]"), "{said}");
}

/// The version stands in Cargo.toml.
#[test]
fn the_version_is_that_of_the_program() {
    let text = std::fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    let about: Value = serde_yaml::from_str(&text).unwrap();
    for field in ["version", "appVersion"] {
        assert_eq!(about[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
}
