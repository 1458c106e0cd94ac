//! The facts for a judgement, put together by the shipped code; and what a mutation does to them before they are judged.

use std::{collections::HashMap, sync::Arc};

use ipgc_core::{
    breaker::Limits,
    clearance::Facts,
    evidence::Ended,
    known::{Evidence, Known},
    node::Nodes,
    podref::PodRef,
    pods::Others,
    pool::{ObservedPool, Row, RowCount},
    proof::Presence,
    time::Moment,
};
use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use crate::{
    replica::{Replica, Seen},
    scenario::{Mutation, Mutations, Scenario},
    world::{Pool, Report, Stage, Tick, WEB, World, machine_name, moment, parsed_podref, reported},
};

/// The knowledge of a replica when it judges.
pub struct Knowledge {
    evidence: Evidence,
    /// The pods, as they were read.
    pub presence: HashMap<PodRef, Presence>,
    known: HashMap<PodRef, Known>,
    others: Others,
    now: Moment,
}

impl Knowledge {
    /// The knowledge of `replica` after it read the pool and then the pods.
    pub fn of(
        scenario: &Scenario,
        replica: &Replica,
        observed: &ObservedPool,
        seen: &[Seen],
        world: &World,
    ) -> Self {
        let presence = seen.iter().map(|seen| {
            let presence = match &seen.pod {
                None => Presence::Absent,
                Some(pod) => Presence::Present(Some(Arc::new(pod.state()))),
            };
            (parsed_podref(seen.name), presence)
        });
        let mut evidence =
            Evidence::new(scenario.policy(), Limits::default(), replica.nodes.clone());
        evidence.pods = replica.pods.clone();
        evidence.first_seen = replica.sightings.clone();
        let is_heard = replica.fresh || scenario.mutations.has(Mutation::StaleIsFresh);
        let contents = || observed.rows().iter().filter_map(|row| row.content().ok());
        let counts = RowCount::by_podref(observed.rows());
        let known = contents().map(|row| {
            let here = counts.get(row.podref.as_str()).copied();
            let here = here.unwrap_or_default();
            let known = evidence.of(&row.podref, &[], here, is_heard);
            (row.podref.clone(), known)
        });
        let mut knowledge = Self {
            presence: presence.collect(),
            known: known.collect(),
            others: evidence.pods.others(contents()),
            now: moment(world.now),
            evidence,
        };
        knowledge.doctor(scenario.mutations, observed, seen, world);
        knowledge
    }

