//! PATCH: JSON Patch and merge patch, on the object or on its status.

use std::slice;

use json_patch::{AddOperation, PatchOperation};
use serde::Deserialize;
use serde_json::Value;

use crate::handlers::{Answer, ResourceCall};
use crate::status::Failure;
use crate::store::Key;

/// At most this many operations are accepted by the API server in one patch.
const MAX_OPERATIONS: usize = 10_000;

impl ResourceCall<'_> {
    pub(crate) fn patch(&self) -> Answer {
        let request = self.request;
        let json_patch = match request.content_type.as_str() {
            "application/json-patch+json" => true,
            "application/merge-patch+json" => false,
            _ => return Err(Failure::of_code(415)),
        };
        let mut store = self.inner.store();
        let key = Key::new(&request.namespace, &request.name);
        let existing = store
            .latest(self.table, &key)
            .cloned()
            .ok_or_else(|| Failure::not_found(self.resource, &request.name))?;
        let patch: Value = serde_json::from_slice(&request.body)
            .map_err(|error| Failure::bad_request(format!("error decoding patch: {error}")))?;
        let mut value = existing.to_value(&self.type_meta);
        if json_patch {
            let operations = patch.as_array().ok_or_else(|| {
                Failure::bad_request("error decoding patch: no list of operations")
            })?;
            if operations.len() > MAX_OPERATIONS {
                return Err(Failure::too_large(&format!(
                    "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                    operations.len()
                )));
            }
            for operation in operations {
                apply(&mut value, operation).ok_or_else(Failure::patch_rejected)?;
            }
        } else {
            if !patch.is_object() {
                return Err(Failure::bad_request("error decoding patch: no object"));
            }
            json_patch::merge(&mut value, &patch);
        }
        if !value.get("metadata").is_some_and(Value::is_object) {
            return Err(Failure::bad_request("the object provided is unrecognized"));
        }
        let object = self.change(&mut store, key, &existing, value)?;
        drop(store);
        Ok(self.object_response(200, &object))
    }
}

/// Applies one operation with the leniencies of the library in the API server; `None` if it does not apply.
///
/// Two answers differ from RFC 6902, and CNI plugins rely on the first: `test` of a missing key against `null`
/// passes, and `replace` of a missing key of an object sets it.
fn apply(document: &mut Value, operation: &Value) -> Option<()> {
    let mut operation = PatchOperation::deserialize(operation).ok()?;
    let is_missing = |path: &str| {
        let parent = path
            .rsplit_once('/')
            .and_then(|(parent, _)| document.pointer(parent));
        parent.is_some_and(Value::is_object) && document.pointer(path).is_none()
    };
    match operation {
        PatchOperation::Test(test) if test.value.is_null() && is_missing(test.path.as_str()) => {
            return Some(());
        }
        PatchOperation::Replace(set) if is_missing(set.path.as_str()) => {
            let (path, value) = (set.path, set.value);
            operation = PatchOperation::Add(AddOperation { path, value });
        }
        other => operation = other,
    }
    // After a failure the document is dropped: nothing has to be undone.
    json_patch::patch_unsafe(document, slice::from_ref(&operation)).ok()
}
