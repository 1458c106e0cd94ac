//! Namespaces of the run: the processes that hold them, and how commands and sockets get into them.
//!
//! Each set of namespaces belongs to a process that does nothing else. It dies with this one, in
//! whichever way this one ends ([`crate::process`]), and with it goes all that is in them: the first process
//! of a process namespace takes all others along, a mount namespace its mounts, a network namespace its
//! bridges and veths. So nothing of a node is left on the machine but the folders that [`super::cgroups`] removes.

use std::{
    fmt::Display,
    fs, io,
    net::{SocketAddr, TcpListener},
    os::fd::AsFd as _,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    thread::{LinkNameSpaceType, move_into_link_name_space},
};

use crate::{Error, Result, process, process::Process, wait};

/// A namespace is made in milliseconds.
const START: Duration = Duration::from_secs(30);

/// An `ip` command, a `ctr` command: seconds at worst on a loaded machine.
const COMMAND: Duration = Duration::from_secs(120);

/// All processes of a namespace are killed by the kernel; runc's take a moment.
const END: Duration = Duration::from_secs(20);

/// The first process of a machine takes in the processes that others leave.
const HOLD_MACHINE: &str = "sleep infinity & while :; do wait; done";

/// No child here: it would outlive its parent, and the network with it.
const HOLD_NETWORK: &str = "exec sleep infinity";

/// The purpose of a set of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A network, and nothing else.
    Network,
    /// A machine: network, mounts, processes, host name, shared memory.
    Machine,
}

/// A set of namespaces. Dropping it ends all that is in them.
#[derive(Debug)]
pub struct Namespaces {
    holder: Process,
    /// The first process in them, by its id outside.
    first: u32,
    kind: Kind,
}

impl Namespaces {
    /// Makes a set; `setup` runs in it, as shell, before anything else does, with `args` as `$1`, `$2`, ….
    pub async fn new(
        kind: Kind,
        name: &'static str,
        setup: &str,
        args: &[&str],
        log: &Path,
    ) -> Result<Self> {
        let ready = log.with_extension("ready");
        fs::remove_file(&ready).ok();
        let mut command = process::tied("unshare");
        match kind {
            Kind::Network => command.args(["--net"]),
            // `--kill-child`: the first process dies with `unshare`, which dies with us.
            Kind::Machine => command.args([
                "--net",
                "--mount",
                "--pid",
                "--uts",
                "--ipc",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ]),
        };
        // The descriptor is opened first: the script may hide the folder by a mount.
        let hold = match kind {
            Kind::Network => HOLD_NETWORK,
            Kind::Machine => HOLD_MACHINE,
        };
        let script =
            format!("set -eu\nexec 3>\"$1\"\nshift\n{setup}\necho ready >&3\nexec 3>&-\n{hold}");
        command
            .args(["sh", "-c", &script, name])
            .arg(&ready)
            .args(args);
        let holder = Process::start(name, command, log)?;
        let begun = || async {
            if let Some(status) = holder.exited()? {
                return Err(holder.start_error(format!("its namespaces failed ({status})")));
            }
            Ok(fs::read_to_string(&ready).unwrap_or_default())
        };
        wait::until_state("namespaces", START, begun, |text| text == "ready\n").await?;
        let first = match kind {
            Kind::Network => holder.id(),
            Kind::Machine => child_of(holder.id())?,
        };
        Ok(Self {
            holder,
            first,
            kind,
        })
    }

