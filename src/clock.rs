//! The one place where moments come from: tokio's clock, which tests can pause. The wall clock, by which nothing is
//! waited for, since it may jump.

use std::{cell::RefCell, time::Duration};

use ipgc_core::time::Moment;
use jiff::Timestamp;
use tokio::time::Instant;

/// Turns the runtime's clock into the [`Moment`]s that the core reckons with.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begun: Instant,
}

impl Clock {
    /// A clock whose epoch is now.
    pub fn start() -> Self {
        Self {
            begun: Instant::now(),
        }
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        Moment::new(self.begun.elapsed())
    }

    /// How long it is until `moment`; zero if it has passed.
    pub fn until(&self, moment: Moment) -> Duration {
        moment.since(self.now())
    }
}

thread_local! {
    static WALL: RefCell<Box<dyn Fn() -> Timestamp>> = RefCell::new(Box::new(Timestamp::now));
}

/// The present by the wall clock, for texts that people and other programs read or write.
pub fn wall() -> Timestamp {
    WALL.with_borrow(|wall| wall())
}

/// From now on the wall clock of this thread is this one, so that a run can be repeated, and the clock can jump.
pub fn set_wall(wall: impl Fn() -> Timestamp + 'static) {
    WALL.set(Box::new(wall));
}
