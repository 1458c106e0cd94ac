//! The flags and files of each server. Knows how a server is started and nothing of what it is for.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::Duration,
};

use rand::RngExt as _;
use ring::{
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _},
};

use super::{ADMIN, Options};
use crate::{
    Error, Result,
    access::write_private,
    process::{self, Process},
    wait::{self, Probe},
};

/// Every answered request once, every watch also when it begins.
const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
";

/// The same, with the patches of pools, which show the user that removed a row, and with what events say.
const AUDIT_POLICY_WITH_POOLS: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Request
  verbs: [patch]
  resources:
  - group: whereabouts.cni.cncf.io
    resources: [ippools]
- level: Request
  verbs: [create]
  resources:
  - group: events.k8s.io
    resources: [events]
- level: Metadata
";

/// The ports of one control plane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addresses {
    etcd: u16,
    etcd_peers: u16,
    pub(super) api_server: u16,
}

impl Addresses {
    /// Three ports that are free now, one of them perhaps of the caller's choice. They are held until
    /// all are chosen, so they differ.
    pub(super) fn free(api_server: Option<u16>) -> Result<Self> {
        let bind = |port: u16| {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port))
                .map_err(|error| Error::Other(format!("port {port} of 127.0.0.1: {error}")))
        };
        let held = [bind(0)?, bind(0)?, bind(api_server.unwrap_or(0))?];
        let port = |index: usize| Ok::<_, Error>(held[index].local_addr()?.port());
        Ok(Self {
            etcd: port(0)?,
            etcd_peers: port(1)?,
            api_server: port(2)?,
        })
    }

    /// Those of another API server on the same store.
    pub(super) fn another(self) -> Result<Self> {
        let api_server = Self::free(None)?.api_server;
        Ok(Self { api_server, ..self })
    }

    pub(super) fn url(self) -> String {
        format!("https://127.0.0.1:{}", self.api_server)
    }

    pub(super) fn etcd_url(self) -> String {
        format!("http://127.0.0.1:{}", self.etcd)
    }
}

/// The files that the servers read and write.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) dir: PathBuf,
    pub(super) audit_log: PathBuf,
    /// Bearer tokens by user.
    pub(super) tokens: BTreeMap<String, String>,
    audit_policy: PathBuf,
    token_file: PathBuf,
    pub(super) certificates: PathBuf,
    signing_key: PathBuf,
    public_key: PathBuf,
}

impl Files {
    pub(super) fn write(dir: &Path, options: &Options) -> Result<Self> {
        let files = Self {
            dir: dir.to_owned(),
            audit_log: dir.join("audit.log"),
            tokens: BTreeMap::new(),
            audit_policy: dir.join("audit-policy.yaml"),
            token_file: dir.join("tokens.csv"),
            certificates: dir.join("certificates"),
            signing_key: dir.join("service-accounts.key"),
            public_key: dir.join("service-accounts.pub"),
        };
        let policy = if options.accounts {
            AUDIT_POLICY_WITH_POOLS
        } else {
            AUDIT_POLICY
        };
        write_private(&files.audit_policy, policy.as_bytes())?;
        let (private, public) = signing_key()?;
        write_private(&files.signing_key, private.as_bytes())?;
        write_private(&files.public_key, public.as_bytes())?;
        let mut all = vec![(ADMIN.to_owned(), vec!["system:masters".to_owned()])];
        all.extend_from_slice(&options.users);
        let mut csv = String::new();
        let mut tokens = BTreeMap::new();
        for (user, groups) in all {
            let token = format!("{:032x}", rand::rng().random::<u128>());
            // Writing to a String does not fail.
            writeln!(csv, "{token},{user},{user},\"{}\"", groups.join(",")).ok();
            tokens.insert(user, token);
        }
        write_private(&files.token_file, csv.as_bytes())?;
        Ok(Self { tokens, ..files })
    }
}

/// The bytes before an uncompressed P-256 point in a `SubjectPublicKeyInfo` (RFC 5480): the two sequences,
/// the identifiers of "EC public key" and of the curve, and the head of the bit string.
const P256_PUBLIC_KEY: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A key pair for service-account tokens, both halves PEM: the server wants each in a file of its own.
fn signing_key() -> Result<(String, String)> {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
    // ring's errors are no errors of the standard library.
    let private = EcdsaKeyPair::generate_pkcs8(algorithm, &random)
        .map_err(|error| Error::Other(error.to_string()))?;
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, private.as_ref(), &random)
        .map_err(|error| Error::Other(error.to_string()))?;
    let public = [&P256_PUBLIC_KEY, pair.public_key().as_ref()].concat();
    Ok((
        pem::encode(&pem::Pem::new("PRIVATE KEY", private.as_ref())),
        pem::encode(&pem::Pem::new("PUBLIC KEY", public)),
    ))
}

