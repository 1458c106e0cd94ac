//! `up`: a cluster for a person, held by this process until it is interrupted, as by a test.

use tokio::signal::unix::{SignalKind, signal};

use crate::{ControlPlane, Error, Options, Result, control_plane::ADMIN, node::Tier};

/// What to bring up.
#[derive(Clone, Debug, clap::Args)]
pub struct Up {
    /// Nodes with kubelet, containerd, multus and whereabouts; needs root
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub nodes: u8,
    /// No nodes: a bare control plane, for which no root is needed
    #[arg(long, conflicts_with_all = ["nodes", "ipgc"])]
    pub bare: bool,
    /// Install ipgc by its manifests, built from the present source
    #[arg(long)]
    pub ipgc: bool,
    /// Port of the API server on 127.0.0.1; a free one if it is not given
    #[arg(long)]
    pub port: Option<u16>,
}

/// Brings a cluster up, and down again when it is interrupted.
pub async fn up(up: &Up) -> Result<()> {
    let failed = || Error::io("wait for signals");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed())?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed())?;
    let running = async {
        if up.bare {
            let options = Options {
                port: up.port,
                ..Options::default().with_controllers()
            };
            let plane = ControlPlane::start(options).await?;
            Ok::<_, Error>(Cluster::Bare(Box::new(plane)))
        } else {
            let tier = Tier::start(usize::from(up.nodes), up.port).await?;
            if up.ipgc {
                tier.install_ipgc(None).await?;
            }
            Ok(Cluster::Nodes(Box::new(tier)))
        }
    };
    // Asked to end while it starts: what has been started ends with this process.
    let running = tokio::select! {
        running = running => running?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let plane = running.plane();
    let kubeconfig = plane.kubeconfig(ADMIN, "default")?;
    println!("API server   {}", plane.url());
    println!("logs         {}", plane.dir().display());
    println!("use it with  export KUBECONFIG={}", kubeconfig.display());
    println!("Ctrl-C ends it");
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    running.stop().await
}

enum Cluster {
    Bare(Box<ControlPlane>),
    Nodes(Box<Tier>),
}

impl Cluster {
    fn plane(&self) -> &ControlPlane {
        match self {
            Self::Bare(plane) => plane,
            Self::Nodes(tier) => tier.plane(),
        }
    }

    async fn stop(self) -> Result<()> {
        match self {
            Self::Bare(plane) => plane.stop().await,
            Self::Nodes(tier) => tier.stop().await,
        }
    }
}
