//! DELETE: preconditions, grace of pods, finalizers.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::handlers::{Answer, ResourceCall};
use crate::object::Object;
use crate::status::{Failure, json_response};
use crate::store::{Key, Store};
use crate::write::text;

/// The result of a deletion.
enum Outcome {
    /// The object is gone.
    Gone(Arc<Object>),
    /// The object is being deleted and stays for now.
    Pending(Arc<Object>),
}

/// The options of a deletion.
#[derive(Default)]
struct DeleteOptions {
    grace: Option<i64>,
    uid: Option<String>,
    version: Option<String>,
}

impl DeleteOptions {
    fn parse(call: &ResourceCall<'_>) -> Result<Self, Failure> {
        let body: Value = if call.request.body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&call.request.body)
                .map_err(|error| Failure::bad_request(format!("error decoding options: {error}")))?
        };
        let is_dry = body["dryRun"].as_array().is_some_and(|it| !it.is_empty());
        if call.request.dry_run || is_dry {
            return Err(Failure::bad_request("no dry run of a deletion"));
        }
        let condition = |field: &str| {
            body.pointer(&format!("/preconditions/{field}"))
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Ok(Self {
            // A negative grace means the shortest one.
            grace: body["gracePeriodSeconds"]
                .as_i64()
                .map(|grace| if grace < 0 { 1 } else { grace }),
            uid: condition("uid"),
            version: condition("resourceVersion"),
        })
    }

    fn check(&self, call: &ResourceCall<'_>, name: &str, existing: &Object) -> Result<(), Failure> {
        if let Some(uid) = &self.uid
            && **uid != *existing.uid
        {
            return Err(Failure::precondition(
                call.resource,
                name,
                &format!(
                    "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                    existing.uid
                ),
            ));
        }
        if let Some(version) = &self.version
            && *version != existing.revision.to_string()
        {
            return Err(Failure::precondition(
                call.resource,
                name,
                &format!(
                    "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
                    existing.revision
                ),
            ));
        }
        Ok(())
    }
}

impl ResourceCall<'_> {
    pub(crate) fn delete(&self) -> Answer {
        let options = DeleteOptions::parse(self)?;
        let name = &self.request.name;
        let key = Key::new(&self.request.namespace, name);
        let mut store = self.inner.store();
        let existing = store
            .latest(self.table, &key)
            .cloned()
            .ok_or_else(|| Failure::not_found(self.resource, name))?;
        options.check(self, name, &existing)?;
        let outcome = self.delete_one(&mut store, key, &existing, &options);
        drop(store);
        Ok(match outcome {
            Outcome::Pending(object) => self.object_response(200, &object),
            // Only a few types show the deleted object; the others answer with a Status.
            Outcome::Gone(object) if self.resource.is_pod() => self.object_response(200, &object),
            Outcome::Gone(object) => {
                let mut details = json!({ "name": name, "kind": self.resource.plural });
                if !self.resource.group.is_empty() {
                    details["group"] = self.resource.group.as_str().into();
                }
                details["uid"] = (&*object.uid).into();
                json_response(
                    200,
                    &json!({
                        "kind": "Status",
                        "apiVersion": "v1",
                        "metadata": {},
                        "status": "Success",
                        "details": details,
                    }),
                )
            }
        })
    }

    fn delete_one(
        &self,
        store: &mut Store,
        key: Key,
        existing: &Arc<Object>,
        options: &DeleteOptions,
    ) -> Outcome {
        let table = self.table;
        let mut value = existing.to_value(&self.type_meta);
        let held = value["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|finalizers| !finalizers.is_empty());
        let grace = if self.resource.is_pod() {
            match self.pod_grace(&mut value, options) {
                Some(grace) => grace,
                None => return Outcome::Pending(Arc::clone(existing)),
            }
        } else {
            0
        };
        if self.resource.is_pod() {
            // Also an immediate deletion is written down first: watches see it with grace 0.
            let marked = self.write(store, key.clone(), existing, &value);
            if grace > 0 || held {
                return Outcome::Pending(marked);
            }
        } else if held {
            self.mark(&mut value, 0, 0);
            return Outcome::Pending(self.write(store, key, existing, &value));
        }
        let gone = store.remove(table, &key, self.by());
        Outcome::Gone(gone.unwrap_or_else(|| Arc::clone(existing)))
    }

    /// Marks the pod and tells its grace; `None` if it is being deleted already and this
    /// request changes nothing.
    fn pod_grace(&self, value: &mut Value, options: &DeleteOptions) -> Option<i64> {
        let marked = value["metadata"].get("deletionTimestamp").is_some();
        let current = value["metadata"]["deletionGracePeriodSeconds"]
            .as_i64()
            .unwrap_or(0);
        if marked {
            if current == 0 {
                return Some(0);
            }
            let asked = options.grace?;
            if asked >= current {
                return None;
            }
            // The grace counts from the first deletion, and ends no earlier than now.
            let left = self.seconds_left(value) - current + asked;
            let grace = if left < 0 && asked > 0 { 1 } else { asked };
            self.mark(value, left.max(0), grace);
            return Some(grace);
        }
        let mut grace = options
            .grace
            .or_else(|| {
                value
                    .pointer("/spec/terminationGracePeriodSeconds")?
                    .as_i64()
            })
            .unwrap_or(0);
        let terminal = matches!(text(value, "/status/phase"), "Succeeded" | "Failed");
        if terminal || text(value, "/spec/nodeName").is_empty() {
            grace = 0;
        }
        self.mark(value, grace, grace);
        Some(grace)
    }

    /// Seconds until the deletion timestamp.
    fn seconds_left(&self, value: &Value) -> i64 {
        let end = text(value, "/metadata/deletionTimestamp").parse::<Timestamp>();
        let now = self.inner.clock.now();
        end.map_or(0, |end| end.as_second() - now.as_second())
    }

    /// Sets the deletion timestamp so many seconds ahead, and the grace.
    fn mark(&self, value: &mut Value, ahead: i64, grace: i64) {
        let metadata = &mut value["metadata"];
        if metadata.get("deletionTimestamp").is_none()
            && let Some(generation) = metadata["generation"].as_u64()
        {
            metadata["generation"] = (generation + 1).into();
        }
        metadata["deletionTimestamp"] = self.inner.clock.seconds_text(ahead).into();
        metadata["deletionGracePeriodSeconds"] = grace.into();
    }

    fn write(
        &self,
        store: &mut Store,
        key: Key,
        existing: &Arc<Object>,
        value: &Value,
    ) -> Arc<Object> {
        if existing.to_value(&self.type_meta) == *value {
            return Arc::clone(existing);
        }
        store.put(self.table, key, self.by(), |revision| {
            Object::new(self.resource, value, revision)
        })
    }
}
