//! What became of the reservations that were to go, for each request that asked.

use std::{net::IpAddr, time::Duration};

use ipgc_core::{patch::Answer, podref::PodRef, time::Moment};

use super::{Work, permission::Refused};
use crate::calls::CallError;

/// What became of those of one request.
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
    /// Those that are claimed, and wait until no ADD is at work any more which accepted them before that.
    pub claimed: Vec<(PodRef, IpAddr)>,
    /// Until when they wait.
    pub until: Moment,
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
    /// Those that the server refused to change, each with the number of its request.
    denied: Vec<(usize, PodRef, String)>,
    /// All wait for the last one, so that they are proven and deleted together.
    until: Moment,
}

impl Outcomes {
    pub(super) fn new(requests: usize) -> Self {
        Self {
            all: (0..requests).map(|_| Released::default()).collect(),
            denied: Vec::new(),
            until: Moment::EPOCH,
        }
    }

    /// What each request hears. Where a refusal is about the object, that is tried again as after any
    /// failure; where it is about us, all wait.
    pub(super) fn into_inner(mut self, refused: &Refused, is_given: bool) -> Vec<Released> {
        let podrefs = self.denied.iter().map(|(_, podref, _)| podref);
        let are_failures = refused.are_about_objects(podrefs, is_given);
        for (request, podref, reason) in self.denied {
            let released = &mut self.all[request];
            if are_failures {
                released.failed.push((podref, reason));
            } else {
                released.refused.push(podref);
                released.forbidden = Some(reason);
            }
        }
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

    /// A request failed, or was refused.
    pub(super) fn fail(&mut self, work: Work<'_>, error: &CallError) {
        if error.answer() == Answer::Forbidden {
            let podref = work.wanted.row.podref.clone();
            self.denied.push((work.request, podref, error.to_string()));
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