/// Go's garbage collection at a quarter of its usual pace, until a process is large: etcd and the API servers share two
/// cores with all else.
const GO: [(&str, &str); 2] = [("GOGC", "400"), ("GOMEMLIMIT", "6GiB")];

pub(super) fn start_etcd(program: &Path, files: &Files, at: Addresses) -> Result<Process> {
    let peers = format!("http://127.0.0.1:{}", at.etcd_peers);
    let mut command = process::tied(program);
    command
        .envs(GO)
        .arg("--name=e2e")
        .arg(flag("data-dir", &files.dir.join("etcd")))
        .arg(format!("--listen-client-urls={}", at.etcd_url()))
        .arg(format!("--advertise-client-urls={}", at.etcd_url()))
        .arg(format!("--listen-peer-urls={peers}"))
        .arg(format!("--initial-advertise-peer-urls={peers}"))
        .arg(format!("--initial-cluster=e2e={peers}"))
        // A hundred thousand pods in two versions each are more than the 2 GiB that it grants by itself.
        .arg("--quota-backend-bytes=8589934592")
        // Nothing here has to survive a power cut.
        .arg("--unsafe-no-fsync")
        .arg("--log-level=warn");
    Process::start("etcd", command, &files.dir.join("etcd.log"))
}

pub(super) fn start_api_server(
    program: &Path,
    files: &Files,
    at: Addresses,
    options: &Options,
) -> Result<Process> {
    let mut command = process::tied(program);
    command
        .envs(GO)
        .arg(format!("--etcd-servers={}", at.etcd_url()))
        .args(["--bind-address=127.0.0.1", "--advertise-address=127.0.0.1"])
        .arg(format!("--secure-port={}", at.api_server))
        // An Endpoints object with a loopback address is refused, every ten seconds.
        .arg("--endpoint-reconciler-type=none")
        .arg(flag("cert-dir", &files.certificates))
        .arg(flag("service-account-key-file", &files.public_key))
        .arg(flag("service-account-signing-key-file", &files.signing_key))
        .arg("--service-account-issuer=https://kubernetes.default.svc")
        .arg(flag("token-auth-file", &files.token_file))
        .arg("--authorization-mode=RBAC")
        .arg("--service-cluster-ip-range=10.96.0.0/16")
        .arg("--allow-privileged=true")
        .arg(flag("audit-policy-file", &files.audit_policy))
        .arg(flag("audit-log-path", &files.audit_log))
        // Megabytes: a rotated log would lose counts.
        .arg("--audit-log-maxsize=100000")
        .args(&options.api_server_args);
    if options.accounts {
        // Real pods run on real nodes, to which the way is not everybody's.
        let egress = crate::node::proxy::configure(&files.dir)?;
        command.arg(flag("egress-selector-config-file", &egress));
    } else {
        command.arg("--disable-admission-plugins=ServiceAccount");
    }
    Process::start(
        "kube-apiserver",
        command,
        &files.dir.join("kube-apiserver.log"),
    )
}

pub(super) fn start_controller_manager(
    program: &Path,
    files: &Files,
    kubeconfig: &Path,
    options: &Options,
) -> Result<Process> {
    let mut command = process::tied(program);
    command
        .arg(flag("kubeconfig", kubeconfig))
        .arg(format!("--controllers={}", options.controllers.join(",")))
        .args(["--leader-elect=false", "--secure-port=0"])
        .args(&options.controller_manager_args);
    if options.accounts {
        let ca = files.certificates.join("apiserver.crt");
        command
            .arg(flag("root-ca-file", &ca))
            .arg(flag("service-account-private-key-file", &files.signing_key));
    }
    let log = files.dir.join("kube-controller-manager.log");
    Process::start("kube-controller-manager", command, &log)
}

/// Waits for the certificate that the API server signs for itself, and returns it.
pub(super) async fn ca(
    server: &Process,
    etcd: &Process,
    files: &Files,
    deadline: Duration,
) -> Result<Vec<u8>> {
    let path = &files.certificates.join("apiserver.crt");
    let waited = wait::until("the server's certificate", deadline, || async move {
        server.still_up()?;
        etcd.still_up()?;
        Ok(match fs::read(path) {
            // It is written in one go, but not renamed into place.
            Ok(text) if text.ends_with(b"-----END CERTIFICATE-----\n") => Probe::Done(text),
            Ok(text) => Probe::NotYet(format!("{} bytes", text.len())),
            Err(error) => Probe::NotYet(error.to_string()),
        })
    })
    .await;
    server.started(waited)
}

/// Waits until the controller manager says that its controllers run.
pub(super) async fn controllers_begun(manager: &Process, deadline: Duration) -> Result<()> {
    let log = || async {
        manager.still_up()?;
        Ok(fs::read_to_string(manager.log())?)
    };
    let begun = |log: &String| log.contains("Caches are synced");
    let waited = wait::until_state("the controllers to run", deadline, log, begun).await;
    manager.started(waited.map(drop))
}

fn flag(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}
