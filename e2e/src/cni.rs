//! Calls the real whereabouts plugin, the way multus' delegate calls its IPAM plugin.
//!
//! Only IPAM runs: no interface is made, so neither root nor a network namespace is needed. `CNI_NETNS` is
//! a path that does not exist, which the plugin takes for a namespace that is not its own. Pools live in
//! the namespace for which the [`Cni`] was made; every test has its own, and with it upstream's lease
//! `whereabouts`. The plugin writes below the folder of the run only.

use std::{net::IpAddr, path::PathBuf, process::Command, time::Duration};

use rand::RngExt as _;
use serde_json::{Value, json};

use crate::{
    Error, Namespace, Result,
    access::write_private,
    cluster::unique,
    pods::{Interface, PodPlan},
    process,
    tools::Tool,
};

/// Upstream gives ADD two minutes and DEL one. A call that takes longer than both hangs.
const CALL: Duration = Duration::from_secs(150);

/// The plugin with its configuration for one namespace of pods and pools.
pub struct Cni {
    namespace: Namespace,
    plugin: PathBuf,
    flat_file: PathBuf,
    log: PathBuf,
}

/// A pod's sandbox, as the runtime names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// 64 hex digits.
    pub id: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub pod: String,
}

/// A pod that runs with addresses from the plugin.
pub struct Started {
    /// Its sandbox.
    pub sandbox: Sandbox,
    /// Its addresses, in the order of its interfaces and their ranges.
    pub addresses: Vec<IpAddr>,
}

/// A network with whereabouts IPAM.
#[derive(Clone, Debug)]
pub struct Network {
    /// The network's name.
    pub name: String,
    /// The `ipam` object, `type` included.
    pub ipam: Value,
}

impl Sandbox {
    /// A new sandbox for a pod.
    pub fn new(namespace: impl Into<String>, pod: impl Into<String>) -> Self {
        let (high, low) = rand::rng().random::<(u128, u128)>();
        Self {
            id: format!("{high:032x}{low:032x}"),
            namespace: namespace.into(),
            pod: pod.into(),
        }
    }

    /// `namespace/name`, as rows have it.
    pub fn podref(&self) -> String {
        format!("{}/{}", self.namespace, self.pod)
    }
}

impl Network {
    /// A network of one range, with reservations.
    pub fn range(name: impl Into<String>, range: &str) -> Self {
        Self {
            name: name.into(),
            ipam: json!({"type": "whereabouts", "range": range}),
        }
    }

    /// A network of several ranges, such as one of each family.
    pub fn ranges(name: impl Into<String>, ranges: &[&str]) -> Self {
        let ranges: Vec<Value> = ranges.iter().map(|range| json!({"range": range})).collect();
        Self {
            name: name.into(),
            ipam: json!({"type": "whereabouts", "ipRanges": ranges}),
        }
    }

    /// With one more field of `ipam`.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.ipam[field] = value.into();
        self
    }

    /// Without reservations.
    pub fn without_reservations(self) -> Self {
        self.with("enable_overlapping_ranges", false)
    }

    /// In an address domain of its own.
    pub fn network_name(self, name: &str) -> Self {
        self.with("network_name", name)
    }

    /// An interface in this network, as multus reports it of a pod in this namespace.
    pub fn interface(&self, namespace: &str, interface: &str, ips: &[IpAddr]) -> Interface {
        Interface {
            network: format!("{namespace}/{}", self.name),
            interface: interface.to_owned(),
            ips: ips.to_vec(),
        }
    }

    /// The configuration as a network attachment holds it.
    pub fn config(&self) -> Value {
        json!({"cniVersion": "1.0.0", "name": self.name, "type": "bridge", "ipam": self.ipam})
    }
}

