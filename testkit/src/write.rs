//! POST and PUT, and the common way of every change to an existing object.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::admission;
use crate::handlers::{Answer, ResourceCall};
use crate::object::Object;
use crate::status::{Cause, Failure};
use crate::store::{Key, Store};

/// Largest object in storage, etcd's default request limit.
const STORAGE_LIMIT: usize = 1_572_864;

impl ResourceCall<'_> {
    pub(crate) fn create(&self) -> Answer {
        let value = self.body_object()?;
        let object = self.create_from(value)?;
        Ok(self.object_response(201, &object))
    }

    fn create_from(&self, mut value: Value) -> Result<Arc<Object>, Failure> {
        let mut store = self.inner.store();
        admission::namespace_accepts(self, &store)?;
        let name = self.new_name(&value)?;
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
            if !self.resource.builtin || self.resource.is_pod() {
                metadata["generation"] = json!(1);
            }
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
        self.commit(&mut store, key, &value)
    }

    fn new_name(&self, value: &Value) -> Result<String, Failure> {
        let name = text(value, "/metadata/name");
        if !name.is_empty() {
            return Ok(name.to_owned());
        }
        let cause = Cause {
            message: "Required value: name or generateName is required".to_owned(),
            ..Cause::required("metadata.name")
        };
        let (group, kind) = (&self.resource.group, &self.resource.kind);
        Err(Failure::invalid(group, kind, "", &[cause]))
    }

    pub(crate) fn update(&self) -> Answer {
        let mut value = self.body_object()?;
        let name = &self.request.name;
        let body_name = text(&value, "/metadata/name");
        if body_name != name && !body_name.is_empty() {
            return Err(Failure::bad_request(format!(
                "the name of the object ({body_name}) does not match the name on the URL ({name})"
            )));
        }
        let mut store = self.inner.store();
        let key = Key::new(&self.request.namespace, name);
        let Some(existing) = store.latest(self.table, &key).cloned() else {
            drop(store);
            if self.resource.create_on_update && self.request.subresource.is_empty() {
                let object = self.create_from(value)?;
                return Ok(self.object_response(201, &object));
            }
            return Err(Failure::not_found(self.resource, name));
        };
        let uid = text(&value, "/metadata/uid");
        if !uid.is_empty() && *uid != *existing.uid {
            return Err(Failure::conflict(
                self.resource,
                name,
                &format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/{}/{}/{name}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    self.resource.plural, self.request.namespace, existing.uid
                ),
            ));
        }
        let version = text(&value, "/metadata/resourceVersion");
        if version.is_empty() && !self.resource.unconditional_update {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                "0",
                "must be specified for an update",
            );
            let (group, plural) = (&self.resource.group, &self.resource.plural);
            return Err(Failure::invalid(group, plural, name, &[cause]));
        }
        value["metadata"]["name"] = name.as_str().into();
        value["metadata"]["uid"] = (&*existing.uid).into();
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
        if !self.resource.builtin && !same_but_metadata(&value, &old) {
            let generation = old["metadata"]["generation"].as_u64().unwrap_or(0);
            value["metadata"]["generation"] = (generation + 1).into();
        }
        let ending = old["metadata"].get("deletionTimestamp").is_some();
        let held = value["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
        let grace = old["metadata"]["deletionGracePeriodSeconds"]
            .as_u64()
            .unwrap_or(0);
        let had_finalizers = old["metadata"].get("finalizers").is_some();
        if ending && had_finalizers && !held && grace == 0 && !self.request.dry_run {
            // The last finalizer is gone: the object goes too.
            let removed = store.remove(self.table, &key, self.by());
            return Ok(removed.unwrap_or_else(|| Arc::clone(existing)));
        }
        self.commit(store, key, &value)
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

    pub(crate) fn commit(
        &self,
        store: &mut Store,
        key: Key,
        value: &Value,
    ) -> Result<Arc<Object>, Failure> {
        let object = Object::new(self.resource, value, 0);
        if object.len() > STORAGE_LIMIT {
            return Err(Failure::new(500, "", "etcdserver: request is too large"));
        }
        if self.request.dry_run {
            return Ok(Arc::new(object.at_revision(store.revision())));
        }
        Ok(store.put(self.table, key, self.by(), |revision| {
            object.at_revision(revision)
        }))
    }

    /// The object in the body, checked against the place it was sent to.
    fn body_object(&self) -> Result<Value, Failure> {
        let (kind, api_version) = (&self.type_meta.kind, &self.type_meta.api_version);
        let mut value: Value = serde_json::from_slice(&self.request.body).map_err(|error| {
            Failure::bad_request(format!(
                "{kind} in version \"{}\" cannot be handled as a {kind}: {error}",
                self.resource.version
            ))
        })?;
        let Some(map) = value.as_object_mut() else {
            return Err(Failure::bad_request("the object provided is unrecognized"));
        };
        let sent = |map: &Map<String, Value>, field: &str| {
            map.get(field)
                .and_then(Value::as_str)
                .unwrap_or("")
                .to_owned()
        };
        let (sent_kind, sent_version) = (sent(map, "kind"), sent(map, "apiVersion"));
        if sent_kind.is_empty() && !self.resource.builtin {
            return Err(Failure::bad_request(format!(
                "the object provided is unrecognized (must be of type {kind}): Object 'Kind' is missing"
            )));
        }
        if (!sent_kind.is_empty() && sent_kind != *kind)
            || (!sent_version.is_empty() && sent_version != *api_version)
        {
            return Err(Failure::bad_request(format!(
                "the API version in the data ({sent_version}) does not match the expected API version ({api_version})"
            )));
        }
        if !map.get("metadata").is_some_and(Value::is_object) {
            map.insert("metadata".to_owned(), json!({}));
        }
        let namespace = text(&value, "/metadata/namespace");
        if self.resource.namespaced && !namespace.is_empty() && namespace != self.request.namespace
        {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        Ok(value)
    }
}

/// Keeps the fields that no client changes by an update.
fn keep_system_fields(metadata: &mut Map<String, Value>, old: &Value) {
    for field in [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
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
    same_but_metadata(new, old) && new.get("metadata") == old.get("metadata")
}

fn same_but_metadata(new: &Value, old: &Value) -> bool {
    fn rest(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
        value
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| !matches!(key.as_str(), "metadata" | "kind" | "apiVersion"))
    }
    rest(new).eq(rest(old))
}

pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}
