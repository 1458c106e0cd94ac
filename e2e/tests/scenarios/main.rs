//! ipgc's collector against real servers: etcd, kube-apiserver, and the real whereabouts plugin.
//!
//! ```text
//!  test ──▶ Namespace, Cni, pods ──▶ kube-apiserver ◀──▶ the collector, in this process
//!    │                                     ▲             (or the binary `ipgc run`)
//!    └── interlude, refusal ───────────────┘ between the collector and the server
//! ```
//!
//! Every scenario has a namespace of its own and a collector of its own that looks for pools there
//! and nowhere else. It sees the pods of that namespace only: pods of other scenarios report the same
//! addresses, and an address that another living pod reports is held.
//!
//! There is no kubelet: a *lost DEL* is a pod that ends as a kubelet ends it, and nobody calls the
//! plugin's DEL.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod admission;
mod binary;
mod byhand;
mod claims;
mod commands;
mod crds;
mod history;
mod leaders;
mod networks;
mod old_reservations;
mod rights;
mod successors;
mod support;
