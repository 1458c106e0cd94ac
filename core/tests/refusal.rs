//! Refusals of single objects, and of all claims.

use std::time::Duration;

use ipgc_core::{
    refusal::{ALIKE, BackOffs, Claims, LONGEST, SHORTEST},
    time::Moment,
};

const INTERVAL: Duration = Duration::from_mins(5);

#[test]
fn an_object_backs_off_alone_and_twice_as_long_each_time_up_to_five_minutes() {
    let mut all = BackOffs::default();
    let mut now = Moment::EPOCH;
    let mut waits = Vec::new();
    for _ in 0..12 {
        let until = all.refused("one", now);
        assert_eq!(all.until(&"one", now), Some(until));
        assert_eq!(all.until(&"other", now), None);
        waits.push(until.since(now));
        now = until;
        assert_eq!(all.until(&"one", now), None, "the wait is over");
    }
    assert_eq!(waits[0], SHORTEST);
    assert!(
        waits
            .windows(2)
            .all(|pair| pair[1] == (pair[0] * 2).min(LONGEST))
    );
    assert_eq!(waits[11], Duration::from_mins(5));
}

#[test]
fn an_object_that_was_changed_begins_anew() {
    let mut all = BackOffs::default();
    for _ in 0..5 {
        all.refused("one", Moment::EPOCH);
    }
    all.passed(&"one");
    assert_eq!(all.until(&"one", Moment::EPOCH), None);
    assert_eq!(all.refused("one", Moment::EPOCH), Moment::EPOCH + SHORTEST);
}

/// Its pool was deleted, say.
#[test]
fn an_object_that_is_not_tried_again_is_forgotten() {
    let mut all = BackOffs::default();
    all.refused("gone", Moment::EPOCH);
    let later = Moment::EPOCH + Duration::from_hours(1);
    all.refused("other", later);
    assert!(!format!("{all:?}").contains("gone"));
}

#[test]
fn claims_are_forbidden_when_those_of_several_reservations_are_refused_and_none_passes() {
    let mut claims = Claims::default();
    let now = Moment::EPOCH;
    // One alone may be refused for ever.
    for _ in 0..10 {
        assert!(!claims.refused("10.0.0.1", now, INTERVAL));
        assert!(claims.may_begin(now, INTERVAL));
    }
    assert!(!claims.refused("10.0.0.2", now, INTERVAL));
    claims.passed();
    for number in 1..ALIKE {
        assert!(!claims.refused(&number.to_string(), now, INTERVAL));
    }
    assert!(claims.refused("last", now, INTERVAL));
    assert!(claims.are_forbidden() && !claims.may_begin(now, INTERVAL));
}

#[test]
fn where_claims_are_forbidden_one_is_tried_for_each_sweep_until_one_passes() {
    let mut claims = Claims::default();
    for number in 0..ALIKE {
        claims.refused(&number.to_string(), Moment::EPOCH, INTERVAL);
    }
    for sweep in 1..5 {
        let now = Moment::EPOCH + INTERVAL * sweep;
        assert!(claims.may_begin(now, INTERVAL));
        assert!(!claims.may_begin(now, INTERVAL), "one of them");
        assert!(claims.refused("any", now + Duration::from_secs(1), INTERVAL));
    }
    claims.passed();
    assert!(!claims.are_forbidden() && claims.may_begin(Moment::EPOCH, INTERVAL));
}

/// `--sweep-interval` may be as long as a duration can be.
#[test]
fn no_interval_is_too_long() {
    let mut claims = Claims::default();
    for number in 0..ALIKE {
        claims.refused(&number.to_string(), Moment::EPOCH, Duration::MAX);
    }
    assert!(!claims.may_begin(Moment::EPOCH + INTERVAL, Duration::MAX));
}
