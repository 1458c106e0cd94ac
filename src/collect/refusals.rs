//! Whether a refused write is about our rights, or about the one object that it was to change.
//!
//! A missing right and admission are told by the same 403. Only an access review tells them apart.

use std::sync::Mutex;

use ipgc_core::{patch::Answer, refusal::BackOffs, time::Moment};
use kube::Client;
use tracing::debug;

use crate::{
    access::{self, Right},
    calls::CallError,
    clock::Clock,
    lock::lock,
};

/// The objects that the server refuses to change, though we may.
pub struct Refusals {
    client: Client,
    clock: Clock,
    back_offs: Mutex<BackOffs<Right>>,
}

impl Refusals {
    /// Asks for rights through `client`.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            back_offs: Mutex::default(),
        }
    }

    /// Whether the server refuses what a request would make of its object. Where the right to send it is missing, or the
    /// API server does not say that it is there, the refusal is about us.
    pub async fn is_about_object(&self, right: &Right, error: &CallError) -> bool {
        match error.answer() {
            Answer::Refused | Answer::TooLarge => true,
            Answer::Forbidden => match access::is_granted(&self.client, right).await {
                Ok(is_granted) => is_granted,
                Err(error) => {
                    debug!(%right, %error, "not known whether a right is there");
                    false
                }
            },
            Answer::Done | Answer::Gone | Answer::Rejected | Answer::Unclear => false,
        }
    }

    /// Until when this is not tried again, if it was refused.
    pub fn until(&self, right: impl FnOnce() -> Right) -> Option<Moment> {
        let back_offs = lock(&self.back_offs);
        // Nearly always.
        if back_offs.is_empty() {
            return None;
        }
        back_offs.until(&right(), self.clock.now())
    }

    /// The server refuses this: until when it is not tried again.
    pub fn refused(&self, right: Right) -> Moment {
        lock(&self.back_offs).refused(right, self.clock.now())
    }

    /// It was done.
    pub fn passed(&self, right: impl FnOnce() -> Right) {
        let mut back_offs = lock(&self.back_offs);
        if !back_offs.is_empty() {
            back_offs.passed(&right());
        }
    }
}
