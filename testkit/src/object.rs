//! One stored version of an object: JSON text plus the few values that reads filter by.
//!
//! The text is kept without its type and without its resourceVersion, split behind the metadata.
//! Every representation (whole, list item, metadata only, the same state under another revision)
//! is then a matter of joining pieces, and a list of 100,000 objects parses nothing.

use serde_json::{Map, Value};
use tokio_util::bytes::Bytes;

use crate::resources::Resource;

/// `apiVersion` and `kind` of an answer, ready to be written in front of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TypeMeta {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

impl TypeMeta {
    pub(crate) fn partial() -> Self {
        Self {
            api_version: "meta.k8s.io/v1".to_owned(),
            kind: "PartialObjectMetadata".to_owned(),
        }
    }

    /// Writes `"kind":…,"apiVersion":…,`.
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\"kind\":\"");
        out.extend_from_slice(self.kind.as_bytes());
        out.extend_from_slice(b"\",\"apiVersion\":\"");
        out.extend_from_slice(self.api_version.as_bytes());
        out.extend_from_slice(b"\",");
    }
}

/// A stored version of an object.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    /// The revision that wrote this version; its resourceVersion.
    pub(crate) revision: u64,
    pub(crate) uid: Box<str>,
    /// Its creationTimestamp.
    pub(crate) created: Box<str>,
    /// Members of `metadata` and the rest, each preceded by a comma: `,"name":"a"},"spec":{}`.
    text: Bytes,
    /// Where the metadata ends in `text`, its closing brace included.
    metadata_end: usize,
    labels: Box<[(Box<str>, Box<str>)]>,
    /// Values of the resource's field labels, in their order.
    fields: Box<[Box<str>]>,
}

impl Object {
    /// Takes the JSON form apart. Type and resourceVersion of `value` are ignored.
    pub(crate) fn new(resource: &Resource, value: &Value, revision: u64) -> Self {
        let mut text = Vec::with_capacity(512);
        let metadata = value.get("metadata").and_then(Value::as_object);
        write_members(metadata, &["resourceVersion"], &mut text);
        text.push(b'}');
        let metadata_end = text.len();
        write_members(
            value.as_object(),
            &["metadata", "kind", "apiVersion"],
            &mut text,
        );
        let labels = metadata
            .and_then(|metadata| metadata.get("labels"))
            .and_then(Value::as_object)
            .map(|labels| {
                labels
                    .iter()
                    .map(|(key, value)| (key.as_str().into(), value.as_str().unwrap_or("").into()))
                    .collect()
            })
            .unwrap_or_default();
        let fields = resource
            .field_labels
            .iter()
            .map(|label| field_value(value, label).into())
            .collect();
        let of_metadata = |field: &str| {
            let value = metadata.and_then(|metadata| metadata.get(field));
            value.and_then(Value::as_str).unwrap_or("").into()
        };
        Self {
            revision,
            uid: of_metadata("uid"),
            created: of_metadata("creationTimestamp"),
            // Without the spare room of a growing vector: there may be very many objects.
            text: Bytes::from(text.into_boxed_slice()),
            metadata_end,
            labels,
            fields,
        }
    }

    /// The same state under another revision, as a DELETED event shows it.
    pub(crate) fn at_revision(&self, revision: u64) -> Self {
        Self {
            revision,
            ..self.clone()
        }
    }

    /// Appends the JSON object; without a type for list items of built-in resources.
    pub(crate) fn write(&self, type_meta: Option<&TypeMeta>, out: &mut Vec<u8>) {
        out.reserve(self.text.len() + 96);
        self.write_head(type_meta, out);
        out.extend_from_slice(&self.text);
        out.push(b'}');
    }

    /// Appends the object with nothing but its metadata.
    pub(crate) fn write_partial(&self, out: &mut Vec<u8>) {
        self.write_head(Some(&TypeMeta::partial()), out);
        out.extend_from_slice(&self.text[..self.metadata_end]);
        out.push(b'}');
    }

    fn write_head(&self, type_meta: Option<&TypeMeta>, out: &mut Vec<u8>) {
        out.push(b'{');
        if let Some(type_meta) = type_meta {
            type_meta.write(out);
        }
        out.extend_from_slice(b"\"metadata\":{\"resourceVersion\":\"");
        out.extend_from_slice(self.revision.to_string().as_bytes());
        out.push(b'"');
    }

    /// The object as a JSON value with its type.
    pub(crate) fn to_value(&self, type_meta: &TypeMeta) -> Value {
        let mut out = Vec::new();
        self.write(Some(type_meta), &mut out);
        serde_json::from_slice(&out).unwrap_or(Value::Null)
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels
            .iter()
            .find(|(name, _)| &**name == key)
            .map(|(_, value)| &**value)
    }

    pub(crate) fn field(&self, index: usize) -> &str {
        self.fields.get(index).map_or("", |value| value)
    }
}

fn write_members(map: Option<&Map<String, Value>>, skip: &[&str], out: &mut Vec<u8>) {
    for (key, value) in map.into_iter().flatten() {
        if skip.contains(&key.as_str()) {
            continue;
        }
        out.push(b',');
        // Writing a Value with string keys into memory has no way to fail.
        let _ = serde_json::to_writer(&mut *out, key);
        out.push(b':');
        let _ = serde_json::to_writer(&mut *out, value);
    }
}

/// The value behind a field label, as the text that selectors compare with.
fn field_value(value: &Value, label: &str) -> String {
    let mut place = value;
    for part in label.split('.') {
        match place.get(part) {
            Some(inner) => place = inner,
            None => return String::new(),
        }
    }
    place.as_str().unwrap_or_default().to_owned()
}
