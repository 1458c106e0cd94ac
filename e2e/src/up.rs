//! `up`: a cluster for a person, until Ctrl-C.
//!
//! This process holds all servers, as a test does, and everything ends with it.

use tokio::signal::unix::{SignalKind, signal};

use crate::{ControlPlane, Options, Result, node::Tier};

/// The cluster to bring up.
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

/// Brings a cluster up, tells the way to it, and takes it down when this process is to end.
pub async fn up(up: &Up) -> Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    // Servers that have been started while it is asked to end do so with this process.
    tokio::select! {
        done = play(up) => done,
        _ = interrupt.recv() => Ok(()),
        _ = terminate.recv() => Ok(()),
    }
}

async fn play(up: &Up) -> Result<()> {
    if up.bare {
        let options = Options {
            port: up.port,
            ..Options::default().with_controllers()
        };
        tell(&ControlPlane::start(options).await?).await
    } else {
        let tier = Tier::start(usize::from(up.nodes), up.port).await?;
        if up.ipgc {
            tier.install_ipgc(None).await?;
        }
        tell(tier.plane()).await
    }
}

/// Prints the way to a cluster, and never ends.
async fn tell(plane: &ControlPlane) -> Result<()> {
    println!("API server   {}", plane.url());
    println!("logs         {}", plane.dir().display());
    let kubeconfig = plane.kubeconfig()?;
    println!("use it with  export KUBECONFIG={}", kubeconfig.display());
    println!("Ctrl-C ends it");
    std::future::pending().await
}
