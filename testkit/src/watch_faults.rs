//! Faults of open watches: lost, doubled, late and held events, and streams that end.
//!
//! They are decided at the moment of delivery, so they also reach watches that were open before
//! the rule was made.

use std::time::Duration;

use crate::faults::{Action, EventRule, Match, Rule, Rules, Window};
use crate::store::{Change, ChangeKind};

/// Which events of the matching watches a rule concerns.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventSelect {
    kind: Option<ChangeKind>,
    name: Option<String>,
}

impl EventSelect {
    pub(crate) fn matches(&self, change: &Change) -> bool {
        let name = self.name.as_deref();
        self.kind.is_none_or(|kind| kind == change.kind)
            && name.is_none_or(|name| name == &*change.key.name)
    }
}

/// The fault that an event meets.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventAction {
    Lose,
    Duplicate,
    Delay(Duration),
    Hold,
}

/// How a stream is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The answer ends, as after a timeout or a restart of the server.
    Clean,
    /// The connection breaks.
    Broken,
}

/// A rule for watch events in the making: made by [`crate::Server::on_events`].
#[must_use = "a rule does nothing before it is given an action"]
pub struct EventRuleBuilder<'a> {
    pub(crate) rules: &'a Rules,
    pub(crate) matcher: Match,
    pub(crate) select: EventSelect,
}

#[expect(
    clippy::must_use_candidate,
    reason = "a rule stays in force without its handle"
)]
impl EventRuleBuilder<'_> {
    /// Only writes of this kind.
    pub fn kind(mut self, kind: ChangeKind) -> Self {
        self.select.kind = Some(kind);
        self
    }

    /// Only events of objects with this name.
    pub fn name(mut self, name: &str) -> Self {
        self.select.name = Some(name.to_owned());
        self
    }

    fn add(self, action: EventAction) -> Rule {
        let select = self.select;
        let rule = Action::Event(EventRule { select, action });
        self.rules.add(self.matcher, Window::default(), rule)
    }

    /// Never delivers the events; later ones and bookmarks go on.
    pub fn lose(self) -> Rule {
        self.add(EventAction::Lose)
    }

    /// Delivers the events twice.
    pub fn duplicate(self) -> Rule {
        self.add(EventAction::Duplicate)
    }

    /// Delivers the events so long after the write; everything behind them waits too.
    pub fn delay(self, duration: Duration) -> Rule {
        self.add(EventAction::Delay(duration))
    }

    /// Delivers nothing from the first such event on, no bookmark either, until the rule is
    /// removed. The stream stays open.
    pub fn hold(self) -> Rule {
        self.add(EventAction::Hold)
    }
}
