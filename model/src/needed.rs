//! The need for each guard and each assumption: the model that shows it.

use crate::{
    model::Goal,
    scenario::{Assumption, Mutation, Scenario},
    scenarios::{
        blind, born, forgotten, gap, interrupted_add, listed, neighbours, nodes, reservations,
        status, successor,
    },
};

/// A guard, the model that shows why it is there, and what happens without it.
pub fn mutants() -> Vec<(Mutation, Scenario, Goal)> {
    use Goal::{Doubled, Left};
    vec![
        (Mutation::SkipProof, blind(), Doubled),
        (Mutation::ProofFirst, blind(), Doubled),
        (Mutation::NoIdInTest, blind(), Doubled),
        (Mutation::VersionOnly, neighbours(), Left),
        (Mutation::NoCooldown, successor(), Doubled),
        (Mutation::GradesIgnored, successor(), Doubled),
        (Mutation::EvidencePerName, successor(), Doubled),
        (Mutation::EarlierIgnored, successor(), Doubled),
        (Mutation::EvidenceAcrossGap, gap(), Doubled),
        (Mutation::StaleIsFresh, gap(), Doubled),
        (Mutation::ListedIgnored, listed(), Doubled),
        (Mutation::BornIsFirst, born(), Doubled),
        (Mutation::NobodyBlocks, forgotten(), Doubled),
        (Mutation::NodeBackIsFree, nodes(), Doubled),
        (Mutation::AbsenceAsEvidence, status(), Doubled),
        (Mutation::ReservationFirst, reservations(), Doubled),
        (Mutation::NoClaim, reservations(), Doubled),
        (Mutation::ClaimWithoutVersion, reservations(), Left),
        (Mutation::RowNotAsked, reservations(), Doubled),
        (Mutation::ClaimNotAged, interrupted_add(), Doubled),
        (Mutation::NeverFree, successor(), Left),
    ]
}

/// An assumption, and the model that shows that it is needed.
pub fn assumptions() -> Vec<(Assumption, Scenario)> {
    vec![
        (Assumption::Linearizable, blind()),
        (Assumption::UniqueIds, blind()),
        (Assumption::TerminalMeansStopped, successor()),
        (Assumption::FreshLagsLess, successor()),
        (Assumption::FencedIsEmpty, nodes()),
        (Assumption::StoppedWithinW, successor()),
        (Assumption::AdoptionHandsOver, successor()),
    ]
}
