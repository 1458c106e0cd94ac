//! What is read of Kubernetes' messages, by the numbers of their fields, and the JSON that says it.
//!
//! The numbers are those of the `generated.proto` files of `k8s.io/api/core/v1` and of
//! `k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}`; they never change within a version of the API.
//! What is not named here is stepped over.

use ipgc_core::pod::wire::{ANNOTATIONS, CONDITION};
use jiff::Timestamp;
use kube::core::TypeMeta;
use prost::Message;
use serde::{Serialize, Serializer};
use tokio_util::bytes::Bytes;

/// Stands before every message but the events of a watch.
pub const MAGIC: &[u8] = b"k8s\0";

/// Why a message cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// No message, or none that stands alone.
    #[error("it does not begin as a message of Kubernetes")]
    NoEnvelope,
    /// Nobody asked for such a thing.
    #[error("a message of kind {0:?} was not expected")]
    Foreign(String),
    /// Its fields cannot be read.
    #[error("{0}")]
    Fields(#[from] prost::DecodeError),
    /// A list of something else, or with a part that is none.
    #[error("a list of pods is not whole, or holds other things")]
    NoPods,
    /// It cannot be said in JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
}

/// A pod or a refusal, as JSON.
///
/// # Errors
/// When it is neither.
pub fn to_json(message: Bytes) -> Result<Vec<u8>, Unreadable> {
    Ok(serde_json::to_vec(&Object::read(message)?)?)
}

/// An event of a watch of pods, as JSON behind what is there.
///
/// # Errors
/// When it is none.
pub fn event_to_json(message: Bytes, json: &mut Vec<u8>) -> Result<(), Unreadable> {
    let WatchEvent { kind, object } = WatchEvent::decode(message)?;
    let object = Object::read(object.unwrap_or_default().raw)?;
    Ok(serde_json::to_writer(json, &Event { kind, object })?)
}

#[derive(Serialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Object,
}

