//! Nodes: whether a kubelet is at work there, and for how long without a break.
//!
//! The sandbox of a pod that is gone is stopped by the kubelet of its node, or not at all. So the
//! worth of an end that was not clean depends on that node (docs/safety.md): [`Node::standing`]
//! says what is known of one, [`Nodes::blockers`] which nodes may still run a sandbox that nobody
//! saw. Both are told of nodes and of their Leases; neither reads anything.

mod memo;
mod nodes;

use std::time::Duration;

pub(crate) use self::nodes::by_lease;
pub use self::nodes::{Nodes, Pulse};
use crate::time::{Moment, look_again};

/// Annotation on a Node by which a person states that it runs no sandboxes: an RFC 3339 time.
pub const NO_SANDBOXES_ANNOTATION: &str = "ipgc.dev/no-sandboxes";
/// Taint that says that a node is shut down for good.
pub const OUT_OF_SERVICE_TAINT: &str = "node.kubernetes.io/out-of-service";

/// A kubelet whose Lease was not seen to change for so long is silent.
pub const SILENCE: Duration = Duration::from_secs(60);

/// The facts about a Node object that are kept.
// Independent facts, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeState {
    /// `metadata.uid`.
    pub uid: Box<str>,
    /// `metadata.resourceVersion`: what else is here is true as long as this is.
    pub version: Box<str>,
    /// The boot that its kubelet reported last.
    pub boot: Option<Boot>,
    /// Whether its condition Ready is True.
    pub ready: bool,
    /// When that condition changed last, as its object says: two states with one such time have nothing between them.
    pub ready_changed: Option<Box<str>>,
    /// Whether it is tainted `node.kubernetes.io/out-of-service`.
    pub out_of_service: bool,
    /// Whether it was ready or booted anew under that taint, as far as is known: then the taint says nothing of the present.
    /// [`Nodes`] knows, the object does not tell.
    pub taint_is_old: bool,
    /// Whether [`NO_SANDBOXES_ANNOTATION`] is later than the last change of its condition Ready.
    pub declared_empty: bool,
    /// Whether that annotation is in the future, and so does not count: it would be later than changes yet to come.
    pub declared_ahead: bool,
    /// The text of that annotation.
    pub declaration: Option<Box<str>>,
    /// Whether the node was ready, or on another boot, or the annotation in the future, when it was seen with this text
    /// before: then it says nothing of the present. [`Nodes`] knows, the object does not tell.
    pub declaration_is_old: bool,
}

/// One run of a machine, as its kubelet reports it in `status.nodeInfo`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Boot {
    /// `machineID` and `systemUUID`; either may be empty. Another machine under the same name says nothing about this one.
    pub machine: (Box<str>, Box<str>),
    /// `bootID`.
    pub id: Box<str>,
}

impl NodeState {
    /// Whether the object of another state of the same node differs in nothing but its version.
    pub fn says_the_same(&self, other: &Self) -> bool {
        let other = Self {
            version: self.version.clone(),
            taint_is_old: self.taint_is_old,
            declaration_is_old: self.declaration_is_old,
            ..other.clone()
        };
        *self == other
    }

    /// Whether it runs no sandboxes: it is not ready, and a person or a controller that knows says
    /// so. What is said of a node that is ready does not count: pods may have come since.
    pub fn is_fenced(&self) -> bool {
        let is_tainted = self.out_of_service && !self.taint_is_old;
        let is_declared = self.declared_empty && !self.declaration_is_old;
        !self.ready && (is_tainted || is_declared)
    }
}

/// One name of a node, followed through removals and returns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Node {
    /// `None` while no node of that name exists.
    state: Option<NodeState>,
    /// Since when the node is known to exist, or to be absent.
    since: Moment,
    lease: Lease,
    /// The boot that was reported last, and the version of the object that told it first.
    boot: Option<(Boot, Box<str>)>,
    /// No later boot had begun at this moment.
    still_booted: Option<Moment>,
    /// The last reboot of which an earliest moment is known.
    reboot: Option<Reboot>,
    /// Set if the node may run a sandbox of a pod that no watch showed: a gap in the pod watch, and the time at work
    /// since.
    suspect: Option<Suspect>,
    /// When its kubelet was at work last before the node was not ready, or gone, as far as is known.
    worked: Option<Moment>,
    /// When another boot was told last.
    booted: Option<Moment>,
    /// When the last pod with a ResourceClaim ended here whose sandbox may outlast W.
    outlasting: Option<Moment>,
}

