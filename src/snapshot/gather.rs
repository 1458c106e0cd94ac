//! Objects in, facts out: what a snapshot is made of, whoever reads it.
//!
//! A pod or a node that cannot be read is an error, since its absence would be believed. What else cannot be
//! read is noted, and is nobody's proof of anything.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use ipgc_core::{
    address::{Range, excerpt},
    definitions::Definition,
    ipam::fault,
    pod::PodState,
    podref::PodRef,
    pool::{LeanPool, PoolKey},
    reservation::{LeanReservation, Reservation},
    text::Interner,
};
use serde::Deserialize;

use super::{Kind, Slice, Snapshot, Unreadable, labels::Labels, statics};
use crate::{
    api::{NetworkAttachmentDefinition, NodeSlicePool},
    watch::{LeanNode, LeanPod, NadIndex},
};

/// So many of a kind are told one by one.
const FEW: usize = 5;

/// Gathers a snapshot.
#[derive(Debug, Default)]
pub struct Gather {
    snapshot: Snapshot,
    texts: Interner,
    definitions: NadIndex,
    definition_names: BTreeSet<Box<str>>,
    pools: HashSet<PoolKey>,
    slice_names: HashSet<String>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    labels: Option<Labels>,
}

impl Metadata {
    fn of(text: &str) -> Self {
        let named = serde_json::from_str::<Named>(text).ok();
        named.and_then(|named| named.metadata).unwrap_or_default()
    }

    fn full_name(&self) -> String {
        let name = self.name.as_deref().unwrap_or("without a name");
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }
}

impl Gather {
    /// A kind is about to be read, whether or not there is any object of it.
    pub fn begin(&mut self, kind: Kind) {
        self.snapshot.kinds.insert(kind);
    }

    /// Takes a pod in.
    pub fn pod(&mut self, pod: Arc<PodState>) {
        self.begin(Kind::Pod);
        self.snapshot.pods.push(pod);
    }

