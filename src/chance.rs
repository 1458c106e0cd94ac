//! Random choices: the jitter of waits, and names that nothing else has. Touches nothing else.
//!
//! They come from the machine's randomness, unless a thread begins with [`repeat`].

use std::{cell::RefCell, ops::Range, time::Duration};

use rand::{RngExt, SeedableRng, rngs::StdRng};

thread_local! {
    static CHOICES: RefCell<StdRng> = RefCell::new(StdRng::from_rng(&mut rand::rng()));
}

/// From now on the choices of this thread are those of this seed, so that a run can be repeated.
pub fn repeat(seed: u64) {
    CHOICES.with_borrow_mut(|choices| *choices = StdRng::seed_from_u64(seed));
}

/// A number that nothing else has.
pub(crate) fn unique() -> u64 {
    CHOICES.with_borrow_mut(RngExt::random)
}

/// A part of this time within `parts`.
pub(crate) fn part_of(time: Duration, parts: Range<f64>) -> Duration {
    time.mul_f64(CHOICES.with_borrow_mut(|choices| choices.random_range(parts)))
}
