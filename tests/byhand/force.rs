//! `ipgc release --force`: one address, whatever it waits for, and never one that a pod needs.

use ipgc::byhand::{
    Subject, Writer,
    force::{Forced, Unreadable, at, check_unreadable, held_by},
    report::nothing_in,
};

use super::*;

fn find(snapshot: &Snapshot, address: &str, pool: Option<&str>) -> Result<Forced, String> {
    at(snapshot, &Policy::default(), address.parse().unwrap(), pool)
}

async fn forced(server: &Server, address: &str) -> Result<Forced, String> {
    find(&look(server).await, address, None)
}

/// The pick of an address.
async fn pick(server: &Server, address: &str) -> Picked {
    match forced(server, address).await.unwrap() {
        Forced::Pick(pick) => Picked::new(vec![pick], Duration::ZERO),
        Forced::Unreadable(row) => panic!("{row:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_silent_node_holds_goes_at_once_and_nothing_else() {
    let (server, _beat) = room(&[(1, "gone"), (2, "other")]);
    silent_node(&server, "node-2");
    let released = run(&server, pick(&server, "10.0.0.1").await, config()).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
    assert!(
        released.took < Duration::from_secs(30),
        "{:?}",
        released.took
    );
    assert_eq!(
        (rows(&server), reservations(&server)),
        (vec!["2".to_owned()], vec!["10.0.0.2".to_owned()])
    );
}

#[tokio::test(start_paused = true)]
async fn the_breaker_is_no_obstacle() {
    let (server, _beat) = room(&[(1, "a"), (2, "b"), (3, "c")]);
    let config = Config {
        breaker: Limits {
            min: 1,
            ..Limits::default()
        },
        ..config()
    };
    let released = run(&server, pick(&server, "10.0.0.1").await, config).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
    assert_eq!(rows(&server), ["2", "3"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_there_keeps_its_address() {
    let (server, _beat) = room(&[(1, "web"), (2, "young")]);
    server.put(reporting("web", 1).running());
    server.put(fixtures::pod(NS, "young").node("node-1"));
    for (address, says) in [
        (
            "10.0.0.1",
            "10.0.0.1 is kept: default/10.0.0.0-24: its pod reports the address",
        ),
        (
            "10.0.0.2",
            "10.0.0.2 is kept: default/10.0.0.0-24: its pod is starting or ending, or its \
             network-status cannot be read",
        ),
        ("10.0.0.3", "nothing holds 10.0.0.3"),
    ] {
        assert_eq!(forced(&server, address).await.unwrap_err(), says);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_back_since_keeps_its_address() {
    let (server, _beat) = room(&[(1, "web-0")]);
    let picked = pick(&server, "10.0.0.1").await;
    server.put(reporting("web-0", 1).running());
    let released = run(&server, picked, config()).await;
    assert_eq!(why_kept(&released.only()), "its pod reports the address");
    assert_eq!((rows(&server).len(), writes(&server)), (1, 0));
}

/// The watch shows nothing of it, and the proof does.
#[tokio::test(start_paused = true)]
async fn a_pod_that_only_the_proof_sees_keeps_its_address() {
    let (server, _beat) = room(&[(1, "web-0")]);
    let picked = pick(&server, "10.0.0.1").await;
    let born = server.clone();
    let first = server.on(Match::get("ippools").client("ipgc")).once();
    first.after(move |_| {
        born.on_events(Match::watch("pods")).hold();
        born.put(reporting("web-0", 1).running().build());
        async {}
    });
    let released = run_for(&server, picked, config(), Duration::from_mins(2)).await;
    assert!(!is_freed(&released.only()), "{:?}", released.told);
    assert_eq!(
        (rows(&server).len(), writes(&server)),
        (1, 0),
        "{}",
        server.requests()
    );
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_adopted_since_stays() {
    let (server, _beat) = room(&[(1, "web-0")]);
    let picked = pick(&server, "10.0.0.1").await;
    common::nodes::adopt(&server, POOL, "1");
    let released = run(&server, picked, config()).await;
    assert_eq!(released.only(), Fate::Gone);
    assert_eq!(rows(&server), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn one_of_several_networks_has_to_be_named() {
    let (server, _beat) = room(&[(1, "gone")]);
    let other = fixtures::pool(NS, RANGE).network_name("blue");
    let other = other.row(1, &fixtures::sandbox(7), "default/elsewhere", "net1");
    server.put(other);
    assert_eq!(
        forced(&server, "10.0.0.1").await.unwrap_err(),
        "several networks hold 10.0.0.1: name one pool by --pool"
    );
    let Forced::Pick(pick) =
        find(&look(&server).await, "10.0.0.1", Some("blue-10.0.0.0-24")).unwrap()
    else {
        panic!("unreadable");
    };
    assert_eq!(pick.podref.as_str(), "default/elsewhere");
}

#[tokio::test(start_paused = true)]
async fn what_a_person_exempted_stays() {
    let (server, _beat) = room(&[(1, "gone")]);
    server.edit("ippools", NS, POOL, |pool| {
        pool["metadata"]["annotations"]["ipgc.dev/keep"] = "10.0.0.1, 10.0.0.5".into();
        pool["spec"]["allocations"]["5"] = json!({"id": "x", "podref": ""});
    });
    for address in ["10.0.0.1", "10.0.0.5"] {
        let why = forced(&server, address).await.unwrap_err();
        assert!(
            why.ends_with("an annotation of its pool exempts it"),
            "{why}"
        );
    }
}

/// That its pod needs a row no more nobody can say, as long as the pod is there.
#[tokio::test(start_paused = true)]
async fn a_row_that_its_pod_does_not_use_goes_at_once() {
    // Left of an earlier sandbox; and with the id of the present one, of which nothing else is known.
    let (server, _beat) = room(&[(1, "web-0"), (2, "web-0"), (3, "web-0")]);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["3"]["id"] = fixtures::sandbox(2).into();
    });
    server.put(reporting("web-0", 2).running());
    let why = forced(&server, "10.0.0.2").await.unwrap_err();
    assert!(why.ends_with("its pod reports the address"), "{why}");
    for address in ["10.0.0.1", "10.0.0.3"] {
        let picked = pick(&server, address).await;
        let released = run(&server, picked, config()).await;
        let fate = released.only();
        assert!(matches!(fate, Fate::Freed(_) | Fate::Done(_)), "{fate:?}");
    }
    assert_eq!(rows(&server), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_a_person_exempted_stays() {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "alone");
    let picked = pick(&server, "10.0.0.9").await;
    server.edit("ippools", NS, POOL, |pool| {
        pool["metadata"]["annotations"]["ipgc.dev/keep"] = "9".into();
    });
    let why = forced(&server, "10.0.0.9").await.unwrap_err();
    assert!(
        why.ends_with("an annotation of its pool exempts it"),
        "{why}"
    );
    let released = run(&server, picked, config()).await;
    assert_eq!(
        why_kept(&released.only()),
        "an annotation of its pool exempts it"
    );
    assert_eq!(reservations(&server).len(), 1);
}

#[tokio::test]
async fn owners_that_are_never_touched_keep_what_cannot_be_read() {
    let (server, _) = unreadable(json!({"id": "x", "podref": "vm/a/b"})).await;
    let policy = Policy {
        keep_podrefs: vec![ipgc::core::podref::Glob::new("vm/*")],
        ..Policy::default()
    };
    let why = at(
        &look(&server).await,
        &policy,
        "10.0.0.5".parse().unwrap(),
        None,
    )
    .unwrap_err();
    assert!(why.ends_with("--keep-podref matches its owner"), "{why}");
}

#[tokio::test]
async fn an_answer_that_was_lost_is_asked_for_again() {
    let (server, found) = unreadable(json!({"id": "", "podref": ""})).await;
    server.on(Match::patch("ippools")).apply_then_disconnect();
    Writer::new(&server.client())
        .remove(&found, false)
        .await
        .unwrap();
    assert!(rows(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_reservation_alone_goes() {
    let (server, _beat) = room(&[(2, "other")]);
    silent_node(&server, "node-2");
    reserve(&server, "10.0.0.9", "alone");
    let picked = pick(&server, "10.0.0.9").await;
    assert!(matches!(
        picked.picks()[0].subject,
        Subject::Reservation { .. }
    ));
    let released = run(&server, picked, config()).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
    assert!(
        released.took < Duration::from_secs(30),
        "{:?}",
        released.took
    );
    assert_eq!(reservations(&server), ["10.0.0.2"]);
    assert_eq!(rows(&server), ["2"]);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_whose_pod_comes_back_in_time_is_given_back() {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "web-0");
    let picked = pick(&server, "10.0.0.9").await;
    let back = server.clone();
    let claim = server
        .on(Match::patch("overlappingrangeipreservations"))
        .once();
    claim.before(move |_| {
        back.put(reporting("web-0", 9).running().build());
        async {}
    });
    let released = run(&server, picked, config()).await;
    assert!(!is_freed(&released.only()), "{:?}", released.told);
    let kept = server
        .get("overlappingrangeipreservations", NS, "10.0.0.9")
        .unwrap();
    assert_eq!(kept["spec"]["podref"], "default/web-0");
}

/// A room with a row that cannot be read, and what is found of it.
async fn unreadable(row: Value) -> (Server, Unreadable) {
    let (server, _beat) = room(&[]);
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"] = json!({ "5": row });
    });
    match forced(&server, "10.0.0.5").await.unwrap() {
        Forced::Unreadable(row) => (server, row),
        Forced::Pick(pick) => panic!("{pick:?}"),
    }
}

#[tokio::test]
async fn a_row_that_cannot_be_read_goes_by_its_whole_content() {
    for row in [
        json!({"id": "", "podref": ""}),
        json!({"id": "x", "podref": "default/gone", "ifname": "net1"}),
        json!({"id": fixtures::sandbox(5), "podref": "default/gone", "ifname": "net1", "claim": "y"}),
        json!(7),
    ] {
        let (server, found) = unreadable(row).await;
        Writer::new(&server.client())
            .remove(&found, false)
            .await
            .unwrap();
        assert!(rows(&server).is_empty());
    }
}

#[tokio::test]
async fn one_that_cannot_be_read_and_has_changed_stays() {
    let (server, found) = unreadable(json!({"id": "", "podref": ""})).await;
    let before = server.on(Match::patch("ippools"));
    let other = server.clone();
    let rule = before.before(move |_| {
        other.edit("ippools", NS, POOL, |pool| {
            pool["spec"]["allocations"]["5"] =
                fixtures::row(&fixtures::sandbox(5), "default/new", "net1");
        });
        async {}
    });
    let answer = Writer::new(&server.client()).remove(&found, false).await;
    assert!(matches!(answer, Err(NotDone::Call(_))), "{answer:?}");
    rule.remove();
    // And once more, now that it is seen.
    let answer = Writer::new(&server.client()).remove(&found, false).await;
    assert!(matches!(answer, Err(NotDone::Gone)), "{answer:?}");
    assert_eq!(rows(&server), ["5"]);
}

#[tokio::test]
async fn one_that_cannot_be_read_stays_for_a_pod_that_may_need_it() {
    let (server, found) =
        unreadable(json!({"id": "x", "podref": "default/web", "ifname": "net1"})).await;
    server.put(fixtures::pod(NS, "web"));
    let answer = Writer::new(&server.client()).remove(&found, false).await;
    assert!(says(&answer, "is there"), "{answer:?}");
    let checked = check_unreadable(&look(&server).await, &Policy::default(), &found);
    assert!(says(&checked, "is there"), "{checked:?}");
    server.delete("pods", NS, "web").unwrap();
    server.on(Match::get("pods")).fail(500);
    let answer = Writer::new(&server.client()).remove(&found, false).await;
    assert!(says(&answer, "could not be read"), "{answer:?}");
    server.clear_rules();
    server.put(reporting("other", 5).running());
    let checked = check_unreadable(&look(&server).await, &Policy::default(), &found);
    assert!(says(&checked, "reports the address"), "{checked:?}");
    assert_eq!(rows(&server), ["5"]);
}

#[tokio::test]
async fn one_that_cannot_be_read_stays_in_a_dry_run() {
    let (server, found) = unreadable(json!({"id": "", "podref": ""})).await;
    Writer::new(&server.client_named("ipgc"))
        .remove(&found, true)
        .await
        .unwrap();
    assert_eq!((rows(&server).len(), writes(&server)), (1, 0));
}

/// A room with a reservation that names no pod.
fn nobodys(spec: Value) -> Server {
    let (server, _beat) = room(&[(1, "web")]);
    let mut lone = fixtures::reservation(NS, "10.0.0.9", "", "");
    lone["spec"] = spec;
    server.put(lone);
    server
}

async fn found_nobodys(server: &Server) -> Unreadable {
    match forced(server, "10.0.0.9").await.unwrap() {
        Forced::Unreadable(found) => found,
        Forced::Pick(pick) => panic!("{pick:?}"),
    }
}

#[tokio::test]
async fn a_reservation_that_names_no_pod_goes() {
    let of_old_crd = json!({ "containerid": fixtures::sandbox(9), "ifname": "net1" });
    for spec in [of_old_crd, json!({}), json!({ "podref": "driver" })] {
        let server = nobodys(spec);
        let found = found_nobodys(&server).await;
        let policy = Policy::default();
        check_unreadable(&look(&server).await, &policy, &found).unwrap();
        let client = server.client_named("ipgc");
        Writer::new(&client).remove(&found, true).await.unwrap();
        assert_eq!(writes(&server), 0);
        Writer::new(&client).remove(&found, false).await.unwrap();
        assert_eq!(reservations(&server), ["10.0.0.1"]);
        // And once it is gone.
        let again = Writer::new(&client).remove(&found, false).await;
        assert!(matches!(again, Err(NotDone::Gone)), "{again:?}");
    }
}

#[tokio::test]
async fn a_reservation_that_names_no_pod_stays_for_whoever_may_need_it() {
    let server = nobodys(json!({ "containerid": fixtures::sandbox(9) }));
    let found = found_nobodys(&server).await;
    let policy = Policy::default();
    // A pod that reports the address.
    server.put(reporting("other", 9).running());
    let checked = check_unreadable(&look(&server).await, &policy, &found);
    assert!(says(&checked, "reports the address"), "{checked:?}");
    server.delete("pods", NS, "other").unwrap();
    // A row that came since.
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"]["9"] =
            fixtures::row(&fixtures::sandbox(9), "default/new", "net1");
    });
    let checked = check_unreadable(&look(&server).await, &policy, &found);
    assert!(matches!(checked, Err(NotDone::Gone)), "{checked:?}");
    // One that names a pod by now, and one that was written between our read and our request.
    let removed = server
        .on(Match::delete("overlappingrangeipreservations"))
        .once();
    removed.before(|server| async move {
        server.edit("overlappingrangeipreservations", NS, "10.0.0.9", |it| {
            it["spec"]["podref"] = "default/new".into();
        });
    });
    let client = server.client();
    let answer = Writer::new(&client).remove(&found, false).await;
    assert!(matches!(answer, Err(NotDone::Call(_))), "{answer:?}");
    let answer = Writer::new(&client).remove(&found, false).await;
    assert!(matches!(answer, Err(NotDone::Gone)), "{answer:?}");
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

/// Rows of this pod on three interfaces, which its node holds while it is at work.
fn on_three(server: &Server, pod: &str) {
    for number in 1..=3 {
        let pool = fixtures::pool(NS, &format!("10.0.{number}.0/24"));
        let pool = pool.row(1, &fixtures::sandbox(number), pod, &format!("net{number}"));
        server.put(pool);
    }
}

#[tokio::test(start_paused = true)]
async fn all_that_a_node_holds_goes_at_once_and_nothing_else() {
    let (server, _beat) = room(&[(1, "gone"), (2, "web")]);
    server.put(reporting("web", 2).running());
    server.put(fixtures::node("node-2", true));
    on_three(&server, "default/three");
    let (picked, others) = held_by(&look(&server).await, &Policy::default(), "node-1");
    assert_eq!(others, ["node-2".into()].into());
    let released = run(&server, picked, config()).await;
    let fates = released.fates();
    assert_eq!(fates.len(), 3, "{fates:?}");
    assert!(fates.iter().all(|(_, fate)| is_freed(fate)), "{fates:?}");
    assert!(released.took < Duration::from_secs(30));
    assert_eq!(rows(&server), ["1", "2"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_came_back_since_keeps_what_a_node_held() {
    let (server, _beat) = room(&[(1, "gone")]);
    on_three(&server, "default/web");
    let (picked, _) = held_by(&look(&server).await, &Policy::default(), "node-1");
    // Which addresses it has is not known yet.
    let again = reporting("web", 1).status(fixtures::starting_status());
    server.put(again);
    let released = run(&server, picked, config()).await;
    let fates = released.fates();
    assert_eq!(fates.len(), 3);
    assert!(!fates.iter().any(|(_, fate)| is_freed(fate)), "{fates:?}");
    assert_eq!(writes(&server), 0);
}

#[tokio::test(start_paused = true)]
async fn a_report_of_what_a_ready_node_holds_names_the_command_that_frees_it() {
    let (server, _beat) = room(&[]);
    on_three(&server, "default/three");
    let says = nothing_in(&reported(&server, Duration::ZERO).await);
    assert!(
        says.contains("3 are held by nodes that --assume-dead cannot name"),
        "{says}"
    );
    assert!(!says.contains("silent"), "{says}");
    silent_node(&server, "node-2");
    let says = nothing_in(&reported(&server, Duration::ZERO).await);
    assert!(says.contains("3 are held by silent nodes"), "{says}");
    assert!(!says.contains("--held-by"), "{says}");
}
