//! Every random choice of a run, from its seed. Touches nothing else.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

/// The random choices of one seed, in their order.
#[derive(Debug)]
pub struct Dice(StdRng);

impl Dice {
    /// Those of this seed.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// A number below `end`, which is at least 1.
    pub fn below(&mut self, end: usize) -> usize {
        self.0.random_range(0..end.max(1))
    }

    /// Whether something happens that happens in so many of a hundred cases.
    pub fn percent(&mut self, of_hundred: usize) -> bool {
        self.below(100) < of_hundred
    }

    /// A time from `from` to `to`, in milliseconds.
    pub fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.0.random_range(from..=to.max(from)))
    }

    /// A time from `from` to `to`, in seconds.
    pub fn seconds(&mut self, from: u64, to: u64) -> Duration {
        self.millis(from * 1000, to * 1000)
    }

    /// One of these.
    pub fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}
