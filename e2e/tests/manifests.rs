//! The objects that `kubectl apply -k` would send: both kustomizations are rendered by kubectl and compared
//! with tables written by hand, so that a new permission or a lost guard has to be written twice.
//! No server is needed.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use e2e::ours::{rendered, title, workspace};
use rstest::rstest;
use serde_json::{Value, json};

const BASE: &str = "manifests/base";
const OTHER_NAMESPACE: &str = "manifests/overlays/other-namespace";

/// The objects of a kustomization, as `kubectl kustomize` renders it.
fn render(path: &str) -> Vec<Value> {
    rendered(path).unwrap()
}

fn titles(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(title).collect()
}

fn find<'a>(objects: &'a [Value], wanted: &str) -> &'a Value {
    objects
        .iter()
        .find(|object| title(object) == wanted)
        .unwrap_or_else(|| panic!("{wanted} is not among {:?}", titles(objects)))
}

fn texts(value: &Value) -> Vec<&str> {
    value
        .as_array()
        .into_iter()
        .flatten()
        .map(|text| text.as_str().unwrap())
        .collect()
}

/// The permissions that a set of objects grants, to whom and where, one line per resource:
/// `namespace | account | group/resource[=name]: verbs`, with `*` for all namespaces.
fn grants(objects: &[Value]) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for binding in objects {
        let kind = binding["kind"].as_str().unwrap();
        let scope = match kind {
            "ClusterRoleBinding" => "*",
            "RoleBinding" => binding["metadata"]["namespace"].as_str().unwrap(),
            _ => continue,
        };
        let subjects = binding["subjects"].as_array().unwrap();
        assert_eq!(subjects.len(), 1, "{}", title(binding));
        let account = title(&json!({ "kind": subjects[0]["kind"], "metadata": subjects[0] }));

        assert_eq!(binding["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
        let role_kind = binding["roleRef"]["kind"].as_str().unwrap();
        let role_name = binding["roleRef"]["name"].as_str().unwrap();
        let role_namespace = if role_kind == "Role" { scope } else { "-" };
        let role = find(
            objects,
            &format!("{role_kind} {role_namespace}/{role_name}"),
        );
        assert!(role.get("aggregationRule").is_none(), "{}", title(role));

        for rule in role["rules"].as_array().unwrap() {
            assert!(rule.get("nonResourceURLs").is_none(), "{}", title(role));
            let verbs = texts(&rule["verbs"]).join(" ");
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    let names = [&[""], &*texts(&rule["resourceNames"])].concat().join("=");
                    let line = format!("{scope} | {account} | {group}/{resource}{names}: {verbs}");
                    assert!(lines.insert(line.clone()), "granted twice: {line}");
                }
            }
        }
    }
    lines
}

/// Every permission there is, pools bound in `pools`. Nothing else, and no wildcard but in the
/// first column, where it means all namespaces.
fn expected_grants(pools: &str) -> BTreeSet<String> {
    let account = "ServiceAccount ipgc-system/ipgc";
    [
        ("*", "/pods: get list watch"),
        ("*", "/nodes: get list watch"),
        (
            "*",
            "k8s.cni.cncf.io/network-attachment-definitions: list watch",
        ),
        ("*", "events.k8s.io/events: create"),
        (pools, "whereabouts.cni.cncf.io/ippools: get list patch"),
        (
            pools,
            "whereabouts.cni.cncf.io/overlappingrangeipreservations: get list patch delete",
        ),
        (pools, "whereabouts.cni.cncf.io/nodeslicepools: list"),
        ("kube-node-lease", "coordination.k8s.io/leases: list"),
        ("ipgc-system", "coordination.k8s.io/leases: create"),
        ("ipgc-system", "coordination.k8s.io/leases=ipgc: get update"),
    ]
    .iter()
    .map(|(scope, rule)| format!("{scope} | {account} | {rule}"))
    .collect()
}

#[rstest]
#[case::base(BASE, "*")]
#[case::other_namespace(OTHER_NAMESPACE, "openshift-multus")]
fn permissions_are_the_table(#[case] path: &str, #[case] pools: &str) {
    assert_eq!(grants(&render(path)), expected_grants(pools));
}

