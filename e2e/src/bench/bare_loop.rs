//! Reservations deleted by a client that does nothing else: the time that the server takes for them.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use ipgc::api::Reservation;
use serde_json::json;

use super::{
    population::{Owner, Population},
    raw,
    stage::Stage,
};
use crate::Result;

/// Connections of a bare loop: as many as ipgc has writes in flight.
const CONNECTIONS: usize = 16;

/// The time that a client takes which only deletes as many equal reservations, in a namespace of their own. Where
/// names return, each is patched before, as a claim would.
pub async fn run(stage: &Stage, population: &Population) -> Result<Duration> {
    let namespace = stage.cluster.namespace("bare").await?;
    let equal = Population {
        namespace: namespace.name.clone(),
        ..population.clone()
    };
    let all = || (0..equal.pools).flat_map(|pool| equal.rows_of(pool));
    stage.seeder.reservations(&equal, all()).await?;
    let client = &stage.client("bench-loop").await?;
    let claims = population.owner == Owner::StatefulSet;
    let begun = Instant::now();
    let deletions = stream::iter(all()).map(|address| {
        let ip = equal.ip(address);
        let place = &namespace.name;
        let path = raw::one::<Reservation>(place, ip);
        let claim = json!([
            {"op": "test", "path": "/spec/podref", "value": equal.podref(address.pod)},
            {"op": "replace", "path": "/spec/podref", "value": "bench.example/releasing"},
        ]);
        async move {
            if claims {
                raw::patch(client, &path, "json-patch", &claim).await?;
            }
            raw::delete(client, &path).await
        }
    });
    let deletions = deletions.buffer_unordered(CONNECTIONS);
    deletions.try_collect::<()>().await?;
    Ok(begun.elapsed())
}