/// The observations of a kubelet's Lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Lease {
    version: Option<Box<str>>,
    /// First and last read of the present series, without a pause as long as [`SILENCE`].
    read: Option<(Moment, Moment)>,
    /// The present series of changes.
    beat: Option<Beat>,
}

/// A machine was booted anew: no sandbox of before runs any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Reboot {
    /// It was booted later than that.
    after: Moment,
    /// When its kubelet's report was seen.
    seen: Moment,
}

/// Changes of a Lease without a pause longer than [`SILENCE`], while the node was ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Beat {
    /// The last read before the first change: the change came after that.
    after: Moment,
    /// When the first change was seen: it came before.
    first: Moment,
    /// When the read was asked for that showed the last change: all that is known is that it was there by then, or
    /// came while the server answered.
    last: Moment,
    /// The longest time from one to the next, with the time that the server took.
    widest: Duration,
}

impl Beat {
    /// Since when after `moment` the kubelet is known to be at work. If the series began before `moment`, the first
    /// change seen after it may be older. The second one is not, and is seen within twice `widest`.
    fn since(self, moment: Moment) -> Moment {
        if self.after >= moment {
            self.first
        } else {
            moment + self.widest.saturating_mul(2).min(SILENCE)
        }
    }
}

/// Whether an object with this version was written after it had that one. A smaller one is not: it was restored from a
/// backup.
fn is_later(version: &str, before: Option<&str>) -> bool {
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(version), before.and_then(number)) {
        (Some(version), Some(before)) => version > before,
        _ => before != Some(version),
    }
}

/// A node that may run a sandbox of a pod that nobody saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Suspect {
    /// When the pod watch began, or began anew.
    since: Moment,
    /// The longest time since then for which its kubelet was at work without a break, or for which
    /// there was no such node.
    longest: Duration,
    /// The longest time since then for which there was no such node until it came.
    absent: Duration,
    /// As much of it as more than silence of the watch of nodes tells: that watch may be dead.
    confirmed: Duration,
    /// When that was told.
    confirmed_at: Moment,
}

/// The standing of the node of an incarnation that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Standing {
    /// It is fenced: no sandbox runs there.
    Fenced,
    /// No node of that name has existed since.
    Gone(Moment),
    /// Its kubelet has been at work.
    Alive {
        /// Since when.
        since: Moment,
        /// When the read was asked for that showed the last change of its Lease. After that, nobody can say yet.
        last: Moment,
    },
    /// Its Lease has not been watched long enough to tell.
    Listening,
    /// It is not ready, or its Lease does not change.
    Silent,
}

impl Node {
    fn new(state: Option<NodeState>, now: Moment) -> Self {
        Self {
            boot: state
                .as_ref()
                .and_then(|state| Some((state.boot.clone()?, state.version.clone()))),
            state,
            since: now,
            ..Self::default()
        }
    }

    /// One of a name that is not known: it is gone `since` then. The machine of a Node that was deleted may run on, and be
    /// registered again.
    fn gone(gap: Option<Moment>, since: Moment) -> Self {
        let mut node = Self::new(None, since);
        if let Some(gap) = gap {
            node.suspect_since(gap);
        }
        node
    }

    /// Takes in the boot that its state tells, if it tells one. A watch that is late may tell the boot before.
    fn take_boot(&mut self, now: Moment) {
        let Some(state) = &self.state else { return };
        let Some(told) = &state.boot else { return };
        let is_known = |(known, version): &(Boot, Box<str>)| {
            known == told || !is_later(&state.version, Some(version))
        };
        if self.boot.as_ref().is_some_and(is_known) {
            return;
        }
        let known = self.boot.replace((told.clone(), state.version.clone()));
        self.booted = known.is_some().then_some(now);
        if known.as_ref().is_some_and(|(known, _)| known.id == told.id) {
            // Its kubelet reads other names of the machine; or it is another container on the same one.
            return;
        }
        let after = self.still_booted.take();
        // Two machines of which a name is missing are not known to be one, nor to be two.
        let has_names = |boot: &Boot| !boot.machine.0.is_empty() && !boot.machine.1.is_empty();
        let known = known.filter(|(known, _)| has_names(known) && has_names(told));
        let is_same = known.map(|(known, _)| known.machine == told.machine);
        if is_same == Some(false) {
            // No two machines run under one name.
            self.outlasting = None;
        }
        if is_same == Some(true)
            && let Some(after) = after
        {
            self.reboot = Some(Reboot { after, seen: now });
            self.suspect.take_if(|suspect| suspect.since <= after);
        }
    }

