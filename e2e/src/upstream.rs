//! Upstream's own collectors, ip-control-loop and ip-reconciler, beside ours.
//!
//! Both read fixed paths (`/var/run/secrets/…`, `/host/etc/cni/…`, `/cron-schedule/config`). They are
//! static programs, so each gets a small root of its own under the folder of the run and is started by
//! `chroot`; nothing is mounted and no path of the machine is written. That needs root, and only servers of
//! ours, since it hands out a token.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use crate::{
    ControlPlane, Error, Namespace, Result,
    access::write_private,
    cluster::unique,
    control_plane::ADMIN,
    process::{self, Process},
    tools::Tool,
    wait::{self, Probe},
};

/// Where a pod finds its service account.
const SERVICE_ACCOUNT: &str = "var/run/secrets/kubernetes.io/serviceaccount";

/// Where the daemon set mounts the node's CNI configuration.
const FLAT_FILES: &str = "host/etc/cni/net.d/whereabouts.d";

/// Its informers are in sync after a second.
const START: Duration = Duration::from_secs(30);

/// One of upstream's collectors. Dropping it ends it.
#[derive(Debug)]
pub struct Upstream {
    process: Process,
    root: PathBuf,
}

impl Upstream {
    /// Starts the per-node loop for a node whose object exists, over the pools of one namespace.
    pub async fn control_loop(plane: &ControlPlane, pools: &Namespace, node: &str) -> Result<Self> {
        let (audit, mark) = (plane.audit(), plane.audit().mark()?);
        let upstream = Self::start(plane, pools, Tool::IpControlLoop, None, Some(node)).await?;
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

    /// Starts the cron collector with a schedule, such as `@every 2s`. It looks at all
    /// namespaces, so give it servers that no other test uses.
    pub async fn reconciler(
        plane: &ControlPlane,
        pools: &Namespace,
        schedule: &str,
    ) -> Result<Self> {
        Self::start(plane, pools, Tool::IpReconciler, Some(schedule), None).await
    }

    /// Waits until it has logged a line with this text.
    pub async fn says(&self, text: &str) -> Result<()> {
        let what = format!("upstream to log {text:?}");
        wait::until(&what, START, || async move {
            self.still_up()?;
            let log = self.log()?;
            Ok(if log.contains(text) {
                Probe::Done(())
            } else {
                Probe::NotYet(process::tail(self.process.log(), 10))
            })
        })
        .await
    }

    /// All it has logged.
    pub fn log(&self) -> Result<String> {
        fs::read_to_string(self.process.log()).map_err(Error::io("read upstream's log"))
    }

    /// Its process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    fn still_up(&self) -> Result<()> {
        match self.process.exited()? {
            None => Ok(()),
            Some(status) => Err(self.process.start_error(format!("it ended ({status})"))),
        }
    }

    async fn start(
        plane: &ControlPlane,
        pools: &Namespace,
        tool: Tool,
        schedule: Option<&str>,
        node: Option<&str>,
    ) -> Result<Self> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Unsupported(format!(
                "{} reads fixed paths and is started by chroot, which needs root",
                tool.name()
            )));
        }
        let root = plane.dir().join(unique(tool.name()));
        lay_out(&root, plane, pools, schedule)?;
        place(&tool.path().await?, &root.join(tool.name()))?;

        let mut command = process::tied("chroot");
        command
            .arg(&root)
            .arg(format!("/{}", tool.name()))
            .arg("-log-level=verbose")
            .env_clear()
            // `setpriv` and `chroot` are looked up in it.
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
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
        // What stays goes away with the folder of the run.
        fs::remove_dir_all(&self.root).ok();
    }
}

/// Writes the files that the program finds under its root.
fn lay_out(
    root: &Path,
    plane: &ControlPlane,
    pools: &Namespace,
    schedule: Option<&str>,
) -> Result<()> {
    let folder = |path: &str| {
        let path = root.join(path);
        fs::create_dir_all(&path).map_err(Error::io(format!("create {}", path.display())))?;
        Ok::<_, Error>(path)
    };
    let account = folder(SERVICE_ACCOUNT)?;
    write_private(&account.join("token"), plane.token(ADMIN)?.as_bytes())?;
    write_private(&account.join("ca.crt"), plane.ca_pem())?;
    write_private(&account.join("namespace"), pools.name.as_bytes())?;
    let flat = folder(FLAT_FILES)?;
    // The path as the program sees it.
    let kubeconfig = format!("/{FLAT_FILES}/whereabouts.kubeconfig");
    plane
        .access(ADMIN)?
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
        fs::copy(program, target).map_err(Error::io(format!("copy {}", program.display())))?;
    }
    Ok(())
}
