//! The facts on which the test server stands hold on the real one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use e2e::{Cluster, ControlPlane};
use testkit::conformance;

#[tokio::test]
async fn all_checks_hold_on_a_real_server() -> e2e::Result<()> {
    let cluster = Cluster::get().await?;
    // A server on an empty store can still watch from the first version on. One that started on a
    // store with a past cannot, like any server that has been up for minutes.
    ControlPlane::shared().await?.restart_api_server().await?;
    let namespace = cluster.namespace("conformance").await?;
    // Twice: the checks clean up after each other.
    for round in ["first", "second"] {
        let client = cluster.client_named("conformance").await?;
        let failed = conformance::failures(&client, &namespace.name).await;
        assert!(failed.is_empty(), "{round} round:\n{}", failed.join("\n"));
    }
    Ok(())
}
