//! Refusals of single objects and of all claims, as far as no request shows them.

use std::time::Duration;

use ipgc_core::{
    refusal::{ALIKE, BackOffs, Claims},
    time::Moment,
};

/// Its pool was deleted, say.
#[test]
fn an_object_that_is_not_tried_again_is_forgotten() {
    let mut all = BackOffs::default();
    all.refused("gone", Moment::EPOCH);
    let later = Moment::EPOCH + Duration::from_hours(1);
    all.refused("other", later);
    assert!(!format!("{all:?}").contains("gone"));
}

/// `--sweep-interval` may be as long as a duration can be.
#[test]
fn no_interval_is_too_long() {
    let mut claims = Claims::default();
    for number in 0..ALIKE {
        claims.refused(&number.to_string(), Moment::EPOCH, Duration::MAX);
    }
    assert!(!claims.may_begin(Moment::EPOCH + Duration::from_mins(5), Duration::MAX));
}