    /// The same, as the API server gives it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn lean_pod(&mut self, pod: LeanPod) -> Result<PodRef, String> {
        let state = pod.into_state();
        let state = state.ok_or_else(|| "a Pod without namespace, name or uid".to_owned())?;
        let podref = state.podref.clone();
        self.pod(state.into());
        Ok(podref)
    }

    /// Says that a selector chose these pods.
    pub fn select(&mut self, pods: impl IntoIterator<Item = PodRef>) {
        let selected = self.snapshot.selected.get_or_insert_default();
        selected.extend(pods);
    }

    /// Takes a node in.
    ///
    /// # Errors
    /// When it cannot be read, or is there twice.
    pub fn node(&mut self, node: LeanNode) -> Result<(), String> {
        self.begin(Kind::Node);
        let (name, state) = node.into_state().ok_or("a Node without a name")?;
        match self.snapshot.nodes.insert(name.as_str().into(), state) {
            None => Ok(()),
            Some(_) => Err(twice(Kind::Node, &name)),
        }
    }

    /// Takes any object in; `selector` says which pods are of interest.
    ///
    /// # Errors
    /// When it cannot be read and its absence would mean something, or when it is there twice.
    pub fn object(
        &mut self,
        kind: Kind,
        text: &str,
        selector: Option<&kube::core::Selector>,
    ) -> Result<(), String> {
        self.begin(kind);
        let cannot = |error: serde_json::Error| {
            let (_, kind) = kind.type_of();
            format!(
                "{kind} {} cannot be read: {error}",
                Metadata::of(text).full_name()
            )
        };
        match kind {
            Kind::Pod => {
                let podref = self.lean_pod(serde_json::from_str(text).map_err(cannot)?)?;
                if let Some(selector) = selector {
                    let labels = Metadata::of(text).labels.unwrap_or_default();
                    self.select(
                        kube::core::SelectorExt::matches(selector, &labels).then_some(podref),
                    );
                }
            }
            Kind::Node => self.node(serde_json::from_str(text).map_err(cannot)?)?,
            Kind::IpPool => match LeanPool::parse(text) {
                Ok(pool) => self.pool(pool)?,
                Err(error) => self.unreadable(kind, text, &error),
            },
            Kind::Reservation => {
                if let Some(reservation) = Reservation::parse(text) {
                    self.whole_reservation(reservation);
                } else {
                    let reason =
                        "it has no name, uid, resourceVersion or spec, or a field that is no text";
                    self.unreadable(kind, text, &reason);
                }
            }
            Kind::NodeSlicePool => match serde_json::from_str::<NodeSlicePool>(text) {
                Ok(slices) => {
                    let name = Metadata::of(text).full_name();
                    if !self.slice_names.insert(name.clone()) {
                        return Err(twice(kind, &name));
                    }
                    self.slices(&slices);
                }
                Err(error) => self.unreadable(kind, text, &error),
            },
            Kind::Definition => self.definition(text)?,
        }
        Ok(())
    }

    fn unreadable(&mut self, kind: Kind, text: &str, reason: &impl ToString) {
        let name = Metadata::of(text).full_name();
        self.snapshot.unreadable.push(Unreadable {
            kind,
            name,
            reason: excerpt(&reason.to_string()).to_owned(),
        });
    }

    /// Takes a pool in.
    ///
    /// # Errors
    /// When it is there twice.
    pub fn pool(&mut self, pool: LeanPool) -> Result<(), String> {
        self.begin(Kind::IpPool);
        let LeanPool { key, text } = pool;
        if let Some(known) = self.pools.replace(key) {
            return Err(twice(Kind::IpPool, &known.to_string()));
        }
        self.snapshot.pools.push(text);
        Ok(())
    }

    /// Takes a reservation in.
    pub fn reservation(&mut self, reservation: LeanReservation) {
        self.begin(Kind::Reservation);
        self.snapshot.reservations.push(reservation);
    }

    /// The same of a whole one.
    pub fn whole_reservation(&mut self, reservation: Reservation) {
        let lean = LeanReservation::of(reservation, &mut self.texts);
        self.reservation(lean);
    }

    /// Takes the slices of a NodeSlicePool in.
    pub fn slices(&mut self, pool: &NodeSlicePool) {
        let name = pool.metadata.name.clone().unwrap_or_default();
        let namespace = pool.metadata.namespace.clone().unwrap_or_default();
        let slices = pool.spec.slices.iter().flat_map(|s| &s.allocations);
        for (index, slice) in slices.enumerate() {
            if slice.node_name.is_empty() {
                continue;
            }
            match Range::parse(&slice.slice_range) {
                Ok(range) => self.snapshot.slices.push(Slice {
                    namespace: namespace.clone(),
                    name: name.clone(),
                    index,
                    node: slice.node_name.as_str().into(),
                    range,
                }),
                Err(error) => self.snapshot.unreadable.push(Unreadable {
                    kind: Kind::NodeSlicePool,
                    name: format!("{namespace}/{name}"),
                    reason: format!("the slice of node {}: {error}", slice.node_name),
                }),
            }
        }
    }

    fn definition(&mut self, text: &str) -> Result<(), String> {
        let name = Metadata::of(text).full_name();
        if !self.definition_names.insert(name.as_str().into()) {
            return Err(twice(Kind::Definition, &name));
        }
        let definition = serde_json::from_str::<NetworkAttachmentDefinition>(text);
        let config = definition.as_ref().map(NetworkAttachmentDefinition::config);
        let config = config.map_err(fault);
        let statics = statics::of(config.as_ref().ok().copied().flatten().unwrap_or_default());
        if !statics.is_empty() {
            self.snapshot.statics.insert(name.as_str().into(), statics);
        }
        self.definitions.apply(&name, config);
        Ok(())
    }

    /// Something that is to be told.
    pub fn note(&mut self, note: String) {
        self.snapshot.notes.push(note);
    }

    /// All is read.
    ///
    /// # Errors
    /// When something was read twice: two states of one object are none.
    pub fn end(self) -> Result<Snapshot, String> {
        let mut snapshot = self.snapshot;
        let sorted = snapshot.sort();
        sorted.map_err(|(kind, name)| twice(kind, &name))?;
        snapshot.definitions = self.definitions.into_all();
        let invalid = snapshot.definitions.iter();
        let invalid = invalid.filter_map(|(name, definition)| {
            Some(format!("definition {name} {}", untold(definition)?))
        });
        snapshot.notes.extend(invalid.clone().take(FEW));
        if let Some(more) = invalid.count().checked_sub(FEW).filter(|more| *more > 0) {
            let note = format!("{more} more definitions do not tell all of their ranges");
            snapshot.notes.push(note);
        }
        if !snapshot.kinds.contains(&Kind::Pod) {
            snapshot.no_proof = Some("the input has no pods".into());
        }
        Ok(snapshot)
    }
}

/// Which ranges a definition does not tell, and why.
fn untold(definition: &Definition) -> Option<String> {
    let sections = match definition {
        Definition::Invalid(reason) => return Some(format!("tells no range: {reason}")),
        Definition::Read(sections) => sections,
    };
    let problems: Vec<_> = sections.iter().flat_map(|it| &*it.problems).collect();
    if !problems.is_empty() {
        let problems: Vec<_> = problems.into_iter().map(String::as_str).collect();
        return Some(format!("cannot be read: {}", problems.join("; ")));
    }
    let is_empty = sections.iter().any(|section| section.ranges.is_empty());
    is_empty.then(|| "tells no range: it may be in a file on the nodes".to_owned())
}

fn twice(kind: Kind, name: &str) -> String {
    let (_, kind) = kind.type_of();
    format!("{kind} {name} is in the input twice: two states of one object are none")
}
