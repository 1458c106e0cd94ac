//! The rights of `ipgc run`, as RBAC grants them: a missing right is named before anything starts.

use e2e::{
    Cluster, ControlPlane, Namespace, Result, access::Access, cluster::unique,
    control_plane::Options, ours::until_missing,
};
use ipgc::config::Config;

use crate::binary::{applied, ipgc, run, terminated};

/// Without rights on a Lease.
const ALONE: &str = "--leader-elect=false";

/// A service account with the rights of the manifests, those on pools excepted.
async fn account(plane: &ControlPlane, namespace: &Namespace) -> Result<(String, Access)> {
    namespace
        .kubectl(&["create", "serviceaccount", "ipgc"])
        .await?;
    let subject = format!("--serviceaccount={}:ipgc", namespace.name);
    let name = &namespace.name;
    let cluster = namespace.cluster();
    let facts = ["create", "clusterrolebinding", name, "--clusterrole=ipgc"];
    cluster
        .kubectl(facts.into_iter().chain([&*subject]))
        .await?;
    let beats = ["create", "rolebinding", name, "--role=ipgc"];
    let beside = ["--namespace=kube-node-lease", &subject];
    cluster.kubectl(beats.into_iter().chain(beside)).await?;
    let access = plane.service_account(&namespace.name, "ipgc").await?;
    Ok((subject, access))
}

/// Runs it to its end, which has to be that of bad input, and returns its one line.
pub async fn refused(cluster: &Cluster, account: &Access, args: &[&str]) -> Result<String> {
    let kubeconfig = cluster.dir().join(unique("refused"));
    account.write(&kubeconfig)?;
    let kubeconfig = kubeconfig.to_str().unwrap();
    let alone = ["run", "--kubeconfig", kubeconfig];
    let said = ipgc(&[&alone, args].concat(), "").await?;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert_eq!(said.stderr.lines().count(), 1, "{said:?}");
    Ok(said.stderr)
}

/// As the overlay binds it: `--pool-namespace` and the binding have to go together.
#[tokio::test]
async fn rights_on_the_pools_of_one_namespace_are_enough_for_that_namespace() -> Result<()> {
    let plane = applied().await?;
    let cluster = &Cluster::get().await?;
    let namespace = cluster.namespace("confined").await?;
    let (subject, access) = account(plane, &namespace).await?;
    let role = "--clusterrole=ipgc-pools";
    namespace
        .kubectl(&["create", "rolebinding", "ipgc-pools", role, &subject])
        .await?;

    let here = ["--pool-namespace", &namespace.name];
    let config = Config {
        pool_namespace: Some(namespace.name.clone()),
        ..Config::default()
    };
    until_missing(&access, &config, &[]).await?;
    let ipgc = run(cluster, &access, &here).await?;
    ipgc.is_ready().await?;
    terminated(ipgc).await?;

    let said = refused(cluster, &access, &[ALONE]).await?;
    assert_eq!(said.matches(" in all namespaces").count(), 8, "{said}");
    for kind in [
        "ippools",
        "overlappingrangeipreservations",
        "nodeslicepools",
    ] {
        let right = format!("list {kind}.whereabouts.cni.cncf.io in all namespaces");
        assert!(said.contains(&right), "{said}");
    }
    let elsewhere = refused(cluster, &access, &[ALONE, "--pool-namespace=default"]).await?;
    let named = elsewhere.matches(" in namespace default").count();
    assert_eq!(named, 8, "{elsewhere}");
    Ok(())
}

#[tokio::test]
async fn an_api_server_may_start_later() -> Result<()> {
    let plane = ControlPlane::start(Options::default()).await?;
    let cluster = Cluster::of(&plane).await?;
    plane.api_server().kill()?;
    let ipgc = run(&cluster, cluster.access(), &[]).await?;
    ipgc.says("cannot ask for rights").await?;
    plane.restart_api_server().await?;
    ipgc.is_ready().await?;
    terminated(ipgc).await?;
    plane.stop().await
}

/// With all rights, as from a person's machine; nothing is made.
#[tokio::test]
async fn a_lease_namespace_that_does_not_exist_is_named_and_the_exit_code_is_2() -> Result<()> {
    let cluster = &Cluster::get().await?;
    let args = ["--listen=none", "--lease-namespace=nowhere"];
    let said = refused(cluster, cluster.access(), &args).await?;
    assert_eq!(
        said,
        "ipgc: namespace nowhere, where the Lease is to be, does not exist: \
         create it, or name another by --lease-namespace\n"
    );
    Ok(())
}
