//! `up` and `down`: a cluster for a person, kept by a process in the background.
//!
//! That process is this program again, in a session of its own; it holds all servers, as a test does, and
//! everything ends with it. It writes one small file when all is up, by which `down` finds it. A file whose
//! process is gone counts for nothing.

use std::{
    fs,
    fs::File,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    ControlPlane, Error, Options, Result,
    control_plane::ADMIN,
    node::Tier,
    process::{owner, tail},
    tools,
    wait::{self, Probe},
};

/// With every tool to build and a release build of ipgc.
const UP: Duration = Duration::from_secs(1800);

/// etcd, the API server and the processes of a node end in seconds.
const DOWN: Duration = Duration::from_secs(90);

/// The cluster to bring up.
#[derive(Clone, Debug, clap::Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they are the flags of a command line"
)]
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
    /// Stay in the foreground until interrupted
    #[arg(long)]
    pub foreground: bool,
    /// Write the note by which `down` finds this process
    #[arg(long, hide = true, requires = "foreground")]
    pub note: bool,
}

/// The cluster that is up.
#[derive(Debug, Deserialize, Serialize)]
struct State {
    /// The process that holds it.
    pid: u32,
    /// The same with its start, since ids come again.
    owner: String,
    url: String,
    kubeconfig: PathBuf,
    logs: PathBuf,
}

impl State {
    fn path() -> Result<PathBuf> {
        Ok(tools::cache()?.join("up.json"))
    }

    /// The cluster that is up now, if any.
    fn read() -> Result<Option<Self>> {
        let Ok(text) = fs::read_to_string(Self::path()?) else {
            return Ok(None);
        };
        let state: Option<Self> = serde_json::from_str(&text).ok();
        Ok(state.filter(|state| owner(state.pid).as_ref() == Some(&state.owner)))
    }

    /// Of the cluster that this process holds.
    fn of(plane: &ControlPlane) -> Result<Self> {
        let pid = std::process::id();
        Ok(Self {
            pid,
            owner: owner(pid).unwrap_or_default(),
            url: plane.url(),
            kubeconfig: plane.kubeconfig(ADMIN, "default")?,
            logs: plane.dir().to_owned(),
        })
    }

    fn write(&self) -> Result<()> {
        let path = Self::path()?;
        let text = serde_json::to_string(self).map_err(Error::malformed("a note"))?;
        let fresh = path.with_extension("new");
        fs::write(&fresh, text).map_err(Error::io(format!("write {}", fresh.display())))?;
        fs::rename(&fresh, &path).map_err(Error::io(format!("write {}", path.display())))
    }

    fn print(&self) {
        println!("API server   {}", self.url);
        println!("logs         {}", self.logs.display());
        println!(
            "use it with  export KUBECONFIG={}",
            self.kubeconfig.display()
        );
    }
}

/// Brings a cluster up; returns when it is up, or in the foreground when it is down again.
pub async fn up(up: &Up) -> Result<()> {
    if up.foreground {
        return foreground(up).await;
    }
    if let Some(state) = State::read()? {
        return Err(Error::Unsupported(format!(
            "a cluster is up already, by process {}: end it with `cargo run -p e2e -- down`, or use it \
             with KUBECONFIG={}",
            state.pid,
            state.kubeconfig.display()
        )));
    }
    let log = tools::cache()?.join("up.log");
    fs::create_dir_all(tools::cache()?).map_err(Error::io("create the cache"))?;
    let output = File::create(&log).map_err(Error::io(format!("create {}", log.display())))?;
    let second = output.try_clone().map_err(Error::io("share a log file"))?;
    let program = std::env::current_exe().map_err(Error::io("find this program"))?;
    let mut command = Command::new(program);
    command.args(["up", "--foreground", "--note"]);
    if up.bare {
        command.arg("--bare");
    } else {
        command.arg(format!("--nodes={}", up.nodes));
    }
    if up.ipgc {
        command.arg("--ipgc");
    }
    if let Some(port) = up.port {
        command.arg(format!("--port={port}"));
    }
    // Nothing that is typed at this terminal reaches it.
    command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(second);
    let mut child = command
        .spawn()
        .map_err(Error::io("start in the background"))?;
    println!("starting; {} tells how far it is", log.display());
    let child = &mut child;
    let mut ended = || {
        let status = child
            .try_wait()
            .map_err(Error::io("look after a process"))?;
        Ok::<_, Error>(status)
    };
    let started = std::time::Instant::now();
    loop {
        if let Some(state) = State::read()? {
            state.print();
            println!("end it with  cargo run -p e2e -- down");
            return Ok(());
        }
        if ended()?.is_some() {
            let text = tail(&log, 30);
            let text = text.trim_start_matches("e2e: ").to_owned();
            return Err(Error::Unsupported(text));
        }
        if started.elapsed() > UP {
            return Err(Error::Deadline {
                what: "the cluster to be up".into(),
                after: UP,
                state: tail(&log, 30),
            });
        }
        tokio::time::sleep(wait::POLL).await;
    }
}

/// Takes down what `up` brought up.
pub async fn down() -> Result<()> {
    let Some(state) = State::read()? else {
        println!("nothing is up");
        return Ok(());
    };
    if let Some(pid) = i32::try_from(state.pid).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::TERM)
            .map_err(|errno| Error::io("ask it to end")(errno.into()))?;
    }
    wait::until("the cluster to be down", DOWN, || async {
        Ok(match State::read()? {
            None => Probe::Done(()),
            Some(state) => Probe::NotYet(format!("process {} runs", state.pid)),
        })
    })
    .await
}

async fn foreground(up: &Up) -> Result<()> {
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
    // Asked to end while it starts: servers that have been started end with this process.
    let running = tokio::select! {
        running = running => running?,
        _ = interrupt.recv() => return Ok(()),
        _ = terminate.recv() => return Ok(()),
    };
    let state = State::of(running.plane())?;
    state.print();
    println!("Ctrl-C ends it");
    if up.note {
        state.write()?;
    }
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    let stopped = running.stop().await;
    if up.note {
        fs::remove_file(State::path()?).map_err(Error::io("remove the note of what is up"))?;
    }
    stopped
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
