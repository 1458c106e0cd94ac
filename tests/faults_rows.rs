//! Rows that the server refuses to remove, and patches that it does not take as they are: no other
//! row is kept by them, and nothing is tried for ever.

use crate::prelude::*;

/// Whether a patch concerns the row with this key.
fn removes(request: &Request, key: &str) -> bool {
    let path = format!("/spec/allocations/{key}");
    let operations = request.json();
    let operations = operations.as_array().into_iter().flatten();
    operations.into_iter().any(|o| o["path"] == path.as_str())
}

#[tokio::test(start_paused = true)]
async fn one_row_that_the_server_refuses_keeps_no_other_and_is_not_looped() {
    let bench = Bench::long_since(server(), seldom()).await;
    let names = put_crowd(&bench, 100);
    seconds(1).await;
    let refused = Match::patch("ippools").filter(|request| removes(request, "77"));
    let rule = bench.on(refused).answer(Failure::patch_rejected());
    bench.end(&names);
    seconds(600).await;
    assert_eq!(bench.rows(POOL), ["77"]);
    assert_eq!(bench.counted("frees_refused"), 1);
    assert_eq!(bench.counted("rows_freed"), 99);
    let patches = bench.sent(Match::patch("ippools"));
    assert!(patches.len() <= 20 && rule.hits() >= 1, "{patches}");
    assert_eq!(bench.told_as_freed().len(), 99);
    // A sweep is one more try, and no more than that.
    let before = patches.len();
    bench.relist();
    seconds(3_600).await;
    assert_eq!(bench.rows(POOL), ["77"]);
    assert_eq!(bench.counted("frees_refused"), 2);
    let patches = bench.sent(Match::patch("ippools"));
    assert!(patches.len() <= before + 2, "{patches}");
    assert_eq!(bench.counted("retries_exhausted"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pool_that_fails_validation_backs_off() {
    let bench = three().await;
    let mut failure = Failure::of_code(422);
    failure.details = Some(json!({ "causes": [{ "field": "spec.allocations.7.podref" }] }));
    bench.on(Match::patch("ippools")).answer(failure);
    bench.end(PODS);
    seconds(600).await;
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    // After 1, 2, 4, … seconds, and then each five minutes. Told once, for all rows of the first patch.
    let patches = bench.sent(Match::patch("ippools"));
    assert!((9..=12).contains(&patches.len()), "{patches}");
    assert!((1..=3).contains(&bench.counted("frees_refused")));
    assert_eq!(bench.told_as_freed(), Vec::<String>::new());
    bench.relist();
    seconds(600).await;
    assert!(bench.sent(Match::patch("ippools")).len() <= patches.len() + 3);
    assert_eq!(bench.counted("retries_exhausted"), 0);
    assert_eq!(bench.events("IPPool").len(), 1);
    assert_eq!(bench.events("Pod"), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_too_large_is_halved() {
    let bench = Bench::start(server()).await;
    let names: Vec<String> = (1..=16).map(|n| format!("web-{n:02}")).collect();
    put_running(&bench, &numbered(&names));
    seconds(1).await;
    // Three rows at most: the test of the uid, then a test and a removal for each.
    let large =
        Match::patch("ippools").filter(|r| r.json().as_array().is_some_and(|o| o.len() > 7));
    bench.on(large).fail(413);
    bench.end(&names);
    bench.wait_rows(POOL, &[]).await;
    let patches = bench.sent(Match::patch("ippools"));
    assert!(patches.len() <= 30, "{patches}");
    seconds(1).await;
    assert_eq!(bench.told_as_freed().len(), 16);
}

#[tokio::test(start_paused = true)]
async fn a_single_row_that_is_too_large_is_refused() {
    let bench = three().await;
    bench.on(Match::patch("ippools")).fail(413);
    bench.end(PODS);
    seconds(600).await;
    assert_eq!(bench.rows(POOL), ["1", "2", "3"]);
    assert_eq!(bench.counted("frees_refused"), 3);
    assert!(bench.sent(Match::patch("ippools")).len() <= 8);
}

/// Two of three DELs were not lost. All end at once, and the patch for the third one's row fails:
/// nobody is told that anything of the two is left.
#[tokio::test(start_paused = true)]
async fn a_patch_that_fails_is_no_failure_of_pods_without_rows() {
    let bench = three_with(seldom().with(|it| it.max_retries = 0)).await;
    put_pool(&bench, &[(1, "web-1")]);
    let rule = bench.on(Match::patch("ippools")).fail(500);
    bench.end(PODS);
    seconds(600).await;
    assert!(rule.hits() >= 1, "{}", bench.requests());
    let told = bench.events("Pod");
    assert!(
        matches!(&told[..], [only] if only.contains("default/web-1")),
        "{told:?}"
    );
}
