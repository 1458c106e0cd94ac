//! Pods that come and go at an even pace, whose DELs are all lost, and a ledger by which it is known what may go.
//!
//! The CNI plugin's and the kubelet's parts are played: a pod runs and reports its address, its row and its
//! reservation are written, and some time later it ends, mostly in order and sometimes by force. The names of one
//! half never return, those of the other half may. No address is given out twice, so that a row that goes tells
//! whose it was.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use ipgc::api::{IpPool, Reservation};
use kube::Client;
use serde_json::{Value, json};
use testkit::fixtures;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::{
    Error, Result,
    bench::{
        etcd::Etcd,
        load::{Kubelet, persist},
        population::{Address, Owner, Population},
        raw,
        stage::Stage,
        template,
        watch::{self, Change},
    },
    process::lock,
    wait::Probe,
};

/// How long a pod lives, and how long it is at its end before it is deleted.
const LIFE: Duration = Duration::from_secs(6);
const LEAD: Duration = Duration::from_millis(300);

/// Each pod whose number this divides is deleted by force while it runs. Of each pool some are.
const FORCED: usize = 7;

/// The shortest time from an end to the free of its row, with [`FLAGS`](super::FLAGS): from the terminal
/// phase that the kubelet writes, and W from a deletion by force. All moments are of one clock: the first is before
/// the end is sent, the second after the free is seen.
const GRACE: Duration = Duration::from_secs(1);
const W: Duration = Duration::from_secs(21);

/// Pools of each half.
const POOLS: usize = 5;

/// An address of a pod, as the row's pool and key.
type Key = (String, String);

/// What became of an address.
#[derive(Debug)]
struct Given {
    /// Its reservation, and what that is to say.
    ip: String,
    podref: String,
    /// When it may go, once its pod's end is sent.
    free_at: Option<Instant>,
    /// Whether its pod is deleted by force: then a kubelet at work has to be seen first.
    is_forced: bool,
}

#[derive(Debug, Default)]
struct Ledger {
    given: BTreeMap<Key, Given>,
    freed: usize,
    faults: Vec<String>,
}

/// One half of all pods.
struct Half {
    population: Population,
    /// The pod of which all are copies.
    model: Value,
    /// Rows of each pool that are to be written, and who writes them. Many writers of one pool would spend the
    /// server's time on conflicts.
    rows: [(Mutex<Vec<Address>>, tokio::sync::Mutex<()>); POOLS],
}

/// Pods that come and go.
pub struct Churn {
    halves: [Half; 2],
    etcd: Etcd,
    client: Client,
    kubelet: Kubelet,
    ledger: Mutex<Ledger>,
    stop: CancellationToken,
}

impl Churn {
    /// Makes pools, networks and nodes for them, in two namespaces.
    pub async fn prepare(stage: &Stage, nodes: usize) -> Result<Arc<Self>> {
        let client = stage.client("plugin").await?;
        let other = stage.cluster.namespace("churn").await?;
        stage.seeder.nodes(nodes).await?;
        let half = async |owner, prefix, population: Population| {
            let population = Population {
                owner,
                prefix,
                nodes,
                pools: POOLS,
                ..population
            };
            stage.seeder.attachments(&population).await?;
            stage
                .seeder
                .pools(&population, |_, _| std::iter::empty())
                .await?;
            let model = template::pod(&client, &population.namespace, owner).await?;
            Ok::<_, Error>(Half {
                population,
                model,
                rows: Default::default(),
            })
        };
        let halves = [
            half(Owner::ReplicaSet, "web", stage.population(0)).await?,
            half(Owner::StatefulSet, "db", stage.population_in(&other, 0)).await?,
        ];
        Ok(Arc::new(Self {
            halves,
            etcd: Etcd::of(&stage.plane)?,
            kubelet: Kubelet::new(stage.client("kubelet").await?),
            client,
            ledger: Mutex::default(),
            stop: CancellationToken::new(),
        }))
    }

