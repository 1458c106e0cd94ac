//! Where the informers' objects go: pods into their index and their ends into the queue,
//! definitions into theirs. Nothing here waits, since a server cuts a watch whose reader is slow.

use std::sync::{Arc, Mutex, PoisonError};

use ipgc_core::{
    address::excerpt,
    evidence::{Ended, Policy},
    time::Moment,
};
use kube::core::DeserializeGuard;
use tracing::warn;

use super::{item::Item, worker::EndedQueue};
use crate::{
    api::NetworkAttachmentDefinition,
    clock::Clock,
    report::Counters,
    watch::{Freshness, LeanPod, NadIndex, PodIndex, Sink},
};

/// Pods: into the index, and their ends into the queue.
pub struct PodSink {
    /// Takes the states and gives out the ends.
    pub index: Arc<Mutex<PodIndex>>,
    /// Where ends go.
    pub queue: Arc<EndedQueue>,
    /// When an end is due.
    pub policy: Policy,
    /// The present.
    pub clock: Clock,
    /// Learns that the watch failed.
    pub freshness: Arc<Freshness>,
    /// Counts.
    pub counters: Arc<Counters>,
}

impl PodSink {
    fn with<T>(&self, act: impl FnOnce(&mut PodIndex, Moment) -> T) -> T {
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        act(&mut index, self.clock.now())
    }

    fn ended(&self, ended: Option<Arc<Ended>>) {
        let Some(ended) = ended else { return };
        self.counters.ends_seen.increment();
        let due = ended.earliest_free_time(&self.policy);
        let uid = ended.last.uid.clone();
        let wait = self.clock.until(due);
        if self
            .queue
            .push(uid, Item::new(Arc::clone(&ended)), wait)
            .is_err()
        {
            self.counters.queue_overflows.increment();
            warn!(pod = %ended.podref(), "queue is full, pod is left to the sweep");
        }
    }
}

impl Sink<LeanPod> for PodSink {
    fn begin_list(&mut self) {
        self.with(|index, _| index.begin_list());
    }

    fn apply(&mut self, pod: LeanPod) {
        let Some(state) = pod.into_state() else {
            return;
        };
        let predecessor = self.with(|index, now| index.apply(state, now));
        self.ended(predecessor);
    }

    fn delete(&mut self, pod: LeanPod) {
        let Some(state) = pod.into_state() else {
            return;
        };
        let ended = self.with(|index, now| index.delete(state, now));
        self.ended(ended);
    }

    fn end_list(&mut self) {
        for missing in self.with(PodIndex::end_list) {
            self.ended(Some(missing));
        }
    }

    fn interrupted(&mut self) {
        self.freshness.lose();
    }
}

/// Definitions: into their index.
pub struct NadSink(pub Arc<Mutex<NadIndex>>);

impl NadSink {
    fn with(&self, act: impl FnOnce(&mut NadIndex)) {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Sink<DeserializeGuard<NetworkAttachmentDefinition>> for NadSink {
    fn begin_list(&mut self) {
        self.with(NadIndex::begin_list);
    }

    fn apply(&mut self, object: DeserializeGuard<NetworkAttachmentDefinition>) {
        let Some(name) = name_of(&object) else { return };
        let config = match &object.0 {
            Ok(nad) => Ok(nad.config()),
            Err(invalid) => Err(excerpt(&invalid.error).to_owned()),
        };
        self.with(|index| index.apply(&name, config));
    }

    fn delete(&mut self, object: DeserializeGuard<NetworkAttachmentDefinition>) {
        let Some(name) = name_of(&object) else { return };
        self.with(|index| index.delete(&name));
    }

    fn end_list(&mut self) {
        self.with(NadIndex::end_list);
    }
}

/// `namespace/name`, also of an object that could not be read further.
fn name_of(object: &DeserializeGuard<NetworkAttachmentDefinition>) -> Option<String> {
    let meta = kube::Resource::meta(object);
    Some(format!(
        "{}/{}",
        meta.namespace.as_ref()?,
        meta.name.as_ref()?
    ))
}
