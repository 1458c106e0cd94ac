//! Checks that hold on this test server and on a real API server alike.
//!
//! Every check is written against a plain [`Client`] and a namespace that exists and is its own;
//! it knows nothing of the server behind. A check that passes on both proves that the test server
//! behaves as a real one does. The whereabouts CRDs have to be installed. Checks use their own object
//! names, remove leftovers of an earlier run first, and can run in any order.

mod deletions;
mod patches;
mod reads;
mod watches;
mod writes;

use std::fmt::{Debug, Display};
use std::time::Duration;

use futures::future::BoxFuture;
use http::{Method, Request, header};
use kube::core::response::Status;
use kube::{Client, Error};
use serde_json::{Value, json};
use tokio::time::timeout;
use tower::BoxError;

use crate::fixtures;
use crate::write::text;

/// A check: its name, which is the fact it shows, and the function that shows it.
type Check = (
    &'static str,
    fn(Client, String) -> BoxFuture<'static, Shown>,
);

/// Writes a list of checks from the names of async functions over [`Cluster`].
macro_rules! checks {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((
            stringify!($name),
            |client, namespace| Box::pin(async move {
                $module::$name(&Cluster { client, namespace }).await
            }),
        )),*]
    };
}

/// All checks.
const CHECKS: &[Check] = checks![
    patches::compare_and_remove_works_once,
    patches::the_last_row_leaves_an_empty_map,
    patches::tests_and_removals_of_missing_keys_are_invalid,
    patches::a_test_against_null_passes_for_a_missing_key,
    patches::an_adopted_row_fails_the_test_of_the_whole_row,
    patches::one_failed_test_rejects_the_whole_batch,
    patches::a_patch_of_a_missing_pool_is_not_found,
    patches::more_than_10000_operations_are_too_large,
    patches::a_patch_against_the_schema_names_its_causes,
    patches::a_patch_that_changes_nothing_keeps_the_version,
    patches::emptied_managed_fields_stay_empty,
    patches::the_uid_is_immutable,
    patches::a_merge_patch_with_a_stale_version_conflicts,
    patches::a_reservation_can_be_claimed_and_deleted,
    patches::broken_patches_are_bad_requests,
    patches::a_body_over_3_mib_is_too_large,
    writes::creating_an_existing_object_conflicts,
    writes::names_are_dns_subdomains,
    writes::unknown_fields_are_pruned,
    writes::a_creation_against_the_schema_names_its_causes,
    writes::a_missing_namespace_is_not_found,
    writes::leases_are_replaced_by_version,
    writes::the_status_of_a_new_pod_is_not_the_clients,
    writes::status_and_spec_have_paths_of_their_own,
    writes::a_dry_run_writes_nothing,
    writes::events_are_found_by_their_reason,
    writes::events_are_validated,
    writes::access_reviews_are_answered,
    deletions::preconditions_are_checked,
    deletions::a_scheduled_pod_is_deleted_in_two_steps,
    deletions::an_unscheduled_pod_goes_at_once,
    deletions::a_terminal_pod_goes_at_once,
    deletions::a_forced_deletion_keeps_the_phase,
    reads::pages_are_one_consistent_revision,
    reads::bad_options_are_bad_requests,
    reads::items_of_builtin_types_carry_no_type,
    reads::metadata_can_be_read_alone,
    reads::names_can_be_read_alone,
    reads::selectors_choose_by_field_and_label,
    reads::missing_objects_and_resources_are_not_found,
    reads::unknown_paths_are_not_found,
    reads::the_version_can_be_asked_for,
    watches::events_come_in_order_with_the_last_state,
    watches::selection_turns_changes_into_arrivals_and_departures,
    watches::version_zero_begins_with_what_exists,
    watches::a_watch_ends_after_its_timeout,
    watches::metadata_can_be_watched_alone,
];

/// Longest time a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs all checks one after the other. Returns those that fail, each with the answer that was not as expected.
pub async fn failures(client: &Client, namespace: &str) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, check) in CHECKS {
        let run = check(client.clone(), namespace.to_owned());
        match timeout(CHECK_TIMEOUT, run).await {
            Ok(Ok(())) => {}
            Ok(Err(flaw)) => failures.push(format!("{name}: {flaw}")),
            Err(_) => failures.push(format!("{name}: timed out")),
        }
    }
    failures
}

/// How a check ends; the error tells a difference from the expected answer.
type Shown<T = ()> = Result<T, BoxError>;

/// The answer of the server: JSON, or a refusal.
type Answer = Result<Value, Error>;

/// The client and the namespace of a check.
struct Cluster {
    client: Client,
    namespace: String,
}

const JSON: &str = "application/json";

/// Asks for metadata in place of objects.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

impl Cluster {
    /// The path of a collection of the namespace, with what follows its plural name. An absolute path stays.
    fn path(&self, what: &str) -> String {
        if what.starts_with('/') {
            return what.to_owned();
        }
        let group = match what.split(['/', '?']).next() {
            Some("pods") => "api/v1",
            Some("leases") => "apis/coordination.k8s.io/v1",
            Some("events") => "apis/events.k8s.io/v1",
            _ => "apis/whereabouts.cni.cncf.io/v1alpha1",
        };
        format!("/{group}/namespaces/{}/{what}", self.namespace)
    }

    /// Sends a request with a body of this type.
    async fn send(&self, method: Method, what: &str, content: &str, body: Vec<u8>) -> Answer {
        let request = Request::builder().method(method).uri(self.path(what));
        let request = request.header(header::CONTENT_TYPE, content).body(body);
        self.client
            .request(request.map_err(Error::HttpError)?)
            .await
    }

