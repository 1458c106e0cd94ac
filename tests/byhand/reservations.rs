//! Reservations of a report: those of its rows, and those without a row.

use super::{
    report::{HOUR, all_of},
    *,
};

#[tokio::test(start_paused = true)]
async fn a_reservation_without_a_row_goes_if_the_report_has_it() {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "alone");
    reserve(&server, "10.0.0.8", "back");
    let report = reported(&server, HOUR).await;
    server.put(reporting("back", 8).running());
    // It waits as long as the others, and nobody picked it.
    reserve(&server, "10.0.0.7", "other");
    let released = run(&server, all_of(&report), config()).await;
    let fates = released.fates();
    let fate = |address: &str| &fates.iter().find(|(it, _)| it == address).unwrap().1;
    assert!(is_freed(fate("10.0.0.9")), "{fates:?}");
    assert_eq!(why_kept(fate("10.0.0.8")), "a row or a pod has its address");
    assert_eq!(reservations(&server), ["10.0.0.7", "10.0.0.8"]);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_may_not_go_is_told_beside_its_row() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    server
        .on(Match::delete("overlappingrangeipreservations"))
        .fail(500);
    let released = run(&server, all_of(&report), config()).await;
    let (told, fate) = (released.told.last().unwrap(), released.only());
    assert!(matches!(fate, Fate::Left(..)), "{:?}", released.told);
    assert_eq!(told.1, fate);
    assert!(rows(&server).is_empty() && reservations(&server).len() == 1);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_admission_refuses_to_delete_is_told_beside_its_row() {
    let (server, _beat) = room(&[(1, "gone")]);
    let report = reported(&server, HOUR).await;
    server
        .on(Match::delete("overlappingrangeipreservations"))
        .fail(403);
    let released = run(&server, all_of(&report), config()).await;
    let Fate::Left(_, why) = released.only() else {
        panic!("{:?}", released.told);
    };
    assert!(why.contains("(403)"), "{why}");
    assert_eq!(reservations(&server).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_alone_that_may_not_go_is_kept() {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "alone");
    let report = reported(&server, HOUR).await;
    for code in [500, 403] {
        let rule = server
            .on(Match::delete("overlappingrangeipreservations"))
            .fail(code);
        let released = run(&server, all_of(&report), config()).await;
        assert!(!is_freed(&released.only()), "{:?}", released.told);
        assert!(
            !matches!(released.only(), Fate::Gone),
            "{:?}",
            released.told
        );
        rule.remove();
    }
    assert_eq!(reservations(&server).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn reservations_that_cannot_be_listed_once_are_not_taken_for_gone() {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "alone");
    let report = reported(&server, HOUR).await;
    let lists = Match::list("overlappingrangeipreservations").client("ipgc");
    server.on(lists).times(2).fail(500);
    let released = run(&server, all_of(&report), config()).await;
    assert!(is_freed(&released.only()), "{:?}", released.told);
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_somebody_else_removed_is_gone() {
    let (server, _beat) = room(&[]);
    reserve(&server, "10.0.0.9", "alone");
    let report = reported(&server, HOUR).await;
    server
        .delete("overlappingrangeipreservations", NS, "10.0.0.9")
        .unwrap();
    assert_eq!(
        run(&server, all_of(&report), config()).await.only(),
        Fate::Gone
    );
    // And one of that name that was made since is another.
    reserve(&server, "10.0.0.9", "alone");
    assert_eq!(
        run(&server, all_of(&report), config()).await.only(),
        Fate::Gone
    );
    assert_eq!(reservations(&server).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_with_a_row_in_one_pool_is_none_of_a_reservation_in_another() {
    let (server, _beat) = room(&[(1, "gone")]);
    server.put(fixtures::pool(NS, "10.1.0.0/24"));
    reserve(&server, "10.1.0.9", "gone");
    let report = reported(&server, HOUR).await;
    let busy = Failure::too_many_requests(60);
    server.on(Match::patch("ippools")).once().answer(busy);
    let released = run(&server, all_of(&report), config()).await;
    let fates = released.fates();
    assert_eq!(fates.len(), 2);
    assert!(fates.iter().all(|(_, fate)| is_freed(fate)), "{fates:?}");
    assert!(reservations(&server).is_empty() && rows(&server).is_empty());
    let told = released.told.iter();
    let mut of_reservation = told.filter(|(address, _)| address == "10.1.0.9");
    assert!(
        of_reservation.all(|(_, fate)| !matches!(fate, Fate::Retried(_))),
        "{:?}",
        released.told
    );
}
