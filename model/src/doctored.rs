//! The facts for a judgement, put together as `src/collect/knowledge.rs` does; and what a mutation
//! does to them before the shipped code sees them.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ipgc_core::{
    clearance::{Facts, Living},
    definitions::Scope,
    evidence::Ended,
    node::Nodes,
    podref::PodRef,
    pool::{ObservedPool, Row},
    proof::Presence,
};
use json_patch::{Patch, PatchOperation};
use serde_json::{Value, json};

use crate::{
    replica::{Observation, Replica, Seen},
    scenario::{Mutation, Mutations, Scenario},
    world::{Pool, Report, Stage, Tick, WEB, World, machine_name, moment, parsed_podref, reported},
};

/// What a replica knows when it judges.
pub struct Knowledge<'a> {
    replica: &'a Replica,
    /// What was read of the pods.
    pub presence: HashMap<PodRef, Presence>,
    ended: Vec<Arc<Ended>>,
    living: Option<Living>,
    rows: usize,
    nodes: Nodes,
    fresh: bool,
}

impl<'a> Knowledge<'a> {
    /// What `replica` knows after it read the pool and then the pods.
    #[must_use]
    pub fn of(
        scenario: &Scenario,
        replica: &'a Replica,
        observed: &ObservedPool,
        observation: &Observation,
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
        let ended = replica.ended.iter().filter(|end| end.last.name == WEB);
        let ended: Vec<_> = ended.map(crate::replica::End::evidence).collect();
        let expected = ended.iter().map(|end| end.expected_rows()).max();
        let here = observation
            .pool
            .taken()
            .filter(|(_, row)| row.name == WEB)
            .count();
        let mut knowledge = Self {
            replica,
            presence: presence.collect(),
            ended,
            living: replica.living(WEB),
            rows: expected.max(Some(here)).unwrap_or(0),
            nodes: replica.nodes.clone(),
            fresh: replica.fresh,
        };
        knowledge.doctor(scenario.mutations, observed, seen, world);
        knowledge
    }

    /// Uses the facts about a row.
    pub fn with_facts<T>(
        &self,
        observed: &ObservedPool,
        row: &Row,
        act: impl FnOnce(&Facts<'_>) -> T,
    ) -> T {
        let own = row.podref_text() == Some(parsed_podref(WEB).as_str());
        act(&Facts {
            ended: if own { &self.ended } else { &[] },
            living: self.living.clone().filter(|_| own),
            rows: self.rows,
            interfaces: self.rows,
            sighting: self.replica.sightings.get(observed.uid(), row),
            siblings: None,
            others: &[],
            scope: Scope::default(),
            nodes: &self.nodes,
            slice: None,
            longest_grace: Duration::ZERO,
            fresh: self.fresh,
        })
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
        let clean = |end: &Ended| Ended {
            settled: true,
            ..end.clone()
        };
        if mutations.has(Mutation::SkipProof) {
            self.presence.insert(web.clone(), Presence::Absent);
            self.living = None;
        }
        if mutations.has(Mutation::GradesIgnored) {
            for end in &mut self.ended {
                *end = Arc::new(clean(end));
            }
        }
        if mutations.has(Mutation::EvidencePerName)
            && let (Some(last), Some(content)) = (self.ended.last(), content)
        {
            let mut end = Ended::clone(last);
            end.last.status = reported(content.address);
            self.ended = vec![Arc::new(end)];
        }
        if mutations.has(Mutation::EarlierIgnored)
            && let Some(answering) =
                content.and_then(|content| self.ended.iter().rposition(|end| end.reported(content)))
        {
            self.ended.drain(..answering);
        }
        if mutations.has(Mutation::ListedIgnored) {
            for end in &mut self.ended {
                *end = Arc::new(Ended {
                    listed_at: None,
                    ..Ended::clone(end)
                });
            }
        }
        if mutations.has(Mutation::StaleIsFresh) {
            self.fresh = true;
        }
        if mutations.has(Mutation::NodeBackIsFree) {
            self.nodes = always_there(world);
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
            self.living = None;
            let mut state = pod.state();
            if let Some(content) = content {
                state.status = reported(content.address);
            }
            self.ended = vec![Arc::new(Ended {
                last: state,
                at: moment(0),
                watched: true,
                settled: true,
                stopped: true,
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
            nodes.hear(
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
#[must_use]
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
#[must_use]
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
