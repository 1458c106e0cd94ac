//! The facts on which the test server stands hold on the real one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use e2e::{
    Cluster, ControlPlane,
    cni::{Cni, Network, Sandbox},
};
use ipgc::core::pool::cut_managed_fields;
use serde_json::Value;
use testkit::conformance;

#[tokio::test]
async fn all_checks_hold_on_a_real_server() -> e2e::Result<()> {
    let cluster = Cluster::get().await?;
    if !cluster.is_foreign() {
        // A server on an empty store can still watch from the first version on. One that started on a
        // store with a past cannot, like any server that has been up for minutes.
        ControlPlane::shared().await?.restart_api_server().await?;
    }
    let namespace = cluster.namespace("conformance").await?;
    // Twice: the checks clean up after each other.
    for round in ["first", "second"] {
        let client = cluster.client_named("conformance").await?;
        let results = conformance::run_all(client, &namespace.name).await;
        assert!(!results.is_empty());
        let failed: Vec<String> = results
            .iter()
            .filter_map(|result| {
                let why = result.verdict.as_ref().err()?;
                Some(format!("{}: {why}", result.name))
            })
            .collect();
        assert!(failed.is_empty(), "{round} round:\n{}", failed.join("\n"));
    }
    Ok(())
}

/// A sweep reads what a server lists without them (`ipgc_core::pool::cut_managed_fields`), if they stand where they are
/// looked for.
#[tokio::test]
async fn the_managed_fields_of_listed_pools_are_cut() -> e2e::Result<()> {
    let cluster = Cluster::get().await?;
    let namespace = cluster.namespace("managed").await?;
    let cni = Cni::new(&namespace).await?;
    for (name, range) in [("net-a", "10.1.0.0/24"), ("net-b", "10.2.0.0/24")] {
        let sandbox = Sandbox::new(&namespace.name, name);
        let network = Network::range(name, range);
        cni.add(&network, &sandbox, "net1").await?;
    }
    let path = format!(
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{}/ippools",
        namespace.name
    );
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let client = cluster.client_named("managed").await?;
    let text = client.request_text(request).await.unwrap();
    let mut cut = text.clone().into_bytes();
    cut_managed_fields(&mut cut);

    let mut listed: Value = serde_json::from_str(&text).unwrap();
    let pools = listed["items"].as_array_mut().unwrap();
    assert_eq!(pools.len(), 2);
    for pool in pools {
        let metadata = pool["metadata"].as_object_mut().unwrap();
        assert!(metadata.remove("managedFields").is_some());
    }
    assert_eq!(serde_json::from_slice::<Value>(&cut).unwrap(), listed);
    Ok(())
}
