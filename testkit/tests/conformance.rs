//! The checks that also hold on a real API server, run on this one.

use testkit::{Server, conformance, fixtures};

#[tokio::test(start_paused = true)]
async fn all_checks_hold() {
    let server = Server::builder().require_namespaces().build();
    server.put(fixtures::namespace("conformance"));
    // Twice: the checks clean up after each other.
    for _ in 0..2 {
        let failed = conformance::failures(&server.client(), "conformance").await;
        assert!(failed.is_empty(), "{failed:#?}");
    }
}
