//! The results for the reservations that a turn wants to have deleted.

use std::{net::IpAddr, time::Duration};

use ipgc_core::{podref::PodRef, time::Moment};

use super::gate::{Access, Gate};
use crate::calls::CallError;

/// The results for the reservations of one pool.
#[derive(Debug, Default)]
pub struct Released {
    pub deleted: usize,
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
    /// The server refuses to release it though we may, or its pod needs it: why, and when that is tried again if not after
    /// the next sweep.
    Kept(String, Option<Moment>),
    /// The one of this address is claimed, and waits until no ADD is at work any more which accepted it before that.
    Claimed(IpAddr),
}

impl Left {
    /// A request failed.
    pub fn after(gate: &Gate, access: Access, what: &'static str, error: &CallError) -> Self {
        gate.failed(access, what, error);
        match gate.wait() {
            Duration::ZERO => {
                Self::Failed(error.to_string(), error.retry_after().unwrap_or_default())
            }
            wait => Self::Postponed(wait),
        }
    }
}