    /// Its last state; `None` while it does not exist.
    pub fn state(&self) -> Option<&NodeState> {
        self.state.as_ref()
    }

    fn apply(&mut self, state: NodeState, now: Moment) {
        if self.state.is_none() {
            self.confirm(now);
            if let Some(suspect) = &mut self.suspect {
                let absent = now.since(self.since.max(suspect.since));
                suspect.absent = suspect.absent.max(absent);
            }
            self.since = now;
        }
        if !state.ready {
            self.worked = self.last_at_work(now);
            self.confirm(now);
            self.lease.beat = None;
        }
        self.state = Some(state);
        self.take_boot(now);
    }

    fn remove(&mut self, now: Moment) {
        if self.state.is_some() {
            self.worked = self.last_at_work(now);
            // Counted as what it was, a stretch of work: a silent node that goes was not gone before.
            self.confirm(now);
            self.state = None;
            self.since = now;
            self.lease = Lease::default();
        }
    }

    /// Takes in a read of its Lease; `None` where it has none. The server said so at some moment from `asked` to
    /// `seen`: what is to be shown late begins with the one, and what is to be shown early ends with the other.
    fn note_lease(&mut self, version: Option<&str>, asked: Moment, seen: Moment) {
        let lease = &mut self.lease;
        let in_series = lease
            .read
            .is_some_and(|(_, last)| seen.since(last) < SILENCE);
        let after = lease.read.map_or(asked, |(_, last)| last);
        let changed = version.is_some_and(|version| is_later(version, lease.version.as_deref()));
        lease.read = match lease.read {
            Some((first, _)) if in_series => Some((first, asked)),
            _ => Some((asked, asked)),
        };
        lease.version = version.map(Into::into);
        let ready = self.state.as_ref().is_some_and(|state| state.ready);
        // The first read shows no change: who knows when it was written.
        if !(in_series && changed && ready) {
            return;
        }
        // A sign of life that it has shown stays, also if the next changes are further apart.
        self.end_stretch(seen);
        self.lease.beat = Some(match self.lease.beat {
            Some(beat) if seen.since(beat.last) <= SILENCE => Beat {
                last: asked,
                widest: beat.widest.max(seen.since(beat.last)),
                ..beat
            },
            _ => Beat {
                after,
                first: seen,
                last: asked,
                widest: seen.since(after),
            },
        });
    }

    /// The present series of changes, if the kubelet is at work at present.
    fn alive(&self, now: Moment) -> Option<Beat> {
        let ready = self.state.as_ref().is_some_and(|state| state.ready);
        let beat = self.lease.beat?;
        (ready && now.since(beat.last) <= SILENCE).then_some(beat)
    }

    /// Whether it exists, and nothing shows that its kubelet is at work.
    fn is_silent(&self, now: Moment) -> bool {
        let Some(state) = &self.state else {
            return false;
        };
        let listened = self.lease.read.is_some_and(|(first, last)| {
            let beat = self.lease.beat.map_or(Moment::EPOCH, |beat| beat.last);
            now.since(last) < SILENCE && last.since(first.max(beat)) >= SILENCE
        });
        !state.ready || (listened && self.alive(now).is_none())
    }

    /// Its standing with regard to an incarnation that ended at `end`.
    pub fn standing(&self, end: Moment, now: Moment) -> Standing {
        let Some(state) = &self.state else {
            return Standing::Gone(self.since.max(end));
        };
        if state.is_fenced() {
            return Standing::Fenced;
        }
        match self.alive(now) {
            Some(beat) => Standing::Alive {
                since: beat.since(end),
                last: beat.last,
            },
            None if self.is_silent(now) => Standing::Silent,
            None => Standing::Listening,
        }
    }

    /// When its kubelet was at work last, as far as is known: Leases are not read while nothing waits for them.
    fn last_at_work(&self, now: Moment) -> Option<Moment> {
        match self.standing(now, now) {
            Standing::Alive { .. } | Standing::Listening => Some(now),
            // It fell silent, and what it did before counts.
            Standing::Silent | Standing::Fenced | Standing::Gone(_) => {
                let beat = self.lease.beat.map(|beat| beat.last);
                beat.or(self.worked)
            }
        }
    }

