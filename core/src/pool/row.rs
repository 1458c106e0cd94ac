//! One row of a pool: as it stands there, and what it says.
//!
//! A row is kept exactly as stored, because the patch that removes it tests the whole of it. A row
//! that cannot be read is a row all the same: it gets a verdict (Unknown) and is never touched.

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;
use serde_json::Value;

use super::wire::RowText;
use crate::{
    address::{Offset, Range},
    id::{is_id, is_uid},
    podref::PodRef,
    pool::PoolKey,
    text::excerpt,
};

/// The field that names an IPAMClaim.
const CLAIM: &str = "ipamclaimref";

/// One entry of `spec.allocations`.
#[derive(Clone, Debug)]
pub struct Row {
    key: Box<str>,
    stored: Value,
    content: Result<RowContent, Unreadable>,
}

/// The content of a readable row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowContent {
    /// The address it holds: base of the range plus key.
    pub address: IpAddr,
    /// The sandbox that it was last written for: 64 hex digits. Of a row of a ResourceClaim, the uid of that.
    pub sandbox: Box<str>,
    /// The pod it was written for.
    pub podref: PodRef,
    /// The interface; rows from before whereabouts 0.8 have none.
    pub interface: Option<Box<str>>,
}

/// Why a row says nothing that we may act on (rule 1).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "a variant without a doc has it in its text")]
pub enum Unreadable {
    /// The key is no number of 64 bits.
    #[error("the key is not an offset")]
    Key,
    #[error("the range of its pool is not a CIDR")]
    Range,
    #[error("base and offset give no address")]
    Address,
    #[error("the row is not an object of texts")]
    Shape,
    /// A field that we do not know may say who the row belongs to.
    #[error("it has an unknown field {0:?}")]
    ExtraField(Box<str>),
    /// Its field `ipamclaimref` names an IPAMClaim (whereabouts pull request #742): the address outlives the pod.
    #[error("it belongs to IPAMClaim {}, and whereabouts frees it when that is gone", excerpt(.0))]
    IpamClaim(Box<str>),
    #[error("it names no pod: its podref is missing, or not exactly namespace/name")]
    PodRef,
    #[error("its name can be read as that of several networks, each with another address")]
    Network,
    /// The id is none that a container runtime makes.
    #[error("its id is not 64 hex digits")]
    SandboxId,
    /// The id is the uid of an object: DRANET 1.4 writes that of a `ResourceClaim`.
    #[error(
        "its id is the uid of an object that is no pod, as DRANET writes that of a ResourceClaim: {0}"
    )]
    ResourceClaim(Box<str>),
}

/// A row before it is kept: borrowed from the text, and as much of it as can be read.
#[derive(Clone, Copy, Debug)]
pub struct Glance<'a> {
    /// Its pool.
    pub pool: &'a PoolKey,
    /// The range of its pool, if it can be read.
    pub range: Option<Range>,
    /// The address that it holds.
    pub address: Option<IpAddr>,
    /// The text of the podref, whatever it is worth.
    pub podref: Option<&'a str>,
    /// The text of the id.
    pub sandbox: Option<&'a str>,
    /// The text of the interface.
    pub interface: Option<&'a str>,
}

impl Row {
    pub(super) fn read(key: &str, stored: Value, range: Option<Range>) -> Self {
        let content = RowContent::read(key, &stored, range, false);
        Self {
            key: key.into(),
            stored,
            content,
        }
    }

    /// Reads it also if its id is the uid of a ResourceClaim.
    pub(super) fn read_resource_claim(&mut self, range: Option<Range>) {
        if let Err(Unreadable::ResourceClaim(_)) = self.content {
            self.content = RowContent::read(&self.key, &self.stored, range, true);
        }
    }

    /// The key in `spec.allocations`, to the letter.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The whole row, as stored.
    pub fn stored(&self) -> &Value {
        &self.stored
    }

    /// The content of the row.
    ///
    /// # Errors
    /// Where it says nothing that we may act on.
    pub fn content(&self) -> Result<&RowContent, &Unreadable> {
        self.content.as_ref()
    }

    /// The text of the podref, where there is one, whatever it is worth.
    pub fn podref_text(&self) -> Option<&str> {
        self.stored.get("podref").and_then(Value::as_str)
    }

    /// The id as it stands in the row.
    pub fn id_text(&self) -> Option<&str> {
        self.stored.get("id").and_then(Value::as_str)
    }

    /// The interface as it stands in the row.
    pub fn interface_text(&self) -> Option<&str> {
        self.stored.get("ifname").and_then(Value::as_str)
    }
}

impl Unreadable {
    /// The IPAMClaim or the first of the fields that are not known, if there are some.
    pub(crate) fn of_fields(others: &BTreeMap<String, Value>) -> Option<Self> {
        let claim = Self::of_claim(others.get(CLAIM));
        claim.or_else(|| {
            let (name, _) = others.first_key_value()?;
            Some(Self::ExtraField(excerpt(name).into()))
        })
    }

    /// The field may have another form by the time that whereabouts writes it.
    fn of_claim(field: Option<&Value>) -> Option<Self> {
        match field? {
            Value::Null => None,
            Value::String(claim) if claim.is_empty() => None,
            Value::String(claim) => Some(Self::IpamClaim((**claim).into())),
            other => Some(Self::IpamClaim(other.to_string().into())),
        }
    }
}

impl RowContent {
    /// The uid of the ResourceClaim that it was written for, if that is its id: see [`ObservedPool::read_resource_claims`].
    ///
    /// [`ObservedPool::read_resource_claims`]: super::ObservedPool::read_resource_claims
    pub fn resource_claim(&self) -> Option<&str> {
        Some(&*self.sandbox).filter(|id| is_uid(id))
    }

    fn read(
        key: &str,
        stored: &Value,
        range: Option<Range>,
        resource_claims: bool,
    ) -> Result<Self, Unreadable> {
        let row = RowText::deserialize(stored)
            .map_err(|_| Unreadable::of_claim(stored.get(CLAIM)).unwrap_or(Unreadable::Shape))?;
        if let Some(reason) = Unreadable::of_fields(&row.others) {
            return Err(reason);
        }
        let podref = row.podref.and_then(|podref| podref.parse().ok());
        let podref = podref.ok_or(Unreadable::PodRef)?;
        let is_claim = row.id.as_ref().is_some_and(|id| is_uid(id));
        if let Some(uid) = row.id.as_ref().filter(|_| is_claim && !resource_claims) {
            return Err(Unreadable::ResourceClaim((**uid).into()));
        }
        let sandbox = row.id.filter(|id| is_claim || is_id(id));
        let sandbox = sandbox.ok_or(Unreadable::SandboxId)?;
        let offset = Offset::parse(key).ok_or(Unreadable::Key)?;
        let range = range.ok_or(Unreadable::Range)?;
        let address = range.address_at(offset).ok_or(Unreadable::Address)?;
        let interface = row.ifname.filter(|name| !name.is_empty());
        Ok(Self {
            address,
            sandbox: (*sandbox).into(),
            podref,
            interface: interface.map(|name| (*name).into()),
        })
    }
}
