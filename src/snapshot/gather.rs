//! Takes objects of JSON in, one at a time, and makes a snapshot of them.
//!
//! A pod or a node that cannot be read is an error, since the snapshot would say that it is absent. Any other object that
//! cannot be read is noted.

use std::collections::{HashMap, HashSet};

use ipgc_core::{
    definitions,
    id::is_uid,
    ipam::{self, InvalidConfig},
    pool::{self, Glance, ObservedPool},
    reservation::Reservation,
    text::excerpt,
};
use kube::core::{Selector, SelectorExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, value::RawValue};

use super::{Kind, NOW, Snapshot, Source, Unreadable, objects::fault};
use crate::{
    api::NodeSlicePool,
    report::names,
    watch::{LeanDefinition, LeanNode, LeanPod},
};

/// So many definitions that cannot be read are named.
const FEW: usize = 5;

#[derive(Default)]
pub(super) struct Gather {
    pub(super) snapshot: Snapshot,
    selector: Option<Selector>,
    /// The objects that were taken in.
    names: HashSet<(Kind, Box<str>)>,
    /// Whether the input is a directory or an archive of many files, in which an object may be twice: the first one counts.
    pub(super) is_gathered: bool,
    /// Whether only pools without rows are kept: all others may be many.
    pub(super) only_empty: bool,
    /// How many were there again.
    again: usize,
    /// Pods and reservations without a time that can be read.
    timeless: Vec<String>,
}

fn fields_of(object: &str) -> HashMap<String, &RawValue> {
    serde_json::from_str(object).unwrap_or_default()
}

/// Whatever its fields are worth: those that cannot be read are left out.
fn metadata_of(text: &str) -> Value {
    let metadata = fields_of(text).remove("metadata").map(RawValue::get);
    let fields = fields_of(metadata.unwrap_or_default()).into_iter();
    let readable =
        fields.filter_map(|(name, it)| Some((name, serde_json::from_str(it.get()).ok()?)));
    readable.collect::<serde_json::Map<_, Value>>().into()
}

fn name_of(text: &str) -> String {
    let metadata = metadata_of(text);
    let name = metadata["name"].as_str().unwrap_or("without a name");
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{namespace}/{name}"),
        None => name.to_owned(),
    }
}

/// The error of an object of which too little can be read.
fn unread(kind: Kind, text: &str, reason: &str) -> String {
    let (_, kind) = kind.type_of();
    format!("{kind} {} cannot be read: {reason}", name_of(text))
}

/// The error of a pod without one of the fields that identify it, or with a name that is none.
fn nameless(text: &str) -> String {
    let metadata = metadata_of(text);
    let mut missing = vec!["namespace", "name", "uid"];
    missing.retain(|field| metadata[*field].is_null());
    let reason = match &*missing {
        [] => "its name is none".to_owned(),
        _ => format!("it has no {}", missing.join(", ")),
    };
    unread(Kind::Pod, text, &reason)
}

fn read<T: DeserializeOwned>(kind: Kind, text: &str) -> Result<T, String> {
    serde_json::from_str(text).map_err(|error| unread(kind, text, &fault(&error)))
}

impl Gather {
    /// Nothing yet. With a `selector` the pods that it chooses are remembered.
    pub(super) fn new(source: Source, selector: Option<&Selector>) -> Self {
        let selected = selector.map(|_| HashSet::new());
        Self {
            snapshot: Snapshot {
                source,
                selected,
                ..Snapshot::default()
            },
            selector: selector.cloned(),
            ..Self::default()
        }
    }

