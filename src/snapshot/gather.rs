//! Takes objects of JSON in, one at a time, and makes a snapshot of them.
//!
//! A pod or a node that cannot be read is an error, since the snapshot would say that it is absent. Any other object that
//! cannot be read is noted.

use std::{collections::HashSet, error::Error as _};

use ipgc_core::{
    address::{Range, excerpt},
    definitions::Definition,
    ipam::fault,
    podref::PodRef,
    pool::ObservedPool,
    reservation::Reservation,
};
use kube::core::{Selector, SelectorExt};
use serde::{Deserialize, de::DeserializeOwned};

use super::{Kind, NOW, Slice, Snapshot, Unreadable, labels::Labels};
use crate::{
    api::{NetworkAttachmentDefinition, NodeSlicePool},
    watch::{LeanNode, LeanPod},
};

/// So many definitions that cannot be read are named.
const FEW: usize = 5;

/// Gathers a snapshot.
#[derive(Default)]
pub(super) struct Gather {
    pub(super) snapshot: Snapshot,
    /// The pools, slices and definitions that were taken in.
    names: HashSet<(Kind, String)>,
}

#[derive(Deserialize)]
struct Named {
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    name: Option<String>,
    namespace: Option<String>,
    #[serde(rename = "resourceVersion")]
    version: Option<Box<str>>,
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

fn read<T: DeserializeOwned>(kind: Kind, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| {
        let (_, kind) = kind.type_of();
        let name = Metadata::of(text).full_name();
        format!("{kind} {name} cannot be read: {error}")
    })
}

impl Gather {
    /// Takes an object in. With a `selector` the pods that it chooses are remembered.
    pub(super) fn object(
        &mut self,
        kind: Kind,
        text: &str,
        selector: Option<&Selector>,
    ) -> Result<(), String> {
        self.snapshot.kinds.insert(kind);
        match kind {
            Kind::Pod => {
                let pod = read::<LeanPod>(kind, text)?.into_state();
                let pod = pod.ok_or("a Pod without namespace, name or uid")?;
                if let Some(selector) = selector {
                    let labels = Metadata::of(text).labels.unwrap_or_default();
                    let is_chosen = selector.matches(&labels);
                    self.select(is_chosen.then(|| pod.podref.clone()));
                }
                self.snapshot.pods.push(pod.into());
            }
            Kind::Node => {
                let node = read::<LeanNode>(kind, text)?.into_state();
                let (name, state) = node.ok_or("a Node without a name")?;
                let known = self.snapshot.nodes.insert(name.as_str().into(), state);
                if known.is_some() {
                    return Err(twice(kind, &name));
                }
            }
            Kind::IpPool => match ObservedPool::parse(text, NOW, |_| false) {
                Ok(pool) => {
                    self.once(kind, pool.key().to_string())?;
                    if pool.total_rows == 0
                        && let Some(version) = Metadata::of(text).version
                    {
                        let empty = &mut self.snapshot.empty_pools;
                        empty.insert(pool.key().clone(), version);
                    }
                    self.snapshot.pools.push(text.into());
                }
                Err(error) => {
                    let fault = error.source().map(ToString::to_string);
                    self.unreadable(kind, text, &fault.unwrap_or_default());
                }
            },
            Kind::Reservation => {
                let reservation = Reservation::parse(text);
                if reservation.is_none() {
                    let fault =
                        "it has no name, uid, resourceVersion or spec, or a field that is no text";
                    self.unreadable(kind, text, fault);
                }
                self.snapshot.reservations.extend(reservation);
            }
            Kind::NodeSlicePool => match serde_json::from_str(text) {
                Ok(pool) => {
                    self.once(kind, Metadata::of(text).full_name())?;
                    self.slices(&pool);
                }
                Err(error) => self.unreadable(kind, text, &error.to_string()),
            },
            Kind::Definition => self.definition(text)?,
        }
        Ok(())
    }

    /// Remembers pods that a selector chose.
    pub(super) fn select(&mut self, pods: impl IntoIterator<Item = PodRef>) {
        let selected = self.snapshot.selected.get_or_insert_default();
        selected.extend(pods);
    }

    fn once(&mut self, kind: Kind, name: String) -> Result<(), String> {
        match self.names.replace((kind, name)) {
            Some((_, name)) => Err(twice(kind, &name)),
            None => Ok(()),
        }
    }

    fn unreadable(&mut self, kind: Kind, text: &str, reason: &str) {
        self.snapshot.unreadable.push(Unreadable {
            kind,
            name: Metadata::of(text).full_name(),
            reason: excerpt(reason).to_owned(),
        });
    }

    fn slices(&mut self, pool: &NodeSlicePool) {
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
        self.once(Kind::Definition, name.clone())?;
        let definition = serde_json::from_str::<NetworkAttachmentDefinition>(text);
        let config = definition.as_ref().map(NetworkAttachmentDefinition::config);
        let definition = Definition::read(&name, config.map_err(fault));
        self.snapshot.definitions.insert(name.into(), definition);
        Ok(())
    }

    /// The snapshot of all that was taken in.
    pub(super) fn end(self) -> Result<Snapshot, String> {
        let mut snapshot = self.snapshot;
        let pods = &mut snapshot.pods;
        pods.sort_unstable_by(|a, b| a.podref.cmp(&b.podref));
        let mut pairs = pods.windows(2);
        if let Some(pair) = pairs.find(|pair| pair[0].podref == pair[1].podref) {
            return Err(twice(Kind::Pod, pair[0].podref.as_str()));
        }
        let reservations = &mut snapshot.reservations;
        let order = |a: &Reservation, b: &Reservation| {
            (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name))
        };
        reservations.sort_unstable_by(order);
        let mut pairs = reservations.windows(2);
        if let Some([one, _]) = pairs.find(|pair| order(&pair[0], &pair[1]).is_eq()) {
            let name = format!("{}/{}", one.namespace, one.name);
            return Err(twice(Kind::Reservation, &name));
        }
        let faulty = snapshot.definitions.iter();
        let faulty = faulty.filter_map(|(name, definition)| {
            Some(format!("definition {name} {}", untold(definition)?))
        });
        let faulty: Vec<_> = faulty.collect();
        snapshot.notes.extend(faulty.iter().take(FEW).cloned());
        if faulty.len() > FEW {
            let more = faulty.len() - FEW;
            let note = format!("{more} more definitions do not tell all of their ranges");
            snapshot.notes.push(note);
        }
        if !snapshot.kinds.contains(&Kind::Pod) {
            snapshot.no_proof = Some("the input has no pods".into());
        }
        Ok(snapshot)
    }
}

/// The ranges that a definition does not tell, and why.
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
