//! Whether we may write, as far as a release was told, and whether claims are allowed at all. Decides nothing about what
//! may go.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio_util::sync::CancellationToken;

use crate::collect::context::Context;

/// For one release.
pub(super) struct Permission<'c> {
    pub(super) context: &'c Context,
    stop: &'c CancellationToken,
    is_denied: AtomicBool,
}

impl<'c> Permission<'c> {
    pub(super) fn new(context: &'c Context, stop: &'c CancellationToken) -> Self {
        Self {
            context,
            stop,
            is_denied: AtomicBool::new(false),
        }
    }

    /// Whether another round, or another claim, may begin.
    pub(super) fn lasts(&self) -> bool {
        !self.stop.is_cancelled() && self.lasts_while_shutting_down()
    }

    /// Whether a round that was begun may go on.
    pub(super) fn lasts_while_shutting_down(&self) -> bool {
        let gate = &self.context.gate;
        !self.is_denied.load(Ordering::Relaxed) && gate.leads() && gate.wait().is_zero()
    }

    /// A right is missing: thousands more would be refused.
    pub(super) fn deny(&self) {
        self.is_denied.store(true, Ordering::Relaxed);
    }
}