    /// Begins pods, one each `every`, until the stop; those that run then go on. Returns how many there were.
    pub fn begin(self: &Arc<Self>, every: Duration) -> JoinHandle<Result<usize>> {
        let churn = Arc::clone(self);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(every);
            let mut lives = JoinSet::new();
            let mut number = 0;
            while churn.stop.run_until_cancelled(ticks.tick()).await.is_some() {
                let own = Arc::clone(&churn);
                lives.spawn(async move { own.live(number).await });
                number += 1;
                while let Some(life) = lives.try_join_next() {
                    life??;
                }
            }
            while let Some(life) = lives.join_next().await {
                life??;
            }
            Ok(number)
        })
    }

    /// No pod begins or ends any more.
    pub fn stop(&self) {
        self.stop.cancel();
    }

    async fn live(&self, number: usize) -> Result<()> {
        let half = &self.halves[number % 2];
        let (population, pod) = (&half.population, number / 2);
        let home = &population.namespace;
        let Some(address) = population.addresses(pod).next() else {
            return Ok(());
        };
        let name = population.pod(pod);
        let key = format!("/registry/pods/{home}/{name}");
        let object = template::pod_of(&half.model, population, pod);
        self.etcd.put(&key, &object).await?;
        let key = (population.pool(address.pool), address.offset.to_string());
        self.ledger(|ledger| {
            let given = Given {
                ip: population.ip(address),
                podref: population.podref(pod),
                free_at: None,
                is_forced: pod.is_multiple_of(FORCED),
            };
            ledger.given.insert(key.clone(), given);
        });
        self.add(half, address).await?;
        let life = tokio::time::sleep(LIFE);
        if self.stop.run_until_cancelled(life).await.is_none() {
            return Ok(());
        }
        let is_forced = pod.is_multiple_of(FORCED);
        let wait = if is_forced { W } else { GRACE };
        self.ledger(|ledger| {
            if let Some(given) = ledger.given.get_mut(&key) {
                given.free_at = Some(Instant::now() + wait);
            }
        });
        if !is_forced {
            let finish = self.kubelet.finish(population, pod);
            self.kubelet.in_turn(finish).await?;
            tokio::time::sleep(LEAD).await;
        }
        let delete = self.kubelet.delete(population, pod);
        self.kubelet.in_turn(delete).await
    }

    /// The plugin's writes of an ADD: the row, then the reservation.
    async fn add(&self, half: &Half, address: Address) -> Result<()> {
        let population = &half.population;
        let home = &population.namespace;
        let pool = raw::one::<IpPool>(home, population.pool(address.pool));
        let pool = format!("{pool}?fieldManager=whereabouts");
        let (rows, writer) = &half.rows[address.pool];
        lock(rows).push(address);
        let writing = writer.lock().await;
        // Of all who waited meanwhile; none if somebody else wrote ours.
        let all = std::mem::take(&mut *lock(rows));
        if !all.is_empty() {
            let rows = json!({"spec": {"allocations": population.allocations(all.into_iter())}});
            let patched = || async {
                let patched = raw::patch(&self.client, &pool, "merge-patch", &rows).await;
                patched.map(drop)
            };
            persist(patched).await?;
        }
        drop(writing);
        let name = population.ip(address);
        let interface = format!("net{}", address.interface);
        let podref = population.podref(address.pod);
        let reservation = fixtures::reservation(home, &name, &podref, &interface);
        let path = raw::all::<Reservation>(home);
        let created = || async {
            match raw::create(&self.client, &path, &reservation).await {
                // An earlier try came through, and its answer did not.
                Err(error) if error.api_code() == Some(409) => Ok(()),
                created => created.map(drop),
            }
        };
        self.kubelet.in_turn(persist(created)).await
    }

    /// Watches the pools for rows that go, until a watch fails.
    pub fn audit(self: &Arc<Self>) -> JoinHandle<Result<()>> {
        let churn = Arc::clone(self);
        tokio::spawn(async move { churn.watch().await })
    }

    async fn watch(&self) -> Result<()> {
        let begin = |path: String| async move {
            let changes = watch::changes(&self.client, &path, raw::JSON);
            changes.await
        };
        let all = self.halves.iter().map(|half| {
            let path = raw::all::<IpPool>(&half.population.namespace);
            // The server ends a watch that is read too slowly. The next one begins with all pools.
            stream::repeat(path).then(begin).try_flatten().boxed()
        });
        let mut all = pin!(stream::select_all(all));
        let mut rows = BTreeMap::<String, watch::Rows>::new();
        while let Some((at, change)) = all.try_next().await? {
            let (pool, now) = match change {
                Change::Is(pool, rows) => (pool, rows),
                Change::Gone(pool) => (pool, None),
            };
            let now = now.unwrap_or_default();
            let before = rows.insert(pool.clone(), now.clone()).unwrap_or_default();
            let gone = before.difference(&now);
            self.ledger(|ledger| gone.for_each(|row| ledger.freed(&pool, row, at)));
        }
        Ok(())
    }

    /// Whether there are the rows and reservations of the pods that run, and no others; but for those of pods that were
    /// deleted by force, if they still may be there.
    pub async fn well(&self, forced_may_stay: bool) -> Result<Probe<()>> {
        let mut found = BTreeSet::new();
        for half in &self.halves {
            let home = &half.population.namespace;
            let pools = raw::read(&self.client, &raw::all::<IpPool>(home)).await?;
            for pool in items(&pools) {
                let name = &pool["metadata"]["name"];
                let rows = pool["spec"]["allocations"].as_object();
                for (row, of) in rows.into_iter().flatten() {
                    found.insert(format!("row {row} of {name}: {}", of["podref"]));
                }
            }
            let all = raw::read(&self.client, &raw::all::<Reservation>(home)).await?;
            for reservation in items(&all) {
                let name = &reservation["metadata"]["name"];
                found.insert(format!(
                    "reservation {name}: {}",
                    reservation["spec"]["podref"]
                ));
            }
        }
        let wanted = |is_wanted: &dyn Fn(&Given) -> bool| {
            self.ledger(|ledger| {
                let given = ledger.given.iter().filter(|(_, given)| is_wanted(given));
                let both = given.flat_map(|((pool, row), Given { ip, podref, .. })| {
                    let row = format!("row {row} of {pool:?}: {podref:?}");
                    [row, format!("reservation {ip:?}: {podref:?}")]
                });
                both.collect::<BTreeSet<_>>()
            })
        };
        if forced_may_stay {
            let may_stay = wanted(&|given| given.free_at.is_some() && given.is_forced);
            found.retain(|it| !may_stay.contains(it));
        }
        let wanted = wanted(&|given| given.free_at.is_none());
        let left: Vec<_> = found.difference(&wanted).collect();
        let lost: Vec<_> = wanted.difference(&found).collect();
        if left.is_empty() && lost.is_empty() {
            return Ok(Probe::Done(()));
        }
        let some = |of: &[&String]| format!("{} {:?}", of.len(), &of[..of.len().min(5)]);
        let state = format!("left: {}; lost: {}", some(&left), some(&lost));
        Ok(Probe::NotYet(state))
    }

    /// How many pods ended, how many rows went, and the rows that went too early.
    pub fn so_far(&self) -> (usize, usize, Vec<String>) {
        self.ledger(|ledger| {
            let given = ledger.given.values();
            let ended = given.filter(|given| given.free_at.is_some()).count();
            (ended, ledger.freed, ledger.faults.clone())
        })
    }

    fn ledger<T>(&self, act: impl FnOnce(&mut Ledger) -> T) -> T {
        act(&mut lock(&self.ledger))
    }
}

impl Ledger {
    /// A row went.
    fn freed(&mut self, pool: &str, row: &str, at: Instant) {
        self.freed += 1;
        let given = self.given.get(&(pool.to_owned(), row.to_owned()));
        let free_at = given.and_then(|given| given.free_at);
        if free_at.is_none_or(|free_at| at < free_at) {
            let early = free_at.map(|free_at| free_at - at);
            let fault = format!("row {row} of {pool} went too early, by {early:?}: {given:?}");
            self.faults.push(fault);
        }
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list["items"].as_array().into_iter().flatten()
}
