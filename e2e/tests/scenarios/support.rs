//! A scenario's stage: a namespace, the plugin, and a collector with waits of a second.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use e2e::{
    Cluster, Namespace, Result,
    audit::Request,
    cluster::unique,
    cni::{Cni, Network, Sandbox, Started},
    pods::PodPlan,
    pools::{Row, Rows},
    wait,
};
use futures::FutureExt as _;
use http::{Method, Response};
use ipgc::{
    config::Config,
    core::evidence::Policy,
    report::Counters,
    run::{Collector, Running},
};
use kube::{
    Client,
    client::{Body, ClientBuilder},
};
use tokio::sync::oneshot;

/// Wait after an end whose sandbox is known to be stopped.
pub const COOLDOWN: Duration = Duration::from_secs(1);
/// First part of the wait after any other end.
pub const GRACE: Duration = Duration::from_secs(1);
/// The same waits as arguments of the binary, the cooldown excepted.
pub use e2e::ours::SHORT_WAITS;
/// Time that each row of the pod adds to the wait.
pub const DEL_BUDGET: Duration = Duration::from_secs(1);
/// Time that the pod's own termination grace adds to the wait.
pub const POD_GRACE: Duration = Duration::from_secs(1);

/// The range of most scenarios; pools of other namespaces have the same name.
pub const RANGE: &str = "10.1.0.0/24";
/// The name of its pool.
pub const POOL: &str = "10.1.0.0-24";

/// Longest wait for caches and for the end of a run.
const RUN: Duration = Duration::from_secs(30);

/// Wait after an end that was only witnessed, of a pod with this many rows.
pub fn wait_of(rows: u32) -> Duration {
    GRACE + POD_GRACE + DEL_BUDGET * rows
}

/// A pod that asks for `networks`.
pub fn plan(name: &str, networks: &str) -> PodPlan {
    PodPlan::new(name).networks(networks)
}

pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// The stage of one scenario.
pub struct Scene {
    pub namespace: Namespace,
    pub cni: Cni,
    /// The user agent of this scenario's collector.
    pub agent: String,
}

impl Scene {
    pub async fn new(prefix: &str) -> Result<Arc<Self>> {
        Self::on(&Cluster::get().await?, prefix).await
    }

    pub async fn on(cluster: &Cluster, prefix: &str) -> Result<Arc<Self>> {
        let namespace = cluster.namespace(prefix).await?;
        let cni = Cni::new(&namespace).await?;
        let agent = unique("collector");
        Ok(Arc::new(Self {
            namespace,
            cni,
            agent,
        }))
    }

    /// A scenario with the network attachment `net-a` of [`RANGE`].
    pub async fn with_network(prefix: &str) -> Result<(Arc<Self>, Network)> {
        Self::with_network_on(&Cluster::get().await?, prefix).await
    }

    /// The same on other servers.
    pub async fn with_network_on(cluster: &Cluster, prefix: &str) -> Result<(Arc<Self>, Network)> {
        let scene = Self::on(cluster, prefix).await?;
        let network = Network::range("net-a", RANGE);
        scene.namespace.attach(&network).await?;
        Ok((scene, network))
    }

    /// The same in a network that has the name of the namespace, for programs that see the pods of all
    /// scenarios; and the name of its pool.
    pub async fn with_own_network(prefix: &str) -> Result<(Arc<Self>, Network, String)> {
        let scene = Self::new(prefix).await?;
        let name = &scene.namespace.name;
        let network = Network::range("net-a", RANGE).network_name(name);
        scene.namespace.attach(&network).await?;
        let pool = format!("{name}-{POOL}");
        Ok((scene, network, pool))
    }

    /// Podref of a pod of this scenario.
    pub fn podref(&self, pod: &str) -> String {
        format!("{}/{pod}", self.namespace.name)
    }

