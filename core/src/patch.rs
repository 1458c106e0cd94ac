//! The one guarded write on a pool, and what the answers to it mean.
//!
//! A [`FreePatch`] tests the uid of the pool and the whole of every row that it removes, and
//! nothing else: an ADD or DEL on another row never conflicts with it, and a row that a successor
//! adopted in between has another `id`, so that nothing is removed (docs/safety.md).
//!
//! It also empties the pool's managed fields, which have an entry for every row that nobody asks for and
//! are most of what a write of a pool costs the API server (docs/performance.md); and leaves them where
//! somebody owns fields by server-side apply.

use json_patch::Patch;
use serde_json::json;

use crate::{
    judge::Release,
    operation::{add, remove, test},
    pool::{ObservedPool, Row},
    proof::Proof,
};

/// Most rows in one patch: the API server takes 10,000 operations, two for each row, one for the uid and
/// one for the managed fields.
pub const MAX_ROWS: usize = 4_999;

/// One JSON Patch that removes rows of one pool.
#[derive(Clone, Debug)]
#[must_use]
pub struct FreePatch<'a> {
    pool: &'a ObservedPool,
    releases: Vec<Release<'a>>,
    unreadable: Option<&'a Row>,
}

impl<'a> FreePatch<'a> {
    /// A patch that removes those of `releases` that came from this `proof`.
    pub fn new(proof: &Proof<'a>, mut releases: Vec<Release<'a>>) -> Self {
        releases.retain(|release| proof.observed().holds(release.row()));
        Self {
            pool: proof.observed(),
            releases,
            unreadable: None,
        }
    }

    /// The rows that it removes, but for one that cannot be read.
    pub fn releases(&self) -> &[Release<'a>] {
        &self.releases
    }

    /// A patch that removes a row which says nothing that can be judged, by the word of a person. `None` where the row is
    /// of another observation, or can be read: such a one is judged.
    pub fn of_unreadable(observed: &'a ObservedPool, row: &'a Row) -> Option<Self> {
        let is_it = row.content().is_err() && observed.holds(row) && !observed.is_exempt(row);
        is_it.then_some(Self {
            pool: observed,
            releases: Vec::new(),
            unreadable: Some(row),
        })
    }

    /// The operations: `test` of the pool's uid, `test` and `remove` for each row, then the managed fields.
    pub fn to_json_patch(&self) -> Patch {
        let mut operations = vec![test(&["metadata", "uid"], self.pool.uid())];
        let rows = self.releases.iter().map(Release::row);
        for row in rows.chain(self.unreadable) {
            let path = ["spec", "allocations", row.key()];
            operations.push(test(&path, row.stored().clone()));
            operations.push(remove(&path));
        }
        let removes = operations.len() > 1;
        if removes && !self.pool.has_applied_fields {
            // The API server takes this for the wish to keep none ("Clearing managedFields" in its documentation of
            // server-side apply). Whether there are any does not matter.
            operations.push(add(&["metadata", "managedFields"], json!([{}])));
        }
        Patch(operations)
    }
}

/// The meaning of an answer of the API server to a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 2xx: done.
    Done,
    /// 404: the object is gone, and so is what we wanted to remove.
    Gone,
    /// 422: a test failed, or the server refuses the object. Which, only another observation tells.
    Rejected,
    /// 400, 422 that names fields, or the word of admission: the server refuses what the object would be.
    Refused,
    /// 413: too many operations, or too large a body.
    TooLarge,
    /// 401, 403: we may not write, or admission refuses the object. Which, only an access review tells.
    Forbidden,
    /// Whether it was done is not known, or it may be done later: back off, then observe again.
    Unclear,
}

impl Answer {
    /// The meaning of an HTTP status code, and of whether the answer names fields of the object.
    pub fn of_code(code: u16, names_fields: bool) -> Self {
        match code {
            200..=299 => Self::Done,
            404 => Self::Gone,
            400 => Self::Refused,
            422 if names_fields => Self::Refused,
            422 => Self::Rejected,
            413 => Self::TooLarge,
            401 | 403 => Self::Forbidden,
            _ => Self::Unclear,
        }
    }
}
