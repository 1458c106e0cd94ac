//! Upstream's own collectors, ip-control-loop and ip-reconciler, beside ours.
//!
//! Both read fixed paths (`/var/run/secrets/…`, `/host/etc/cni/…`, `/cron-schedule/config`). They are
//! static programs, so each gets a small root of its own under the folder of the run and is started by
//! `chroot`; nothing is mounted and no path of the machine is written. Without root that happens in a user
//! namespace, where the kernel allows one. It needs servers of ours, since it hands out a token.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;
use tokio::sync::Mutex;

use crate::{
    ControlPlane, Namespace, Result,
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
        let chroot: &[&str] = if rustix::process::geteuid().is_root() {
            &["chroot"]
        } else {
            &["unshare", "--user", "--map-root-user", "chroot"]
        };
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

/// Writes the files that the program finds under its root.
fn lay_out(
    root: &Path,
    user: &str,
    plane: &ControlPlane,
    pools: &Namespace,
    schedule: Option<&str>,
) -> Result<()> {
    let access = plane.access(user)?.in_namespace(&pools.name);
    access.write_account(&root.join(SERVICE_ACCOUNT))?;
    let flat = root.join(FLAT_FILES);
    fs::create_dir_all(&flat)?;
    access.write(&flat.join("whereabouts.kubeconfig"))?;
    // The path as the program sees it.
    let kubeconfig = format!("/{FLAT_FILES}/whereabouts.kubeconfig");
    let text = json!({"kubernetes": {"kubeconfig": kubeconfig}}).to_string();
    write_private(&flat.join("whereabouts.conf"), text.as_bytes())?;
    if let Some(schedule) = schedule {
        let folder = root.join("cron-schedule");
        fs::create_dir_all(&folder)?;
        write_private(&folder.join("config"), schedule.as_bytes())?;
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
