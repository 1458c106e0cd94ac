//! Which pods there are, on which nodes, with which addresses of which pools: the plan of a scene.
//!
//! Everything follows from a few numbers, so a million rows need no list of them. Address `a` is row
//! `a / pools + 1` of pool `a % pools`, and pod `i` has the addresses from `i × interfaces` on: its
//! interfaces lie in different pools, and pods that end one after the other touch all pools alike.
//! Nothing here asks a server.

use serde_json::{Value, json};
use testkit::fixtures;

/// The kind of controller that made the pods, which decides whether their names return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// Names are made up, and never return.
    ReplicaSet,
    /// Names are counted, and return.
    StatefulSet,
}

/// The plan.
#[derive(Clone, Debug)]
pub struct Population {
    /// The namespace of pods, pools and networks.
    pub namespace: String,
    /// First word of the pods' names.
    pub prefix: &'static str,
    /// How many pods.
    pub pods: usize,
    /// How many nodes they are spread over.
    pub nodes: usize,
    /// The kind of controller that made the pods.
    pub owner: Owner,
    /// How many addresses each of them has.
    pub interfaces: usize,
    /// How many pools.
    pub pools: usize,
    /// First number of all addresses. Populations on the same servers differ in it: ipgc looks into every
    /// pool whose range overlaps.
    pub block: usize,
    /// Whether each address has a reservation as well.
    pub reservations: bool,
}

/// One address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Which pool.
    pub pool: usize,
    /// The row's key.
    pub offset: usize,
    /// Which pod.
    pub pod: usize,
    /// Which of its interfaces, from one.
    pub interface: usize,
}

impl Population {
    /// Pods of one address each in one pool, with reservations, made by a ReplicaSet.
    pub fn new(namespace: &str, pods: usize) -> Self {
        Self {
            namespace: namespace.to_owned(),
            prefix: "web",
            pods,
            nodes: pods.div_ceil(100),
            owner: Owner::ReplicaSet,
            interfaces: 1,
            pools: 1,
            block: 10,
            reservations: true,
        }
    }

    /// All rows.
    pub fn rows(&self) -> usize {
        self.pods * self.interfaces
    }

    /// The name of a pod, as its controller makes it.
    pub fn pod(&self, number: usize) -> String {
        match self.owner {
            Owner::StatefulSet => format!("{}-{number}", self.prefix),
            Owner::ReplicaSet => format!("{}-7d4b9c6f5d-{}", self.prefix, suffix(number)),
        }
    }

    /// The name of the node that a pod runs on.
    pub fn node_of(&self, pod: usize) -> String {
        Self::node(pod % self.nodes.max(1))
    }

    /// The name of a node.
    pub fn node(number: usize) -> String {
        format!("worker-{number:04}")
    }

    /// `namespace/name` of a pod.
    pub fn podref(&self, pod: usize) -> String {
        format!("{}/{}", self.namespace, self.pod(pod))
    }

    /// The addresses of a pod.
    pub fn addresses(&self, pod: usize) -> impl Iterator<Item = Address> + use<> {
        let first = pod * self.interfaces;
        let pools = self.pools;
        (0..self.interfaces).map(move |index| Address {
            pool: (first + index) % pools,
            offset: (first + index) / pools + 1,
            pod,
            interface: index + 1,
        })
    }

    /// The addresses of a pool.
    pub fn rows_of(&self, pool: usize) -> impl Iterator<Item = Address> + use<> {
        let (interfaces, pools) = (self.interfaces, self.pools);
        (pool..self.rows())
            .step_by(pools)
            .map(move |address| Address {
                pool,
                offset: address / pools + 1,
                pod: address / interfaces,
                interface: address % interfaces + 1,
            })
    }

    /// Network and prefix length of a pool. Up to 256 pools there is room for 65,534 addresses in each.
    fn network(&self, pool: usize) -> ([usize; 4], u8) {
        if self.pools <= 256 {
            ([self.block, pool, 0, 0], 16)
        } else {
            ([self.block, pool / 256, pool % 256, 0], 24)
        }
    }

    /// The range of a pool.
    pub fn range(&self, pool: usize) -> String {
        let ([a, b, c, d], length) = self.network(pool);
        format!("{a}.{b}.{c}.{d}/{length}")
    }

    /// The name that whereabouts gives to a pool.
    pub fn pool(&self, pool: usize) -> String {
        self.range(pool).replace('/', "-")
    }

    /// The network attachment that leads to a pool.
    pub fn attachment(pool: usize) -> String {
        format!("net-{pool}")
    }

    /// The address itself, which is also the name of its reservation.
    pub fn ip(&self, address: Address) -> String {
        let ([a, b, c, d], _) = self.network(address.pool);
        let host = c * 256 + d + address.offset;
        format!("{a}.{b}.{}.{}", host / 256, host % 256)
    }

    /// The sandbox of a pod: 64 hex digits.
    pub fn sandbox(&self, pod: usize) -> String {
        // An odd factor, so that no two pods have one sandbox, not even in two populations.
        const SPREAD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        let number = (pod as u128 + 1) << 16 | self.block as u128;
        let id = number.wrapping_mul(SPREAD);
        format!("{id:032x}{:032x}", !id)
    }

    /// Rows as the `spec.allocations` of a pool.
    pub fn allocations(&self, rows: impl Iterator<Item = Address>) -> Value {
        rows.map(|row| {
            let (id, podref) = (self.sandbox(row.pod), self.podref(row.pod));
            let interface = format!("net{}", row.interface);
            (
                row.offset.to_string(),
                fixtures::row(&id, &podref, &interface),
            )
        })
        .collect()
    }

    /// The networks that a pod asks multus for.
    pub fn networks(&self, pod: usize) -> String {
        let names = self.addresses(pod);
        let names = names.map(|address| Self::attachment(address.pool));
        names.collect::<Vec<_>>().join(",")
    }

    /// The network-status annotation of a pod, in the form in which multus writes it.
    pub fn network_status(&self, pod: usize) -> String {
        let default = json!({
            "name": "cluster-net", "interface": "eth0", "ips": ["10.244.17.23"],
            "mac": "0a:58:0a:f4:11:17", "default": true, "dns": {}, "gateway": ["10.244.17.1"],
        });
        let own = self.addresses(pod).map(|address| {
            json!({
                "name": format!("{}/{}", self.namespace, Self::attachment(address.pool)),
                "interface": format!("net{}", address.interface),
                "ips": [self.ip(address)], "mac": "0a:58:0a:01:00:2a", "dns": {},
            })
        });
        let entries: Vec<_> = std::iter::once(default).chain(own).collect();
        // Multus indents by four. Here it only matters that it is not one line.
        serde_json::to_string_pretty(&entries).unwrap_or_default()
    }
}

/// Five letters and digits as Kubernetes makes them, another for each number below 27⁵.
fn suffix(mut number: usize) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    // Prime to 27⁵: neighbours do not look alike.
    number = number.wrapping_mul(5_915_587) % 14_348_907;
    let mut text = String::with_capacity(5);
    for _ in 0..5 {
        text.push(char::from(LETTERS[number % 27]));
        number /= 27;
    }
    text
}
