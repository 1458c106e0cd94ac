//! What the tests of writes share.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "each test file uses its part"
)]

use kube::api::DynamicObject;
use kube::core::ApiResource;
use kube::{Api, Client};
use serde_json::Value;
use testkit::{Server, fixtures};

/// Name of the pool of [`pool_server`].
pub const POOL: &str = "10.0.0.0-24";

/// A kind of the whereabouts group.
pub fn custom(kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: "whereabouts.cni.cncf.io".into(),
        version: "v1alpha1".into(),
        api_version: "whereabouts.cni.cncf.io/v1alpha1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// The pools of `kube-system`.
pub fn pools(client: Client) -> Api<DynamicObject> {
    Api::namespaced_with(client, "kube-system", &custom("IPPool", "ippools"))
}

/// A server with one pool of two rows.
pub fn pool_server() -> Server {
    let server = Server::new();
    server.put(
        fixtures::pool("kube-system", "10.0.0.0/24")
            .row(1, &fixtures::sandbox(1), "shop/a", "net1")
            .row(2, &fixtures::sandbox(2), "shop/b", "net1")
            .build(),
    );
    server
}

/// The typed form of a JSON object.
pub fn object(value: Value) -> DynamicObject {
    serde_json::from_value(value).unwrap()
}

/// Code and Status of a refusal.
pub fn refused(error: kube::Error) -> (u16, Value) {
    match error {
        kube::Error::Api(status) => (status.code, serde_json::to_value(&*status).unwrap()),
        other => panic!("no status: {other}"),
    }
}
