//! The word by which rows are counted: one for one thing, in audit, explain, watch, logs and metrics.

use super::{Held, Verdict};

/// The word for a [`Verdict`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// Its pod reports it.
    Live,
    /// It is held for any other reason.
    Unreported,
    /// It goes by itself when its wait is over.
    Stale,
    /// It waits for something to happen on a node.
    Unfenced,
    /// Nothing can be said, or a person exempted it.
    Unknown,
}

words! { Word: Live "live", Unreported "unreported", Stale "stale", Unfenced "unfenced", Unknown "unknown" }

impl Held {
    /// The word for a row that is held for this reason.
    pub fn word(&self) -> Word {
        match self {
            // Of a pod that is merely known to be there, no status was read.
            Self::Reported | Self::OwnContainer | Self::Present | Self::ResourceClaim => Word::Live,
            Self::Mirror
            | Self::InUse(_)
            | Self::OthersSandbox(_)
            | Self::Ended
            | Self::Leaving
            | Self::Changing
            | Self::Unused
            | Self::Drift => Word::Unreported,
        }
    }
}

impl Verdict {
    /// Its word.
    pub fn word(&self) -> Word {
        match self {
            Self::Held(held) => held.word(),
            Self::Stale(stale) if stale.clearance.wait.is_timed() => Word::Stale,
            Self::Stale(_) => Word::Unfenced,
            Self::Unknown(_) => Word::Unknown,
        }
    }
}
