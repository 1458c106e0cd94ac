//! The node tier: a control plane and real nodes, without any container engine on the machine.
//!
//! ```text
//!  etcd, kube-apiserver, controller manager, scheduler     on loopback, as ever
//!    │
//!  hub         a network namespace: the cable between the nodes, and the API server's cluster address
//!    ├ node-1  a machine made of namespaces: containerd, kubelet, multus, whereabouts, pods
//!    └ node-2  another one, which can be cut off or killed while the first lives
//! ```
//!
//! | module | content |
//! |---|---|
//! | `namespaces` | what holds namespaces, and how commands and sockets get into them |
//! | `hub` | the network, and the forwarder to the API server |
//! | `proxy` | the API server's way to the kubelets |
//! | `machine` | one node: its servers, and how it is hurt |
//! | `settings` | configuration files of the servers |
//! | `cgroups` | one folder per node and hierarchy |
//! | `packages` | programs from Debian packages, unpacked into the cache |
//! | `image` | images without an engine |
//! | `install` | ipgc as its users run it |
//! | `detector` | reads all addresses of all pods, and tells doubles of our making from others |
//! | `frees` | which rows ipgc freed, and when, from the audit log |
//! | `needs` | root, cgroups and kernel modules |
//!
//! It needs root, and says so. Everything on the machine that is not in the folder of the run belongs to
//! namespaces that end with this process, but for empty cgroups, which the next run removes.

mod cgroups;
pub mod detector;
mod frees;
mod hub;
pub mod image;
pub mod install;
mod machine;
mod namespaces;
mod needs;
mod packages;
pub(crate) mod proxy;
mod settings;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

pub use hub::{API_SERVER, Hub, REGISTRY};
pub use machine::{CNI_USER, Machine, WHEREABOUTS_KUBECONFIG};
pub use namespaces::{Inside, Namespaces};

use crate::{
    ControlPlane, Result,
    control_plane::Options,
    process::{self, Process},
    tools::{self, Tool},
};
use machine::Parts;

/// Where programs of the machine are, also for a user whose own `PATH` leaves out `sbin`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Running nodes with their control plane. Dropping it ends all of it.
#[derive(Debug)]
pub struct Tier {
    // The order matters: the field that is dropped first ends first.
    nodes: Vec<Arc<Machine>>,
    hub: Hub,
    _scheduler: Process,
    plane: ControlPlane,
}

impl Tier {
    /// Starts a control plane and this many nodes, and waits until all are Ready.
    pub async fn start(nodes: usize, port: Option<u16>) -> Result<Self> {
        needs::check().await?;
        let packages = packages::unpacked().await?;
        // All that has to be built is built before anything runs.
        tools::build_missing(true).await?;
        let group = |name: &str| vec![name.to_owned()];
        let mut users = vec![(CNI_USER.to_owned(), group("system:masters"))];
        for number in 1..=nodes {
            users.push((Machine::user_of(number), group("system:nodes")));
        }
        let plane = ControlPlane::start(Options {
            controllers: vec!["*".into()],
            // Half of the default, so that a silent node is known as one sooner.
            controller_manager_args: vec!["--node-monitor-grace-period=25s".into()],
            users,
            api_server_args: vec![
                "--authorization-mode=Node".into(),
                "--enable-admission-plugins=NodeRestriction".into(),
                "--kubelet-preferred-address-types=InternalIP".into(),
            ],
            accounts: true,
            port,
            ..Options::default()
        })
        .await?;
        let scheduler = start_scheduler(&plane).await?;
        let hub = Hub::new(plane.dir(), plane.port()).await?;
        let mut tier = Self {
            nodes: Vec::new(),
            hub,
            _scheduler: scheduler,
            plane,
        };
        let images = [tier.pause_archive().await?];
        let parts = Parts {
            plane: &tier.plane,
            hub: &tier.hub,
            packages: &packages,
            images: &images,
        };
        let starting = (1..=nodes).map(|number| Machine::new(number, &parts));
        let nodes = futures::future::try_join_all(starting).await?;
        tier.nodes = nodes.into_iter().map(Arc::new).collect();
        Ok(tier)
    }

    /// The control plane.
    pub fn plane(&self) -> &ControlPlane {
        &self.plane
    }

    /// The network between the nodes.
    pub fn hub(&self) -> &Hub {
        &self.hub
    }

    /// The nodes; `nodes()[0]` is `node-1`.
    pub fn nodes(&self) -> &[Arc<Machine>] {
        &self.nodes
    }

    async fn pause_archive(&self) -> Result<PathBuf> {
        let program = image::pause(self.plane.dir()).await?;
        let target = self.plane.dir().join("pause.tar");
        image::archive(image::PAUSE, "pause", &program, &target)?;
        Ok(target)
    }

    /// Puts an image of this static program on all nodes.
    pub async fn load(&self, image: &str, name: &str, program: &Path) -> Result<()> {
        let target = self.plane.dir().join(format!("{name}.tar"));
        image::archive(image, name, program, &target)?;
        for node in &self.nodes {
            node.import(&target).await?;
        }
        Ok(())
    }
}

async fn start_scheduler(plane: &ControlPlane) -> Result<Process> {
    let mut command = process::tied(Tool::KubeScheduler.path().await?);
    command
        .arg(format!("--kubeconfig={}", plane.kubeconfig()?.display()))
        .args(["--leader-elect=false", "--secure-port=0"]);
    Process::start(
        "kube-scheduler",
        command,
        &plane.dir().join("kube-scheduler.log"),
    )
}
