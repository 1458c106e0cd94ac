//! Whether we may write, as far as releases were told: a refusal is about us, or about one object.
//!
//! An admission webhook refuses single objects with the same 403 that says that rights are missing. Only
//! what else is allowed tells them apart. Decides nothing about what may go.

use std::{
    collections::HashMap,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use ipgc_core::{patch::Answer, podref::PodRef};
use tokio_util::sync::CancellationToken;

use crate::{calls::CallError, collect::context::Context, lock::lock};

/// So many refusals in a row are about us, and thousands more would follow.
const REFUSALS: usize = 16;
/// Podrefs whose refusals are remembered; with more, all are forgotten.
const REMEMBERED: usize = 10_000;

/// For one release.
pub(super) struct Permission<'c> {
    pub(super) context: &'c Context,
    stop: &'c CancellationToken,
    /// In a row.
    refusals: AtomicUsize,
    is_given: AtomicBool,
    is_deleting: AtomicBool,
}

impl<'c> Permission<'c> {
    pub(super) fn new(context: &'c Context, stop: &'c CancellationToken) -> Self {
        Self {
            context,
            stop,
            refusals: AtomicUsize::new(0),
            is_given: AtomicBool::new(false),
            is_deleting: AtomicBool::new(false),
        }
    }

    /// Whether another round, or another claim, may begin.
    pub(super) fn lasts(&self) -> bool {
        !self.stop.is_cancelled() && self.lasts_while_shutting_down()
    }

    /// Whether a round that was begun may go on.
    pub(super) fn lasts_while_shutting_down(&self) -> bool {
        let gate = &self.context.gate;
        self.refusals.load(Ordering::Relaxed) < REFUSALS && gate.leads() && gate.wait().is_zero()
    }

    /// What became of a claim. The DELETEs of what is claimed come minutes later: until then claims tell.
    pub(super) fn note<T>(&self, answer: &Result<T, CallError>) {
        match answer.as_ref().map_err(CallError::answer) {
            Ok(_) => {
                self.refusals.store(0, Ordering::Relaxed);
                self.is_given.store(true, Ordering::Relaxed);
            }
            Err(Answer::Forbidden) => {
                self.refusals.fetch_add(1, Ordering::Relaxed);
            }
            Err(_) => {}
        }
    }

    /// What became of a DELETE. The right to claim is another one, so of a release with DELETEs these tell.
    pub(super) fn note_deletion(&self, answer: &Result<(), CallError>) {
        if !self.is_deleting.swap(true, Ordering::Relaxed) {
            self.is_given.store(false, Ordering::Relaxed);
        }
        self.note(answer);
        if answer.is_ok() {
            self.context.gate.passed();
        }
    }

    /// Whether a claim or a DELETE went through.
    pub(super) fn is_given(&self) -> bool {
        self.is_given.load(Ordering::Relaxed)
    }
}

/// Refusals that may be about the object alone.
#[derive(Default)]
pub(super) struct Refused(Mutex<State>);

#[derive(Default)]
struct State {
    /// Releases in which a claim or a DELETE went through.
    given: u64,
    /// How many there had been when each was refused first.
    refused: HashMap<PodRef, u64>,
}

impl Refused {
    /// Whether these refusals, in a release in which others were allowed or not, are about their objects: if
    /// they were, or if any was since they were refused before.
    pub(super) fn are_about_objects<'p>(
        &self,
        podrefs: impl Iterator<Item = &'p PodRef> + Clone,
        is_given: bool,
    ) -> bool {
        let mut state = lock(&self.0);
        let State { given, refused } = &mut *state;
        let before = *given;
        *given += u64::from(is_given);
        let known = |podref| refused.get(podref).is_some_and(|at| *at < before);
        let are = is_given || podrefs.clone().all(known);
        if refused.len() > REMEMBERED {
            refused.clear();
        }
        for podref in podrefs {
            let first = refused.entry(podref.clone()).or_insert(*given);
            if are {
                // And so is the next one.
                *first = 0;
            }
        }
        are
    }
}