    /// Uses the facts about a row; none of a row that cannot be read.
    pub fn with_facts<T>(
        &self,
        observed: &ObservedPool,
        row: &Row,
        act: impl FnOnce(&Facts<'_>) -> T,
    ) -> Option<T> {
        let content = row.content().ok()?;
        let known = self.known.get(&content.podref)?;
        let evidence = &self.evidence;
        let sighting = evidence.first_seen.get(observed.uid(), row);
        let networks = evidence.networks_of(observed.key(), observed.range);
        let of_pool = (observed.key(), observed.range, &networks);
        let others = self.others.of(content);
        Some(act(
            &evidence.facts(of_pool, sighting, known, &others, self.now)
        ))
    }

    fn doctor(
        &mut self,
        mutations: Mutations,
        observed: &ObservedPool,
        seen: &[Seen],
        world: &World,
    ) {
        let web = parsed_podref(WEB);
        let row = observed
            .rows()
            .iter()
            .find(|row| row.podref_text() == Some(web.as_str()));
        let content = row.and_then(|row| row.content().ok());
        if mutations.has(Mutation::NodeBackIsFree) {
            self.evidence.nodes = always_there(world);
        }
        let Some(known) = self.known.get_mut(&web) else {
            return;
        };
        if mutations.has(Mutation::SkipProof) {
            self.presence.insert(web.clone(), Presence::Absent);
            known.presumed = Presence::Absent;
            known.living = None;
        }
        if mutations.has(Mutation::GradesIgnored) {
            for end in &mut known.ended {
                Arc::make_mut(end).settled = true;
            }
        }
        if mutations.has(Mutation::EvidencePerName)
            && let (Some(last), Some(content)) = (known.ended.last(), content)
        {
            let mut end = Ended::clone(last);
            end.last.status = reported(content.address);
            known.ended = vec![Arc::new(end)];
        }
        if mutations.has(Mutation::EarlierIgnored)
            && let Some(answering) = content
                .and_then(|content| known.ended.iter().rposition(|end| end.reported(content)))
        {
            known.ended.drain(..answering);
        }
        if mutations.has(Mutation::ListedIgnored) {
            for end in &mut known.ended {
                Arc::make_mut(end).listed_at = None;
            }
        }
        if mutations.has(Mutation::BornIsFirst) {
            // Its predecessors are asked, as far as the watch told of them.
            let mut inherited = None;
            for end in &mut known.ended {
                let end = Arc::make_mut(end);
                if end.born.is_some() {
                    end.listed_at = inherited;
                }
                inherited = inherited.max(end.listed_at);
            }
        }
        let unreported = |seen: &Seen| {
            seen.pod.filter(|pod| {
                pod.name == WEB && pod.stage == Stage::Running && pod.report == Report::Incomplete
            })
        };
        if mutations.has(Mutation::AbsenceAsEvidence)
            && let Some(pod) = seen.iter().find_map(unreported)
        {
            self.presence.insert(web, Presence::Absent);
            known.presumed = Presence::Absent;
            known.living = None;
            let mut state = pod.state();
            if let Some(content) = content {
                state.status = reported(content.address);
            }
            known.ended = vec![Arc::new(Ended {
                last: state,
                at: moment(0),
                terminal_since: None,
                watched: true,
                settled: true,
                stopped: true,
                stuck: false,
                listed_at: None,
                born: None,
                gap_at: None,
                sandboxes: ipgc_core::evidence::Sandboxes::default(),
            })];
        }
    }
}

/// Nodes that are at work now, as if they had been all the time.
fn always_there(world: &World) -> Nodes {
    let mut nodes = Nodes::default();
    for tick in 0..=world.now {
        for (id, machine) in (0..).zip(&world.machines) {
            let version: Tick = if machine.up { tick } else { 0 };
            nodes.apply(machine_name(id), machine.state(), moment(tick));
            nodes.note_lease(
                machine_name(id),
                Some(&version.to_string()),
                moment(tick),
                moment(tick),
            );
        }
        nodes.retain(|_| true, moment(tick));
    }
    nodes
}

/// The patch of a pool, with what a mutation leaves out.
pub fn patch(mutations: Mutations, Patch(operations): Patch, pool: &Pool) -> Patch {
    let is_row_test = |operation: &PatchOperation| matches!(operation, PatchOperation::Test(test) if test.path.as_str().starts_with("/spec/"));
    if mutations.has(Mutation::VersionOnly) {
        let version = operation(
            &json!({"op": "test", "path": "/metadata/resourceVersion", "value": pool.version.to_string()}),
        );
        let rest = operations
            .into_iter()
            .filter(|operation| matches!(operation, PatchOperation::Remove(_)));
        return Patch(version.into_iter().chain(rest).collect());
    }
    if mutations.has(Mutation::NoIdInTest) {
        let weaken = |operation_: PatchOperation| match &operation_ {
            PatchOperation::Test(test) if is_row_test(&operation_) => {
                let fields = ["podref", "ifname"].into_iter().filter_map(|field| {
                    let path = format!("{}/{field}", test.path);
                    operation(&json!({"op": "test", "path": path, "value": test.value[field]}))
                });
                fields.collect()
            }
            _ => vec![operation_],
        };
        return Patch(operations.into_iter().flat_map(weaken).collect());
    }
    Patch(operations)
}

/// A claim, with what a mutation leaves out.
pub fn claim(mutations: Mutations, Patch(mut operations): Patch) -> Patch {
    if mutations.has(Mutation::ClaimWithoutVersion) {
        operations.retain(|operation| {
            !matches!(operation, PatchOperation::Test(test) if test.path.as_str() == "/metadata/resourceVersion")
        });
    }
    Patch(operations)
}

fn operation(value: &Value) -> Option<PatchOperation> {
    serde_json::from_value(value.clone()).ok()
}
