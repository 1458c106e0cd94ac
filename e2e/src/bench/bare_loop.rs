//! Reservations deleted by a client that does nothing else: what the server takes for them.

use std::time::{Duration, Instant};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use ipgc::api::Reservation;
use serde_json::json;

use super::{
    measure::Meter,
    population::{Owner, Population},
    raw,
    stage::Stage,
};
use crate::Result;

/// Connections of a bare loop: as many as ipgc has writes in flight.
pub const CONNECTIONS: usize = 16;

/// Fewer, and more: what the server makes of them is why it is so many.
pub const OTHERS: [usize; 3] = [4, 8, 32];

/// What it took.
pub struct Took {
    /// From the first request to the last answer.
    pub time: Duration,
    /// CPU of the client, which is this process.
    pub cpu: Duration,
}

/// What a client costs that only deletes: as many equal reservations in a namespace of their own, by so
/// many connections at a time. Where names return, each is patched before, as a claim would.
pub async fn run(stage: &Stage, population: &Population, connections: usize) -> Result<Took> {
    let namespace = stage.cluster.namespace("bare").await?;
    let equal = Population {
        namespace: namespace.name.clone(),
        ..population.clone()
    };
    let all = || (0..equal.pools).flat_map(|pool| equal.rows_of(pool));
    stage.seeder.reservations(&equal, all()).await?;
    let client = &stage.client("bench-loop").await?;
    let claims = population.owner == Owner::StatefulSet;
    let meter = Meter::own();
    let (begun, cpu) = (Instant::now(), meter.cpu()?);
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
    let deletions = deletions.buffer_unordered(connections);
    deletions.try_collect::<()>().await?;
    Ok(Took {
        time: begun.elapsed(),
        cpu: meter.cpu()?.saturating_sub(cpu),
    })
}
