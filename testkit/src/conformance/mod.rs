//! Checks that hold on this test server and on a real API server alike.
//!
//! Every check is written against a plain [`Client`] and a namespace that exists and is its own;
//! it knows nothing of the server behind. What it shows on a real server is thereby shown to be
//! what the tests stand on. The whereabouts CRDs have to be installed. Checks use their own object
//! names, remove leftovers of an earlier run first, and can run in any order.

mod deletions;
mod patches;
mod reads;
mod watches;
mod writes;

use std::fmt::Display;
use std::time::Duration;

use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::core::response::Status;
use kube::{Api, Client, Error};
use serde_json::{Value, json};

use crate::fixtures;

/// What a check answers: nothing, or what was not as expected.
pub type Verdict = Result<(), String>;

/// A check: its name, which is the fact it shows, and the function that shows it.
pub type Check = (
    &'static str,
    fn(Client, String) -> BoxFuture<'static, Verdict>,
);

/// How a check went.
#[derive(Clone, Debug)]
pub struct CheckResult {
    /// Name of the check.
    pub name: &'static str,
    /// What came of it.
    pub verdict: Verdict,
}

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
pub const CHECKS: &[Check] = checks![
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
    patches::annotations_have_a_limit_of_256_kib,
    patches::broken_patches_are_bad_requests,
    patches::a_body_over_3_mib_is_too_large,
    writes::creating_an_existing_object_conflicts,
    writes::names_are_dns_subdomains,
    writes::a_prefix_for_names_must_not_end_in_a_dot,
    writes::objects_in_the_wrong_place_are_bad_requests,
    writes::storage_takes_about_1_5_mib,
    writes::unknown_fields_are_pruned,
    writes::a_creation_against_the_schema_names_its_causes,
    writes::a_missing_namespace_is_not_found,
    writes::custom_resources_are_never_replaced_without_a_version,
    writes::leases_are_replaced_by_version,
    writes::changes_of_the_spec_count_as_generations,
    writes::the_status_of_a_new_pod_is_not_the_clients,
    writes::status_and_spec_have_paths_of_their_own,
    writes::generated_names_get_a_suffix,
    writes::a_dry_run_writes_nothing,
    writes::events_have_two_faces,
    writes::events_are_validated,
    writes::access_reviews_are_answered,
    deletions::preconditions_are_checked,
    deletions::a_scheduled_pod_is_deleted_in_two_steps,
    deletions::an_unscheduled_pod_goes_at_once,
    deletions::a_terminal_pod_goes_at_once,
    deletions::a_forced_deletion_keeps_the_phase,
    deletions::a_finalizer_holds_until_it_is_removed,
    reads::pages_are_one_consistent_revision,
    reads::an_invalid_continue_token_is_a_bad_request,
    reads::items_of_builtin_types_carry_no_type,
    reads::metadata_can_be_read_alone,
    reads::names_can_be_read_alone,
    reads::selectors_choose_by_field_and_label,
    reads::unsupported_field_labels_are_bad_requests,
    reads::missing_objects_and_resources_are_not_found,
    reads::unknown_paths_are_not_found,
    reads::versions_are_numbers,
    reads::a_version_of_the_future_times_out,
    reads::an_exact_version_shows_the_past,
    reads::the_version_can_be_asked_for,
    watches::events_come_in_order_with_the_last_state,
    watches::selection_turns_changes_into_arrivals_and_departures,
    watches::version_zero_begins_with_what_exists,
    watches::a_watch_ends_after_its_timeout,
    watches::initial_events_are_refused_or_end_with_a_bookmark,
    watches::metadata_can_be_watched_alone,
];

/// Longest time a check may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// Runs all checks one after the other.
pub async fn run_all(client: Client, namespace: &str) -> Vec<CheckResult> {
    let mut results = Vec::with_capacity(CHECKS.len());
    for (name, check) in CHECKS {
        let run = check(client.clone(), namespace.to_owned());
        let verdict = match tokio::time::timeout(CHECK_TIMEOUT, run).await {
            Ok(verdict) => verdict,
            Err(_) => Err("timed out".to_owned()),
        };
        results.push(CheckResult { name, verdict });
    }
    results
}

