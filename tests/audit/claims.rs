//! Rows of ResourceClaims, as DRANET writes them, beside the claims.

use rstest::rstest;
use testkit::Match;

use super::*;

const UID: &str = "11111111-2222-4333-8444-555555555555";
const LIST: &str = "resourceclaims";

fn named() -> String {
    format!("it belongs to ResourceClaim apps/web-nic (uid {UID})")
}

/// A cluster with a row of the claim [`UID`], and the claim `apps/web-nic` with this uid.
fn of_a_claim(uid: &str) -> Server {
    let server = live_one();
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["5"] = fixtures::row(UID, "default/pod-whereabouts", "net1");
    });
    server.put(json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": { "namespace": "apps", "name": "web-nic", "uid": uid },
    }));
    server
}

/// One that is gone has no name.
#[rstest]
#[case::there(UID, true)]
#[case::gone("22222222-2222-4333-8444-555555555555", false)]
#[tokio::test]
async fn a_claim_that_is_there_is_named(#[case] uid: &str, #[case] is_there: bool) {
    let server = of_a_claim(uid);
    let finding = found(&server).await;
    assert_eq!(finding.problem, Problem::Unreadable);
    assert_eq!(finding.detail == named(), is_there, "{finding:?}");
    assert_says(&finding.detail, UID);
    let file = dump(&server);
    for subject in ["10.0.0.5", POOL] {
        let (_, told, _) = asked(&file, &["explain", subject]);
        assert_says(&told, &format!("unknown, rule 1: {}\n", finding.detail));
    }
    let (_, page, _) = asked(&file, &["audit", "-o", "html"]);
    // In the table of findings, and by the row.
    assert_eq!(page.matches(&finding.detail).count(), 2);
}

/// No right is missing for the rest.
#[rstest]
#[case::forbidden(403)]
#[case::of_an_older_server(404)]
#[case::failed(500)]
#[tokio::test]
async fn claims_that_cannot_be_listed_have_no_names(#[case] code: u16) {
    let server = of_a_claim(UID);
    server.on(Match::list(LIST)).fail(code);
    let report = live(&server).await.unwrap();
    assert_ends(&only(&report).detail, UID);
    assert_says(
        &report.notes.join("; "),
        "the ResourceClaims of rows are told by uid alone: ",
    );
}

#[tokio::test]
async fn claims_are_listed_only_for_their_rows() {
    for (server, lists) in [(live_one(), 0), (of_a_claim(UID), 1)] {
        live(&server).await.unwrap();
        assert_eq!(server.requests().count(|it| it.resource == LIST), lists);
    }
}

/// A dump may be of an older server.
#[test]
fn a_claim_of_each_version_is_named() {
    let dump = dump_of(&of_a_claim(UID), &Kind::ALL).to_string();
    for version in ["v1", "v1beta1"] {
        let version = format!("resource.k8s.io/{version}");
        let report = File::new(dump.replace("resource.k8s.io/v1", &version)).judged();
        assert_eq!(only(&report).detail, named());
    }
}