    /// A pod of this name that runs on one network, with addresses from the real plugin.
    pub async fn start(&self, pod: &str, network: &Network) -> Result<Started> {
        self.cni.start(&plan(pod, &network.name), &[network]).await
    }

    /// Asserts that the rows of [`POOL`] are these for so long.
    pub async fn keeps(&self, what: &str, long: Duration, held: &Rows) -> Result<()> {
        let read = || self.namespace.rows(POOL);
        wait::holds_for(what, long, read, |rows| rows == held).await
    }

    /// Waits until [`POOL`] has just the rows, and the namespace the reservations, of these offsets.
    pub async fn only(&self, offsets: &[i128]) -> Result<()> {
        self.namespace.wait_offsets(POOL, offsets).await?;
        let names: Vec<_> = offsets
            .iter()
            .map(|offset| format!("10.1.0.{offset}"))
            .collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        self.namespace.wait_reservations(&names).await
    }

    /// A client under the user agent of this scenario's collector.
    pub async fn client(&self) -> Result<Client> {
        self.namespace.cluster().client_named(&self.agent).await
    }

    /// Short waits, and this namespace's pools only.
    pub fn config(&self) -> Config {
        Config {
            pool_namespace: Some(self.namespace.name.clone()),
            policy: Policy {
                cooldown: COOLDOWN,
                grace: GRACE,
                del_budget: DEL_BUDGET,
                // An ADD of a scenario takes no longer.
                add_budget: Duration::from_secs(1),
                // Of pods that nobody saw, too.
                max_pod_grace: Some(POD_GRACE),
                ..Policy::default()
            },
            retry_from: Duration::from_millis(50),
            retry_to: Duration::from_millis(500),
            instance: self.agent.clone(),
            // Scenarios about sweeps set a shorter interval.
            sweep_interval: Duration::from_hours(1),
            ..Config::default()
        }
    }

    /// Starts a collector, and waits for its caches and until the past does not matter any more.
    pub async fn collect(&self) -> Result<Collecting> {
        self.collect_through(self.client().await?, self.config())
            .await
    }

    /// The same; its requests, not its watches, go through this client.
    pub async fn collect_through(&self, requests: Client, config: Config) -> Result<Collecting> {
        let watches = narrowed(self.client().await?, &self.namespace.name);
        let mut running = Collector::new(requests, watches, config).start();
        let ready = tokio::time::timeout(RUN, running.ready()).await;
        assert_eq!(ready, Ok(true), "the collector did not get ready");
        // Its watch is fresh once it was heard: where no pod changes, that is a minute after the start.
        let plan = PodPlan::new(unique("heard")).unscheduled();
        self.namespace.pod(&plan).await?;
        self.namespace.force_delete_pod(&plan.name).await?;
        // By then nobody whom it did not see can have left a row.
        tokio::time::sleep(wait_of(1)).await;
        Ok(Collecting(running))
    }

    /// The output of the real kubectl for the events about pods: `type reason pod message`, sorted.
    pub async fn pod_events(&self) -> Result<Vec<String>> {
        self.events_of("Pod").await
    }

    /// The same of another kind.
    pub async fn events_of(&self, kind: &str) -> Result<Vec<String>> {
        const COLUMNS: &str = "custom-columns=TYPE:.type,REASON:.reason,NAME:.involvedObject.name,\
                               MESSAGE:.message";
        let of_kind = format!("--field-selector=involvedObject.kind={kind}");
        let listed = ["get", "events", &of_kind, "--no-headers", "-o", COLUMNS];
        let listed = self.namespace.kubectl(&listed).await?;
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut events: Vec<_> = listed.lines().map(words).collect();
        events.sort();
        Ok(events)
    }

    /// The requests of the collector about this namespace since `mark`, watches aside.
    pub fn requests(&self, mark: e2e::audit::Mark) -> Result<Vec<Request>> {
        let mut requests = self.namespace.cluster().audit().since(mark)?;
        requests.retain(|request| {
            let is_here = request.namespace == self.namespace.name && request.verb != "watch";
            is_here && request.user_agent.split(' ').next() == Some(&self.agent)
        });
        Ok(requests)
    }

