//! Leader election: when a copy may take a Lease, and that no two copies rely on one at a time.

use ipgc_core::election::{Candidate, Record, Step};
use proptest::collection::vec;

use crate::common::prelude::*;

fn candidate() -> Candidate {
    Candidate::new("a")
}

fn held_by<'r>(holder: &'r str, version: &'r str) -> Record<'r> {
    let duration = Duration::from_secs(15);
    Record {
        version,
        holder,
        duration,
    }
}

#[test]
fn how_long_it_was_held_before_it_was_read_first_does_not_count() {
    let mut candidate = candidate();
    assert_eq!(
        candidate.note_read(Some(held_by("b", "1")), at(1_000)),
        Step::Wait
    );
}

#[test]
fn a_longer_duration_in_the_lease_counts_and_a_shorter_does_not() {
    for (seconds, taken_at) in [(0, 15), (1, 15), (15, 15), (40, 40)] {
        let mut candidate = candidate();
        let record = Some(Record {
            duration: Duration::from_secs(seconds),
            ..held_by("b", "1")
        });
        let first = (0..60).find(|second| candidate.note_read(record, at(*second)) == Step::Take);
        assert_eq!(first, Some(taken_at), "{seconds}");
    }
}

#[test]
fn a_leader_relies_on_the_lease_from_the_beginning_of_its_last_write() {
    let mut candidate = candidate();
    assert_eq!(candidate.held_until(), None);
    candidate.wrote("1", at(5));
    assert_eq!(candidate.held_until(), Some(at(15)));
    // Reading it is no renewal.
    assert_eq!(
        candidate.note_read(Some(held_by("a", "1")), at(14)),
        Step::Renew
    );
    assert_eq!(candidate.held_until(), Some(at(15)));
}

#[test]
fn a_write_whose_answer_was_lost_is_written_again_before_it_is_relied_on() {
    let mut candidate = candidate();
    assert_eq!(
        candidate.note_read(Some(held_by("a", "1")), at(0)),
        Step::Renew
    );
    assert_eq!(candidate.held_until(), None);
}

#[test]
fn a_time_without_any_answer_is_no_lost_answer() {
    let mut candidate = candidate();
    candidate.wrote("1", at(0));
    let step = candidate.note_read(Some(held_by("a", "2")), at(60));
    assert_eq!(step, Step::Renew);
}

#[test]
fn the_last_write_that_was_heard_of_is_renewed_however_long_no_request_arrived() {
    let mut candidate = candidate();
    candidate.wrote("1", at(0));
    let step = candidate.note_read(Some(held_by("a", "1")), at(1_000));
    assert_eq!(step, Step::Renew);
    candidate.step_down();
    let step = candidate.note_read(Some(held_by("a", "0")), at(1_001));
    assert_eq!(step, Step::Renew, "as after a restoration of etcd");
}

#[test]
fn whoever_reads_that_it_lost_the_lease_steps_down() {
    for lost in [None, Some(held_by("", "2")), Some(held_by("b", "2"))] {
        let mut candidate = candidate();
        candidate.wrote("1", at(0));
        candidate.note_read(lost, at(1));
        assert_eq!(candidate.held_until(), None, "{lost:?}");
    }
}

/// How far one of some candidates has come with its look at the Lease.
#[derive(Clone, Copy, Debug, Default)]
enum Stage {
    #[default]
    Idle,
    /// It read this version and sent a write at this moment of its own clock.
    Sent(Option<u64>, Moment),
    /// The write was accepted with this version; the answer is on its way.
    Accepted(u64, Moment),
}

/// Seconds between two of their moves: mostly few, sometimes about as long as a Lease lasts.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..2_u64, 1 => 8..16_u64]
}

proptest! {
    /// However long requests and answers are under way, and whatever the candidates' clocks show.
    #[test]
    fn no_two_rely_on_the_lease_at_a_time(
        moves in vec((0..3_usize, pause(), prop::bool::weighted(0.1)), 0..400),
        skews: [u32; 3],
    ) {
        let names = ["a", "b", "c"];
        let mut candidates = names.map(Candidate::new);
        let mut stages = [Stage::default(); 3];
        let clock = |who: usize, now: u64| at(u64::from(skews[who]) + now);
        let mut lease: Option<(&str, u64)> = None;
        let mut now = 0;
        for (who, pause, is_lost) in moves {
            now += pause;
            let version = lease.map(|(_, version)| version);
            stages[who] = match stages[who] {
                _ if is_lost => Stage::Idle,
                Stage::Idle => {
                    let text = version.unwrap_or_default().to_string();
                    let record = lease.map(|(holder, _)| held_by(holder, &text));
                    match candidates[who].note_read(record, clock(who, now)) {
                        Step::Wait => Stage::Idle,
                        Step::Take | Step::Renew => Stage::Sent(version, clock(who, now)),
                    }
                }
                Stage::Sent(read, begun) if read == version => {
                    let written = version.unwrap_or_default() + 1;
                    lease = Some((names[who], written));
                    Stage::Accepted(written, begun)
                }
                // Somebody else was faster.
                Stage::Sent(..) => Stage::Idle,
                Stage::Accepted(written, begun) => {
                    candidates[who].wrote(&written.to_string(), begun);
                    Stage::Idle
                }
            };
            let leaders = (0..3).filter(|who| {
                let until = candidates[*who].held_until();
                until.is_some_and(|until| until > clock(*who, now))
            });
            prop_assert!(leaders.count() <= 1);
        }
    }
}