/// What a check works on.
struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn custom(&self, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource {
            group: "whereabouts.cni.cncf.io".to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: "whereabouts.cni.cncf.io/v1alpha1".to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
        };
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    fn pools(&self) -> Api<DynamicObject> {
        self.custom("IPPool", "ippools")
    }

    fn reservations(&self) -> Api<DynamicObject> {
        self.custom(
            "OverlappingRangeIPReservation",
            "overlappingrangeipreservations",
        )
    }

    /// A new pool of this name with rows at the offsets 1 to `rows`.
    async fn pool(&self, name: &str, rows: u64) -> Result<DynamicObject, String> {
        fresh(&self.pools(), name, self.pool_of(name, rows)).await
    }

    /// The same, of which it is known who wrote it.
    async fn pool_with_managers(&self, name: &str, rows: u64) -> Result<DynamicObject, String> {
        let mut pool = self.pool_of(name, rows);
        pool["metadata"]["managedFields"] = json!([{
            "manager": "whereabouts",
            "operation": "Update",
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": { "f:spec": { "f:range": {} } },
        }]);
        fresh(&self.pools(), name, pool).await
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
    ) -> Result<Pod, String> {
        let pod = change(fixtures::pod(&self.namespace, name)).build();
        fresh(&self.pods(), name, pod).await
    }

    async fn json_patch(&self, pool: &str, operations: Value) -> Result<DynamicObject, Error> {
        let patch: json_patch::Patch =
            serde_json::from_value(operations).map_err(Error::SerdeError)?;
        let params = PatchParams::default();
        self.pools()
            .patch(pool, &params, &Patch::Json::<()>(patch))
            .await
    }
}

/// Creates an object in place of what an earlier run left.
async fn fresh<K>(api: &Api<K>, name: &str, object: Value) -> Result<K, String>
where
    K: Clone + std::fmt::Debug + serde::Serialize + serde::de::DeserializeOwned,
{
    clear(api, name).await?;
    let object: K = serde_json::from_value(object).map_err(text)?;
    api.create(&PostParams::default(), &object)
        .await
        .map_err(text)
}

/// Removes what an earlier run left.
async fn clear<K>(api: &Api<K>, name: &str) -> Verdict
where
    K: Clone + std::fmt::Debug + serde::de::DeserializeOwned,
{
    if api.get_opt(name).await.map_err(text)?.is_some() {
        let free = json!({ "metadata": { "finalizers": null } });
        let _ = api
            .patch(name, &PatchParams::default(), &Patch::Merge(free))
            .await;
        let _ = api
            .delete(name, &DeleteParams::default().grace_period(0))
            .await;
    }
    Ok(())
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

fn text(error: impl Display) -> String {
    error.to_string()
}

#[expect(clippy::needless_pass_by_value, reason = "callers compare temporaries")]
fn same<T: PartialEq + std::fmt::Debug>(what: &str, actual: T, wanted: T) -> Verdict {
    if actual == wanted {
        return Ok(());
    }
    Err(format!("{what}: {actual:?} instead of {wanted:?}"))
}

fn ensure(holds: bool, what: impl Display) -> Verdict {
    if holds { Ok(()) } else { Err(what.to_string()) }
}

/// The Status of a refusal with this code.
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>, code: u16) -> Result<Box<Status>, String> {
    match answer {
        Err(Error::Api(status)) if status.code == code => Ok(status),
        Err(other) => Err(format!("{other:?} instead of {code}")),
        Ok(value) => Err(format!("success instead of {code}: {value:?}")),
    }
}

/// A refusal with this code and reason.
fn refused_for<T: std::fmt::Debug>(answer: Result<T, Error>, code: u16, reason: &str) -> Verdict {
    let status = refused(answer, code)?;
    same("reason", status.reason.as_str(), reason)
}

/// The fields that a refusal names as its causes.
fn fields(status: &Status) -> Vec<&str> {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.map(|cause| cause.field.as_str()).collect()
}
