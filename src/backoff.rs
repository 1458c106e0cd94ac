//! Exponential waits with jitter.

use std::time::Duration;

use crate::chance;

/// Doubles the wait from `least` to `most`, each wait shortened by up to a half at random, so that
/// many who failed together do not come back together.
#[derive(Clone, Debug)]
pub struct Backoff {
    least: Duration,
    most: Duration,
    failures: u32,
}

impl Backoff {
    /// Waits from `least` to `most`.
    pub fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            failures: 0,
        }
    }

    /// The wait after one more failure.
    pub fn next_wait(&mut self) -> Duration {
        let wait = self.wait_after(self.failures);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    /// The wait after the failure with this number, counted from zero.
    pub fn wait_after(&self, failures: u32) -> Duration {
        let factor = 2_u32.saturating_pow(failures);
        let full = self.least.saturating_mul(factor).min(self.most);
        chance::part_of(full, 0.5..1.0)
    }

    /// Something worked: the next failure is the first.
    pub fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_most_and_jitter_only_shortens() {
        let backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(30));
        for (failures, full) in [(0, 200), (1, 400), (5, 6_400), (8, 30_000), (4_000, 30_000)] {
            let full = Duration::from_millis(full);
            for _ in 0..100 {
                let wait = backoff.wait_after(failures);
                assert!(wait <= full && wait >= full / 2, "{wait:?} of {full:?}");
            }
        }
    }
}