#[test]
fn base_holds_these_objects() {
    let expected = [
        "ClusterRole -/ipgc",
        "ClusterRole -/ipgc-pools",
        "ClusterRoleBinding -/ipgc",
        "ClusterRoleBinding -/ipgc-pools",
        "Deployment ipgc-system/ipgc",
        "Namespace -/ipgc-system",
        "Role ipgc-system/ipgc",
        "Role kube-node-lease/ipgc",
        "RoleBinding ipgc-system/ipgc",
        "RoleBinding kube-node-lease/ipgc",
        "ServiceAccount ipgc-system/ipgc",
    ];
    assert_eq!(
        titles(&render(BASE)),
        expected.iter().map(ToString::to_string).collect()
    );
}

#[rstest]
#[case(BASE)]
#[case(OTHER_NAMESPACE)]
fn all_objects_are_labelled(#[case] path: &str) {
    for object in render(path) {
        let labels = &object["metadata"]["labels"];
        let title = title(&object);
        assert_eq!(labels["app.kubernetes.io/name"], "ipgc", "{title}");
        assert_eq!(labels["app.kubernetes.io/part-of"], "ipgc", "{title}");
        assert_eq!(
            labels["app.kubernetes.io/version"],
            env!("CARGO_PKG_VERSION"),
            "{title}"
        );
    }
}

#[test]
fn namespace_enforces_restricted() {
    let objects = render(BASE);
    let labels = &find(&objects, "Namespace -/ipgc-system")["metadata"]["labels"];
    for mode in ["enforce", "audit", "warn"] {
        let level = format!("pod-security.kubernetes.io/{mode}");
        assert_eq!(labels[&level], "restricted", "{level}");
        assert_eq!(labels[format!("{level}-version")], "latest", "{level}");
    }
}

#[test]
fn pod_is_confined() {
    let objects = render(BASE);
    let deployment = &find(&objects, "Deployment ipgc-system/ipgc")["spec"];
    let pod = &deployment["template"]["spec"];
    assert_eq!(
        pod["securityContext"],
        json!({
            "runAsNonRoot": true,
            "runAsUser": 65532,
            "runAsGroup": 65532,
            "seccompProfile": { "type": "RuntimeDefault" },
        })
    );
    for host in ["hostNetwork", "hostPID", "hostIPC", "volumes", "hostUsers"] {
        assert!(pod.get(host).is_none(), "the pod has {host}");
    }
    assert!(pod.get("initContainers").is_none());
    let containers = pod["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 1);
    let container = &containers[0];
    assert_eq!(
        container["securityContext"],
        json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        })
    );
    assert_eq!(
        container["resources"],
        json!({
            "requests": { "cpu": "10m", "memory": "32Mi" },
            "limits": { "memory": "256Mi" },
        })
    );
}

#[test]
fn pod_is_probed_where_it_listens() {
    let objects = render(BASE);
    let deployment = &find(&objects, "Deployment ipgc-system/ipgc")["spec"];
    let container = &deployment["template"]["spec"]["containers"][0];
    assert_eq!(
        container["ports"],
        json!([{ "name": "http", "containerPort": 8080 }])
    );
    for (probe, page) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
        let get = json!({ "path": page, "port": "http" });
        assert_eq!(container[probe]["httpGet"], get);
        // Slow clients may keep a probe waiting for three seconds.
        assert!(container[probe]["timeoutSeconds"].as_u64() > Some(3));
    }
    assert!(
        container.get("startupProbe").is_none(),
        "it lives from the start"
    );
}

