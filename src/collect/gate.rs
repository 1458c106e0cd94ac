//! The gate in front of every write of the collector: shut while the server denies the rights.
//!
//! The server answers 403 for a missing right and for admission. Only an access review tells which: a missing right
//! shuts the gate, and a refusal of one object makes that object alone back off.

use std::{collections::BTreeSet, sync::Mutex, time::Duration};

use ipgc_core::{patch::Answer, refusal::BackOffs, time::Moment};
use kube::Client;
use tracing::{debug, error, info};

use crate::{
    access::{self, Right},
    calls::CallError,
    clock::Clock,
    lock::lock,
};

/// How long the gate stays shut after a refusal. Rights are mended by people, slowly.
const SHUT: Duration = Duration::from_secs(30);

/// Open, or shut until a moment.
pub struct Gate {
    clock: Clock,
    /// Asks for rights.
    client: Client,
    refusals: Mutex<Refusals>,
}

#[derive(Default)]
struct Refusals {
    /// Of objects that we may change.
    of_objects: BackOffs<Right>,
    /// The right that a write lacked at last.
    lacking: Option<Right>,
    /// Until when the gate is shut, if it is, and what was refused.
    shut: Option<(Moment, Access)>,
    /// What was refused since it was open.
    told: BTreeSet<&'static str>,
    /// Lists beside the turns that are refused. They shut nothing, and each is told until it passes.
    lists: BTreeSet<&'static str>,
}

/// The request that was refused. A read does not tell whether writing is allowed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// Whether who has the one right has the other.
fn is_same(one: &Right, other: &Right) -> bool {
    (one.verb, &one.resource, &one.scope) == (other.verb, &other.resource, &other.scope)
}

impl Gate {
    /// An open gate. It asks for rights through `client`.
    pub fn new(clock: Clock, client: Client) -> Self {
        Self {
            clock,
            client,
            refusals: Mutex::default(),
        }
    }

    /// The requests that the API server does not allow, as far as is known: of each what it is for.
    pub fn refused_requests(&self) -> Vec<&'static str> {
        let refusals = lock(&self.refusals);
        refusals.told.union(&refusals.lists).copied().collect()
    }

    /// How long to wait before the next write; zero when the gate is open, or due for a try.
    pub fn wait(&self) -> Duration {
        let shut = lock(&self.refusals).shut;
        shut.map_or(Duration::ZERO, |(until, _)| self.clock.until(until))
    }

    /// A request failed. If we may not send it, nothing more is written for a while.
    pub fn failed(&self, by: Access, what: &'static str, reason: &CallError) {
        if reason.answer() != Answer::Forbidden {
            return;
        }
        let until = self.clock.now() + SHUT;
        let refusals = &mut *lock(&self.refusals);
        // A refused write is not allowed again because something can be read.
        let written = refusals.shut.filter(|(_, by)| *by == Access::Write);
        refusals.shut = Some((until, written.map_or(by, |(_, before)| before)));
        if refusals.told.insert(what) {
            error!(%reason, "not allowed to {what}; nothing is written until that is mended");
        }
    }

    /// A list beside the turns passed or failed.
    pub fn listed<T>(&self, what: &'static str, read: &Result<T, CallError>) {
        let refused = read.as_ref().err();
        if refused.is_some_and(|error| error.answer() != Answer::Forbidden) {
            return;
        }
        let lists = &mut lock(&self.refusals).lists;
        match refused {
            Some(reason) if lists.insert(what) => {
                error!(%reason, "not allowed to {what}; rows that depend on it wait");
            }
            None if lists.remove(what) => info!("allowed to {what} again"),
            _ => {}
        }
    }

    /// A write went through for which this right is needed. If another right was lacking, the gate stays shut.
    pub fn passed(&self, right: &Right) {
        let is_lacking = {
            let refusals = &mut *lock(&self.refusals);
            refusals.of_objects.passed(right);
            refusals.lacking.take_if(|it| is_same(it, right));
            refusals.lacking.is_some()
        };
        if !is_lacking {
            self.open();
        }
    }

    fn open(&self) {
        let refusals = &mut *lock(&self.refusals);
        refusals.told.clear();
        if refusals.shut.take().is_some() {
            info!("writing is allowed again");
        }
    }

    /// A sweep read all pools. If nothing was refused for a minute, the gate opens; after a refused write only if the right
    /// is there by now. Another copy may lead, or nothing may be left to write.
    pub async fn note_read(&self) {
        let Some((until, by)) = lock(&self.refusals).shut else {
            return;
        };
        if self.clock.now().since(until) < SHUT {
            return;
        }
        let lacking = lock(&self.refusals).lacking.clone();
        let is_over = match lacking.filter(|_| by == Access::Write) {
            Some(right) => access::is_granted(&self.client, &right)
                .await
                .unwrap_or(false),
            None => by == Access::Read,
        };
        if is_over {
            lock(&self.refusals).lacking = None;
            self.open();
        }
    }

    /// Whether the server refuses what a request would make of its object. Where the right to send it is missing, or the
    /// API server does not say that it is there, the refusal is about us.
    pub async fn is_about_object(&self, right: &Right, error: &CallError) -> bool {
        match error.answer() {
            Answer::Refused | Answer::TooLarge => true,
            Answer::Forbidden => {
                let is_granted = access::is_granted(&self.client, right).await;
                let is_granted = is_granted.unwrap_or_else(|error| {
                    debug!(%right, %error, "not known whether a right is there");
                    false
                });
                let is_back = {
                    let lacking = &mut lock(&self.refusals).lacking;
                    if !is_granted {
                        *lacking = Some(right.clone());
                    }
                    is_granted && lacking.take_if(|it| is_same(it, right)).is_some()
                };
                if is_back {
                    self.open();
                }
                is_granted
            }
            Answer::Done | Answer::Gone | Answer::Rejected | Answer::Unclear => false,
        }
    }

    /// Until when this is not tried again, if it was refused.
    pub fn backs_off_until(&self, right: &Right) -> Option<Moment> {
        let refusals = lock(&self.refusals);
        refusals.of_objects.until(right, self.clock.now())
    }

    /// The server refuses this: until when it is not tried again.
    pub fn back_off(&self, right: Right) -> Moment {
        let mut refusals = lock(&self.refusals);
        refusals.of_objects.refused(right, self.clock.now())
    }
}
