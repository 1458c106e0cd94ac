//! Server processes that end with us, whatever way we end.
//!
//! Rust never drops a static, and a killed test binary drops nothing at all; so every server is started
//! under `setpriv --pdeathsig KILL`. The kernel sends that signal when the *thread* that started the child
//! ends, and a test's thread ends with the test; so one thread of ours, which lives as long as the
//! process, starts them all. A process is only ever ended by the id under which it was started here.

use std::{
    ffi::OsStr,
    fmt::Display,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::{Mutex, MutexGuard, OnceLock, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::AsyncWriteExt as _;

use crate::{Error, Result};

/// How often an ending process is looked at.
const POLL: Duration = Duration::from_millis(20);

/// A command that dies with the thread that starts it, by `setpriv` of util-linux.
pub fn tied(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

/// Runs a command to its end; its output, or an error with all that it said.
///
/// # Errors
/// If it cannot be started, or fails.
pub fn said(command: &mut Command) -> Result<String> {
    let what = command.get_program().display().to_string();
    let output = command.output().map_err(not_started(&what))?;
    success(format!("{command:?}"), output)
}

/// The output of a command that has ended well, or an error with all that it said.
pub fn success(what: impl Into<String>, output: Output) -> Result<String> {
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if output.status.success() {
        return Ok(text(output.stdout));
    }
    let (what, status) = (what.into(), output.status);
    let told = [output.stdout, output.stderr].map(text).concat();
    Err(Error::Other(format!("{what} failed ({status}):\n{told}")))
}

/// The error about a program that could not be started, which names it.
fn not_started(what: &str) -> impl FnOnce(io::Error) -> Error {
    move |error| Error::Other(format!("cannot start {what}: {error}"))
}

/// Runs a command that reads nothing to its end, which has to come in this time.
pub async fn within(what: &str, command: Command, patience: Duration) -> Result<Output> {
    fed(what, command, "", patience).await
}

/// The same of a command that reads this text.
pub async fn fed(what: &str, command: Command, input: &str, patience: Duration) -> Result<Output> {
    let mut child = tokio::process::Command::from(command)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(not_started(what))?;
    let stdin = child.stdin.take();
    let ended = async move {
        if let Some(mut stdin) = stdin {
            // A program that ended before it read says why in its output.
            stdin.write_all(input.as_bytes()).await.ok();
        }
        child.wait_with_output().await
    };
    let ended = tokio::time::timeout(patience, ended).await;
    let late = |_| Error::late(&format!("{what} to end"), patience, "it still ran");
    Ok(ended.map_err(late)??)
}

/// Takes a lock. A panic while somebody held it left nothing half done here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running server.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    pid: u32,
    log: PathBuf,
    child: Mutex<Child>,
}

impl Process {
    /// Starts a server. Its output is appended to `log`.
    pub fn start(name: &'static str, mut command: Command, log: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(log)?;
        let second = file.try_clone()?;
        command.stdin(Stdio::null()).stdout(file).stderr(second);
        let child = spawn(command).map_err(not_started(name))?;
        Ok(Self {
            name,
            pid: child.id(),
            log: log.to_owned(),
            child: Mutex::new(child),
        })
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// The log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    pub fn exited(&self) -> Result<Option<ExitStatus>> {
        Ok(self.child().try_wait()?)
    }

    /// An error with the end of its log, if it has ended by itself.
    pub fn still_up(&self) -> Result<()> {
        match self.exited()? {
            None => Ok(()),
            Some(status) => Err(self.start_error(format!("it ended ({status})"))),
        }
    }

    /// Stops it where it is (SIGSTOP): connections stay open and nothing answers.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Lets a paused process go on.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Asks it to end (SIGTERM).
    pub fn terminate(&self) -> Result<()> {
        self.signal(Signal::TERM)
    }

    /// Ends it at once and waits for that.
    pub fn kill(&self) -> Result<()> {
        let mut child = self.child();
        child.kill()?;
        child.wait()?;
        Ok(())
    }

    /// Asks it to end, waits, and kills it when `grace` has passed.
    pub async fn stop(&self, grace: Duration) -> Result<()> {
        if self.exited()?.is_some() {
            return Ok(());
        }
        // A paused process would take the request only after it went on.
        self.signal(Signal::CONT)?;
        self.terminate()?;
        let started = Instant::now();
        while started.elapsed() < grace {
            if self.exited()?.is_some() {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
        self.kill()
    }

    /// The error for a server that did not come up.
    pub fn start_error(&self, why: impl Display) -> Error {
        let (name, log, tail) = (self.name, self.log.display(), tail(&self.log, 25));
        Error::Other(format!(
            "{name} did not start: {why}\n--- the end of {log} (IPGC_E2E_KEEP=1 keeps it) ---\n{tail}"
        ))
    }

    /// The outcome of a wait for its start: one in vain is a server that did not come up.
    pub fn started<T>(&self, waited: Result<T>) -> Result<T> {
        match waited {
            Err(late @ Error::Deadline(_)) => Err(self.start_error(late)),
            result => result,
        }
    }

    /// Sends a signal, unless the process is gone and its id may be someone else's.
    fn signal(&self, signal: Signal) -> Result<()> {
        let mut child = self.child();
        if child.try_wait()?.is_some() {
            return Err(Error::Other(format!("{} has ended already", self.name)));
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            kill_process(pid, signal)?;
        }
        Ok(())
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        lock(&self.child)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Either works or the process is gone; there is nobody left to tell.
        self.kill().ok();
    }
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// Starts a command from the thread that lives as long as this process.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<mpsc::Sender<Order>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (orders, inbox) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in inbox {
                // An asker that went away leaves a child without an owner: end it.
                if let Err(mpsc::SendError(Ok(mut child))) = answer.send(command.spawn()) {
                    child.kill().ok();
                    child.wait().ok();
                }
            }
        });
        Mutex::new(orders)
    });
    let gone = || io::Error::other("the thread that starts servers is gone");
    let (answer, inbox) = mpsc::channel();
    lock(spawner).send((command, answer)).map_err(|_| gone())?;
    inbox.recv().map_err(|_| gone())?
}

/// `PID-START`, by which a process is told from a later one of the same id.
pub fn owner(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the start time is the 20th field after it.
    let begun = stat
        .rsplit(')')
        .next()?
        .split_whitespace()
        .nth(19)?
        .to_owned();
    Some(format!("{pid}-{begun}"))
}

/// The last lines of a file; empty when it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
