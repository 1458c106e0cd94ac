//! The checks that also hold on a real API server, run on this one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use testkit::{Server, conformance, fixtures};

#[tokio::test(start_paused = true)]
async fn all_checks_hold() {
    let server = Server::builder().require_namespaces().build();
    server.put(fixtures::namespace("conformance"));
    // Twice: the checks clean up after each other.
    for _ in 0..2 {
        let results = conformance::run_all(server.client(), "conformance").await;
        let failed: Vec<_> = results
            .iter()
            .filter(|result| result.verdict.is_err())
            .collect();
        assert!(failed.is_empty(), "{failed:#?}");
    }
}
