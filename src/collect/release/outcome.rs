//! The results for the reservations that were to be deleted, for each request.

use std::{net::IpAddr, time::Duration};

use ipgc_core::{patch::Answer, podref::PodRef, time::Moment};

use super::Work;
use crate::calls::CallError;

/// The results for the reservations of one request.
#[derive(Debug, Default)]
pub struct Released {
    /// Reservations deleted.
    pub deleted: usize,
    /// Podrefs to try again.
    pub failed: Vec<(PodRef, String)>,
    /// The longest wait that the server asked for.
    pub retry_after: Duration,
    /// Podrefs that nothing was done for, since we may not write or are shutting down.
    pub refused: Vec<PodRef>,
    /// The words of the refusal.
    pub forbidden: Option<String>,
    /// Podrefs with a reservation that the server refuses to release though we may: why, and when that is tried again
    /// if not after the next sweep.
    pub kept: Vec<(PodRef, String, Option<Moment>)>,
    /// Those that are claimed, and wait until no ADD is at work any more which accepted them before that.
    pub claimed: Vec<(PodRef, IpAddr)>,
    /// Until when they wait.
    pub until: Moment,
}

/// Why a write on a reservation was not done.
pub(super) enum Trouble {
    /// The request failed, or we may not send it.
    Failed(CallError),
    /// The server refuses to change this one, which is tried again at this moment.
    Refused(String, Moment),
    /// The server refuses all claims, and nothing was sent.
    Forbidden,
}

impl Released {
    /// All failed.
    pub(super) fn failed(podrefs: Vec<PodRef>, reason: &str) -> Self {
        let failed = podrefs.into_iter();
        Self {
            failed: failed.map(|podref| (podref, reason.to_owned())).collect(),
            ..Self::default()
        }
    }

    /// None was begun.
    pub(super) fn refused(podrefs: Vec<PodRef>) -> Self {
        Self {
            refused: podrefs,
            ..Self::default()
        }
    }
}

/// Those of all requests, in their order.
pub(super) struct Outcomes {
    all: Vec<Released>,
    /// All wait for the last one, so that they are proven and deleted together.
    until: Moment,
}

impl Outcomes {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            all: (0..requests).map(|_| Released::default()).collect(),
            until: Moment::EPOCH,
        }
    }

    /// The outcome of each request.
    pub(super) fn into_inner(mut self) -> Vec<Released> {
        for released in &mut self.all {
            released.until = self.until;
        }
        self.all
    }

    /// It is claimed, and waits.
    pub(super) fn wait(&mut self, work: Work<'_>, until: Moment) {
        let row = &work.wanted.row;
        let claimed = (row.podref.clone(), row.address);
        self.of(work).claimed.push(claimed);
        self.until = self.until.max(until);
    }

    /// It is gone, and it was us if there is one.
    pub(super) fn deleted(&mut self, work: Option<Work<'_>>) {
        if let Some(work) = work {
            self.of(work).deleted += 1;
        }
    }

    /// Nothing was done, and that is no failure.
    pub(super) fn refuse(&mut self, work: Work<'_>) {
        let podref = work.wanted.row.podref.clone();
        self.of(work).refused.push(podref);
    }

    /// A write was not done.
    pub(super) fn trouble(&mut self, work: Work<'_>, trouble: Trouble) {
        let (reason, again) = match trouble {
            Trouble::Failed(error) => return self.fail(work, &error),
            Trouble::Refused(reason, until) => (reason, Some(until)),
            Trouble::Forbidden => ("its claim is refused, like others'".to_owned(), None),
        };
        let podref = work.wanted.row.podref.clone();
        self.of(work).kept.push((podref, reason, again));
    }

    /// A request failed, or we may not send it.
    pub(super) fn fail(&mut self, work: Work<'_>, error: &CallError) {
        if error.answer() == Answer::Forbidden {
            self.refuse(work);
            self.of(work).forbidden = Some(error.to_string());
        } else {
            self.fail_for(work, error.to_string());
            let wait = &mut self.of(work).retry_after;
            *wait = error.retry_after().unwrap_or_default().max(*wait);
        }
    }

    /// To be tried again, for this reason.
    pub(super) fn fail_for(&mut self, work: Work<'_>, reason: String) {
        let podref = work.wanted.row.podref.clone();
        self.of(work).failed.push((podref, reason));
    }

    fn of(&mut self, work: Work<'_>) -> &mut Released {
        &mut self.all[work.request]
    }
}
