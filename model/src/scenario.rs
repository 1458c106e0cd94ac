//! The parts of a model: the start, the possible actions, and everything that is left out.

use std::{fmt, time::Duration};

use ipgc_core::evidence::{Policy, Unfenced};

use crate::{
    action::{Action, Move},
    replica::Replica,
    world::{TICK, Tick, WEB, World},
};

/// An ADD takes less than so many ticks from its look at the reservation to its write.
pub const ADD_BUDGET: Tick = 2;

/// A small model: one hazard.
// Independent switches, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The beginning.
    pub start: World,
    /// From this tick on, nothing new happens: everybody ends what is under way.
    pub quiet: Tick,
    /// The last tick.
    pub horizon: Tick,
    /// `--grace` in ticks: W is two ticks longer.
    pub grace: Tick,
    /// A sandbox is begun in one step and gets its address in another.
    pub slow_add: bool,
    /// An ADD looks in one step, as it begins, and writes in another.
    pub split_add: bool,
    /// Pools have reservations.
    pub reserves: bool,
    /// The status of a pod may lack the entry of its interface.
    pub incomplete: bool,
    /// The watch may lag for as long as it likes, and nobody knows.
    pub lagging: bool,
    /// The pool's resourceVersion is counted.
    pub versioned: bool,
    /// Guards that are switched off.
    pub mutations: Mutations,
    /// The assumption that is dropped.
    pub dropped: Option<Assumption>,
}

impl Scenario {
    /// The waits.
    pub fn policy(&self) -> Policy {
        Policy {
            cooldown: if self.mutations.has(Mutation::NoCooldown) {
                Duration::ZERO
            } else {
                TICK
            },
            grace: TICK * u32::from(self.grace),
            max_pod_grace: Some(TICK),
            del_budget: TICK,
            add_budget: TICK * u32::from(ADD_BUDGET),
            leftover_grace: TICK * 2,
            unfenced: Unfenced::Hold,
            unwitnessed_hold: None,
            keep_podrefs: Vec::new(),
        }
    }

    /// Its bounds, in words.
    pub fn bounds(&self) -> String {
        let world = &self.start;
        let left = world.left.words().join(", ");
        format!(
            "{} ticks, nothing new from {} on; nodes {}, pools {}, replicas {}, {left}",
            self.horizon,
            self.quiet,
            world.machines.len(),
            world.pools.len(),
            world.replicas.len(),
        )
    }

    /// W in ticks.
    pub fn wait(&self) -> Tick {
        self.grace + 2
    }

    /// The same scenario without a guard.
    pub fn without(mut self, mutation: Mutation) -> Self {
        self.mutations = Mutations(Some(mutation));
        if mutation == Mutation::NobodyBlocks {
            // It concerns the very first list.
            let world = &mut self.start;
            let own: Vec<_> = world
                .pods
                .iter()
                .filter(|pod| pod.name == WEB)
                .copied()
                .collect();
            let replica = Replica::start(&own, &world.machines, world.now, self.mutations);
            world.replicas.fill(replica);
        }
        self
    }

    /// The same scenario without an assumption.
    pub fn dropping(mut self, assumption: Assumption) -> Self {
        self.dropped = Some(assumption);
        self
    }
}

/// How often each thing may still happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Budget {
    /// The StatefulSet makes its pod again.
    pub creations: u8,
    /// A person deletes the pod gracefully.
    pub deletions: u8,
    /// A person deletes the pod by force.
    pub forced: u8,
    /// The pod garbage collector marks the pod as Failed.
    pub evictions: u8,
    /// The pod completes by itself.
    pub completions: u8,
    /// A bystander takes the lowest free address.
    pub others: u8,
    /// A bystander gives its address back.
    pub departures: u8,
    /// A DEL is lost.
    pub lost: u8,
    /// A kubelet stops working.
    pub downs: u8,
    /// A node is fenced.
    pub fences: u8,
    /// ipgc restarts.
    pub restarts: u8,
    /// A pod watch is silent for a while.
    pub stalls: u8,
    /// An answer to a write of ipgc is lost.
    pub timeouts: u8,
    /// Upstream's collectors remove a row or a reservation.
    pub upstream: u8,
}

impl Budget {
    /// How often an action may still happen; none if nothing bounds it.
    fn of(&mut self, action: Action) -> Option<&mut u8> {
        Some(match action {
            Action::Create(_) => &mut self.creations,
            Action::Delete(_) => &mut self.deletions,
            Action::Force(_) => &mut self.forced,
            Action::Evict(_) => &mut self.evictions,
            Action::Complete(_) => &mut self.completions,
            Action::OtherTakes => &mut self.others,
            Action::OtherLeaves(_) => &mut self.departures,
            Action::StopWithoutDel(_) => &mut self.lost,
            Action::Down(_) => &mut self.downs,
            Action::Fence(_) => &mut self.fences,
            Action::Ipgc(_, Move::Restart) => &mut self.restarts,
            Action::Ipgc(_, Move::Stall) => &mut self.stalls,
            Action::Ipgc(_, Move::ClaimLost) => &mut self.timeouts,
            Action::Upstream(_) => &mut self.upstream,
            _ => return None,
        })
    }

    /// Whether an action may happen once more.
    pub fn allows(mut self, action: Action) -> bool {
        self.of(action).is_none_or(|left| *left > 0)
    }

