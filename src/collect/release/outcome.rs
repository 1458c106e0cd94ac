//! The results for the reservations that were to be deleted, for each request.

use std::{net::IpAddr, time::Duration};

use ipgc_core::{patch::Answer, podref::PodRef, time::Moment};

use super::Work;
use crate::{
    calls::CallError,
    collect::{context::Context, gate::Access},
};

/// The results for the reservations of one request.
#[derive(Debug, Default)]
pub struct Released {
    /// Reservations deleted.
    pub deleted: usize,
    /// Those that are left, by their podrefs.
    pub left: Vec<(PodRef, Left)>,
    /// Until when those wait that are claimed.
    pub until: Moment,
}

/// Why a reservation is left.
#[derive(Clone, Debug)]
pub enum Left {
    /// To be tried again, for this reason, and after this wait if the server asked for one.
    Failed(String, Duration),
    /// We may not write for so long, or are shutting down. No failure.
    Postponed(Duration),
    /// The server refuses to release it though we may: why, and when that is tried again if not after the next sweep.
    Kept(String, Option<Moment>),
    /// The one of this address is claimed, and waits until no ADD is at work any more which accepted it before that.
    Claimed(IpAddr),
}

impl Left {
    /// A request failed. If we may not send it, nothing more is written for a while.
    pub(super) fn after(context: &Context, access: Access, what: &str, error: &CallError) -> Self {
        if error.answer() == Answer::Forbidden {
            let gate = &context.gate;
            gate.refused(access, what, error);
            return Self::Postponed(gate.wait());
        }
        Self::Failed(error.to_string(), error.retry_after().unwrap_or_default())
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
        self.until = self.until.max(until);
        self.leave(work, Left::Claimed(work.wanted.row.address));
    }

    /// It is gone, and it was us if there is one.
    pub(super) fn deleted(&mut self, work: Option<Work<'_>>) {
        if let Some(work) = work {
            self.all[work.request].deleted += 1;
        }
    }

    /// It is left.
    pub(super) fn leave(&mut self, work: Work<'_>, left: Left) {
        let podref = work.wanted.row.podref.clone();
        self.all[work.request].left.push((podref, left));
    }
}
