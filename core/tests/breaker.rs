//! The stop to a mass of frees that nobody foresaw.

use ipgc_core::breaker::{Breaker, Limits, Open};
use jiff::Timestamp;

use crate::common::prelude::*;

fn wall(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn noon() -> Timestamp {
    wall("2026-01-01T12:00:00Z")
}

/// So many seconds after noon, by both clocks.
fn clock(now: u64) -> (Moment, Timestamp) {
    (at(now), noon() + secs(now))
}

fn assessed(suspect: usize, total: usize, begun: u64) -> Breaker {
    let mut breaker = Breaker::default();
    breaker.assess(&Limits::default(), (suspect, total), at(begun), noon());
    breaker
}

/// May a row go that is stale since 0, of a pool that nobody acknowledged, pods listed at 0.
fn check(breaker: &Breaker, now: u64) -> Result<(), Open> {
    breaker.check(&Limits::default(), at(0), at(0), None, clock(now))
}

#[rstest]
#[case::none(0, 0, false)]
#[case::all_of_few(50, 50, false)]
#[case::all_of_more(51, 51, true)]
#[case::half(100, 200, false)]
#[case::more_than_half(101, 200, true)]
#[case::few_of_many(5_000, 1_000_000, false)]
#[case::more_than_there_are(60, 0, true)]
fn it_opens_when_they_are_both_many_and_most(
    #[case] suspect: usize,
    #[case] total: usize,
    #[case] opens: bool,
) {
    let breaker = assessed(suspect, total, 0);
    assert_eq!(breaker.open_since.is_some(), opens);
    let held = Err(Open::Until(at(1_800)));
    assert_eq!(check(&breaker, 10), if opens { held } else { Ok(()) });
}

#[rstest]
#[case::any_fraction(Limits { fraction: 0.0, ..Limits::default() }, 51, true)]
#[case::not_below_the_minimum(Limits { fraction: 0.0, ..Limits::default() }, 50, false)]
#[case::never(Limits { fraction: 1.0, ..Limits::default() }, 1_000, false)]
#[case::no_minimum(Limits { min: 0, ..Limits::default() }, 501, true)]
fn its_limits_are_flags(#[case] limits: Limits, #[case] suspect: usize, #[case] opens: bool) {
    let mut breaker = Breaker::default();
    let change = breaker.assess(&limits, (suspect, 1_000), at(0), noon());
    assert_eq!(change, opens);
}

#[test]
fn a_sweep_tells_what_changed() {
    let mut breaker = Breaker::default();
    let mut assess = |suspect, second| {
        let (begun, wall) = clock(second);
        let change = breaker.assess(&Limits::default(), (suspect, 100), begun, wall);
        (change, breaker.open_since)
    };
    let found = Some(noon() + secs(300));
    assert_eq!(assess(10, 0), (false, None));
    assert_eq!(assess(90, 300), (true, found));
    // It stays the same finding.
    assert_eq!(assess(95, 600), (false, found));
    // For as long as its rows wait, whether or not they are exempt by now.
    assert_eq!(assess(10, 900), (false, found));
    assert_eq!(assess(0, 600 + 1_799), (false, found));
    assert_eq!(assess(10, 600 + 1_800), (true, None));
    assert_eq!(assess(10, 2_700), (false, None));
}

#[rstest]
#[case::early(0, 1_799, Err(Open::Until(at(1_800))))]
#[case::stale_for_long(0, 1_800, Ok(()))]
#[case::each_row_by_itself(500, 1_800, Err(Open::Until(at(2_300))))]
fn an_open_breaker_holds_each_row_for_a_while(
    #[case] stale_since: u64,
    #[case] now: u64,
    #[case] goes: Result<(), Open>,
) {
    let breaker = assessed(100, 100, 0);
    let checked = breaker.check(&Limits::default(), at(stale_since), at(0), None, clock(now));
    assert_eq!(checked, goes);
    let long = Limits::default().but(|it| it.hold = secs(u64::MAX));
    assert!(
        breaker
            .check(&long, at(stale_since), at(0), None, clock(now))
            .is_err()
    );
}

/// Found at noon; the row was first seen a second after that, and is judged after a minute.
#[rstest]
#[case::before("2026-01-01T11:59:59Z", false)]
#[case::at_the_same_moment("2026-01-01T12:00:00Z", false)]
#[case::after_that_and_before_the_row("2026-01-01T12:00:00.5Z", false)]
#[case::after_the_row("2026-01-01T12:00:01.001Z", true)]
#[case::after_it_in_another_zone("2026-01-01T14:00:02+02:00", true)]
#[case::by_a_clock_that_is_ahead("2026-01-01T12:06:00Z", true)]
#[case::in_the_future("2026-01-01T12:06:00.001Z", false)]
fn an_acknowledgement_later_than_the_finding_and_the_row_lets_it_go(
    #[case] acknowledged: &str,
    #[case] goes: bool,
) {
    let mut document = pool_document("10.0.0.0/24", &[]);
    document["metadata"]["annotations"] = json!({"ipgc.dev/ack": acknowledged});
    let acknowledged = observe(&document).acknowledged;
    assert!(acknowledged.is_some());
    let breaker = assessed(100, 100, 0);
    let checked = breaker.check(&Limits::default(), at(1), at(0), acknowledged, clock(60));
    assert_eq!(checked.is_ok(), goes);
}

#[rstest]
#[case(json!({}))]
#[case(json!({"ipgc.dev/ack": ""}))]
#[case(json!({"ipgc.dev/ack": "yes"}))]
#[case(json!({"ipgc.dev/ack": "2026-01-01"}))]
#[case(json!({"ipgc.dev/ack": "2026-01-01T12:00:00"}))]
fn what_is_no_time_acknowledges_nothing(#[case] annotations: serde_json::Value) {
    let mut document = pool_document("10.0.0.0/24", &[]);
    document["metadata"]["annotations"] = annotations;
    assert_eq!(observe(&document).acknowledged, None);
}
