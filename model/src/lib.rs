//! A model of a small cluster, in which every interleaving is tried, while the shipped code of
//! [`ipgc_core`] decides. See `README.md`.

mod action;
pub mod check;
mod cluster;
mod cni;
mod collector;
mod doctored;
pub mod model;
mod needed;
mod replica;
pub mod scenario;
pub mod scenarios;
pub mod traces;
mod world;
