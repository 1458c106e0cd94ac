//! Real programs for the tests of ipgc: etcd, kube-apiserver and the whereabouts CNI plugin.
//!
//! ```text
//!  tools          finds or builds the programs, once, into a cache
//!    │
//!  control_plane  etcd + kube-apiserver (+ controller manager) on loopback, in a directory of the run
//!    │    ├ access    kubeconfigs and clients per user and user agent
//!    │    └ audit     requests of each client, counted from the API server's audit log
//!    │
//!  node           real nodes below that control plane: kubelet, containerd, multus, whereabouts
//!    │
//!  cluster        a scenario's part of the cluster: namespaces, networks, pods, pools, waiting
//!    ├ pods       plays the kubelet: the status of pods, and how they end
//!    ├ nodes      plays the kubelet: nodes that are Ready and renew their Lease
//!    ├ pools      rows of IPPools and reservations, read, and written without the plugin
//!    ├ cni        calls the real whereabouts plugin as a container runtime does
//!    ├ upstream   upstream's own ip-control-loop and ip-reconciler
//!    ├ ours       the binary ipgc as a process
//!    ├ bench      requests, CPU, memory and latency of ipgc
//!    └ wire       ipgc over a bad wire, and for long
//! ```
//!
//! | environment | effect |
//! |---|---|
//! | `XDG_CACHE_HOME` | has the folder `ipgc-e2e` of built tools and of the folders of runs; default `~/.cache` |
//! | `IPGC_E2E_KEEP=1` | keeps the folders of runs, for the logs |
//!
//! It never listens on anything but loopback, never ends a process that it did not start, never takes a cluster
//! from `KUBECONFIG`, and never skips a test because a tool is missing.
#![allow(
    clippy::missing_errors_doc,
    reason = "each failure is an `Error` that says what was done and what was seen"
)]

pub mod access;
pub mod audit;
pub mod bench;
pub mod cluster;
pub mod cni;
pub mod control_plane;
pub mod crds;
mod error;
pub mod node;
pub mod nodes;
pub mod oci;
pub mod ours;
pub mod pods;
pub mod pools;
pub mod process;
mod rundir;
pub mod tools;
pub mod up;
pub mod upstream;
pub mod wait;
pub mod wire;

pub use cluster::{Cluster, Namespace};
pub use control_plane::{ControlPlane, Options};
pub use error::{Error, Result};
