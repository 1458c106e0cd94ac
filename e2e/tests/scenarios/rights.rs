//! The rights of `manifests/base` on the real API server (docs/security.md): each is used, no request goes beyond them,
//! and `ipgc run` names each that is missing.
//!
//! The servers are the test's own: the account sees all pods and pools, and its roles change.

use std::{collections::BTreeSet, time::Duration};

use e2e::{
    Cluster, ControlPlane, Result,
    access::Access,
    audit::Request,
    control_plane::Options,
    node::install::{ACCOUNT, NAMESPACE},
    ours::{Ipgc, until_missing},
    pods::End,
};
use ipgc::config::Config;
use serde_json::{Value, json};

use crate::{
    access::refused,
    binary::terminated,
    support::{POOL, SHORT_WAITS, Scene, plan, wait_of},
};

/// The roles of the manifests: the namespace, empty if none, and the name.
const ROLES: [(&str, &str); 4] = [
    ("", "ipgc"),
    ("", "ipgc-pools"),
    ("kube-node-lease", "ipgc"),
    (NAMESPACE, "ipgc"),
];

/// One verb on one kind, as a role grants it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Grant {
    verb: String,
    group: String,
    resource: String,
    /// Empty: in all, or the kind has none.
    namespace: String,
    /// Empty: any.
    name: String,
}

impl Grant {
    fn covers(&self, request: &Request) -> bool {
        let is = |granted: &str, used: &str| granted.is_empty() || granted == used;
        self.verb == request.verb
            && self.group == group_of(&request.uri)
            && self.resource == request.resource
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
    }

    /// As `ipgc run` says it.
    fn said(&self) -> String {
        let kind = match &*self.group {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        };
        let name = match &*self.name {
            "" => String::new(),
            name => format!(" {name}"),
        };
        let place = match (&*self.namespace, &*self.resource) {
            ("", "nodes") => "at the cluster scope".to_owned(),
            ("", _) => "in all namespaces".to_owned(),
            (namespace, _) => format!("in namespace {namespace}"),
        };
        format!("{} {kind}{name} {place}", self.verb)
    }

    fn rule(&self) -> Value {
        let names: Vec<_> = [&*self.name]
            .into_iter()
            .filter(|it| !it.is_empty())
            .collect();
        json!({ "verbs": [self.verb], "apiGroups": [self.group], "resources": [self.resource], "resourceNames": names })
    }
}

/// The API group in the path of a request, empty for the core group.
fn group_of(uri: &str) -> &str {
    let rest = uri.strip_prefix("/apis/").unwrap_or_default();
    rest.split('/').next().unwrap_or_default()
}

fn place(namespace: &str) -> Vec<String> {
    match namespace {
        "" => vec!["clusterrole".to_owned()],
        namespace => vec!["role".to_owned(), format!("--namespace={namespace}")],
    }
}

/// All that a role grants.
async fn granted(cluster: &Cluster, (namespace, name): (&str, &str)) -> Result<Vec<Grant>> {
    let get = [place(namespace), vec![name.to_owned(), "-ojson".to_owned()]].concat();
    let role = cluster
        .kubectl(["get".to_owned()].iter().chain(&get))
        .await?;
    let role: Value = serde_json::from_str(&role)?;
    let texts = |value: &Value| -> Vec<String> {
        let all = value.as_array().into_iter().flatten();
        all.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut grants = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let mut names = texts(&rule["resourceNames"]);
        if names.is_empty() {
            names.push(String::new());
        }
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for (verb, name) in texts(&rule["verbs"])
                    .iter()
                    .flat_map(|verb| names.iter().map(move |name| (verb, name)))
                {
                    grants.push(Grant {
                        verb: verb.clone(),
                        group: group.clone(),
                        resource: resource.clone(),
                        namespace: namespace.to_owned(),
                        name: name.clone(),
                    });
                }
            }
        }
    }
    Ok(grants)
}

