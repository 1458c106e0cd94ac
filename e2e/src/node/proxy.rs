//! The API server's way to the kubelets, for `kubectl logs` and `exec`: it is on the machine, they are in
//! the hub's network. It asks for a connection by HTTP CONNECT at a socket file of ours (its egress
//! selector), and a thread in the hub makes it.

use std::{
    os::unix::net::UnixListener as StdListener,
    path::{Path, PathBuf},
    thread::{self, JoinHandle},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UnixListener, UnixStream},
    sync::oneshot,
};

use super::namespaces::enter_network;
use crate::{Result, access::write_private};

/// The longest head of a request that is read.
const HEAD: usize = 4096;

/// The proxy. It ends when it is dropped.
#[derive(Debug)]
pub(super) struct Proxy {
    // Dropping the sender ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Where the socket of a run is.
pub(super) fn socket(folder: &Path) -> PathBuf {
    folder.join("egress")
}

/// Writes the API server's configuration for a socket in `folder`.
pub(crate) fn configure(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("egress.yaml");
    let text = format!(
        "apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection:
    proxyProtocol: HTTPConnect
    transport: {{uds: {{udsName: {}}}}}
",
        socket(folder).display()
    );
    write_private(&path, text.as_bytes())?;
    Ok(path)
}

impl Proxy {
    /// Serves the socket of `folder` from within a network namespace.
    pub(super) fn start(folder: &Path, network: PathBuf) -> Result<Self> {
        let path = socket(folder);
        let listener = StdListener::bind(&path)?;
        listener.set_nonblocking(true)?;
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new().name("proxy".into()).spawn(move || {
            // A failure here shows as a connection that is not made.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            if let (Ok(()), Ok(runtime)) = (enter_network(&network), runtime) {
                runtime.block_on(async {
                    tokio::select! {
                        () = serve(listener) => {}
                        _ = stopped => {}
                    }
                });
            }
        })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

async fn serve(listener: StdListener) {
    let Ok(listener) = UnixListener::from_std(listener) else {
        return;
    };
    loop {
        if let Ok((from, _)) = listener.accept().await {
            tokio::spawn(carry(from));
        }
    }
}

/// One connection: `CONNECT host:port`, and then whatever comes.
async fn carry(mut from: UnixStream) -> Option<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        // A byte at a time: nothing of what follows may be taken.
        let byte = from.read_u8().await.ok()?;
        head.push(byte);
        if head.len() > HEAD {
            return None;
        }
    }
    let text = String::from_utf8(head).ok()?;
    let target = text.strip_prefix("CONNECT ")?.split(' ').next()?;
    let mut to = TcpStream::connect(target).await.ok()?;
    let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
    from.write_all(answer).await.ok()?;
    tokio::io::copy_bidirectional(&mut from, &mut to)
        .await
        .ok()?;
    Some(())
}
