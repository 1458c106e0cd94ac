//! The network between the nodes, in a network namespace of its own.
//!
//! ```text
//!  hub   bridge "nodes" 172.30.0.1, 10.96.0.1 ─┬─ node-1 172.30.0.11, pods 10.244.1.0/24
//!        │   the API server's address for pods  └─ node-2 172.30.0.12, pods 10.244.2.0/24
//!        bridge "lan" ── one Ethernet through all nodes, for the pods' further interfaces
//! ```
//!
//! The API server listens on loopback and nowhere else. A forwarder of ours listens in the hub on
//! 10.96.0.1:443, which is the cluster address of the service `kubernetes` and in the server's certificate:
//! pods reach it with what Kubernetes tells them by itself.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    sync::Mutex,
};

use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};

use super::{
    namespaces::{Kind, Namespaces},
    proxy::Proxy,
};
use crate::{Result, process::lock};

/// The cluster address of the API server: the first one of the service range.
pub const API_SERVER: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(10, 96, 0, 1)), 443);

/// Where nodes find a registry, if a run has one.
pub const REGISTRY: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(172, 30, 0, 1)), 5000);

/// The bridge's address is set: by itself it takes the lowest one of its ports, and when that node is
/// powered off, the others send to an address that nobody has, for as long as they remember it.
const SETUP: &str = "
ip link set lo up
ip link add nodes address 02:00:00:00:00:01 type bridge
ip address add 172.30.0.1/24 dev nodes
ip address add 10.96.0.1/32 dev nodes
ip link set nodes up
ip link add lan type bridge
ip link set lan up
echo 1 > /proc/sys/net/ipv4/ip_forward
";

/// `$1` the node's number, `$2` the id of its first process.
const CONNECT: &str = r#"
ip link add "node-$1" type veth peer name eth0 netns "$2"
ip link set "node-$1" master nodes up
ip link add "lan-$1" type veth peer name lan netns "$2"
ip link set "lan-$1" master lan up
"#;

/// The same, from within the node.
const CONNECTED: &str = r#"
ip link set lo up
ip address add "172.30.0.1$1/24" dev eth0
ip link set eth0 up
ip route add default via 172.30.0.1
ip link add lan0 type bridge
ip link set lan master lan0 up
ip link set lan0 up
echo 1 > /proc/sys/net/ipv4/ip_forward
"#;

/// The network. Dropping it takes it down.
#[derive(Debug)]
pub struct Hub {
    // Dropped before the network that it is in.
    _proxy: Proxy,
    namespaces: Namespaces,
    forwarders: Mutex<Vec<JoinHandle<()>>>,
}

impl Hub {
    /// Makes the network. Connections to the API server go to `port` of loopback.
    pub(super) async fn new(folder: &Path, port: u16) -> Result<Self> {
        let log = folder.join("hub.log");
        let namespaces = Namespaces::new(Kind::Network, "hub", SETUP, &[], &log).await?;
        let network = format!("/proc/{}/ns/net", namespaces.first());
        let hub = Self {
            _proxy: Proxy::start(folder, network.into())?,
            namespaces,
            forwarders: Mutex::default(),
        };
        hub.forward(API_SERVER, port)?;
        Ok(hub)
    }

    /// Leads an address of the hub to a port of loopback.
    pub fn forward(&self, address: SocketAddr, port: u16) -> Result<()> {
        let socket = TcpListener::from_std(self.namespaces.listen(address)?)?;
        let forwarder = tokio::spawn(forward(socket, port));
        lock(&self.forwarders).push(forwarder);
        Ok(())
    }

    /// Its namespace.
    pub fn namespaces(&self) -> &Namespaces {
        &self.namespaces
    }

    /// Connects a node.
    pub(super) async fn connect(&self, number: usize, node: &Namespaces) -> Result<()> {
        let number = &number.to_string();
        let first = &node.first().to_string();
        self.namespaces.shell(CONNECT, &[number, first]).await?;
        node.shell(CONNECTED, &[number]).await?;
        let route = r#"ip route replace "10.244.$1.0/24" via "172.30.0.1$1""#;
        self.namespaces.shell(route, &[number]).await?;
        Ok(())
    }

    /// Takes a node's cables out, or puts them back.
    pub async fn cut(&self, number: usize, cut: bool) -> Result<()> {
        let state = if cut { "down" } else { "up" };
        let script = r#"ip link set "node-$1" "$2"; ip link set "lan-$1" "$2""#;
        self.namespaces
            .shell(script, &[&number.to_string(), state])
            .await?;
        Ok(())
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        let mut all = lock(&self.forwarders);
        all.drain(..).for_each(|forwarder| forwarder.abort());
    }
}

/// Takes connections in the hub and carries them to the server's port on loopback.
async fn forward(socket: TcpListener, port: u16) {
    loop {
        let Ok((mut from, _)) = socket.accept().await else {
            // Out of descriptors, or the caller was gone before we looked: neither lasts.
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            continue;
        };
        tokio::spawn(async move {
            // A server that is down refuses; the caller sees a closed connection.
            if let Ok(mut to) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                tokio::io::copy_bidirectional(&mut from, &mut to).await.ok();
            }
        });
    }
}