    /// Waits until a counter of the collector has this value.
    pub async fn wait_counter(
        &self,
        collecting: &Collecting,
        what: &str,
        holds: impl Fn(&Counters) -> bool,
    ) -> Result<()> {
        let read = || async { Ok(collecting.counters().snapshot()) };
        let now = |_: &Vec<_>| holds(collecting.counters());
        wait::until_state(what, wait::PATIENCE, read, now).await?;
        Ok(())
    }
}

/// A collector that runs.
pub struct Collecting(Running);

impl Collecting {
    pub fn counters(&self) -> &Arc<Counters> {
        &self.0.context.counters
    }

    /// The reasons why the run is not ready.
    pub fn not_ready(&self) -> Vec<String> {
        self.0.context.not_ready()
    }

    /// Stops the run and waits: then all it had to say, it has said. Returns what it counted.
    pub async fn end(self) -> BTreeMap<&'static str, u64> {
        let counters = Arc::clone(self.counters());
        self.0.stop();
        let done = tokio::time::timeout(RUN, self.0.done()).await;
        done.expect("the collector did not stop")
            .expect("the run failed");
        counters.snapshot().into_iter().collect()
    }
}

/// A client that sees the pods of one namespace and no others, which report the same addresses: other
/// scenarios' pods are of other clusters.
fn narrowed(client: Client, namespace: &str) -> Client {
    let default = client.default_namespace().to_owned();
    let all = "/api/v1/pods";
    let own = format!("/api/v1/namespaces/{namespace}/pods");
    let service = tower::service_fn(move |mut request: http::Request<Body>| {
        let text = request.uri().to_string();
        if let Some(rest) = text.strip_prefix(all) {
            *request.uri_mut() = format!("{own}{rest}").parse().unwrap();
        }
        let client = client.clone();
        async move { client.send(request).await }
    });
    ClientBuilder::new(service, default).build()
}

/// A client that asks `hook` before each request, by its method and path: it may do something first, and it may answer
/// in the server's place.
pub fn hooked<A>(
    client: Client,
    hook: impl Fn(&Method, &str) -> A + Send + Sync + 'static,
) -> Client
where
    A: Future<Output = Option<Response<Body>>> + Send + 'static,
{
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        let answer = hook(request.method(), request.uri().path());
        async move {
            match answer.await {
                Some(answer) => Ok(answer),
                None => client.send(request).await,
            }
        }
    });
    ClientBuilder::new(service, namespace).build()
}

/// A client that holds back the first such request, by its method and path, does `act`, and lets it go; and the outcome
/// of `act`.
pub fn just_before<T: Send + 'static>(
    client: Client,
    awaited: impl Fn(&Method, &str) -> bool + Send + Sync + 'static,
    act: impl Future<Output = Result<T>> + Send + 'static,
) -> (Client, oneshot::Receiver<Result<T>>) {
    let (told, outcome) = oneshot::channel();
    let act = async move {
        // Nobody may be waiting any more.
        let _ = told.send(act.await);
    };
    let act = Mutex::new(Some(act.boxed()));
    let client = hooked(client, move |method, path| {
        let is_it = awaited(method, path);
        let act = is_it.then(|| act.lock().unwrap().take()).flatten();
        async move {
            if let Some(act) = act {
                act.await;
            }
            None
        }
    });
    (client, outcome)
}

/// Rows by offset, from the sandboxes that hold them.
pub fn rows<'s>(
    held: impl IntoIterator<Item = (i128, &'s Sandbox, &'s str)>,
) -> BTreeMap<i128, Row> {
    held.into_iter()
        .map(|(offset, sandbox, interface)| {
            let row = Row::new(&sandbox.id, sandbox.podref(), interface);
            (offset, row)
        })
        .collect()
}
