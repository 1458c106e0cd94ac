//! A model of a small cluster, in which every interleaving is tried, while the shipped code of
//! [`ipgc_core`] decides. See `README.md`.

pub mod action;
pub mod check;
pub mod cluster;
pub mod cni;
pub mod collector;
pub mod doctored;
pub mod model;
pub mod needed;
pub mod replica;
pub mod scenario;
pub mod scenarios;
pub mod traces;
pub mod world;