    /// The id of their first process.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// A command that runs in them.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.arg(format!("--target={}", self.first));
        match self.kind {
            Kind::Network => command.arg("--net"),
            Kind::Machine => command.args(["--net", "--mount", "--pid", "--uts", "--ipc"]),
        };
        command.arg("--").arg(program);
        command
    }

    /// Runs a shell script in them and returns what it printed.
    pub async fn shell(&self, script: &str, args: &[&str]) -> Result<String> {
        let mut command = self.command("sh");
        command.args(["-euc", script, "sh"]).args(args);
        run("a command in a namespace", command).await
    }

    /// Starts a server in them.
    pub fn start(&self, name: &'static str, command: Command, log: &Path) -> Result<Inside> {
        let process = Process::start(name, command, log)?;
        let started = Instant::now();
        // `nsenter` is outside of the process namespace; the server is its child.
        let pid = loop {
            match child_of(process.id()) {
                Ok(pid) => break pid,
                Err(error) if started.elapsed() > START => return Err(error),
                Err(_) => thread::sleep(Duration::from_millis(5)),
            }
            if let Some(status) = process.exited()? {
                return Err(process.start_error(format!("it ended ({status})")));
            }
        };
        Ok(Inside { process, pid, name })
    }

    /// A path inside as it is seen from outside.
    pub fn path(&self, inside: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{inside}", self.first))
    }

    /// Does something in the network namespace, on a thread that ends with it.
    pub fn in_network<T: Send>(&self, act: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = format!("/proc/{}/ns/net", self.first);
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                enter_network(Path::new(&path))?;
                act()
            });
            inside.join().unwrap_or_else(|_| {
                Err(Error::Other(
                    "a thread in a network namespace panicked".into(),
                ))
            })
        })
    }

    /// A socket that listens in the network namespace, and is served from here.
    pub fn listen(&self, address: SocketAddr) -> Result<TcpListener> {
        self.in_network(|| {
            let socket = TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        })
    }

    /// Ends all that is in them, and waits for that.
    pub fn end(&self) -> Result<()> {
        if self.kind == Kind::Machine && child_of(self.holder.id()).ok() == Some(self.first) {
            signal(self.first, Signal::KILL).ok();
        }
        self.holder.kill()?;
        let started = Instant::now();
        while alive(self.first) {
            if started.elapsed() > END {
                let stack = fs::read_to_string(format!("/proc/{}/stack", self.first));
                let what = "the processes of a namespace to end";
                return Err(Error::late(what, END, &stack.unwrap_or_default()));
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // There is nobody left to tell.
        self.end().ok();
    }
}

/// A server inside namespaces.
#[derive(Debug)]
pub struct Inside {
    /// The process that started it and waits for it.
    process: Process,
    pid: u32,
    name: &'static str,
}

impl Inside {
    /// An error with the end of its log, if it has ended by itself.
    pub fn still_up(&self) -> Result<()> {
        self.process.still_up()
    }

    /// The error for a server that did not come up.
    pub fn start_error(&self, why: impl Display) -> Error {
        self.process.start_error(why)
    }

    /// Ends it at once, and waits for that. Processes that it started live on.
    pub async fn kill(&self) -> Result<()> {
        if self.process.exited()?.is_some() {
            return Ok(());
        }
        signal(self.pid, Signal::KILL)?;
        let ended = || async { Ok(self.process.exited()?.is_some()) };
        wait::until_state(&format!("{} to end", self.name), END, ended, |ended| *ended).await?;
        Ok(())
    }
}

/// Moves the calling thread into a network namespace, for good.
pub(super) fn enter_network(path: &Path) -> Result<()> {
    let file = fs::File::open(path)?;
    let entered = move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network));
    // The detector asks for the operating system's error.
    Ok(entered.map_err(io::Error::from)?)
}

/// Runs a command to its end and returns what it printed.
pub(super) async fn run(what: &str, command: Command) -> Result<String> {
    let what = format!("{what} ({command:?})");
    let answer = process::within(&what, command, COMMAND).await?;
    process::success(what, answer)
}

/// The only child of a process.
fn child_of(pid: u32) -> Result<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let text = fs::read_to_string(&path)?;
    text.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .ok_or_else(|| Error::Other(format!("{path}: no child is there")))
}

fn alive(pid: u32) -> bool {
    // A process that no parent has waited for yet (a zombie) is dead all the same.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .is_some_and(|rest| rest.starts_with(" Z"))
    })
}

fn signal(pid: u32, signal: Signal) -> Result<()> {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return Err(Error::Other(format!("{pid} is no process id")));
    };
    Ok(kill_process(pid, signal)?)
}