impl Cni {
    /// The plugin for pools in this namespace.
    pub async fn new(pools: &Namespace) -> Result<Self> {
        let access = pools.cluster().access().clone().in_namespace(&pools.name);
        let dir = pools.cluster().dir().join(unique("cni"));
        std::fs::create_dir(&dir)?;
        let kubeconfig = dir.join("whereabouts.kubeconfig");
        access.write(&kubeconfig)?;
        let log = dir.join("whereabouts.log");
        let flat_file = dir.join("whereabouts.conf");
        let flat = json!({
            "kubernetes": {"kubeconfig": kubeconfig},
            "log_file": log,
            "log_level": "debug",
        });
        write_private(&flat_file, flat.to_string().as_bytes())?;
        Ok(Self {
            namespace: pools.clone(),
            plugin: Tool::Whereabouts.path().await?,
            flat_file,
            log,
        })
    }

    /// Makes a pod, calls ADD for `net1`, `net2`, …, and lets it run.
    pub async fn start(&self, plan: &PodPlan, networks: &[&Network]) -> Result<Started> {
        self.namespace.pod(plan).await?;
        let (sandbox, interfaces) = self.set_up(&plan.name, networks).await?;
        self.namespace.run_pod(&plan.name, &interfaces).await?;
        let addresses = interfaces.into_iter().flat_map(|it| it.ips).collect();
        Ok(Started { sandbox, addresses })
    }

    /// A new sandbox of a pod, and its interfaces `net1`, `net2`, ….
    pub async fn set_up(
        &self,
        pod: &str,
        networks: &[&Network],
    ) -> Result<(Sandbox, Vec<Interface>)> {
        let home = &self.namespace.name;
        let sandbox = Sandbox::new(home, pod);
        let mut interfaces = Vec::new();
        for (number, network) in (1..).zip(networks) {
            let name = format!("net{number}");
            let addresses = self.add(network, &sandbox, &name).await?;
            interfaces.push(network.interface(home, &name, &addresses));
        }
        Ok((sandbox, interfaces))
    }

    /// ADD: the addresses that the interface got, in the order of the ranges.
    pub async fn add(
        &self,
        network: &Network,
        sandbox: &Sandbox,
        interface: &str,
    ) -> Result<Vec<IpAddr>> {
        let text = self.call("ADD", network, sandbox, interface).await?;
        let answer: Value = serde_json::from_str(&text)?;
        let ips = answer["ips"].as_array().into_iter().flatten();
        ips.map(|ip| {
            let address = ip["address"].as_str().unwrap_or_default();
            Ok(address.split('/').next().unwrap_or_default().parse()?)
        })
        .collect()
    }

    /// DEL. Succeeds even when the plugin could not reach the server, as upstream has it.
    pub async fn del(&self, network: &Network, sandbox: &Sandbox, interface: &str) -> Result<()> {
        self.call("DEL", network, sandbox, interface).await?;
        Ok(())
    }

    async fn call(
        &self,
        command: &'static str,
        network: &Network,
        sandbox: &Sandbox,
        interface: &str,
    ) -> Result<String> {
        let mut config = network.config();
        config["ipam"]["configuration_path"] = json!(self.flat_file);
        let args = format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={};K8S_POD_NAME={};K8S_POD_INFRA_CONTAINER_ID={}",
            sandbox.namespace, sandbox.pod, sandbox.id
        );
        let mut plugin = Command::new(&self.plugin);
        plugin
            .env_clear()
            .env("CNI_COMMAND", command)
            .env("CNI_CONTAINERID", &sandbox.id)
            .env(
                "CNI_NETNS",
                format!("/run/netns/e2e-{}", &sandbox.id[..sandbox.id.len().min(12)]),
            )
            .env("CNI_IFNAME", interface)
            .env("CNI_ARGS", args)
            .env("CNI_PATH", self.plugin.parent().unwrap_or(&self.plugin));
        let what = format!("CNI {command} for {interface}");
        let answer = process::fed(&what, plugin, &config.to_string(), CALL).await;
        let answer = answer.and_then(|answer| process::success(what, answer));
        answer.map_err(|error| {
            // The last lines of its log say more.
            Error::Other(format!("{error}\n{}", process::tail(&self.log, 40)))
        })
    }
}
