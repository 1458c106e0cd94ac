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
    namespace: Option<String>,
    name: Option<String>,
}

impl EventSelect {
    pub(crate) fn matches(&self, change: &Change) -> bool {
        self.kind.is_none_or(|kind| kind == change.kind)
            && self
                .namespace
                .as_deref()
                .is_none_or(|namespace| namespace == &*change.key.namespace)
            && self
                .name
                .as_deref()
                .is_none_or(|name| name == &*change.key.name)
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
    pub(crate) window: Window,
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

    /// Only events of objects in this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.select.namespace = Some(namespace.to_owned());
        self
    }

    /// Only events of objects with this name.
    pub fn name(mut self, name: &str) -> Self {
        self.select.name = Some(name.to_owned());
        self
    }

    /// Leaves the first `count` events alone.
    pub fn skip(mut self, count: usize) -> Self {
        self.window.skip = count;
        self
    }

    /// Acts on so many events, then never again. Each watch that gets an event counts.
    pub fn times(mut self, count: usize) -> Self {
        self.window.times = Some(count);
        self
    }

    /// Acts on one event only.
    pub fn once(self) -> Self {
        self.times(1)
    }

    fn add(self, action: EventAction) -> Rule {
        let select = self.select;
        self.rules.add(
            self.matcher,
            self.window,
            Action::Event(EventRule { select, action }),
        )
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