/// What stands in an envelope.
#[derive(Serialize)]
struct Object {
    #[serde(flatten)]
    types: TypeMeta,
    #[serde(flatten)]
    fields: Fields,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Fields {
    Pod(Box<Pod>),
    Status(Status),
}

impl Object {
    fn read(mut message: Bytes) -> Result<Self, Unreadable> {
        if !message.starts_with(MAGIC) {
            return Err(Unreadable::NoEnvelope);
        }
        let Unknown { types, raw } = Unknown::decode(message.split_off(MAGIC.len()))?;
        let Types { api_version, kind } = types.unwrap_or_default();
        // A slice is read several times as fast as any other buffer.
        let fields = match (&*api_version, &*kind) {
            ("v1", "Pod") => Fields::Pod(Message::decode(&*raw)?),
            ("v1", "Status") => Fields::Status(Message::decode(&*raw)?),
            _ => return Err(Unreadable::Foreign(kind)),
        };
        let types = TypeMeta { api_version, kind };
        Ok(Self { types, fields })
    }
}

/// The envelope.
#[derive(Message)]
pub struct Unknown {
    #[prost(message, optional, tag = "1")]
    types: Option<Types>,
    #[prost(bytes = "bytes", tag = "2")]
    raw: Bytes,
}

/// What stands in it.
#[derive(Message)]
pub struct Types {
    #[prost(string, tag = "1")]
    pub api_version: String,
    #[prost(string, tag = "2")]
    pub kind: String,
}

#[derive(Message)]
struct WatchEvent {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

#[derive(Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

/// Of a `PodList`, whose field 1 it is; its pods are field 2 ([`super::answer`]).
#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ListMeta {
    #[prost(string, tag = "2")]
    resource_version: String,
    #[prost(string, tag = "3")]
    r#continue: String,
    #[prost(int64, optional, tag = "4")]
    remaining_item_count: Option<i64>,
}

/// What it lacks is left out: of a hundred thousand pods that is megabytes.
#[derive(Message, Serialize)]
pub struct Pod {
    #[prost(message, optional, tag = "1")]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    spec: Option<PodSpec>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<PodStatus>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(message, optional, tag = "8")]
    #[serde(skip_serializing_if = "Option::is_none")]
    creation_timestamp: Option<Time>,
    #[prost(message, optional, tag = "9")]
    #[serde(skip_serializing_if = "Option::is_none")]
    deletion_timestamp: Option<Time>,
    #[prost(message, repeated, tag = "12")]
    #[serde(serialize_with = "those_that_are_read")]
    annotations: Vec<Annotation>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    owner_references: Vec<OwnerReference>,
}

#[derive(Message)]
struct Annotation {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

fn those_that_are_read<S: Serializer>(
    annotations: &[Annotation],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let read = annotations.iter();
    let read = read.filter(|annotation| ANNOTATIONS.contains(&&*annotation.key));
    serializer.collect_map(read.map(|annotation| (&annotation.key, &annotation.value)))
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct OwnerReference {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "5")]
    api_version: String,
    #[prost(bool, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    controller: Option<bool>,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    #[prost(int64, optional, tag = "4")]
    #[serde(skip_serializing_if = "Option::is_none")]
    termination_grace_period_seconds: Option<i64>,
    #[prost(string, tag = "10")]
    node_name: String,
    #[prost(bool, tag = "11")]
    host_network: bool,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodStatus {
    #[prost(string, tag = "1")]
    phase: String,
    #[prost(message, repeated, tag = "2")]
    #[serde(serialize_with = "the_one_that_is_read")]
    conditions: Vec<PodCondition>,
    #[prost(message, repeated, tag = "12")]
    #[serde(rename = "podIPs", skip_serializing_if = "Vec::is_empty")]
    pod_ips: Vec<PodIp>,
    #[prost(message, repeated, tag = "8")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    init_container_statuses: Vec<ContainerStatus>,
    #[prost(message, repeated, tag = "13")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ephemeral_container_statuses: Vec<ContainerStatus>,
}

#[derive(Message, Serialize)]
struct PodIp {
    #[prost(string, tag = "1")]
    ip: String,
}

#[derive(Message, Serialize)]
struct PodCondition {
    #[prost(string, tag = "1")]
    #[serde(rename = "type")]
    kind: String,
    #[prost(string, tag = "2")]
    status: String,
}

fn the_one_that_is_read<S: Serializer>(
    conditions: &[PodCondition],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(conditions.iter().filter(|it| it.kind == CONDITION))
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStatus {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<ContainerState>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    last_state: Option<ContainerState>,
    #[prost(string, tag = "8")]
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    id: String,
}

#[derive(Message, Serialize)]
struct ContainerState {
    #[prost(message, optional, tag = "2")]
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<Nothing>,
    #[prost(message, optional, tag = "3")]
    #[serde(skip_serializing_if = "Option::is_none")]
    terminated: Option<ContainerStateTerminated>,
}

/// That it is there says it all.
#[derive(Message, Serialize)]
struct Nothing {}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct ContainerStateTerminated {
    #[prost(message, optional, tag = "5")]
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<Time>,
    #[prost(message, optional, tag = "6")]
    #[serde(skip_serializing_if = "Option::is_none")]
    finished_at: Option<Time>,
    #[prost(string, tag = "7")]
    #[serde(rename = "containerID", skip_serializing_if = "String::is_empty")]
    id: String,
}

/// Go's zero time has no fields, and in JSON is null.
#[derive(Message)]
struct Time {
    #[prost(int64, optional, tag = "1")]
    seconds: Option<i64>,
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let seconds = self.seconds.map(Timestamp::from_second);
        let time = seconds.transpose().map_err(serde::ser::Error::custom)?;
        match time {
            Some(time) => serializer.collect_str(&time),
            None => serializer.serialize_none(),
        }
    }
}

#[derive(Message, Serialize)]
struct Status {
    #[prost(string, tag = "2")]
    #[serde(rename = "status", skip_serializing_if = "String::is_empty")]
    outcome: String,
    #[prost(string, tag = "3")]
    message: String,
    #[prost(string, tag = "4")]
    reason: String,
    #[prost(message, optional, tag = "5")]
    details: Option<StatusDetails>,
    #[prost(int32, tag = "6")]
    code: i32,
}

#[derive(Message, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    group: String,
    #[prost(string, tag = "3")]
    kind: String,
    #[prost(int32, tag = "5")]
    retry_after_seconds: i32,
}
