//! The stage of the story: clients, a namespace, and the name of the server in words.
//!
//! The story knows no other server than this, so it cannot tell the embedded one from a real one.

use std::time::Duration;

use ipgc::{config::Config, core::evidence::Policy, run::Collector};
use jiff::Timestamp;
use kube::{Client, Resource};
use testkit::Server;

use crate::ledger::Ledger;

/// Wait after the end of a pod that is known to be stopped. ipgc's default is 2 s, its least 1 s.
pub const COOLDOWN: Duration = Duration::from_millis(1_500);
/// Parts of the wait after any other end. ipgc's defaults are 120 s and 60 s.
const GRACE: Duration = Duration::from_secs(2);
const DEL_BUDGET: Duration = Duration::from_secs(1);
/// `terminationGracePeriodSeconds` of the demo's pods, the third part. Kubernetes' default is 30 s.
pub const POD_GRACE: Duration = Duration::from_secs(1);

/// Time between two sweeps, give or take a tenth: longer than the long wait. ipgc's default is 5 min.
const SWEEP_INTERVAL: Duration = Duration::from_secs(5);

/// A place to play.
#[derive(Clone)]
pub struct Stage {
    /// The demo's own client: it plays everybody but ipgc, and reads what is printed.
    pub client: Client,
    /// The requests of ipgc.
    pub ledger: Ledger,
    /// Everything of the story lives here.
    pub namespace: String,
    /// Where the pods are bound to. There is no such node.
    pub node: String,
    /// The kind of the server, in words.
    pub server: String,
    requests: Client,
    watches: Client,
}

impl Stage {
    /// A stage on a server: a client for the demo, and two for ipgc, requests and watches.
    pub fn new(server: String, namespace: String, client: Client, ipgc: (Client, Client)) -> Self {
        let ledger = Ledger::default();
        let (requests, watches) = ipgc;
        Self {
            requests: ledger.client(requests, &namespace),
            watches: ledger.client(watches, &namespace),
            node: format!("{namespace}-no-such-node"),
            client,
            ledger,
            namespace,
            server,
        }
    }

    /// The API server that is part of this process.
    pub fn embedded() -> Self {
        let server = Server::builder().start_time(Timestamp::now()).build();
        let ipgc = server.client_named("ipgc");
        let words = "in this process; it speaks the Kubernetes API, nothing is installed";
        Self::new(
            words.to_owned(),
            "demo".to_owned(),
            server.client_named("demo"),
            (ipgc.clone(), ipgc),
        )
    }

    /// The collector, as `ipgc run --pool-namespace <namespace>` would build it, with short waits.
    pub fn collector(&self) -> Collector {
        let config = Config {
            pool_namespace: Some(self.namespace.clone()),
            policy: policy(),
            instance: "demo".to_owned(),
            sweep_interval: SWEEP_INTERVAL,
            ..Config::default()
        };
        Collector::new(self.requests.clone(), self.watches.clone(), config)
    }

    /// Objects of one kind in the demo's namespace.
    pub fn api<K>(&self) -> kube::Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        kube::Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// `namespace/name`, as whereabouts writes it.
    pub fn podref(&self, pod: &str) -> String {
        format!("{}/{pod}", self.namespace)
    }
}

/// The waits of the demo.
fn policy() -> Policy {
    Policy {
        cooldown: COOLDOWN,
        grace: GRACE,
        del_budget: DEL_BUDGET,
        add_budget: GRACE,
        // Also of pods that nobody saw: they may have had a longer grace than the demo's.
        max_pod_grace: Some(POD_GRACE),
        ..Policy::default()
    }
}

/// How long ipgc waits after an end that nobody reported, for a pod with one address.
pub fn long_wait() -> Duration {
    policy().wait(Some(POD_GRACE), POD_GRACE, 1)
}