    pub(super) fn object(&mut self, kind: Kind, text: &str) -> Result<(), String> {
        self.snapshot.kinds.insert(kind);
        match kind {
            Kind::Pod => {
                let pod = read::<LeanPod>(kind, text)?.into_state();
                let pod = pod.ok_or_else(|| nameless(text))?;
                if self.once(kind, pod.podref.as_str())? {
                    if let (Some(selector), Some(selected)) =
                        (&self.selector, &mut self.snapshot.selected)
                    {
                        let labels = metadata_of(text)["labels"].take();
                        let labels = serde_json::from_value(labels).unwrap_or_default();
                        selected.extend(selector.matches(&labels).then(|| pod.podref.clone()));
                    }
                    self.untimed(pod.since.is_none(), kind, text);
                    self.snapshot.pods.push(pod.into());
                }
            }
            Kind::Node => {
                let (name, state) = read::<LeanNode>(kind, text)?.into_state();
                if self.once(kind, &name)? {
                    self.snapshot.nodes.insert(name.into(), state);
                }
            }
            Kind::IpPool => {
                let claims = &mut self.snapshot.claims;
                let is_kept = |row: &Glance<'_>| {
                    if row.sandbox.is_some_and(is_uid) {
                        claims.insert(Kind::ResourceClaim);
                    }
                    false
                };
                match ObservedPool::parse(text, NOW, is_kept) {
                    Ok(pool) => {
                        if self.once(kind, &pool.key().to_string())? {
                            self.pool(&pool, text);
                        }
                    }
                    Err(error) => self.unreadable(kind, text, excerpt(&fault(&error))),
                }
            }
            Kind::Reservation => match Reservation::parse(text) {
                Ok(reservation) => {
                    let name = format!("{}/{}", reservation.namespace, reservation.name);
                    if self.once(kind, &name)? {
                        if let Some(pool::Unreadable::IpamClaim(_)) = reservation.extra {
                            self.snapshot.claims.insert(Kind::IpamClaim);
                        }
                        self.untimed(reservation.created.is_none(), kind, text);
                        self.snapshot.reservations.push(reservation);
                    }
                }
                Err(error) => self.unreadable(kind, text, excerpt(&fault(&error))),
            },
            Kind::NodeSlicePool => match serde_json::from_str(text) {
                Ok(pool) => {
                    if self.once(kind, &name_of(text))? {
                        self.slices(&pool, text);
                    }
                }
                Err(error) => self.unreadable(kind, text, excerpt(&fault(&error))),
            },
            Kind::IpamClaim => {
                self.snapshot.ipam_claims.insert(name_of(text));
            }
            Kind::ResourceClaim => {
                if let Some(uid) = metadata_of(text)["uid"].as_str() {
                    let claims = &mut self.snapshot.resource_claims;
                    claims.insert(uid.into(), name_of(text));
                }
            }
            Kind::Definition => {
                let name = name_of(text);
                if self.once(kind, &name)? {
                    let definition = serde_json::from_str::<LeanDefinition>(text).map_or_else(
                        |error| Err(InvalidConfig::Json(ipam::fault(&error))),
                        |it| it.definition,
                    );
                    self.snapshot.definitions.insert(name.into(), definition);
                }
            }
        }
        Ok(())
    }

    /// Whether the object is new. A second one is an error unless the input is gathered: nobody knows which is current.
    fn once(&mut self, kind: Kind, name: &str) -> Result<bool, String> {
        if self.names.insert((kind, name.into())) {
            return Ok(true);
        }
        if self.is_gathered {
            self.again += 1;
            return Ok(false);
        }
        let (_, kind) = kind.type_of();
        Err(format!(
            "{kind} {name} is in the input twice, and nobody knows which one is current"
        ))
    }

    fn unreadable(&mut self, kind: Kind, text: &str, reason: &str) {
        self.snapshot.unreadable.push(Unreadable {
            kind,
            name: name_of(text),
            reason: reason.to_owned(),
        });
    }

    fn untimed(&mut self, is_untimed: bool, kind: Kind, text: &str) {
        let name = || format!("{} {}", kind.type_of().1, name_of(text));
        self.timeless.extend(is_untimed.then(name));
    }

    fn pool(&mut self, pool: &ObservedPool, text: &str) {
        if text.contains("\"ipamclaimref\"") {
            self.snapshot.claims.insert(Kind::IpamClaim);
        }
        if pool.total_rows == 0 {
            let metadata = metadata_of(text);
            // One with a finalizer goes later, and may have rows by then.
            let finalizers = &metadata["finalizers"];
            let is_held = !finalizers.is_null() && *finalizers != Value::Array(Vec::new());
            if let Some(version) = metadata["resourceVersion"].as_str()
                && !is_held
            {
                let empty = &mut self.snapshot.empty_pools;
                empty.insert(pool.key().clone(), version.into());
            }
        }
        if pool.total_rows == 0 || !self.only_empty {
            self.snapshot.pools.push(text.into());
        }
    }

    fn slices(&mut self, pool: &NodeSlicePool, text: &str) {
        for (place, slice) in pool.slices() {
            match slice {
                Ok(slice) => {
                    self.snapshot.slice_places.push(place);
                    self.snapshot.slices.push(slice);
                }
                Err(reason) => self.unreadable(Kind::NodeSlicePool, text, &reason),
            }
        }
    }

    pub(super) fn end(self) -> Snapshot {
        let mut snapshot = self.snapshot;
        snapshot.made = jiff::Timestamp::now().to_string();
        let (pods, reservations) = (&mut snapshot.pods, &mut snapshot.reservations);
        pods.sort_unstable_by(|a, b| a.podref.cmp(&b.podref));
        reservations.sort_unstable_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let faulty = snapshot.definitions.iter();
        let faulty = faulty.filter_map(|(name, definition)| {
            Some(format!("definition {name} {}", untold(definition)?))
        });
        let faulty: Vec<_> = faulty.collect();
        if self.again > 0 {
            snapshot.notes.push(format!(
                "{} objects are in the input more than once, maybe of other moments: the first one counts",
                self.again
            ));
        }
        if !self.timeless.is_empty() {
            snapshot.notes.push(format!(
                "the age is not known, since metadata.creationTimestamp is no time: {}",
                names(&self.timeless)
            ));
        }
        snapshot.notes.extend(faulty.iter().take(FEW).cloned());
        if faulty.len() > FEW {
            let more = faulty.len() - FEW;
            let note = format!("{more} more definitions do not tell all of their ranges");
            snapshot.notes.push(note);
        }
        if !snapshot.kinds.contains(&Kind::Pod) {
            snapshot.no_proof = Some("the input has no pods".into());
        }
        snapshot
    }
}

/// The ranges that a definition does not tell, and why.
fn untold(definition: &definitions::Definition) -> Option<String> {
    let sections = match definition {
        Err(reason) => return Some(format!("tells no range: {reason}")),
        Ok(sections) => sections,
    };
    let problems: Vec<_> = sections.iter().flat_map(|it| &*it.problems).collect();
    if !problems.is_empty() {
        let problems: Vec<_> = problems.into_iter().map(String::as_str).collect();
        return Some(format!("cannot be read: {}", problems.join("; ")));
    }
    let is_empty = sections.iter().any(|section| section.ranges.is_empty());
    is_empty.then(|| "tells no range: it may be in a file on the nodes".to_owned())
}
