//! Many pods at once, and a pool that somebody else writes to all the time.
//!
//! Rows and reservations are planted: hundreds of ADDs would take minutes, and the collector cannot
//! tell the difference.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use e2e::{
    Error, Result,
    cni::{Network, Sandbox},
    pods::{End, Interface},
    pools::{Row, Rows},
    wait,
};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use http::Method;
use ipgc::report::Counters;
use kube::{
    Client,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::support::{Asked, COOLDOWN, Scene, hooked, just_before, plan};

/// Requests of a test in flight at a time.
const CONCURRENCY: usize = 8;
/// Label of the pods that end together.
const ENDS: &str = "ends=together";

/// Running pods with planted rows.
struct Crowd {
    pool: String,
    /// Names by offset.
    pods: BTreeMap<i128, String>,
    rows: Rows,
}

impl Crowd {
    /// `stay` pods, then `go` pods that end together, all in one pool of a range `10.N.0.0/16` that
    /// no other scenario uses, so that requests about it are about these pods.
    async fn gather(scene: &Scene, number: u8, stay: i128, go: i128) -> Result<Self> {
        let range = format!("10.{number}.0.0/16");
        let network = Network::range("net-a", &range);
        scene.attach(&network).await?;
        let mut rows = Rows::new();
        let mut pods = BTreeMap::new();
        for offset in 1..=stay + go {
            let pod = format!("pod-{offset}");
            let sandbox = Sandbox::new(&scene.namespace.name, &pod);
            rows.insert(offset, Row::new(&sandbox.id, sandbox.podref(), "net1"));
            pods.insert(offset, pod);
        }
        let pool = format!("10.{number}.0.0-16");
        scene.namespace.plant_pool(&pool, &range, &rows).await?;
        let starting = pods.iter().map(|(offset, pod)| async move {
            let address = format!("10.{number}.{}.{}", offset / 256, offset % 256);
            let podref = scene.podref(pod);
            scene
                .namespace
                .plant_reservation(&address, &podref, "net1")
                .await?;
            let mut plan = plan(pod, "net-a");
            if *offset > stay {
                plan.labels.insert("ends".into(), "together".into());
            }
            let interface = Interface {
                network: scene.podref("net-a"),
                interface: "net1".into(),
                ips: vec![address],
            };
            scene.namespace.running_pod(&plan, &[interface]).await?;
            Ok::<_, Error>(())
        });
        run(starting.collect()).await?;
        pods.retain(|offset, _| *offset > stay);
        Ok(Self { pool, pods, rows })
    }

    /// The rows of the pods that stay.
    fn staying(&self) -> Rows {
        let mut rows = self.rows.clone();
        rows.retain(|offset, _| !self.pods.contains_key(offset));
        rows
    }

    /// All that end, end: their containers first, then all objects in one request.
    async fn end_together(&self, scene: &Scene) -> Result<()> {
        let ending = self.pods.values().map(|pod| async move {
            scene.namespace.finish_pod(pod, End::Succeeded).await?;
            Ok(())
        });
        run(ending.collect()).await?;
        let which = ListParams::default().labels(ENDS);
        let deleted = DeleteParams::default().grace_period(0);
        let pods = scene.namespace.pods();
        pods.delete_collection(&deleted, &which)
            .await
            .map_err(Error::api("delete all pods of the crowd"))?;
        Ok(())
    }

    async fn wait_rows(&self, scene: &Scene, wanted: &Rows) -> Result<()> {
        let read = || scene.namespace.rows(&self.pool);
        let same = |rows: &Rows| rows == wanted;
        wait::until_state("the rows of those that stay", wait::PATIENCE, read, same).await?;
        Ok(())
    }
}

/// A few at a time.
async fn run(futures: Vec<impl Future<Output = Result<()>>>) -> Result<()> {
    let mut all = stream::iter(futures).buffer_unordered(CONCURRENCY);
    while all.try_next().await?.is_some() {}
    Ok(())
}

/// The first look at the pool waits until all 200 are due, as it would on a server that is slow to
/// answer; else the number of patches would tell how fast this machine deletes pods.
#[tokio::test]
async fn two_hundred_pods_that_end_at_once_cost_three_patches_at_most() -> Result<()> {
    let scene = Scene::new("batch").await?;
    let audit = scene.namespace.cluster().audit();
    let crowd = Crowd::gather(&scene, 77, 5, 200).await?;
    let (all_due, due) = oneshot::channel();
    let look = |asked: &Asked| asked.is(&Method::GET, "ippools");
    let held_back = async { due.await.map_err(Error::malformed("the test")) };
    let (client, looked) = just_before(scene.client().await?, look, held_back);
    let collecting = scene.collect_through(client, scene.config()).await?;
    let mark = audit.mark()?;
    crowd.end_together(&scene).await?;
    let seen = |counters: &Counters| counters.ends_seen.get() >= 200;
    scene
        .wait_counter(&collecting, "all ends to be seen", seen)
        .await?;
    tokio::time::sleep(COOLDOWN * 3 / 2).await;
    all_due.send(()).unwrap();
    looked.over("the first look at the pool").await?;
    crowd.wait_rows(&scene, &crowd.staying()).await?;
    let staying = [
        "10.77.0.1",
        "10.77.0.2",
        "10.77.0.3",
        "10.77.0.4",
        "10.77.0.5",
    ];
    scene.namespace.wait_reservations(&staying).await?;
    let counted = collecting.end().await;
    assert_eq!(counted["rows_freed"], 200);
    assert_eq!(counted["reservations_freed"], 200);

    let mut asked = BTreeMap::<(String, String), usize>::new();
    for request in scene.requests(mark)? {
        let names_only = request.uri.contains("includeObject=None");
        let verb = if names_only { "names" } else { &request.verb };
        *asked
            .entry((verb.to_owned(), request.resource))
            .or_default() += 1;
    }
    let mut take = |verb: &str, resource: &str| {
        let asked = asked.remove(&(verb.to_owned(), resource.to_owned()));
        asked.unwrap_or_default()
    };
    let patches = take("patch", "ippools");
    let reservations = "overlappingrangeipreservations";
    let claims = take("patch", reservations);
    let deletes = take("delete", reservations);
    let events = take("create", "events");
    // Names of pools are looked up for other scenarios' pods too.
    let others = usize::try_from(counted["ends_seen"]).unwrap() - 200;
    let lists = take("list", "ippools");
    let proofs = take("names", "pods");
    let names = take("names", "ippools");
    let rest: usize = asked.values().sum();
    assert!(patches <= 3, "{patches} patches, {asked:?}");
    assert_eq!(
        (claims, deletes),
        (200, 200),
        "one claim and one delete each"
    );
    assert!(events <= 200 + patches, "{events} events");
    assert!(lists <= 2 + others, "{lists} lists, {others} others");
    // One before each patch, and one before each round of DELETEs, which asks for pools' names too.
    assert!((1..=3 * patches).contains(&proofs), "{proofs} proofs");
    assert!(names <= proofs, "{names} times all pools, {proofs} proofs");
    // On a busy machine claims ripen in several groups, and each is looked at once more.
    let most = 6 * patches + 12;
    assert!(
        rest <= most,
        "{rest} other requests, {patches} patches: {asked:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_pool_that_others_write_to_all_the_time_loses_and_keeps_no_row() -> Result<()> {
    let scene = Scene::new("busy").await?;
    let crowd = Crowd::gather(&scene, 78, 10, 50).await?;
    let mark = scene.namespace.cluster().audit().mark()?;
    let client = another_write_before_each_patch(&scene, &crowd.pool).await?;
    let collecting = scene.collect_through(client, scene.config()).await?;
    let enough = Arc::new(AtomicBool::new(false));
    let others = tokio::spawn(write_all_the_time(
        scene.clone(),
        crowd.pool.clone(),
        Arc::clone(&enough),
    ));

    let ends = crowd
        .pods
        .values()
        .map(|pod| scene.namespace.end_pod(pod, End::Succeeded));
    run(ends.collect()).await?;
    let read = || scene.namespace.rows(&crowd.pool);
    let freed = |rows: &Rows| crowd.pods.keys().all(|offset| !rows.contains_key(offset));
    wait::until_state("all 50 rows to be freed", wait::PATIENCE, read, freed).await?;
    enough.store(true, Ordering::Relaxed);
    others.await.unwrap()?;

    // The others leave a last row of theirs, and none of it is lost.
    let mut expected = crowd.staying();
    expected.insert(1_000, row_of_the_others(&scene));
    assert_eq!(scene.namespace.rows(&crowd.pool).await?, expected);
    let counted = collecting.end().await;
    assert_eq!(counted["rows_freed"], 50);
    assert_eq!(counted["retries_exhausted"], 0);
    assert_eq!(counted["frees_refused"], 0);
    let mut patches = scene.requests(mark)?;
    patches.retain(|asked| asked.verb == "patch" && asked.resource == "ippools");
    assert_eq!(patches.len() as u64, counted["patches_sent"]);
    let refused: Vec<_> = patches.iter().filter(|asked| asked.code != 200).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    Ok(())
}

fn row_of_the_others(scene: &Scene) -> Row {
    // Pod 1 stays, so its rows are somebody's.
    Row::new("ab".repeat(32), scene.podref("pod-1"), "net2")
}

/// A client for the collector, before each of whose patches somebody else changes the pool: however
/// fast the machine is, none of them finds the pool as it was observed.
async fn another_write_before_each_patch(scene: &Arc<Scene>, pool: &str) -> Result<Client> {
    let (scene, pool) = (Arc::clone(scene), pool.to_owned());
    let number = AtomicUsize::new(0);
    Ok(hooked(scene.client().await?, move |asked| {
        if !asked.is(&Method::PATCH, "ippools") {
            return None;
        }
        let number = number.fetch_add(1, Ordering::Relaxed);
        let (scene, pool) = (Arc::clone(&scene), pool.clone());
        let write = async move {
            annotate(&scene, &pool, &format!("before patch {number}"))
                .await
                .unwrap();
            None
        };
        Some(write.boxed())
    }))
}

async fn annotate(scene: &Scene, pool: &str, text: &str) -> Result<()> {
    let note = json!({"example.com/written": text});
    let operation = json!([{"op": "add", "path": "/metadata/annotations", "value": note}]);
    scene.namespace.patch_pool(pool, operation).await
}

/// Plants a row, annotates the pool, pulls the row, and so on; a row is left.
async fn write_all_the_time(
    scene: Arc<Scene>,
    pool: String,
    enough: Arc<AtomicBool>,
) -> Result<()> {
    let row = row_of_the_others(&scene);
    for round in 0.. {
        scene.namespace.plant_row(&pool, 1_000, &row).await?;
        annotate(&scene, &pool, &format!("round {round}")).await?;
        if enough.load(Ordering::Relaxed) {
            break;
        }
        scene.namespace.pull_row(&pool, 1_000).await?;
    }
    Ok(())
}
