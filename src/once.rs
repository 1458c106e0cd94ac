//! `ipgc run --once`: one sweep, frees the addresses that may be freed at once or within `--wait`, prints a summary, and
//! ends.
//!
//! It is the same run as `ipgc run`, with all guards. It is stopped when nothing more can be done in time.

use std::{fmt, future::Future, sync::Arc, time::Duration};

use ipgc_core::{judge::Word, plan::Outlook};
use tokio::time::timeout;

use crate::{
    report::SweepReport,
    run::{Phase, Running},
};

/// Longest time for the check of the rights, for the first LISTs, and for the sweep, each. A million addresses take less than a minute.
pub const SURVEY: Duration = Duration::from_mins(5);
/// Longest wait for the Lease. The Lease of a copy that was killed expires earlier.
const ELECTION: Duration = Duration::from_secs(30);
/// Longest time for work that was begun before the end of the wait.
const BEGUN: Duration = Duration::from_mins(1);

/// The work of such a run, and what it left.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The findings of the sweep.
    pub survey: Arc<SweepReport>,
    /// Whether it was a dry run, which writes nothing.
    pub dry_run: bool,
    /// Addresses that were freed, or would have been.
    pub freed: u64,
    /// Reservations that were removed.
    pub reservations: u64,
    /// Pods with addresses or reservations that may not be freed yet. A pod with rows in two pools counts twice.
    pub waiting: usize,
    /// Those of these pods whose addresses or reservations are half done: asked to go, or marked. The next run goes on.
    pub begun: usize,
    /// Addresses and reservations that should have been freed, and could not be removed.
    pub failed: u64,
}

impl Summary {
    /// Whether nothing is left that should go.
    pub fn is_clear(&self) -> bool {
        let survey = &self.survey;
        let is_read = survey.pools_unreadable + survey.reservations_unreadable == 0;
        let would_free = self.dry_run && self.freed + self.reservations > 0;
        self.waiting == 0 && self.failed == 0 && is_read && !would_free
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let survey = &self.survey;
        write!(f, "{} pools, {} addresses", survey.pools, survey.rows)?;
        for word in Word::ALL {
            match survey.words[word as usize] {
                0 => {}
                count => write!(f, ", {count} {}", word.as_str())?,
            }
        }
        match survey.orphans.unwrap_or(0) {
            0 => writeln!(f)?,
            orphans => writeln!(f, "; {orphans} reservations without an address")?,
        }
        let (freed, reservations) = (self.freed, self.reservations);
        if self.dry_run {
            writeln!(f, "would free {freed} addresses; nothing was written")?;
            if reservations > 0 {
                writeln!(
                    f,
                    "would free {reservations} reservations without an address"
                )?;
            }
        } else {
            writeln!(f, "freed {freed} addresses and {reservations} reservations")?;
        }
        let (pools, unread) = (survey.pools_unreadable, survey.reservations_unreadable);
        let waits = "pods have addresses that may not go yet: ipgc audit tells what each waits for";
        let left = [
            (pools as u64, "pools cannot be read: see the log"),
            (
                unread as u64,
                "reservations cannot be read: ipgc audit tells which",
            ),
            (self.failed, "could not be removed: see the log"),
            (self.waiting as u64, waits),
            (self.begun as u64, "of them are half done: run it again"),
        ];
        let mut left = left.iter().filter(|(count, _)| *count > 0);
        left.try_for_each(|(count, what)| writeln!(f, "{count} {what}"))
    }
}

/// Lets the run go on until all is freed that may go within `wait` after its first survey, then stops
/// it. Work that was begun in time is ended, which takes the budget of an ADD at the most. It ends sooner if `stop` does, and
/// tells what was done until then.
///
/// # Errors
/// One line: nothing was done, or the run failed. The run is stopped in any case.
pub async fn once(
    running: Running,
    wait: Duration,
    stop: impl Future<Output = ()>,
) -> Result<Summary, String> {
    let mut survey = None;
    let mut phase = running.context.phase.subscribe();
    let result = tokio::select! {
        () = stop => Ok(()),
        // The run tells why below.
        _ = phase.wait_for(|phase| *phase == Phase::Done) => Ok(()),
        result = work(&running, wait, &mut survey) => result,
    };
    let context = Arc::clone(&running.context);
    let outlook = *context.outlook.borrow();
    running.stop();
    running.done().await?;
    result?;
    let counters = &context.counters;
    Ok(Summary {
        survey: survey.ok_or("it was ended before the survey was over")?,
        dry_run: context.config.dry_run,
        freed: counters.rows_freed.get() + counters.rows_would_free.get(),
        reservations: counters.reservations_freed.get() + counters.reservations_would_free.get(),
        // What was not looked at by then is not done either.
        waiting: if outlook.at_work {
            outlook.open
        } else {
            outlook.waiting
        },
        begun: outlook.begun,
        failed: counters.frees_refused.get()
            + counters.claims_forbidden.get()
            + counters.retries_exhausted.get()
            + counters.queue_overflows.get(),
    })
}

async fn work(
    running: &Running,
    wait: Duration,
    survey: &mut Option<Arc<SweepReport>>,
) -> Result<(), String> {
    let context = &running.context;
    let mut outlook = context.outlook.subscribe();
    let mut sweeps = context.sweeps.subscribe();
    let surveyed = async {
        outlook.wait_for(|it| it.is_surveyed).await.ok()?;
        let first = sweeps.wait_for(|it| it.ended_at.is_some()).await.ok()?;
        Some(Arc::clone(&first))
    };
    *survey = timeout(SURVEY, surveyed).await.ok().flatten();
    if survey.is_none() {
        let minutes = SURVEY.as_secs() / 60;
        return Err(format!(
            "no survey of all addresses came to its end within {minutes} minutes"
        ));
    }
    if timeout(ELECTION, context.leadership.held()).await.is_err() {
        let why = "another copy of ipgc does, the Lease is paused, or it cannot be written";
        return Err(format!("this run does not lead, and freed nothing: {why}"));
    }
    let end = context.clock.now() + wait;
    let is_later = |next| next > end;
    let is_over = |it: &Outlook| !it.at_work && it.begun == 0 && it.next.is_none_or(is_later);
    let is_in_time = timeout(wait, outlook.wait_for(is_over)).await.is_ok();
    if !is_in_time {
        // A mark that nobody ends keeps its address from everybody.
        context.closing.cancel();
        let is_ended = |it: &Outlook| !it.at_work && it.begun == 0;
        let longest = BEGUN + context.config.policy.add_budget;
        let _ = timeout(longest, outlook.wait_for(is_ended)).await;
    }
    Ok(())
}
