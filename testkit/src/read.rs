//! GET and LIST, at the newest or at an earlier revision.

use std::sync::Arc;

use http::Response;
use serde_json::{Value, json};

use crate::body::ResponseBody;
use crate::handlers::{Answer, ResourceCall, Shape};
use crate::object::Object;
use crate::selectors::Selector;
use crate::status::{Failure, bytes_response};
use crate::store::{Key, Select};

/// Where a page goes on: the revision of the first page, and the last key it had.
struct Continue {
    revision: u64,
    after: Key,
}

impl Continue {
    fn encode(&self) -> String {
        format!(
            "{}:{}/{}",
            self.revision, self.after.namespace, self.after.name
        )
    }

    fn decode(token: &str) -> Option<Self> {
        let (revision, key) = token.split_once(':')?;
        let (namespace, name) = key.split_once('/')?;
        Some(Self {
            revision: revision.parse().ok()?,
            after: Key::new(namespace, name),
        })
    }
}

impl ResourceCall<'_> {
    pub(crate) fn get(&self) -> Answer {
        let request = self.request;
        let key = Key::new(&request.namespace, &request.name);
        let store = self.inner.store();
        let object = match self.stale {
            Some(revision) => store.at(self.table, &key, revision),
            None => store.latest(self.table, &key),
        };
        let object = object
            .cloned()
            .ok_or_else(|| Failure::not_found(self.resource, &request.name))?;
        drop(store);
        Ok(self.object_response(200, &object))
    }

    pub(crate) fn list(&self) -> Answer {
        let request = self.request;
        let selector = Selector::parse(
            self.resource,
            request.label_selector.as_deref(),
            request.field_selector.as_deref(),
        )?;
        let token = request
            .continue_token
            .as_deref()
            .map(|token| {
                Continue::decode(token).ok_or_else(|| {
                    Failure::bad_request("invalid continue token: continue key is not valid")
                })
            })
            .transpose()?;
        // The cache that answers resourceVersion=0 knows no limit. Other versions are of watches.
        let any = match request.resource_version.as_deref() {
            Some(version) if parse_version(version)? > 0 => {
                let why = "this server lists the present, or any state, and no exact one";
                return Err(Failure::bad_request(why));
            }
            version => version.is_some(),
        };
        let limit = request.limit.filter(|_| !any);
        let select = |key: &Key, object: &Object| selector.matches(key, object);
        let select: Option<&Select<'_>> = if selector.is_empty() {
            None
        } else {
            Some(&select)
        };
        let mut store = self.inner.store();
        store.forget_old();
        let revision = match (&token, self.stale) {
            (Some(token), _) => token.revision,
            (None, Some(stale)) => stale,
            (None, None) => store.revision(),
        };
        let page = store
            .page(
                self.table,
                self.namespace(),
                revision,
                token.as_ref().map(|token| &token.after),
                limit,
                select,
            )
            .map_err(|_| {
                Failure::expired(if token.is_some() {
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter."
                } else {
                    "The resourceVersion for the provided list is too old."
                })
            })?;
        drop(store);

        let mut metadata = json!({ "resourceVersion": revision.to_string() });
        if let Some(after) = page.next().cloned() {
            metadata["continue"] = Continue { revision, after }.encode().into();
        }
        if let Some(remaining) = page.remaining {
            metadata["remainingItemCount"] = remaining.into();
        }
        if request.as_table {
            return Ok(table_response(&metadata, &page.items));
        }
        let shape = Shape::of(self);
        let list_type = if shape.metadata_only {
            shape.shown_type()
        } else {
            self.type_meta.clone()
        };
        let mut out = format!(
            "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
            list_type.kind, list_type.api_version
        )
        .into_bytes();
        for (index, (_, object)) in page.items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            shape.write(object, false, &mut out);
        }
        out.extend_from_slice(b"]}");
        Ok(bytes_response(200, out))
    }
}

/// A list as a Table without objects; of its columns only the one that names the object.
fn table_response(metadata: &Value, items: &[(Key, Arc<Object>)]) -> Response<ResponseBody> {
    let rows = items
        .iter()
        .map(|(key, _)| json!({ "cells": [&*key.name] }));
    let table = json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": [{
            "name": "Name", "type": "string", "format": "name", "description": "", "priority": 0,
        }],
        "rows": rows.collect::<Vec<_>>(),
    });
    bytes_response(200, table.to_string().into_bytes())
}

pub(crate) fn parse_version(text: &str) -> Result<u64, Failure> {
    text.parse().map_err(|_| {
        Failure::bad_request(format!(
            "invalid resource version: resourceVersion: Invalid value: \"{text}\": strconv.ParseUint: parsing \"{text}\": invalid syntax"
        ))
    })
}
