//! The answers of one moment, so that they need not be computed for each row.
//!
//! Rows that are judged together wait nearly all as long, and each would ask all nodes. It is no part of what the nodes
//! are. Whatever changes a node drops it.

use std::{
    collections::BTreeMap,
    hash::{Hash, Hasher},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use crate::{time::Moment, wait::Wait};

/// By the moment, how long a wait is, and whether a kubelet at work proves nothing.
#[derive(Debug, Default)]
pub(super) struct Memo(Mutex<BTreeMap<(Moment, Duration, bool), Option<Wait>>>);

impl Memo {
    /// The answer to this at `now`, for which `ask` is asked once.
    pub(super) fn once(
        &self,
        wait: Duration,
        endless: bool,
        now: Moment,
        ask: impl FnOnce() -> Option<Wait>,
    ) -> Option<Wait> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = answers.first_key_value();
        if first.is_some_and(|((at, ..), _)| *at != now) {
            answers.clear();
        }
        let answer = answers.entry((now, wait, endless));
        answer.or_insert_with(ask).clone()
    }

    /// A node changed.
    pub(super) fn drop_answers(&mut self) {
        let answers = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        answers.clear();
    }
}

impl Clone for Memo {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl PartialEq for Memo {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Memo {}

impl Hash for Memo {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
