//! etcd and kube-apiserver on loopback, in a folder of the run; the controller manager if asked for.
//!
//! The server's own self-signed certificate is the CA, users are bearer tokens, authorization is RBAC, and
//! an audit log at level Metadata counts requests. There is no kubelet and no scheduler: pods get their
//! `nodeName` and their status from [`crate::pods`]. The `ServiceAccount` admission plugin is off, since
//! nobody makes the default service accounts; tokens for service accounts are made by the server all the
//! same ([`ControlPlane::service_account`]).
//!
//! All processes end with this one ([`crate::process`]). Ports are free ones of the system's choice; when
//! somebody takes one before the server does, the start is tried again with others.

mod servers;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::Mutex,
    time::Duration,
};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use kube::{Api, Client, api::PostParams};
use tokio::sync::OnceCell;

use crate::{
    Error, Result,
    access::{Access, HARNESS_AGENT},
    audit::AuditLog,
    crds,
    process::{Process, lock, said},
    rundir::RunDir,
    tools::{self, Tool},
    wait::{self, Probe},
};
use servers::{Addresses, Files};

/// How often a start is tried with other ports.
const ATTEMPTS: usize = 3;

/// etcd and the API server are ready in 5 s; this is for a machine that compiles at the same time.
const START: Duration = Duration::from_secs(240);

/// Time for a server to end by itself; etcd takes a tenth of a second.
const GRACE: Duration = Duration::from_secs(10);

/// The user that may do everything.
pub const ADMIN: &str = "e2e-admin";

/// The servers to start, and how.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Controllers for a kube-controller-manager, by the names of its `--controllers` flag; none: it is
    /// not started. Without `namespace-controller` a deleted namespace stays for ever.
    pub controllers: Vec<String>,
    /// Users beside [`ADMIN`], with their groups.
    pub users: Vec<(String, Vec<String>)>,
    /// More flags for the API server, such as `--max-requests-inflight=5`.
    pub api_server_args: Vec<String>,
    /// More flags for the kube-controller-manager.
    pub controller_manager_args: Vec<String>,
    /// Whether pods get their service account's token and CA, as they do in a cluster. It needs the
    /// controllers that make accounts, and it makes the audit log tell what was written into pools.
    pub accounts: bool,
    /// The API server's port; none: a free one of the system's choice.
    pub port: Option<u16>,
    /// Whether the CRDs are left out.
    pub without_crds: bool,
}

impl Options {
    /// With the controllers that scenarios have use for: namespaces get their default service account and
    /// end when they are deleted, and pods of nodes that are gone are collected.
    pub fn with_controllers(mut self) -> Self {
        self.controllers = [
            "namespace-controller",
            "serviceaccount-controller",
            "pod-garbage-collector-controller",
        ]
        .map(str::to_owned)
        .to_vec();
        self
    }
}

/// Running servers. Dropping it ends them.
#[derive(Debug)]
pub struct ControlPlane {
    // The order matters: the field that is dropped first ends first, and the folder goes last.
    controller_manager: Option<Process>,
    api_server: Mutex<std::sync::Arc<Process>>,
    etcd: Mutex<std::sync::Arc<Process>>,
    files: Files,
    addresses: Addresses,
    options: Options,
    ca_pem: Vec<u8>,
    _dir: RunDir,
}

impl ControlPlane {
    /// Starts the servers and waits until they answer.
    pub async fn start(options: Options) -> Result<Self> {
        tools::build_missing(false).await?;
        let etcd = Tool::Etcd.path().await?;
        let api_server = Tool::KubeApiserver.path().await?;
        let controller_manager = if options.controllers.is_empty() {
            None
        } else {
            Some(Tool::KubeControllerManager.path().await?)
        };
        let mut last = None;
        // A port of the caller's choice does not become free by trying again.
        let attempts = if options.port.is_some() { 1 } else { ATTEMPTS };
        for _ in 0..attempts {
            match Self::attempt(&etcd, &api_server, controller_manager.as_deref(), &options).await {
                Err(error) if port_taken(&error) => last = Some(error),
                result => return result,
            }
        }
        Err(last.unwrap_or_else(|| Error::Other("no attempt was made".into())))
    }

