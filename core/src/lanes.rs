//! The lane of a pool is its queue: while one batch of the pool is at work, new cases of the pool gather, and are the next
//! batch.
//!
//! A mass delete costs a few patches for each pool and not one for each pod: a patch on a large pool costs the server the
//! same, however many rows it removes. A single case of an idle pool begins at once. After a batch the lane pauses, in
//! proportion to the time that the requests on the pool took. Then it gathers as long as more cases will be due soon. All
//! lanes that gather stop at the same tick of a common timer, so that one LIST of pods serves the proofs of all.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use crate::{cases::CaseKey, pool::PoolKey, time::Moment};

/// Shortest pause after a batch: cases that are due within it are one batch.
const PAUSE: Duration = Duration::from_millis(200);
/// Longest pause, on a server that takes many seconds for a patch.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Seconds of pause for each second that the requests on the pool took, so that they keep the server busy for a quarter
/// of the time at most.
const PAUSE_FOR_WORK: u32 = 3;
/// A lane that gathers waits for cases that are due within this time.
const SOON: Duration = Duration::from_millis(500);
/// Longest time that the first batch of an idle pool waits for more cases.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// The first batch waits for cases that are due within this time after its first case.
const AT_ONCE: Duration = Duration::from_millis(10);
/// How often a lane that gathers checks whether more cases are coming.
const LOOK: Duration = Duration::from_millis(100);
/// A batch begins with this number of cases. A larger one would not be cheaper for each row, only later.
const MANY: usize = 250;
/// Time between two ticks of the common timer, at which all gathering ends. A batch of a pool is three requests. With ten
/// pools, in a mass delete that takes minutes, a shorter time would cost more than five requests for a hundred rows.
const TICK: Duration = Duration::from_secs(20);

#[derive(Debug)]
struct Lane {
    /// None while a batch is at work.
    gathering: Option<Gathering>,
    queued: Vec<Arc<CaseKey>>,
}

/// The cases of the next batch gather until this moment, as long as another case is due `within` a short time.
#[derive(Clone, Copy, Debug)]
struct Gathering {
    until: Moment,
    within: Duration,
}

/// The lanes of all pools that have work, and when each is looked at next.
#[derive(Debug, Default)]
pub struct Lanes {
    by_pool: HashMap<PoolKey, Lane>,
    wake: BTreeSet<(Moment, PoolKey)>,
}

fn next_tick(moment: Moment) -> Moment {
    let ticks = moment.since_epoch().as_secs() / TICK.as_secs() + 1;
    Moment::EPOCH + Duration::from_secs(ticks * TICK.as_secs())
}

impl Lanes {
    /// A case of its pool is due.
    pub fn add(&mut self, case: Arc<CaseKey>, now: Moment) {
        let pool = case.0.clone();
        let lane = self.by_pool.entry(pool).or_insert_with(|| {
            self.wake.insert((now, case.0.clone()));
            Lane {
                gathering: Some(Gathering {
                    until: now + LONGEST_WAIT,
                    within: AT_ONCE,
                }),
                queued: Vec::new(),
            }
        });
        lane.queued.push(case);
    }

    /// When the next lane is to be looked at.
    pub fn next(&self) -> Option<Moment> {
        self.wake.first().map(|(at, _)| *at)
    }

    /// The pools whose next batch may begin now, with its cases. `next_due` is when the next case of any pool is due.
    pub fn ready(
        &mut self,
        now: Moment,
        next_due: Option<Moment>,
    ) -> Vec<(PoolKey, Vec<Arc<CaseKey>>)> {
        let mut ready = Vec::new();
        let is_coming = |within| next_due.is_some_and(|due| due <= now + within);
        while self.next().is_some_and(|at| at <= now)
            && let Some((_, pool)) = self.wake.pop_first()
        {
            let Some(lane) = self.by_pool.get_mut(&pool) else {
                continue;
            };
            if lane.queued.is_empty() {
                self.by_pool.remove(&pool);
                continue;
            }
            let gathers = lane
                .gathering
                .filter(|it| lane.queued.len() < MANY && now < it.until && is_coming(it.within));
            if let Some(Gathering { within, .. }) = gathers {
                self.wake.insert((now + within.min(LOOK), pool));
            } else {
                lane.gathering = None;
                ready.push((pool, std::mem::take(&mut lane.queued)));
            }
        }
        ready
    }

    /// A batch has done what it could do about rows, and the requests on the pool took so long.
    pub fn done(&mut self, pool: &PoolKey, took: Duration, now: Moment) {
        if let Some(lane) = self.by_pool.get_mut(pool)
            && lane.gathering.is_none()
        {
            let pause = took.saturating_mul(PAUSE_FOR_WORK);
            let begin = now + pause.clamp(PAUSE, LONGEST_PAUSE);
            lane.gathering = Some(Gathering {
                until: next_tick(begin),
                within: SOON,
            });
            self.wake.insert((begin, pool.clone()));
        }
    }
}
