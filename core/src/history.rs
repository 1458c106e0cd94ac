//! Whether the API server's data went back in time, as it does when etcd is restored from a backup.
//!
//! The resourceVersion of a list grows with every write, so a quorum list never shows a smaller one than a list
//! that had been answered before it was asked for. Where it does, all that was seen since the backup may not
//! have happened: pods that ended are there again, and run.
//!
//! Each resource is compared with itself alone, since each may have an etcd of its own. A version that is no
//! number says nothing.

use std::collections::BTreeMap;

/// The newest version that each resource is known to have had.
#[derive(Clone, Debug, Default)]
pub struct Versions {
    newest: BTreeMap<Box<str>, u64>,
    /// How often the data went back.
    pub epoch: u64,
}

/// A list that was asked for, and what was known then: lists may be answered in any order.
#[derive(Clone, Debug)]
pub struct Asked {
    resource: Box<str>,
    newest: u64,
    epoch: u64,
}

/// The meaning of the version of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Time goes on.
    Forward,
    /// The data went back: from the version that was known, to that of the list.
    Back(u64, u64),
    /// The data went back after the list was asked for: it may show the time before, and is worth nothing.
    Outdated,
}

impl Versions {
    /// A list of this resource is asked for. `seen` is a version that is known otherwise, as by a watch.
    pub fn ask(&self, resource: &str, seen: Option<u64>) -> Asked {
        let newest = self.newest.get(resource).copied();
        Asked {
            resource: resource.into(),
            newest: newest.max(seen).unwrap_or_default(),
            epoch: self.epoch,
        }
    }

    /// What was known when this was asked for is known from now on, unless the data went back since.
    pub fn keep(&mut self, asked: &Asked) {
        if asked.epoch == self.epoch {
            self.see(&asked.resource, asked.newest);
        }
    }

    fn see(&mut self, resource: &str, version: u64) {
        let newest = self.newest.entry(resource.into()).or_default();
        *newest = version.max(*newest);
    }

    /// The first page of the list has this version.
    pub fn hear(&mut self, asked: &Asked, version: &str) -> Heard {
        if asked.epoch != self.epoch {
            return Heard::Outdated;
        }
        let Ok(version) = version.parse() else {
            return Heard::Forward;
        };
        let heard = if version < asked.newest {
            self.newest.clear();
            self.epoch += 1;
            Heard::Back(asked.newest, version)
        } else {
            Heard::Forward
        };
        self.see(&asked.resource, version);
        heard
    }
}
