//! The fewest deeds that still show a violation: one after the other is left out, and the rest is played again.

use std::io;

use crate::{play, story::Story};

/// A story with fewer deeds and owners that still shows a violation.
///
/// # Errors
/// No runtime could be made.
pub fn shrink(story: &Story) -> io::Result<Story> {
    shrink_to(story, &mut |story| {
        Ok(!play(story, false)?.violations.is_empty())
    })
}

/// A story with fewer deeds and owners that still `shows` it.
///
/// # Errors
/// Those of `shows`.
pub fn shrink_to(
    story: &Story,
    shows: &mut dyn FnMut(&Story) -> io::Result<bool>,
) -> io::Result<Story> {
    let mut least = story.clone();
    loop {
        let before = (least.steps.len(), least.owners.len());
        for at in (0..least.steps.len()).rev() {
            let mut fewer = least.clone();
            fewer.steps.remove(at);
            if shows(&fewer)? {
                least = fewer;
            }
        }
        for at in (0..least.owners.len()).rev() {
            let mut fewer = least.clone();
            fewer.owners.remove(at);
            if !fewer.owners.is_empty() && shows(&fewer)? {
                least = fewer;
            }
        }
        if (least.steps.len(), least.owners.len()) == before {
            return Ok(least);
        }
    }
}
