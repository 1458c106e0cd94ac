//! Facts that other tests take for granted: how the plugin treats a row that is there, and that a
//! failed start says why.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use e2e::{
    Cluster, Namespace, Result,
    cni::{Cni, Network, Sandbox},
    pools::Row,
};

const RANGE: &str = "10.1.0.0/24";
const POOL: &str = "10.1.0.0-24";

async fn scene(prefix: &str) -> Result<(Namespace, Cni)> {
    let namespace = Cluster::get().await?.namespace(prefix).await?;
    let cni = Cni::new(&namespace).await?;
    Ok((namespace, cni))
}

#[tokio::test]
async fn a_successor_of_the_same_name_adopts_the_row() -> Result<()> {
    let (namespace, cni) = scene("adopt").await?;
    let network = Network::range("net-a", RANGE);
    let old = Sandbox::new(&namespace.name, "web-0");
    let new = Sandbox::new(&namespace.name, "web-0");
    let first = cni.add(&network, &old, "net1").await?;
    let before = namespace.pool(POOL).await?.unwrap();
    assert_eq!(cni.add(&network, &new, "net1").await?, first);

    let after = namespace.pool(POOL).await?.unwrap();
    assert_eq!(
        after.rows,
        BTreeMap::from([(1, Row::new(&new.id, new.podref(), "net1"))])
    );
    assert_ne!(after.version, before.version);

    // The old sandbox's late DEL finds nothing that is its own.
    cni.del(&network, &old, "net1").await?;
    assert_eq!(namespace.pool(POOL).await?.unwrap().version, after.version);
    Ok(())
}

#[tokio::test]
async fn add_again_with_the_same_sandbox_writes_nothing() -> Result<()> {
    let (namespace, cni) = scene("again").await?;
    let network = Network::range("net-a", RANGE);
    let sandbox = Sandbox::new(&namespace.name, "web-0");
    cni.add(&network, &sandbox, "net1").await?;
    let before = namespace.pool(POOL).await?;
    cni.add(&network, &sandbox, "net1").await?;
    assert_eq!(namespace.pool(POOL).await?, before);
    Ok(())
}
