//! `ipgc release --force` of what nobody can judge: rows that cannot be read, and reservations that name no pod.

use super::*;

#[tokio::test]
async fn a_row_that_cannot_be_read_goes_by_its_whole_content() {
    for row in [
        json!({"id": "", "podref": ""}),
        json!({"id": "x", "podref": "default/gone", "ifname": "net1"}),
        json!({"id": fixtures::sandbox(5), "podref": "default/gone", "ifname": "net1", "claim": "y"}),
        json!(7),
    ] {
        let (server, found) = with_unreadable(row).await;
        free(&server, &found).await.unwrap();
        assert!(rows(&server, POOL).is_empty());
    }
}

#[tokio::test]
async fn one_that_cannot_be_read_and_has_changed_stays() {
    let (server, found) = with_unreadable(json!({"id": "", "podref": ""})).await;
    let patch = server.on(Match::patch("ippools"));
    let rule = patch.before(|server| async move {
        server.edit("ippools", NS, POOL, |pool| {
            pool["spec"]["allocations"]["5"] =
                fixtures::row(&fixtures::sandbox(5), "default/new", "net1");
        });
    });
    let answer = free(&server, &found).await;
    assert!(matches!(answer, Err(NotDone::Call(_))), "{answer:?}");
    rule.remove();
    // And once more, now that it is seen.
    assert_gone(&free(&server, &found).await);
    assert_eq!(rows(&server, POOL), ["5"]);
}

#[tokio::test]
async fn one_that_cannot_be_read_stays_for_a_pod_that_may_need_it() {
    let (server, found) =
        with_unreadable(json!({"id": "x", "podref": "default/web", "ifname": "net1"})).await;
    server.put(fixtures::pod(NS, "web"));
    assert_kept(&free(&server, &found).await, "is there");
    let refused = forced(&server, "10.0.0.5").await.unwrap_err();
    assert!(refused.contains("is there"), "{refused}");
    server.delete("pods", NS, "web").unwrap();
    server.on(Match::get("pods")).fail(500);
    assert_kept(&free(&server, &found).await, "could not be read");
    server.clear_rules();
    server.put(reporting("other", 5).running());
    assert_kept(&free(&server, &found).await, "reports the address");
    assert_eq!(rows(&server, POOL), ["5"]);
}

#[tokio::test]
async fn one_that_cannot_be_read_stays_in_a_dry_run() {
    let (server, found) = with_unreadable(json!({"id": "", "podref": ""})).await;
    writer(&server, policy()).free(&found, true).await.unwrap();
    assert_eq!((rows(&server, POOL).len(), writes(&server)), (1, 0));
}

/// A room with a reservation that names no pod.
fn nobodys(spec: Value) -> Server {
    let (server, _beat) = room(&[(1, "web")]);
    let mut lone = fixtures::reservation(NS, "10.0.0.9", "", "");
    lone["spec"] = spec;
    server.put(lone);
    server
}

async fn found_nobodys(server: &Server) -> Forced {
    let found = forced(server, "10.0.0.9").await.unwrap();
    assert!(!found.is_readable, "{found:?}");
    found
}

#[tokio::test]
async fn a_reservation_that_names_no_pod_goes() {
    let of_old_crd = json!({ "containerid": fixtures::sandbox(9), "ifname": "net1" });
    for spec in [of_old_crd, json!({}), json!({ "podref": "driver" })] {
        let server = nobodys(spec);
        let found = found_nobodys(&server).await;
        writer(&server, policy()).free(&found, true).await.unwrap();
        assert_eq!(writes(&server), 0);
        free(&server, &found).await.unwrap();
        assert_eq!(reservations(&server), ["10.0.0.1"]);
        // And once it is gone.
        assert_gone(&free(&server, &found).await);
    }
}

#[tokio::test]
async fn a_reservation_that_names_no_pod_stays_for_whoever_may_need_it() {
    let server = nobodys(json!({ "containerid": fixtures::sandbox(9) }));
    let found = found_nobodys(&server).await;
    // A pod that reports the address.
    server.put(reporting("other", 9).running());
    assert_kept(&free(&server, &found).await, "reports the address");
    server.delete("pods", NS, "other").unwrap();
    // A row that came since.
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["9"] =
            fixtures::row(&fixtures::sandbox(9), "default/new", "net1");
    });
    assert_gone(&free(&server, &found).await);
    server.edit("ippools", NS, POOL, |pool| {
        let rows = pool["spec"]["allocations"].as_object_mut().unwrap();
        rows.remove("9");
    });
    // One that names a pod by now, and one that was written between our read and our request.
    let removed = server.on(Match::delete(ORIP)).once();
    removed.before(|server| async move {
        server.edit(ORIP, NS, "10.0.0.9", |it| {
            it["spec"]["podref"] = "default/new".into();
        });
    });
    let answer = free(&server, &found).await;
    assert!(matches!(answer, Err(NotDone::Call(_))), "{answer:?}");
    assert_gone(&free(&server, &found).await);
    assert_eq!(reservations(&server), ["10.0.0.1", "10.0.0.9"]);
}

#[tokio::test]
async fn a_reservation_that_names_no_pod_stays_where_a_person_or_a_pool_hides_whose_it_is() {
    for (annotation, why) in [
        ("10.0.0.9", "an annotation of its pool exempts it"),
        (
            "",
            "a pool of its namespace cannot be read, and may have its row",
        ),
    ] {
        let server = nobodys(json!({ "containerid": fixtures::sandbox(9) }));
        server.edit("ippools", NS, POOL, |pool| {
            pool["metadata"]["annotations"]["ipgc.dev/keep"] = annotation.into();
            if annotation.is_empty() {
                pool["spec"]["range"] = "?".into();
            }
        });
        let says = format!("10.0.0.9 is kept: reservation default/10.0.0.9: {why}");
        assert_eq!(forced(&server, "10.0.0.9").await.unwrap_err(), says);
    }
}

/// Nobody knows whose it is, and an ADD may accept it.
#[tokio::test]
async fn a_reservation_with_a_field_that_is_not_known_stays() {
    let server = nobodys(json!({ "podref": "default/gone", "ipamclaim": "c" }));
    assert_eq!(
        forced(&server, "10.0.0.9").await.unwrap_err(),
        "10.0.0.9 is kept: reservation default/10.0.0.9: it has an unknown field \"ipamclaim\""
    );
}

/// Whereabouts gives the address to the next pod of the claim.
#[tokio::test]
async fn of_an_ipam_claim_nothing_goes() {
    let server = nobodys(json!({ "podref": "default/gone", "ipamclaimref": "default/vm" }));
    server.edit("ippools", NS, POOL, |pool| {
        let row = &mut pool["spec"]["allocations"]["9"];
        *row = fixtures::row(&fixtures::sandbox(9), "default/gone", "net1");
        row["ipamclaimref"] = "default/vm".into();
    });
    let refused = forced(&server, "10.0.0.9").await.unwrap_err();
    assert!(
        refused.contains("it belongs to IPAMClaim default/vm"),
        "{refused}"
    );
}
