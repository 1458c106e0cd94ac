//! Admission policies of the real API server against writes of ours: an object whose write is refused stays as it is,
//! and all others are freed.

use std::time::Duration;

use e2e::{
    Result,
    cluster::{create, unique},
    cni::Network,
    pods::End,
    wait,
    wait::Probe,
};
use k8s_openapi::api::admissionregistration::v1::{
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use kube::{Api, api::DeleteParams};
use rstest::rstest;
use serde_json::json;

use crate::support::{POOL, Scene};

/// Where `podref` is immutable, as telekom's whereabouts and upstream's pull request 681 have it.
const IMMUTABLE: &str = "object.spec.podref == oldObject.spec.podref";
const REFUSED: &str = "IPAddressGarbageCollectionRefused";
const ORIP: &str = "overlappingrangeipreservations";

/// A policy with its binding, of both of which this is the name.
struct Policy<'s> {
    scene: &'s Scene,
    name: String,
}

impl<'s> Policy<'s> {
    /// Refuses updates in the scene's namespace of which this CEL is not true. Waits until it does: this change of one
    /// of them is refused.
    async fn new(
        scene: &'s Scene,
        resource: &str,
        rule: &str,
        reason: Option<&str>,
        (object, change): (&str, &str),
    ) -> Result<Self> {
        let name = unique("policy");
        let policy = json!({
            "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": [{
                    "apiGroups": ["whereabouts.cni.cncf.io"],
                    "apiVersions": ["*"],
                    "operations": ["UPDATE"],
                    "resources": [resource],
                }]},
                "validations": [{ "expression": rule, "message": "hands off", "reason": reason }],
            },
        });
        let binding = json!({
            "metadata": { "name": name },
            "spec": {
                "policyName": name,
                "validationActions": ["Deny"],
                "matchResources": { "namespaceSelector": { "matchLabels": {
                    "kubernetes.io/metadata.name": scene.namespace.name,
                }}},
            },
        });
        let client = scene.namespace.client();
        let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
        create(&policies, policy).await?;
        let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
        create(&bindings, binding).await?;
        // Somebody else, for the rule may exempt us.
        let patch = [
            "--as=somebody",
            "--as-group=system:masters",
            "patch",
            resource,
            object,
            "--type=merge",
            "--dry-run=server",
            "-p",
            change,
        ];
        wait::until("the policy to count", wait::PATIENCE, || async move {
            Ok(match scene.namespace.kubectl(&patch).await {
                Err(error) if error.to_string().contains("hands off") => Probe::Done(()),
                other => Probe::NotYet(format!("{other:?}")),
            })
        })
        .await?;
        Ok(Self { scene, name })
    }

    async fn end(self) -> Result<()> {
        let client = self.scene.namespace.client().clone();
        let params = DeleteParams::default();
        let bindings = Api::<ValidatingAdmissionPolicyBinding>::all(client.clone());
        bindings.delete(&self.name, &params).await?;
        let policies = Api::<ValidatingAdmissionPolicy>::all(client);
        policies.delete(&self.name, &params).await?;
        Ok(())
    }
}

/// One pool of two is refused, and a reservation.
#[rstest]
#[case::invalid("invalid", None)]
#[case::forbidden("forbidden", Some("Forbidden"))]
#[tokio::test]
async fn a_pool_and_a_reservation_that_a_policy_refuses_keep_no_others(
    #[case] prefix: &str,
    #[case] reason: Option<&str>,
) -> Result<()> {
    let (scene, network) = Scene::with_network(prefix).await?;
    let other = Network::range("net-b", "10.2.0.0/24");
    scene.namespace.attach(&other).await?;
    let collecting = scene.collect().await?;
    scene.start("web-0", &network).await?;
    for pod in ["web-1", "web-2"] {
        scene.start(pod, &other).await?;
    }
    // The policy is there for everybody: no plugin writes to this pool from now on.
    let rule = format!("object.metadata.name != '{POOL}'");
    let change = (POOL, r#"{"metadata":{"labels":{"a":"b"}}}"#);
    let pool = Policy::new(&scene, "ippools", &rule, reason, change).await?;
    let rule = "object.metadata.name != '10.2.0.1'";
    let change = ("10.2.0.1", r#"{"metadata":{"labels":{"a":"b"}}}"#);
    let reservation = Policy::new(&scene, ORIP, rule, reason, change).await?;

    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.namespace.end_pod("web-1", End::Succeeded).await?;
    for kind in ["IPPool", "OverlappingRangeIPReservation"] {
        let events = || scene.events_of(kind);
        let is_told = |events: &Vec<String>| events.iter().any(|it| it.contains(REFUSED));
        let told = wait::until_state("a refusal to be told", wait::PATIENCE, events, is_told);
        let told = told.await?;
        let told = told.iter().filter(|it| it.contains(REFUSED));
        let told: Vec<_> = told.collect();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("Warning"), "{told:?}");
        assert!(told[0].contains("hands off"), "{told:?}");
    }
    // Writes of others are not shut for a moment.
    scene.namespace.end_pod("web-2", End::Succeeded).await?;
    let ended = std::time::Instant::now();
    scene.namespace.wait_offsets("10.2.0.0-24", &[]).await?;
    scene
        .namespace
        .wait_reservations(&["10.1.0.1", "10.2.0.1"])
        .await?;
    let took = ended.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(collecting.not_ready(), Vec::<String>::new());
    assert_eq!(scene.namespace.offsets(POOL).await?, [1]);

    pool.end().await?;
    reservation.end().await?;
    scene.only(&[]).await?;
    let counted = collecting.end().await;
    assert_eq!(counted["frees_refused"], 2);
    assert_eq!(counted["rows_freed"], 3);
    assert_eq!(counted["retries_exhausted"], 0);
    Ok(())
}

/// The exemptions of docs/operations.md: all others are refused, and ipgc is not.
async fn ipgc_is_exempt(prefix: &str, exemption: &str) -> Result<()> {
    let (scene, network) = Scene::with_network(prefix).await?;
    let collecting = scene.collect().await?;
    scene.start("web-0", &network).await?;
    let rule = format!("{IMMUTABLE} || {exemption}");
    let change = ("10.1.0.1", r#"{"spec":{"podref":"a/b"}}"#);
    let policy = Policy::new(&scene, ORIP, &rule, None, change).await?;
    scene.namespace.end_pod("web-0", End::Succeeded).await?;
    scene.only(&[]).await?;
    policy.end().await?;
    let counted = collecting.end().await;
    assert_eq!(counted["frees_refused"], 0);
    Ok(())
}

#[tokio::test]
async fn claims_go_on_where_the_policy_exempts_them() -> Result<()> {
    let exemption = "object.spec.podref == 'ipgc.dev/releasing' || oldObject.spec.podref == 'ipgc.dev/releasing'";
    ipgc_is_exempt("exempt", exemption).await
}

#[tokio::test]
async fn claims_go_on_where_the_policy_exempts_the_account() -> Result<()> {
    let cluster = e2e::Cluster::get().await?;
    let name = "jsonpath={.status.userInfo.username}";
    let account = cluster.kubectl(["auth", "whoami", "-o", name]).await?;
    let exemption = format!("request.userInfo.username == '{account}'");
    ipgc_is_exempt("account", &exemption).await
}
