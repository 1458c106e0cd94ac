//! POST and PUT, and the common way of every change to an existing object.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::admission;
use crate::handlers::{Answer, ResourceCall};
use crate::object::Object;
use crate::status::{Cause, Failure};
use crate::store::{Key, Store};

impl ResourceCall<'_> {
    pub(crate) fn create(&self) -> Answer {
        let mut value = self.body_object()?;
        let mut store = self.inner.store();
        admission::namespace_accepts(self, &store)?;
        let name = text(&value, "/metadata/name").to_owned();
        admission::validate_name(self.resource, &name)?;
        let key = Key::new(&self.request.namespace, &name);
        if !text(&value, "/metadata/resourceVersion").is_empty() {
            return Err(Failure::new(
                500,
                "",
                "resourceVersion should not be set on objects to be created",
            ));
        }
        {
            let metadata = &mut value["metadata"];
            metadata["name"] = name.as_str().into();
            if self.resource.namespaced {
                metadata["namespace"] = self.request.namespace.as_str().into();
            }
            metadata["uid"] = store.next_uid().into();
            metadata["creationTimestamp"] = self.inner.clock.seconds_text(0).into();
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.remove("deletionTimestamp");
                metadata.remove("deletionGracePeriodSeconds");
                metadata.remove("selfLink");
            }
        }
        admission::set_defaults(self.resource, &mut value);
        admission::prune(self.resource, &mut value);
        admission::validate(self, &value)?;
        if store.latest(self.table, &key).is_some() {
            return Err(Failure::already_exists(self.resource, &name));
        }
        let object = self.commit(&mut store, key, &value);
        Ok(self.object_response(201, &object))
    }

    pub(crate) fn update(&self) -> Answer {
        let mut value = self.body_object()?;
        let name = &self.request.name;
        let mut store = self.inner.store();
        let key = Key::new(&self.request.namespace, name);
        let Some(existing) = store.latest(self.table, &key).cloned() else {
            return Err(Failure::not_found(self.resource, name));
        };
        if text(&value, "/metadata/resourceVersion").is_empty() {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                "0",
                "must be specified for an update",
            );
            let (group, plural) = (&self.resource.group, &self.resource.plural);
            return Err(Failure::invalid(group, plural, name, &[cause]));
        }
        value["metadata"]["name"] = name.as_str().into();
        let object = self.change(&mut store, key, &existing, value)?;
        Ok(self.object_response(200, &object))
    }

    /// Brings an existing object to a new state, by the rules that PUT and PATCH share.
    pub(crate) fn change(
        &self,
        store: &mut Store,
        key: Key,
        existing: &Arc<Object>,
        mut value: Value,
    ) -> Result<Arc<Object>, Failure> {
        let name = &*key.name;
        let version = text(&value, "/metadata/resourceVersion");
        if !version.is_empty() && version != existing.revision.to_string() {
            return Err(Failure::modified(self.resource, name));
        }
        let old = existing.to_value(&self.type_meta);
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            keep_system_fields(metadata, &old["metadata"]);
        }
        self.split_status(&mut value, &old);
        admission::prune(self.resource, &mut value);
        admission::immutable_metadata(self.resource, &value, &old, name)?;
        admission::validate(self, &value)?;
        if same_state(&value, &old) {
            return Ok(Arc::clone(existing));
        }
        Ok(self.commit(store, key, &value))
    }

    /// Where `/status` exists, each side of an object is written through its own path.
    fn split_status(&self, value: &mut Value, old: &Value) {
        if !self.resource.status {
            return;
        }
        if self.request.subresource == "status" {
            // Labels and annotations of built-in types can be changed along with the status;
            // that is how multus writes its network status.
            let mut merged = old.clone();
            merged["status"] = value["status"].take();
            if self.resource.builtin {
                merged["metadata"] = value["metadata"].take();
            }
            *value = merged;
        } else if let Some(map) = value.as_object_mut() {
            match old.get("status") {
                Some(status) => map.insert("status".to_owned(), status.clone()),
                None => map.remove("status"),
            };
        }
    }

    fn commit(&self, store: &mut Store, key: Key, value: &Value) -> Arc<Object> {
        let build = |revision| Object::new(self.resource, value, revision);
        if self.request.dry_run {
            return Arc::new(build(store.revision()));
        }
        store.put(self.table, key, self.by(), build)
    }

    /// The object in the body.
    fn body_object(&self) -> Result<Value, Failure> {
        let kind = &self.type_meta.kind;
        let value: Value = serde_json::from_slice(&self.request.body).map_err(|error| {
            Failure::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {error}",
                self.resource.version
            ))
        })?;
        if value.get("metadata").is_some_and(Value::is_object) {
            return Ok(value);
        }
        Err(Failure::bad_request("the object provided is unrecognized"))
    }
}

/// Keeps the fields that no client changes by an update.
fn keep_system_fields(metadata: &mut Map<String, Value>, old: &Value) {
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "namespace",
    ] {
        match old.get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.retain(|_, value| !value.is_null());
    // By this value a client asks the API server to keep no field managers.
    if metadata.get("managedFields") == Some(&json!([{}])) {
        metadata.remove("managedFields");
    }
    metadata.entry("uid").or_insert_with(|| old["uid"].clone());
}

fn same_state(new: &Value, old: &Value) -> bool {
    fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
        let all = value.as_object().into_iter().flatten();
        all.filter(|(key, _)| !matches!(key.as_str(), "kind" | "apiVersion"))
    }
    members(new).eq(members(old))
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}
