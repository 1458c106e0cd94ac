//! Where the floor is: what single requests cost the API server, whoever sends them.
//!
//! They are sent one after the other by a client that does nothing else. The pools are those of `latency`.

use ipgc::api::IpPool;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{
    Bench,
    latency::{POOLS, ROWS},
    population::Population,
    price::Prices,
    raw,
    table::{Amount, Line},
};
use crate::{Error, Result};

pub const NAME: &str = "floor";

/// Requests of a kind, and lists.
const TRIES: usize = 100;
const LISTS: usize = 10;

/// What pools have until ipgc patches them.
const MANAGED: &str = "with managed fields";

/// Names of objects and nothing else of them.
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Runs it.
pub async fn run(bench: &Bench) -> Result<Vec<Line>> {
    let stage = bench.stage_alone().await?;
    let population = Population {
        pools: POOLS,
        reservations: false,
        ..stage.population(POOLS * ROWS)
    };
    bench.say(NAME, format!("seeding {} pods", population.pods));
    stage.seeder.everything(&population).await?;
    let client = &stage.client("bench-loop").await?;
    let home = &population.namespace;
    let prices = Prices::of(stage.api_server()).await?;
    let pool_of = |number: usize| raw::one::<IpPool>(home, population.pool(number % POOLS));

    let get = async || {
        let requests = async || {
            for number in 0..TRIES {
                raw::get(client, &pool_of(number)).await?;
            }
            Ok(())
        };
        prices.each(TRIES, requests).await
    };
    let get_with_managers = get().await?;
    let absent = prices
        .each(TRIES, async || {
            for number in 0..TRIES {
                let pod = raw::one::<Pod>(home, format!("nobody-{number}"));
                match raw::get(client, &pod).await {
                    Err(error) if error.api_code() == Some(404) => {}
                    _ => return Err(Error::Unsupported(format!("{pod} exists"))),
                }
            }
            Ok(())
        })
        .await?;
    // First as anybody would, then as ipgc does.
    let patch = async |rows: usize, forget: bool| {
        let requests = async || {
            for number in 0..TRIES {
                let row = rows + number / POOLS;
                let row = population.rows_of(number % POOLS).nth(row);
                let row = row.ok_or_else(|| Error::Unsupported("a pool is too small".into()))?;
                let row_path = format!("/spec/allocations/{}", row.offset);
                let podref = population.podref(row.pod);
                let mut removal = vec![
                    json!({"op": "test", "path": format!("{row_path}/podref"), "value": podref}),
                    json!({"op": "remove", "path": row_path}),
                ];
                removal.extend(forget.then(raw::forget_managers));
                raw::patch_for_metadata(client, &pool_of(number), &removal.into()).await?;
            }
            Ok(())
        };
        prices.each(TRIES, requests).await
    };
    let patch_with_managers = patch(0, false).await?;
    let patch = patch(TRIES / POOLS, true).await?;
    let get = get().await?;
    let mut lists = Vec::new();
    for accept in [TABLE, METADATA] {
        let none = if accept == TABLE {
            "&includeObject=None"
        } else {
            ""
        };
        let all = format!("{}?limit=10000{none}", raw::all::<Pod>(home));
        let mut bytes = 0;
        let cpu = prices
            .each(LISTS, async || {
                for _ in 0..LISTS {
                    bytes = raw::get_as(client, &all, accept).await?.len();
                }
                Ok(())
            })
            .await?;
        lists.push((Amount::cpu(cpu), Amount::bytes(bytes as u64)));
    }
    stage.stop().await?;

    let line = |what: String, ours| Line::new(NAME, what, ours);
    let pods = population.pods;
    let mut lines = vec![
        line(format!("GET of a pool of {ROWS} rows"), Amount::cpu(get))
            .against(MANAGED, Amount::cpu(get_with_managers)),
        line("GET of a pod that is not there".into(), Amount::cpu(absent)),
        line(format!("PATCH of one row of {ROWS}"), Amount::cpu(patch))
            .against(MANAGED, Amount::cpu(patch_with_managers)),
    ];
    if let [(names, short), (metadata, long)] = lists[..] {
        let of = "as metadata";
        lines.push(line(format!("names of {pods} pods as a Table"), names).against(of, metadata));
        lines.push(line("the same, bytes".into(), short).against(of, long));
    }
    Ok(lines)
}
