//! The test's own hand on the state: no admission, no validation, no faults, no log entry.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::object::{Object, TypeMeta};
use crate::server::Inner;
use crate::store::{Key, Store};
use crate::write::text;

/// The label of writes that no client made.
pub(crate) fn nobody() -> Arc<str> {
    Arc::from("")
}

/// Writes an object; tells what is stored, and the type it has.
pub(crate) fn put(inner: &Inner, mut object: Value) -> (Arc<Object>, TypeMeta) {
    let (api_version, kind) = (text(&object, "/apiVersion"), text(&object, "/kind"));
    let table = inner
        .registry
        .by_kind(api_version, kind)
        .unwrap_or_else(|| panic!("unknown kind {kind} in {api_version}"));
    let resource = inner.registry.get(table);
    let name = text(&object, "/metadata/name");
    assert!(!name.is_empty(), "object without a name: {object}");
    let namespace = text(&object, "/metadata/namespace");
    let key = Key::new(if resource.namespaced { namespace } else { "" }, name);
    let store = &mut *inner.store();
    let type_meta = resource.type_meta();
    let old = store.latest(table, &key).cloned();
    let uid = text(&object, "/metadata/uid");
    let old = match old {
        Some(old) if !uid.is_empty() && *old.uid != *uid => {
            store.remove(table, &key, &nobody());
            None
        }
        other => other,
    };
    fill_metadata(&mut object, old.as_deref(), store, inner);
    let stored = store.put(table, key, &nobody(), |revision| {
        Object::new(resource, &object, revision)
    });
    (stored, type_meta)
}

/// Gives an object the system fields it lacks, from its predecessor or new.
fn fill_metadata(object: &mut Value, old: Option<&Object>, store: &mut Store, inner: &Inner) {
    let metadata = &mut object["metadata"];
    if metadata["uid"].is_null() {
        metadata["uid"] = old.map_or_else(|| json!(store.next_uid()), |old| json!(old.uid));
    }
    if metadata["creationTimestamp"].is_null() {
        let now = || json!(inner.clock.seconds_text(0));
        metadata["creationTimestamp"] = old.map_or_else(now, |old| json!(old.created));
    }
}

pub(crate) fn get(inner: &Inner, resource: &str, namespace: &str, name: &str) -> Option<Value> {
    let table = inner.table(resource);
    let object = inner
        .store()
        .latest(table, &Key::new(namespace, name))
        .cloned()?;
    Some(object.to_value(&inner.registry.get(table).type_meta()))
}

pub(crate) fn list(inner: &Inner, resource: &str) -> Vec<Value> {
    let table = inner.table(resource);
    let type_meta = inner.registry.get(table).type_meta();
    inner
        .store()
        .live(table, None)
        .map(|(_, object)| object.to_value(&type_meta))
        .collect()
}

pub(crate) fn edit(
    inner: &Inner,
    resource: &str,
    namespace: &str,
    name: &str,
    change: impl FnOnce(&mut Value),
) -> bool {
    let table = inner.table(resource);
    let key = Key::new(namespace, name);
    let mut store = inner.store();
    let Some(old) = store.latest(table, &key).cloned() else {
        return false;
    };
    let mut value = old.to_value(&inner.registry.get(table).type_meta());
    change(&mut value);
    store.put(table, key, &nobody(), |revision| {
        Object::new(inner.registry.get(table), &value, revision)
    });
    true
}

pub(crate) fn delete(inner: &Inner, resource: &str, namespace: &str, name: &str) -> Option<Value> {
    let table = inner.table(resource);
    let last = inner
        .store()
        .remove(table, &Key::new(namespace, name), &nobody())?;
    Some(last.to_value(&inner.registry.get(table).type_meta()))
}
