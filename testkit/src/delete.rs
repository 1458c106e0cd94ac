//! DELETE: preconditions, and the grace of pods.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{DeleteOptions, Preconditions};
use serde_json::{Value, json};

use crate::handlers::{Answer, ResourceCall};
use crate::object::Object;
use crate::status::{Failure, json_response};
use crate::store::{Key, Store};
use crate::write::text;

impl ResourceCall<'_> {
    fn delete_options(&self) -> Result<DeleteOptions, Failure> {
        let body = &self.request.body;
        let body = if body.is_empty() { &b"{}"[..] } else { body };
        let options: DeleteOptions = serde_json::from_slice(body)
            .map_err(|error| Failure::bad_request(format!("error decoding options: {error}")))?;
        if self.request.dry_run || options.dry_run.as_ref().is_some_and(|it| !it.is_empty()) {
            return Err(Failure::bad_request("no dry run of a deletion"));
        }
        Ok(options)
    }

    /// Whether an object is as the client demands it.
    fn check(&self, demands: Preconditions, existing: &Object) -> Result<(), Failure> {
        let version = existing.revision.to_string();
        let (uid, recreated) = (&existing.uid, "deleted and then recreated");
        self.demand("UID", demands.uid, uid, recreated)?;
        self.demand(
            "ResourceVersion",
            demands.resource_version,
            &version,
            "modified",
        )
    }

    fn demand(
        &self,
        what: &str,
        wanted: Option<String>,
        actual: &str,
        otherwise: &str,
    ) -> Result<(), Failure> {
        let Some(wanted) = wanted.filter(|wanted| wanted != actual) else {
            return Ok(());
        };
        let why = format!(
            "the {what} in the precondition ({wanted}) does not match the {what} in record ({actual}). The object might have been {otherwise}"
        );
        let name = &self.request.name;
        Err(Failure::precondition(self.resource, name, &why))
    }

    pub(crate) fn delete(&self) -> Answer {
        let options = self.delete_options()?;
        let name = &self.request.name;
        let key = Key::new(&self.request.namespace, name);
        let mut store = self.inner.store();
        let existing = store
            .latest(self.table, &key)
            .cloned()
            .ok_or_else(|| Failure::not_found(self.resource, name))?;
        self.check(options.preconditions.unwrap_or_default(), &existing)?;
        let grace = options.grace_period_seconds;
        let (object, is_gone) = self.delete_one(&mut store, &key, &existing, grace);
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
        grace: Option<i64>,
    ) -> (Arc<Object>, bool) {
        if self.resource.is_pod() {
            let mut pod = existing.to_value(&self.type_meta);
            let grace = pod_grace(&pod, grace);
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
fn pod_grace(pod: &Value, asked: Option<i64>) -> i64 {
    let is_terminal = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if is_terminal || text(pod, "/spec/nodeName").is_empty() {
        return 0;
    }
    let own = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    asked.or(own).unwrap_or_default()
}