/// Has a role grant just these.
async fn grant(
    cluster: &Cluster,
    (namespace, name): (&str, &str),
    grants: impl Iterator<Item = &Grant>,
) -> Result<()> {
    let rules: Vec<_> = grants.map(Grant::rule).collect();
    let rules = json!({ "rules": rules }).to_string();
    let how = [
        name.to_owned(),
        "--type=merge".to_owned(),
        "-p".to_owned(),
        rules,
    ];
    let patch = [vec!["patch".to_owned()], place(namespace), how.to_vec()].concat();
    cluster.kubectl(patch).await.map(drop)
}

/// Rows and reservations of pods that end well and by force: all that it does in a cluster without faults.
async fn life(cluster: &Cluster, account: &Access) -> Result<()> {
    let (scene, network) = Scene::with_network_on(cluster, "rights").await?;
    let node = cluster.live_node("node").await?;
    let args = [&["--cooldown=1s", "--sweep-interval=1s"][..], &SHORT_WAITS].concat();
    let settings = [("LEADER_ELECT", "true"), ("LEASE_NAMESPACE", NAMESPACE)];
    let ipgc = Ipgc::start(cluster, account, &args, &settings).await?;
    ipgc.is_ready().await?;
    tokio::time::sleep(wait_of(1)).await;
    for pod in ["well", "forced"] {
        let plan = plan(pod, "net-a").on(&node.name);
        scene.cni.start(&plan, &[&network]).await?;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    scene.namespace.end_pod("well", End::Succeeded).await?;
    scene.namespace.force_delete_pod("forced").await?;
    let done = async {
        scene.namespace.wait_offsets(POOL, &[]).await?;
        scene.namespace.wait_reservations(&[]).await
    };
    if let Err(error) = done.await {
        panic!("{error}\n{}", ipgc.log());
    }
    terminated(ipgc).await.map(drop)
}

#[tokio::test]
async fn each_right_is_used_and_its_loss_is_told_and_nothing_beyond_is_asked_for() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let cluster = &Cluster::of(&plane).await?;
    cluster.apply_manifests().await?;
    let account = plane.service_account(NAMESPACE, "ipgc").await?;
    let config = Config {
        lease_namespace: Some(NAMESPACE.to_owned()),
        ..Config::default()
    };
    until_missing(&account, &config, &[]).await?;
    let mut roles = Vec::new();
    for role in ROLES {
        roles.push((role, granted(cluster, role).await?));
    }
    let all = || roles.iter().flat_map(|(_, grants)| grants);

    // Its beginning, its life and its end, by the server's own log.
    let mark = cluster.audit().mark()?;
    life(cluster, &account).await?;
    let mut sent = cluster.audit().since(mark)?;
    sent.retain(|request| request.user == ACCOUNT);
    let refusals: Vec<_> = sent
        .iter()
        .filter(|it| [401, 403].contains(&it.code))
        .collect();
    assert!(refusals.is_empty(), "{refusals:#?}");
    // Every account may ask for its own rights, for the version, and for the schemas of all kinds.
    let of_all = |uri: &str| uri == "/version" || uri.starts_with("/openapi/v3/");
    sent.retain(|it| group_of(&it.uri) != "authorization.k8s.io" && !of_all(&it.uri));
    let beyond: Vec<_> = sent
        .iter()
        .filter(|request| !all().any(|grant| grant.covers(request)))
        .collect();
    assert!(beyond.is_empty(), "{beyond:#?}");
    let unused: BTreeSet<_> = all()
        .filter(|grant| !sent.iter().any(|request| grant.covers(request)))
        .map(Grant::said)
        .collect();
    assert_eq!(unused, BTreeSet::new());

    for (role, grants) in &roles {
        for lost in grants {
            grant(cluster, *role, grants.iter().filter(|it| *it != lost)).await?;
            let lost = lost.said();
            until_missing(&account, &config, &[&lost]).await?;
            let lease = ["--leader-elect=true", "--lease-namespace", NAMESPACE];
            let said = refused(cluster, &account, &lease).await?;
            assert!(
                said.contains(&format!(
                    "rights are missing, manifests/base/rbac.yaml grants them: {lost}"
                )),
                "{said}"
            );
        }
        grant(cluster, *role, grants.iter()).await?;
    }
    plane.stop().await
}