    /// An action happens.
    pub fn spend(&mut self, action: Action) {
        if let Some(left) = self.of(action) {
            *left -= 1;
        }
    }

    /// The actions that may still happen, and how often.
    fn words(&self) -> Vec<String> {
        let all = [
            ("creations", self.creations),
            ("deletions", self.deletions),
            ("forced", self.forced),
            ("evictions", self.evictions),
            ("completions", self.completions),
            ("others", self.others),
            ("departures", self.departures),
            ("lost", self.lost),
            ("downs", self.downs),
            ("fences", self.fences),
            ("restarts", self.restarts),
            ("stalls", self.stalls),
            ("timeouts", self.timeouts),
            ("upstream", self.upstream),
        ];
        let some = all.iter().filter(|(_, times)| *times > 0);
        some.map(|(what, times)| format!("{what} {times}"))
            .collect()
    }
}

/// A guard that is switched off, in tests only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mutation {
    /// Nobody asks whether the pod is there.
    SkipProof,
    /// The pods are read before the pool.
    ProofFirst,
    /// The patch tests podref and ifname of a row, not its id.
    NoIdInTest,
    /// The patch tests the pool's resourceVersion, and nothing else.
    VersionOnly,
    /// A settled end frees at once.
    NoCooldown,
    /// Every end counts as settled.
    GradesIgnored,
    /// The reservation is deleted before the row, by the row's proof.
    ReservationFirst,
    /// A reservation is deleted without a claim.
    NoClaim,
    /// The claim does not test the resourceVersion.
    ClaimWithoutVersion,
    /// After the claim, the pod is asked for and rows are not.
    RowNotAsked,
    /// After the claim, nothing waits for ADDs that are at work.
    ClaimNotAged,
    /// The last end of a name stands for all its incarnations.
    EvidencePerName,
    /// A relist takes nothing away.
    EvidenceAcrossGap,
    /// A watch that is not heard counts as one that is.
    StaleIsFresh,
    /// A row that its pod does not report is free.
    AbsenceAsEvidence,
    /// A node that is back has always been there.
    NodeBackIsFree,
    /// Only the incarnation that answers for the row, and later ones, are asked.
    EarlierIgnored,
    /// Earlier pods of the same name are ignored for a pod that was first seen in a list.
    ListedIgnored,
    /// Earlier pods of the same name are ignored for a pod that was created after the list.
    BornIsFirst,
    /// No node is suspected of running an incarnation that was never seen.
    NobodyBlocks,
    /// Nothing is ever freed.
    NeverFree,
}

/// The guard that is switched off, if one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Mutations(Option<Mutation>);

impl Mutations {
    /// Whether this guard is switched off.
    pub fn has(self, mutation: Mutation) -> bool {
        self.0 == Some(mutation)
    }
}

/// The assumptions of the protocol (docs/safety.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Assumption {
    /// Quorum reads are linearizable.
    Linearizable,
    /// A sandbox id is used for one sandbox.
    UniqueIds,
    /// A kubelet reports a terminal pod only after its sandboxes are stopped.
    TerminalMeansStopped,
    /// A fresh pod watch lags less than the cooldown.
    FreshLagsLess,
    /// A fenced node runs no sandboxes.
    FencedIsEmpty,
    /// A live kubelet stops the sandbox of a deleted pod within W.
    StoppedWithinW,
    /// Adoption by ADD hands the address over.
    AdoptionHandsOver,
}

impl fmt::Display for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SkipProof => "the proof is skipped",
            Self::ProofFirst => "the proof comes before the observation",
            Self::NoIdInTest => "the patch does not test the row's id",
            Self::VersionOnly => "the patch tests the pool's resourceVersion instead of rows",
            Self::NoCooldown => "no cooldown",
            Self::GradesIgnored => "grades ignored: every end counts as settled",
            Self::ReservationFirst => "the reservation goes before the row",
            Self::NoClaim => "the reservation is deleted without a claim",
            Self::ClaimWithoutVersion => "the claim does not test the resourceVersion",
            Self::ClaimNotAged => "after the claim nothing waits for ADDs that are at work",
            Self::RowNotAsked => "after the claim only the pod is read, not the row",
            Self::EvidencePerName => "evidence per name instead of per incarnation",
            Self::EvidenceAcrossGap => "evidence survives a gap in the watch",
            Self::StaleIsFresh => "a silent watch counts as a quiet one",
            Self::AbsenceAsEvidence => "an interface missing from the status counts as evidence",
            Self::NodeBackIsFree => "a node that is back frees at once",
            Self::EarlierIgnored => "earlier incarnations ignored",
            Self::ListedIgnored => "the doubt of a listed pod ignored",
            Self::BornIsFirst => {
                "a pod that was born after ipgc's start counts as the first of its name"
            }
            Self::NobodyBlocks => "no blocking nodes after a restart",
            Self::NeverFree => "nothing is ever freed",
        })
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Linearizable => "quorum reads are linearizable",
            Self::UniqueIds => "a sandbox id is used for one sandbox",
            Self::TerminalMeansStopped => "terminal means that the sandboxes are stopped",
            Self::FreshLagsLess => "a fresh watch lags less than the cooldown",
            Self::FencedIsEmpty => "a fenced node runs no sandboxes",
            Self::StoppedWithinW => "a live kubelet stops a deleted pod's sandbox within W",
            Self::AdoptionHandsOver => "adoption by ADD hands the address over",
        })
    }
}
