//! DELETE: preconditions, and the grace of pods.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::handlers::{Answer, ResourceCall};
use crate::object::Object;
use crate::status::{Failure, json_response};
use crate::store::{Key, Store};
use crate::write::text;

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
            grace: body["gracePeriodSeconds"].as_i64(),
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
        let (object, is_gone) = self.delete_one(&mut store, &key, &existing, &options);
        drop(store);
        // Only a few types show the deleted object; the others answer with a Status.
        if !is_gone || self.resource.is_pod() {
            return Ok(self.object_response(200, &object));
        }
        let mut details =
            json!({ "name": name, "kind": self.resource.plural, "uid": &*object.uid });
        if !self.resource.group.is_empty() {
            details["group"] = self.resource.group.as_str().into();
        }
        let status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        });
        Ok(json_response(200, &status))
    }

    /// The last state of the object, and whether the object is gone.
    fn delete_one(
        &self,
        store: &mut Store,
        key: &Key,
        existing: &Arc<Object>,
        options: &DeleteOptions,
    ) -> (Arc<Object>, bool) {
        if self.resource.is_pod() {
            let mut pod = existing.to_value(&self.type_meta);
            let grace = pod_grace(&pod, options);
            let is_deleting = pod["metadata"].get("deletionTimestamp").is_some();
            if is_deleting && grace > 0 {
                return (Arc::clone(existing), false);
            }
            // Also an immediate deletion is written down first: watches see it with grace 0.
            let metadata = &mut pod["metadata"];
            metadata["deletionTimestamp"] = self.inner.clock.seconds_text(grace).into();
            metadata["deletionGracePeriodSeconds"] = grace.into();
            let deleting = store.put(self.table, key.clone(), self.by(), |revision| {
                Object::new(self.resource, &pod, revision)
            });
            if grace > 0 {
                return (deleting, false);
            }
        }
        let gone = store.remove(self.table, key, self.by());
        (gone.unwrap_or_else(|| Arc::clone(existing)), true)
    }
}

/// The seconds that a deletion gives a pod; none if nothing runs of it.
fn pod_grace(pod: &Value, options: &DeleteOptions) -> i64 {
    let is_terminal = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if is_terminal || text(pod, "/spec/nodeName").is_empty() {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    options.grace.or(own).unwrap_or_default()
}
