//! The log, counters and events of a turn.

use std::sync::Arc;

use ipgc_core::{
    clearance::Clearance,
    evidence::Ended,
    judge::Release,
    podref::PodRef,
    pool::{PoolKey, RowContent},
    text::excerpt,
    time::Moment,
    work::Removed,
};
use tracing::{info, warn};

use super::Turn;
use crate::{
    collect::context::Context,
    report::{TRIGGERS, names},
};

impl Turn<'_> {
    /// Log, count and events for what is really gone.
    pub(super) fn report_freed(&mut self) {
        let Context {
            counters, events, ..
        } = &**self.context;
        let mut of_pool = Vec::new();
        for removed in std::mem::take(&mut self.freed) {
            let row = &*removed.wanted.row;
            let ended = self.who_had(row);
            let uid = ended.as_ref().map_or("", |ended| &ended.last.uid);
            let node = ended.as_ref().and_then(|ended| ended.last.node.as_deref());
            let [watch, sweep] = TRIGGERS;
            let trigger = match self.batch.ends(&row.podref) {
                [] => sweep,
                _ => watch,
            };
            let since = self.known_since(&removed);
            let took = since.map(|since| self.context.clock.now().since(since));
            counters.free(&removed.stale, trigger, took);
            info!(
                pool = %self.key,
                key = &*removed.key,
                address = %row.address,
                podref = %row.podref,
                uid,
                node,
                interface = row.interface.as_deref(),
                sandbox = %row.sandbox,
                grade = removed.stale.clearance.grade.as_str(),
                cause = removed.stale.cause.as_str(),
                trigger,
                "freed row"
            );
            let network = network_of(ended.as_deref(), &removed, self.key);
            events.address_collected(&row.podref, uid, row.address, &network);
            of_pool.push((row.address, row.podref.clone()));
        }
        if !of_pool.is_empty() {
            events.pool_collected(self.key, &self.uid, &of_pool);
        }
    }

    /// Since when it is known that a row may go some day: from the end of its pod, or since it was first seen
    /// stale.
    fn known_since(&self, removed: &Removed) -> Option<Moment> {
        let seen = || {
            let evidence = self.context.evidence();
            evidence.first_seen.first(&self.uid, &removed.key)
        };
        let last = self.batch.ends(&removed.wanted.row.podref).last();
        last.map(|ended| ended.at).or_else(seen)
    }

    /// The incarnation that a row was freed for: the one that ended, or, where a sweep found the
    /// row, the last that is known to have reported it.
    fn who_had(&self, row: &RowContent) -> Option<Arc<Ended>> {
        self.batch.ends(&row.podref).last().cloned().or_else(|| {
            let ended = self.context.evidence().pods.ended(&row.podref);
            ended.into_iter().rev().find(|end| end.reported(row))
        })
    }

    /// The server refuses to change the pool: an event for each cause, again while it lasts. Whether it is told now.
    pub(super) fn report_refused(&self, reason: &str) -> bool {
        let news = self
            .context
            .is_to_be_told(&self.uid, &format!("refused/{reason}"));
        if news {
            let events = &self.context.events;
            events.pool_refused(self.key, &self.uid, reason);
        }
        news
    }

    /// A row that a node holds: on the pool, in the log, counted; again after a while.
    pub(super) fn report_held(
        &self,
        key: &str,
        podref: &PodRef,
        held: &Clearance,
        nodes: &[Box<str>],
    ) {
        // Which nodes hold it may change all day.
        let news = format!("held/{key}/{podref}/{}", held.endless.is_some());
        if self.context.is_to_be_told(&self.uid, &news) {
            self.context.counters.rows_held.inc();
            let held_by = names(nodes);
            let key = excerpt(key);
            let grade = held.grade.as_str();
            let until = if held.endless.is_some() {
                "row held until CNI DEL removes it, or its node is booted anew, removed or fenced: its sandbox may still be there, though the kubelet is at work"
            } else {
                "row held until its node is back, removed or fenced"
            };
            warn!(pool = %self.key, key, %podref, grade, nodes = held_by, "{until}");
            let events = &self.context.events;
            events.held_unfenced(self.key, &self.uid, podref, nodes, held.endless.is_some());
        }
    }

    /// A dry run ends here.
    pub(super) fn would_free(&self, releases: &[Release<'_>]) {
        for release in releases {
            let row = release.content();
            // Another row may have the same key by now.
            let news = format!("dry/{}/{}", release.row().key(), row.sandbox);
            if self.context.is_news(&self.uid, &news) {
                self.context.counters.rows_would_free.inc();
                info!(
                    pool = %self.key,
                    key = release.row().key(),
                    address = %row.address,
                    podref = %row.podref,
                    grade = release.stale().clearance.grade.as_str(),
                    cause = release.stale().cause.as_str(),
                    "would free row"
                );
            }
        }
    }
}

/// Name of the definition that a row belongs to, without its namespace, as upstream's event has it;
/// where no pod tells, the name of the pool.
fn network_of(ended: Option<&Ended>, removed: &Removed, pool: &PoolKey) -> String {
    let row = &removed.wanted.row;
    let reported = ended.and_then(|ended| {
        let interface = row.interface.as_deref()?;
        Some(ended.last.status.reported(interface, row.address)?.network)
    });
    let routed = removed.definition.as_deref();
    let full = reported.or(routed).unwrap_or(&pool.name);
    full.rsplit_once('/')
        .map_or(full, |(_, name)| name)
        .to_owned()
}
