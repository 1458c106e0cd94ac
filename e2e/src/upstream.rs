//! Upstream's own collectors, ip-control-loop and ip-reconciler, beside ours.
//!
//! Both read fixed paths (`/var/run/secrets/…`, `/host/etc/cni/…`, `/cron-schedule/config`). They are
//! static programs, so each gets a small root of its own under the folder of the run and is started by
//! `chroot`; nothing is mounted and no path of the machine is written. Without root that happens in a user
//! namespace, where the kernel allows one. It needs servers of ours, since it hands out a token.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    ControlPlane, Error, Namespace, Result,
    access::write_private,
    cluster::unique,
    process::{self, Process},
    tools::Tool,
    wait,
};

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Where the daemon set mounts the node's CNI configuration.
const FLAT_FILES: &str = "host/etc/cni/net.d/whereabouts.d";

/// The ways to a root of one's own, the one for root first.
const CHROOT: [&[&str]; 2] = [
    &["chroot"],
    &["unshare", "--user", "--map-root-user", "chroot"],
];

/// Where their programs are, also for a user whose own `PATH` leaves out `sbin`.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Its informers are in sync after a second.
const START: Duration = Duration::from_secs(30);

/// One of upstream's collectors. Dropping it ends it.
#[derive(Debug)]
pub struct Upstream {
    process: Process,
    root: PathBuf,
}

impl Upstream {
    /// Starts the per-node loop, with the rights of this user, for a node whose object exists, over the pools of one
    /// namespace.
    pub async fn control_loop(
        user: &str,
        plane: &ControlPlane,
        pools: &Namespace,
        node: &str,
    ) -> Result<Self> {
        // Two that begin at the same time could not be told apart in the audit log.
        static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());
        let _turn = ONE_AT_A_TIME.lock().await;
        let (audit, mark) = (plane.audit(), plane.audit().mark()?);
        let upstream =
            Self::start(user, plane, pools, Tool::IpControlLoop, None, Some(node)).await?;
        // It logs no word about its caches; once all three watches are there, nothing is missed.
        let begun = || async {
            upstream.still_up()?;
            let mut watched = BTreeSet::new();
            for request in audit.since(mark)? {
                if request.verb == "watch" && request.user_agent.starts_with("ip-control-loop/") {
                    watched.insert(request.resource);
                }
            }
            Ok(watched)
        };
        wait::until_state("upstream's three watches", START, begun, |watched| {
            watched.len() == 3
        })
        .await?;
        Ok(upstream)
    }

    /// Starts the cron collector, with the rights of this user and a schedule such as `@every 2s`. It looks at all
    /// namespaces, so give it servers that no other test uses.
    pub async fn reconciler(
        user: &str,
        plane: &ControlPlane,
        pools: &Namespace,
        schedule: &str,
    ) -> Result<Self> {
        Self::start(user, plane, pools, Tool::IpReconciler, Some(schedule), None).await
    }

    /// All it has logged.
    pub fn log(&self) -> Result<String> {
        Ok(fs::read_to_string(self.process.log())?)
    }

    /// Its process.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// An error with the end of its log, if it has ended by itself.
    pub fn still_up(&self) -> Result<()> {
        self.process.still_up()
    }

    async fn start(
        user: &str,
        plane: &ControlPlane,
        pools: &Namespace,
        tool: Tool,
        schedule: Option<&str>,
        node: Option<&str>,
    ) -> Result<Self> {
        let chroot = chroot(tool)?;
        let root = plane.dir().join(unique(tool.name()));
        lay_out(&root, user, plane, pools, schedule)?;
        place(&tool.path().await?, &root.join(tool.name()))?;

        let mut command = process::tied(chroot[0]);
        command
            .args(&chroot[1..])
            .arg(&root)
            .arg(format!("/{}", tool.name()))
            .arg("-log-level=verbose")
            .env_clear()
            // `setpriv`, `unshare` and `chroot` are looked up in it.
            .env("PATH", PATH)
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", plane.port().to_string())
            .env("WHEREABOUTS_NAMESPACE", &pools.name);
        if let Some(node) = node {
            command.env("NODENAME", node);
        }
        let process = Process::start(tool.name(), command, &root.with_extension("log"))?;
        Ok(Self { process, root })
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.process.kill().ok();
        // Files that cannot be removed go away with the folder of the run.
        fs::remove_dir_all(&self.root).ok();
    }
}

/// The command that gives a program a root of its own: as root, else in a user namespace.
fn chroot(tool: Tool) -> Result<&'static [&'static str]> {
    let mut refusals = String::new();
    for way in CHROOT {
        let answer = Command::new(way[0])
            .args(&way[1..])
            .args(["/", "true"])
            .env("PATH", PATH)
            .stdin(Stdio::null())
            .output();
        let why = match answer {
            Ok(answer) if answer.status.success() => return Ok(way),
            Ok(answer) => String::from_utf8_lossy(&answer.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        // Writing to a String does not fail.
        write!(refusals, "\n`{} / true`: {why}", way.join(" ")).ok();
    }
    Err(Error::Other(format!(
        "{} reads fixed paths and has to be started by chroot: run as root, or allow user \
         namespaces (sysctl user.max_user_namespaces above 0, and where there are \
         kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0; \
         Debian: util-linux, coreutils){refusals}",
        tool.name()
    )))
}

/// Writes the files that the program finds under its root.
fn lay_out(
    root: &Path,
    user: &str,
    plane: &ControlPlane,
    pools: &Namespace,
    schedule: Option<&str>,
) -> Result<()> {
    let folder = |path: &str| {
        let path = root.join(path);
        fs::create_dir_all(&path)?;
        Ok::<_, Error>(path)
    };
    let account = folder(SERVICE_ACCOUNT)?;
    write_private(&account.join("token"), plane.token(user)?.as_bytes())?;
    write_private(&account.join("ca.crt"), plane.ca_pem())?;
    write_private(&account.join("namespace"), pools.name.as_bytes())?;
    let flat = folder(FLAT_FILES)?;
    // The path as the program sees it.
    let kubeconfig = format!("/{FLAT_FILES}/whereabouts.kubeconfig");
    plane
        .access(user)?
        .in_namespace(&pools.name)?
        .write(&flat.join("whereabouts.kubeconfig"))?;
    let text = json!({"kubernetes": {"kubeconfig": kubeconfig}}).to_string();
    write_private(&flat.join("whereabouts.conf"), text.as_bytes())?;
    if let Some(schedule) = schedule {
        write_private(
            &folder("cron-schedule")?.join("config"),
            schedule.as_bytes(),
        )?;
    }
    Ok(())
}

/// Links the program into its root, or copies it where the cache is on another file system.
fn place(program: &Path, target: &Path) -> Result<()> {
    if fs::hard_link(program, target).is_err() {
        fs::copy(program, target)?;
    }
    Ok(())
}