    /// The servers that all tests of this binary share, with the default options.
    ///
    /// They end with the process. Tests keep apart by namespaces of their own.
    pub async fn shared() -> Result<&'static Self> {
        static SHARED: OnceCell<ControlPlane> = OnceCell::const_new();
        SHARED
            .get_or_try_init(|| Self::start(Options::default()))
            .await
    }

    async fn attempt(
        etcd: &Path,
        api_server: &Path,
        controller_manager: Option<&Path>,
        options: &Options,
    ) -> Result<Self> {
        let dir = RunDir::create()?;
        let files = Files::write(dir.path(), options)?;
        let addresses = Addresses::free(options.port)?;
        let etcd = servers::start_etcd(etcd, &files, addresses)?;
        let api_server = servers::start_api_server(api_server, &files, addresses, options)?;
        let ca_pem = servers::ca(&api_server, &etcd, &files, START).await?;
        let mut plane = Self {
            controller_manager: None,
            api_server: Mutex::new(api_server.into()),
            etcd: Mutex::new(etcd.into()),
            files,
            addresses,
            options: options.clone(),
            ca_pem,
            _dir: dir,
        };
        plane.ready(&plane.url(), &plane.api_server()).await?;
        if !plane.options.without_crds {
            crds::install(&plane.admin().await?).await?;
        }
        if let Some(program) = controller_manager {
            let kubeconfig = plane.files.dir.join("controller-manager.kubeconfig");
            plane.access(ADMIN)?.write(&kubeconfig)?;
            let manager = servers::start_controller_manager(
                program,
                &plane.files,
                &kubeconfig,
                &plane.options,
            )?;
            servers::controllers_begun(&manager, START).await?;
            plane.controller_manager = Some(manager);
        }
        Ok(plane)
    }

    /// Waits until the API server at this URL says that it is ready.
    async fn ready(&self, url: &str, server: &Process) -> Result<()> {
        let client = self.access_at(url, ADMIN)?.client(HARNESS_AGENT).await?;
        let (client, etcd) = (&client, &self.etcd());
        let waited = wait::until("kube-apiserver to be ready", START, || async move {
            server.still_up()?;
            etcd.still_up()?;
            let request = http::Request::get("/readyz?verbose").body(Vec::new())?;
            Ok(match client.request_text(request).await {
                Ok(_) => Probe::Done(()),
                Err(error) => Probe::NotYet(error.to_string()),
            })
        })
        .await;
        server.started(waited)
    }

    /// The API server's URL.
    pub fn url(&self) -> String {
        self.addresses.url()
    }

    /// etcd's URL, where objects can be put that the API would take too long for.
    pub fn etcd_url(&self) -> String {
        self.addresses.etcd_url()
    }

    /// Port of the API server, on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.addresses.api_server
    }

    /// The folder of this run: logs, audit log, and whatever a test puts there.
    pub fn dir(&self) -> &Path {
        &self.files.dir
    }

    /// The way in of a user.
    pub fn access(&self, user: &str) -> Result<Access> {
        self.access_at(&self.url(), user)
    }

    /// The way in of a service account, with a fresh token from the server. The account must exist.
    pub async fn service_account(&self, namespace: &str, name: &str) -> Result<Access> {
        let api: Api<k8s_openapi::api::core::v1::ServiceAccount> =
            Api::namespaced(self.admin().await?, namespace);
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let token = api
            .create_token_request(name, &PostParams::default(), &request)
            .await?
            .status
            .ok_or_else(|| Error::Other("a token without a status".into()))?
            .token;
        let user = format!("system:serviceaccount:{namespace}:{name}");
        Ok(Access::with_token(&self.url(), &self.ca_pem, &user, &token))
    }

    /// A new client of [`ADMIN`].
    pub async fn admin(&self) -> Result<Client> {
        self.access(ADMIN)?.client(HARNESS_AGENT).await
    }

    /// The way in of a user who reaches the server at another URL, such as from a network of the run.
    pub fn access_at(&self, url: &str, user: &str) -> Result<Access> {
        let token = self.files.tokens.get(user);
        let token = token.ok_or_else(|| Error::Other(format!("no user {user:?} was set up")))?;
        Ok(Access::with_token(url, &self.ca_pem, user, token))
    }

    /// Writes a kubeconfig file of [`ADMIN`] into the folder of the run.
    pub fn kubeconfig(&self) -> Result<PathBuf> {
        let path = self.files.dir.join("admin.kubeconfig");
        self.access(ADMIN)?.write(&path)?;
        Ok(path)
    }

    /// The audit log.
    pub fn audit(&self) -> AuditLog {
        AuditLog::new(&self.files.audit_log)
    }

    /// The API server's process, to pause, resume or kill it.
    pub fn api_server(&self) -> std::sync::Arc<Process> {
        lock(&self.api_server).clone()
    }

    /// etcd's process, to pause or resume it.
    pub fn etcd(&self) -> std::sync::Arc<Process> {
        lock(&self.etcd).clone()
    }

    /// Starts the API server again, on the same port and data, after a test killed or stopped it.
    pub async fn restart_api_server(&self) -> Result<()> {
        self.api_server().stop(GRACE).await?;
        let program = Tool::KubeApiserver.path().await?;
        let server =
            servers::start_api_server(&program, &self.files, self.addresses, &self.options)?;
        *lock(&self.api_server) = server.into();
        self.ready(&self.url(), &self.api_server()).await
    }

    /// Starts another API server on the same store, and waits until it answers. Returns it and its URL. It has an
    /// audit log of its own.
    pub async fn another_api_server(&self) -> Result<(Process, String)> {
        let program = Tool::KubeApiserver.path().await?;
        let mut files = self.files.clone();
        files.audit_log = files.dir.join("audit-another.log");
        let addresses = self.addresses.another()?;
        let server = servers::start_api_server(&program, &files, addresses, &self.options)?;
        self.ready(&addresses.url(), &server).await?;
        Ok((server, addresses.url()))
    }

    /// Files with the API server's certificate and its key, PEM.
    pub fn certificate(&self) -> (PathBuf, PathBuf) {
        let file = |name| self.files.certificates.join(name);
        (file("apiserver.crt"), file("apiserver.key"))
    }

    /// Copies etcd's data, for [`ControlPlane::restore`].
    pub fn back_up(&self) -> Result<()> {
        let (data, copy) = self.data_and_copy();
        let etcd = self.etcd();
        // Nothing is written meanwhile.
        etcd.pause()?;
        let copied = copy_dir(&data, &copy);
        etcd.resume()?;
        copied
    }

    /// Stops the servers, puts the copy in the place of etcd's data, and starts them again.
    pub async fn restore(&self) -> Result<()> {
        let (data, copy) = self.data_and_copy();
        self.api_server().stop(GRACE).await?;
        self.etcd().stop(GRACE).await?;
        fs::remove_dir_all(&data)?;
        copy_dir(&copy, &data)?;
        let program = Tool::Etcd.path().await?;
        let etcd = servers::start_etcd(&program, &self.files, self.addresses)?;
        *lock(&self.etcd) = etcd.into();
        self.restart_api_server().await
    }

    fn data_and_copy(&self) -> (PathBuf, PathBuf) {
        (
            self.files.dir.join("etcd"),
            self.files.dir.join("etcd-copy"),
        )
    }

    /// Ends all servers in order and removes the folder of the run.
    pub async fn stop(self) -> Result<()> {
        if let Some(manager) = &self.controller_manager {
            manager.stop(GRACE).await?;
        }
        self.api_server().stop(GRACE).await?;
        self.etcd().stop(GRACE).await
    }
}

/// Copies a folder, with all that is in it, to a place where nothing is.
fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    said(Command::new("cp").arg("-R").args([from, to])).map(drop)
}

/// Whether a server failed because somebody else had its port.
fn port_taken(error: &Error) -> bool {
    error.to_string().contains("address already in use")
}
