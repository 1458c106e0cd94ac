//! A row that a proof let go.

use super::{Stale, Unknown, Verdict, judge};
use crate::{
    clearance::Facts,
    pool::{Row, RowContent},
    proof::{Presence, Proof},
};

/// A row that may go now. Only [`Proof::release`] and, by the word of a person, [`Proof::force`] make one.
#[derive(Clone, Debug)]
pub struct Release<'a> {
    row: &'a Row,
    content: &'a RowContent,
    stale: Stale,
}

impl<'a> Release<'a> {
    /// The row.
    pub fn row(&self) -> &'a Row {
        self.row
    }

    /// Its content.
    pub fn content(&self) -> &'a RowContent {
        self.content
    }

    /// Why it may go.
    pub fn stale(&self) -> &Stale {
        &self.stale
    }
}

impl<'a> Proof<'a> {
    /// Judges a row of the observation that this proof followed. About a row of any other
    /// observation, a later one of the same pool included, it proves nothing.
    ///
    /// # Errors
    /// The verdict, when the row may not go now.
    pub fn release(&self, row: &'a Row, facts: &Facts<'_>) -> Result<Release<'a>, Verdict> {
        self.judged(row, facts, false)
    }

    /// The same by the word of a person that no sandbox answers on the address: whatever the row waits for, its wait
    /// counts as over, and a pod that runs without using the address does not keep it. All else is proven all the same.
    ///
    /// # Errors
    /// The verdict, when the row may not go now by that word either.
    pub fn force(&self, row: &'a Row, facts: &Facts<'_>) -> Result<Release<'a>, Verdict> {
        self.judged(row, facts, true)
    }

    fn judged(
        &self,
        row: &'a Row,
        facts: &Facts<'_>,
        forced: bool,
    ) -> Result<Release<'a>, Verdict> {
        let presence = match row.content() {
            Ok(content) if self.observed().holds(row) => self.owner(content),
            Ok(_) => Presence::Unknown("the row is of another observation".into()),
            Err(_) => Presence::Unknown("not asked".into()),
        };
        let verdict = judge(self.observed(), row, &presence, facts);
        let verdict = if forced {
            verdict.forced(facts.now)
        } else {
            verdict
        };
        match verdict {
            Verdict::Stale(stale) if forced || stale.is_free(facts.now) => match row.content() {
                Ok(content) => Ok(Release {
                    row,
                    content,
                    stale,
                }),
                Err(reason) => Err(Verdict::Unknown(Unknown::Unreadable(reason.clone()))),
            },
            verdict => Err(verdict),
        }
    }
}
