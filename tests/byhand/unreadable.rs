//! `ipgc release --force` of what nobody can judge: rows that cannot be read, and reservations that name no pod.

use rstest::rstest;

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
        (
            "10.0.0.9",
            "ipgc.dev/hold or ipgc.dev/keep of its pool exempts it",
        ),
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

/// Whereabouts gives the address to the next pod of the claim, whatever stands beside its name.
#[rstest]
#[case::alone(json!({ "ipamclaimref": "default/vm" }), "it belongs to IPAMClaim default/vm")]
#[case::beside_a_field(json!({ "ipamclaimref": "default/vm", "zone": "a" }), "it belongs to IPAMClaim default/vm")]
#[case::in_another_form(json!({ "ipamclaimref": { "name": "vm" } }), "it belongs to IPAMClaim {\"name\":\"vm\"}")]
#[tokio::test]
async fn of_an_ipam_claim_nothing_goes(#[case] fields: Value, #[case] says: &str) {
    let mut spec = json!({ "podref": "default/gone" });
    let mut row = fixtures::row(&fixtures::sandbox(9), "default/gone", "net1");
    for it in [&mut spec, &mut row] {
        let fields = fields.as_object().unwrap().clone();
        it.as_object_mut().unwrap().extend(fields);
    }
    let server = nobodys(spec);
    let refused = forced(&server, "10.0.0.9").await.unwrap_err();
    assert!(refused.contains(says), "{refused}");
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["9"] = row;
    });
    let refused = forced(&server, "10.0.0.9").await.unwrap_err();
    assert!(refused.contains(says), "{refused}");
}

const UID: &str = "0f3c2f6e-3b0e-4c55-9f55-6f1d4a9b7c01";
const LIST: &str = "resourceclaims";

/// A room with a row as DRANET writes it, of the ResourceClaim [`UID`], or with a reservation without a row.
async fn of_resource_claim(has_row: bool) -> (Server, Forced) {
    let owner = "default/pod-whereabouts";
    if has_row {
        let row = json!({ "id": UID, "podref": owner, "ifname": "dra1" });
        return with_unreadable(row).await;
    }
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.5", owner);
    let found = pick(&server, "10.0.0.5").await;
    (server, found)
}

fn put_claim(server: &Server, uid: &str, address: &str) {
    server.put(json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": { "name": "claim", "namespace": "apps", "uid": uid },
        "status": { "devices": [{ "networkData": { "ips": [format!("{address}/24")] } }] },
    }));
}

/// No pod bears the name that DRANET writes, so the absence of a pod says nothing.
#[rstest]
#[case::of_the_row(true, UID, "10.9.9.9")]
#[case::that_reports_it(true, "other", "10.0.0.5")]
#[case::that_reports_the_reserved_one(false, "other", "10.0.0.5")]
#[tokio::test(start_paused = true)]
async fn a_resource_claim_that_is_there_keeps_its_address(
    #[case] has_row: bool,
    #[case] uid: &str,
    #[case] address: &str,
) {
    let (server, found) = of_resource_claim(has_row).await;
    put_claim(&server, uid, address);
    for dry_run in [true, false] {
        let answer = writer(&server, policy()).free(&found, dry_run).await;
        assert_kept(&answer.map(|_| 0), "its ResourceClaim is there");
    }
    assert_eq!(writes(&server), 0);
    server.delete(LIST, "apps", "claim").unwrap();
    free(&server, &found).await.unwrap();
    assert_eq!(left(&server), (0, 0));
}

/// An API server that does not know the group has none, so a row goes. One that serves another version of it may have some.
#[rstest]
#[case::forbidden(403, false, false)]
#[case::failed(500, true, false)]
#[case::another_version(404, false, false)]
#[case::no_group(404, true, true)]
#[tokio::test(start_paused = true)]
async fn resource_claims_that_cannot_be_listed_may_be_there(
    #[case] code: u16,
    #[case] knows_no_group: bool,
    #[case] goes: bool,
) {
    for has_row in [true, false] {
        let (server, found) = of_resource_claim(has_row).await;
        server.on(Match::list(LIST)).fail(code);
        if knows_no_group {
            let of_group = Match::any().filter(|it| it.path == "/apis/resource.k8s.io");
            server.on(of_group).fail(if goes { 404 } else { 500 });
        }
        let answer = free(&server, &found).await;
        let goes = goes && has_row;
        if goes {
            answer.unwrap();
        } else {
            assert_kept(&answer, "ResourceClaims cannot be listed");
        }
        let is_left = rows(&server, POOL).len() + reservations(&server).len();
        assert_eq!(is_left, usize::from(!goes));
    }
}

/// As `ipgc run --resource-claims` frees both.
#[tokio::test(start_paused = true)]
async fn the_reservation_of_a_resource_claim_goes_with_its_row() {
    let (server, found) = of_resource_claim(true).await;
    let owner = "default/pod-whereabouts";
    server.put(fixtures::reservation(NS, "10.0.0.5", owner, "dra1"));
    assert_eq!(free(&server, &found).await.unwrap(), 1);
    assert_eq!(left(&server), (0, 0));
}