#[test]
fn pod_runs_the_collector() {
    let objects = render(BASE);
    let deployment = &find(&objects, "Deployment ipgc-system/ipgc")["spec"];
    assert_eq!(deployment["replicas"], 2);
    let template = &deployment["template"];
    let pod_labels = template["metadata"]["labels"].as_object().unwrap();
    for (key, value) in deployment["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(
            pod_labels.get(key),
            Some(value),
            "the selector finds its pods"
        );
    }

    let pod = &template["spec"];
    assert_eq!(pod["serviceAccountName"], "ipgc");
    assert_eq!(pod["automountServiceAccountToken"], true);
    assert_eq!(pod["terminationGracePeriodSeconds"], 15);
    let container = &pod["containers"][0];
    assert_eq!(container["args"], json!(["run"]));
    assert!(container.get("command").is_none(), "the image names it");
    assert_eq!(
        container["image"],
        concat!("ghcr.io/ipgc/ipgc:", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(
        container["env"],
        json!([
            {
                "name": "HOSTNAME",
                "valueFrom": { "fieldRef": { "fieldPath": "metadata.name" } },
            },
            {
                "name": "IPGC_LEASE_NAMESPACE",
                "valueFrom": { "fieldRef": { "fieldPath": "metadata.namespace" } },
            },
        ])
    );
}

/// The overlay differs from the base in where pools are looked for, and in nothing else.
#[test]
fn overlay_confines_the_pools() {
    let base = render(BASE);
    let overlay = render(OTHER_NAMESPACE);

    let mut expected = titles(&base);
    assert!(expected.remove("ClusterRoleBinding -/ipgc-pools"));
    expected.insert("RoleBinding openshift-multus/ipgc-pools".to_owned());
    assert_eq!(titles(&overlay), expected);

    for object in &overlay {
        match title(object).as_str() {
            "RoleBinding openshift-multus/ipgc-pools" => {}
            "Deployment ipgc-system/ipgc" => {
                let mut object = object.clone();
                let env = object
                    .pointer_mut("/spec/template/spec/containers/0/env")
                    .and_then(Value::as_array_mut)
                    .unwrap();
                let namespace = env
                    .iter()
                    .position(|variable| variable["name"] == "WHEREABOUTS_NAMESPACE")
                    .expect("the overlay sets WHEREABOUTS_NAMESPACE");
                assert_eq!(env.remove(namespace)["value"], "openshift-multus");
                assert_eq!(&object, find(&base, "Deployment ipgc-system/ipgc"));
            }
            other => assert_eq!(object, find(&base, other)),
        }
    }
}

/// The objects that are applied to clusters of tests: the base, with an image of their own.
#[rstest]
#[case("e2e/kind")]
#[case("e2e/manifests/image")]
fn test_clusters_get_the_base_with_another_image(#[case] path: &str) {
    const IMAGE: &str = "/spec/template/spec/containers/0/image";
    let base = render(BASE);
    let objects = render(path);
    assert_eq!(titles(&objects), titles(&base));
    for mut object in objects {
        let of_base = find(&base, &title(&object));
        if let Some(image) = object.pointer_mut(IMAGE) {
            let of_base = of_base.pointer(IMAGE).unwrap();
            assert_ne!(image, of_base);
            image.clone_from(of_base);
        }
        assert_eq!(&object, of_base);
    }
}

/// The image and the pod agree on the user, the entry point and the default command.
#[test]
fn image_fits_the_pod() {
    let dockerfile = std::fs::read_to_string(workspace().join("Dockerfile")).unwrap();
    let (_, image) = dockerfile
        .split_once("\nFROM scratch\n")
        .expect("the last stage starts from an empty image");
    let steps: Vec<&str> = image
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    assert_eq!(
        steps,
        [
            "COPY --from=build /ipgc /ipgc",
            "USER 65532:65532",
            "ENTRYPOINT [\"/ipgc\"]",
            "CMD [\"run\"]",
        ]
    );
}

/// Cargo wants every member of the workspace, built or not: one that the image's build does not see ends it.
#[test]
fn the_build_of_the_image_sees_each_member() {
    let read = |path: &str| std::fs::read_to_string(workspace().join(path)).unwrap();
    let manifest = read("Cargo.toml");
    let members = manifest.split_once("members = [").unwrap().1;
    let members = members.split_once(']').unwrap().0.split(',');
    let members: Vec<_> = members.map(|it| it.trim().trim_matches('"')).collect();
    assert!(members.len() > 5, "{members:?}");
    let seen = read(".dockerignore");
    for member in members.iter().filter(|it| **it != ".") {
        let line = format!("!{member}");
        assert!(seen.lines().any(|it| it == line), "{line}");
    }
}
