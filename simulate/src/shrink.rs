//! The fewest deeds that still show a violation: one after the other is left out, and the rest is played again.

use crate::{Outcome, play, story::Story};

/// A story with fewer deeds, owners and pods that still shows a violation.
///
/// # Errors
/// No runtime could be made.
pub fn shrink(story: &Story) -> Result<(Story, Outcome), std::io::Error> {
    let mut least = story.clone();
    let mut outcome = play(&least, false)?;
    loop {
        let before = (least.steps.len(), least.owners.len());
        let mut at = least.steps.len();
        while at > 0 {
            at -= 1;
            let mut fewer = least.clone();
            fewer.steps.remove(at);
            take_if_shown(&mut least, &mut outcome, fewer)?;
        }
        let mut at = least.owners.len();
        while at > 0 && least.owners.len() > 1 {
            at -= 1;
            let mut fewer = least.clone();
            fewer.owners.remove(at);
            take_if_shown(&mut least, &mut outcome, fewer)?;
        }
        if (least.steps.len(), least.owners.len()) == before {
            return Ok((least, outcome));
        }
    }
}

fn take_if_shown(
    least: &mut Story,
    outcome: &mut Outcome,
    fewer: Story,
) -> Result<(), std::io::Error> {
    let shown = play(&fewer, false)?;
    if !shown.violations.is_empty() {
        (*least, *outcome) = (fewer, shown);
    }
    Ok(())
}