    async fn read(&self, what: &str, accept: &str) -> Answer {
        let request = Request::get(self.path(what)).header(header::ACCEPT, accept);
        let request = request.body(Vec::new()).map_err(Error::HttpError)?;
        self.client.request(request).await
    }

    async fn get(&self, what: &str) -> Answer {
        self.read(what, JSON).await
    }

    async fn is_there(&self, what: &str) -> Shown<bool> {
        match self.get(what).await {
            Err(Error::Api(status)) if status.code == 404 => Ok(false),
            answer => Ok(answer.map(|_| true)?),
        }
    }

    /// A list, with these options.
    async fn list(&self, what: &str, options: &[(&str, &str)]) -> Answer {
        self.get(&with(what, options)).await
    }

    async fn create(&self, what: &str, object: &Value) -> Answer {
        let body = object.to_string().into_bytes();
        self.send(Method::POST, what, JSON, body).await
    }

    async fn replace(&self, what: &str, object: &Value) -> Answer {
        let body = object.to_string().into_bytes();
        self.send(Method::PUT, what, JSON, body).await
    }

    async fn merge(&self, what: &str, change: &Value) -> Answer {
        let body = change.to_string().into_bytes();
        let content = "application/merge-patch+json";
        self.send(Method::PATCH, what, content, body).await
    }

    /// A JSON Patch of a pool.
    async fn operate(&self, pool: &str, operations: impl Into<Value>) -> Answer {
        let body = operations.into().to_string().into_bytes();
        let (content, what) = ("application/json-patch+json", format!("ippools/{pool}"));
        self.send(Method::PATCH, &what, content, body).await
    }

    async fn delete(&self, what: &str, options: &Value) -> Answer {
        let body = options.to_string().into_bytes();
        self.send(Method::DELETE, what, JSON, body).await
    }

    /// Creates an object in place of what an earlier run left.
    async fn fresh(&self, plural: &str, object: &Value) -> Shown<Value> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.clear(&format!("{plural}/{name}")).await?;
        Ok(self.create(plural, object).await?)
    }

    /// Removes what an earlier run left.
    async fn clear(&self, what: &str) -> Shown {
        if self.is_there(what).await? {
            let free = json!({ "metadata": { "finalizers": null } });
            let _ = self.merge(what, &free).await;
            let _ = self.delete(what, &json!({ "gracePeriodSeconds": 0 })).await;
        }
        Ok(())
    }

    /// A new pool of this name with rows at the offsets 1 to `rows`.
    async fn pool(&self, name: &str, rows: u64) -> Shown<Value> {
        self.fresh("ippools", &self.pool_of(name, rows)).await
    }

    fn pool_of(&self, name: &str, rows: u64) -> Value {
        let mut pool = fixtures::pool(&self.namespace, "10.0.0.0/16").name(name);
        for offset in 1..=rows {
            pool = pool.row(offset, &fixtures::sandbox(offset), "shop/a", "net1");
        }
        pool.build()
    }

    /// A new pod of this name.
    async fn pod(
        &self,
        name: &str,
        change: impl FnOnce(fixtures::PodBuilder) -> fixtures::PodBuilder,
    ) -> Shown<Value> {
        let pod = change(fixtures::pod(&self.namespace, name)).build();
        self.fresh("pods", &pod).await
    }
}

/// A path with options.
fn with(path: &str, options: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    format!("{path}?{}", query.extend_pairs(options).finish())
}

/// The operations that remove the row that [`Cluster::pool`] made at an offset.
fn removal(offset: u64) -> Vec<Value> {
    let row = fixtures::row(&fixtures::sandbox(offset), "shop/a", "net1");
    let path = format!("/spec/allocations/{offset}");
    vec![
        json!({ "op": "test", "path": path, "value": row }),
        json!({ "op": "remove", "path": path }),
    ]
}

fn same<A, B>(what: &str, actual: &A, wanted: B) -> Shown
where
    A: PartialEq<B> + Debug,
    B: Debug,
{
    let text = || format!("{what}: {actual:?} instead of {wanted:?}");
    ensure(*actual == wanted, text())
}

fn ensure(holds: bool, what: impl Display) -> Shown {
    if holds {
        Ok(())
    } else {
        Err(what.to_string().into())
    }
}

fn version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// How many objects a list has.
fn count(list: &Value) -> usize {
    list["items"].as_array().map_or(0, Vec::len)
}

/// The Status of a refusal with this code.
fn refused(answer: Answer, code: u16) -> Shown<Box<Status>> {
    match answer {
        Err(Error::Api(status)) if status.code == code => Ok(status),
        other => Err(format!("{other:?} instead of {code}").into()),
    }
}

/// A refusal with this code and reason.
fn refused_for(answer: Answer, code: u16, reason: &str) -> Shown {
    same("reason", &refused(answer, code)?.reason, reason)
}

/// A refusal with 422 and the fields that it names as its causes.
fn causes(answer: Answer) -> Shown<Vec<String>> {
    let status = refused(answer, 422)?;
    same("reason", &status.reason, "Invalid")?;
    let causes = status
        .details
        .into_iter()
        .flat_map(|details| details.causes);
    Ok(causes.map(|cause| cause.field).collect())
}

/// A refusal with 422 that names these fields.
fn caused(answer: Answer, fields: &[&str]) -> Shown {
    same("causes", &causes(answer)?, fields)
}
