//! What is kept of a pod that ended: the evidence, packed like the pods that live.
//!
//! After the end of thousands it is kept for many minutes, long after everybody else has let it go.

use ipgc_core::{evidence::Ended, podref::PodRef, time::Moment};

use super::{
    live::Live,
    packed::{Packed, Packer},
};

/// A pod that ended, but for its name.
#[derive(Debug)]
pub struct End {
    /// The pod as it was.
    pub pod: Packed,
    /// See [`Ended::at`].
    pub at: Moment,
    /// See [`Ended::gap_at`].
    pub gap_at: Option<Moment>,
    /// See [`Ended::settled`].
    pub settled: bool,
    stopped: bool,
    watched: bool,
}

impl End {
    /// The end of a pod at `at`.
    pub fn new(live: Live, watched: bool, at: Moment, packer: &mut Packer) -> Self {
        Self {
            at,
            gap_at: None,
            settled: live.trail.is_settled(),
            stopped: live.trail.is_stopped(),
            watched,
            pod: packer.pack(live),
        }
    }

    /// All that is known of it.
    pub fn unpack(&self, podref: &PodRef) -> Ended {
        let live = self.pod.unpack(podref);
        Ended {
            last: live.state,
            at: self.at,
            watched: self.watched,
            settled: self.settled,
            stopped: self.stopped,
            listed_at: live.listed_at,
            born: live.born,
            gap_at: self.gap_at,
            sandboxes: live.sandboxes,
        }
    }
}
