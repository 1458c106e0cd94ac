//! How things are said: durations, waits and commands, in one place so that they are said alike.

use std::time::Duration;

use ipgc_core::{
    clearance::Wait,
    judge::{Cause, Stale},
    pool::PoolKey,
};

use crate::snapshot::NOW;

/// So many nodes are named in a sentence.
const NAMED: usize = 4;

/// `3m30s`.
#[must_use]
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let parts = [
        (seconds / 3600, "h"),
        (seconds / 60 % 60, "m"),
        (seconds % 60, "s"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> = parts
        .map(|(count, unit)| format!("{count}{unit}"))
        .collect();
    if parts.is_empty() {
        "0s".to_owned()
    } else {
        parts.concat()
    }
}

/// A few names, and how many more there are.
#[must_use]
pub fn names<T: AsRef<str>>(names: &[T]) -> String {
    let few: Vec<_> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let text = few.join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// What made a row stale.
#[must_use]
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Deleted => "its pod is gone",
        Cause::Completed => "its pod is at its end",
        Cause::Predecessor => "it was there before its pod",
        Cause::Leftover => "its pod lives on another sandbox",
    }
}

/// When a row goes.
#[must_use]
pub fn wait(wait: &Wait) -> String {
    let after = |moment: &ipgc_core::time::Moment| duration(moment.since(NOW));
    match wait {
        Wait::Until(moment) => format!("goes {} after a collector has begun", after(moment)),
        Wait::For(nodes) if nodes.is_empty() => "held, since the nodes are not known".to_owned(),
        Wait::For(nodes) => format!("held until back or fenced: {}", names(nodes)),
        Wait::AtMost(nodes, moment) => format!(
            "held for {}, or until back or fenced: {}",
            after(moment),
            names(nodes)
        ),
    }
}

/// Both.
#[must_use]
pub fn stale(stale: &Stale) -> String {
    format!("{}; {}", cause(stale.cause), wait(&stale.clearance.wait))
}

/// The statement that nodes run no sandboxes.
#[must_use]
pub fn declare_empty(nodes: &[Box<str>]) -> String {
    format!(
        "kubectl annotate node {} --overwrite ipgc.dev/no-sandboxes=$(date -u +%FT%TZ)",
        if nodes.len() > NAMED {
            "NODE...".to_owned()
        } else {
            nodes.join(" ")
        }
    )
}

/// The removal of a pool.
#[must_use]
pub fn delete_pool(pool: &PoolKey) -> String {
    let PoolKey { namespace, name } = pool;
    format!("kubectl -n {namespace} delete ippools.whereabouts.cni.cncf.io {name}")
}