    /// Takes in that its object had this version at `asked` or later. A kubelet that is at work reports its boot
    /// within `told_within`.
    fn confirm_boot(&mut self, version: &str, asked: Moment, told_within: Duration) {
        let is_last = |state: &NodeState| !version.is_empty() && *state.version == *version;
        if self.boot.is_some() && self.state.as_ref().is_some_and(is_last) {
            let before = asked.since_epoch().checked_sub(told_within);
            self.still_booted = self.still_booted.max(before.map(Moment::new));
        }
    }

    /// When it was seen that its machine was booted anew after `moment`.
    fn rebooted_after(&self, moment: Moment) -> Option<Moment> {
        let reboot = self.reboot.filter(|reboot| moment <= reboot.after)?;
        Some(reboot.seen)
    }

    fn suspect_since(&mut self, since: Moment) {
        self.suspect = Some(Suspect {
            since,
            longest: Duration::ZERO,
            absent: Duration::ZERO,
            confirmed: Duration::ZERO,
            confirmed_at: since,
        });
    }

    fn is_fenced(&self) -> bool {
        self.state.as_ref().is_some_and(NodeState::is_fenced)
    }

    /// A read, or the next event, shows that what the watch told last was true until now.
    fn confirm(&mut self, now: Moment) {
        self.end_stretch(now);
        if let Some(suspect) = &mut self.suspect {
            (suspect.confirmed, suspect.confirmed_at) = (suspect.longest, now);
        }
    }

    /// A read showed something else. Nobody knows since when. The time since the last confirmation does not count.
    fn miss(&mut self, now: Moment) {
        self.worked = self.last_at_work(now);
        self.since = now;
        self.lease.beat = None;
        if let Some(suspect) = &mut self.suspect {
            suspect.longest = suspect.confirmed;
        }
    }

    /// Whether it does not block only by a fence or its absence, which may be over, or by time that neither a read nor an
    /// event has confirmed.
    fn is_unconfirmed(&self, wait: Duration, now: Moment) -> bool {
        let is_unconfirmed = |it: Suspect| {
            let gone_for = it.confirmed_at.since(self.since.max(it.since));
            it.confirmed < wait || self.is_fenced() || (self.state.is_none() && gone_for < wait)
        };
        self.suspect.is_some_and(is_unconfirmed) && self.blocks(wait, false, now).is_none()
    }

    /// Counts the present stretch of work or of absence, which ends.
    fn end_stretch(&mut self, now: Moment) {
        if let Some(suspect) = self.suspect {
            let longest = self.longest(suspect, now);
            self.suspect = Some(Suspect { longest, ..suspect });
        }
    }

    /// The longest stretch of work or of absence so far.
    fn longest(&self, suspect: Suspect, now: Moment) -> Duration {
        let present = match (&self.state, self.lease.beat) {
            (None, _) => now.since(self.since.max(suspect.since)),
            // Seen, whether or not its Lease is still read.
            (Some(_), Some(beat)) => beat.last.since(beat.since(suspect.since)),
            (Some(_), None) => Duration::ZERO,
        };
        suspect.longest.max(present)
    }

    /// Until when it blocks, if it does: a moment, or until something happens there. Where it is `endless`, a kubelet that
    /// is at work proves nothing.
    #[expect(
        clippy::option_option,
        reason = "whether it blocks, and whether there is a moment until which"
    )]
    fn blocks(&self, wait: Duration, endless: bool, now: Moment) -> Option<Option<Moment>> {
        let suspect = self.suspect.filter(|_| !self.is_fenced())?;
        if endless {
            if suspect.absent >= wait {
                return None;
            }
            let gone = self.state.is_none();
            let until = gone.then(|| self.since.max(suspect.since) + wait);
            return until.is_none_or(|until| until > now).then_some(until);
        }
        if self.longest(suspect, now) >= wait {
            return None;
        }
        Some(match (&self.state, self.alive(now)) {
            (None, _) => Some(self.since.max(suspect.since) + wait),
            (Some(_), Some(beat)) => Some(by_lease(beat.since(suspect.since), wait, now)),
            (Some(_), None) if self.is_silent(now) => None,
            // Its Lease has not been watched long enough to tell.
            (Some(_), None) => Some(now + wait.max(look_again(wait))),
        })
    }
}
