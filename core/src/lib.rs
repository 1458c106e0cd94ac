//! The decisions of ipgc.
//!
//! Nothing here has a client, a clock, a runtime or a log. A result depends only on the arguments and on the state in
//! the value. The collector, the audit and `ipgc release` call this crate, and nothing else decides.
//!
//! ```text
//!  IPPool text ──▶ pool::ObservedPool ──▶ proof::Ticket ──▶ proof::Proof ──▶ judge ──▶ patch
//!                       (rows)            (begun after)     (pods' presence)           │
//!  pod states ───▶ evidence::Trail ───▶ evidence::Ended ───▶ clearance ────▲           ▼
//!  node states, Leases ───▶ node::Nodes ──────────────────────▲            API server's answer
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`address`] | ranges, offsets, and the names that whereabouts derives from them |
//! | [`ipam`] | the configuration of a NetworkAttachmentDefinition |
//! | [`definitions`] | the network of an address that a pod reports |
//! | [`names`] | the network and the address in the name of a reservation |
//! | [`networks`] | the two multus annotations of a pod |
//! | [`podref`] | the owner of a row, and globs over owners |
//! | [`pool`] | an IPPool as it was observed |
//! | [`id`](mod@id) | ids of sandboxes and containers |
//! | [`pod`] | what we keep of a pod |
//! | [`evidence`] | how an incarnation ended, and what that is worth |
//! | [`node`] | nodes: whether a kubelet is at work there |
//! | [`sighting`] | when a row was first seen as it is |
//! | [`clearance`] | when a row may go, and how well that is known |
//! | [`proof`] | presence of pods, learned after an observation |
//! | [`judge`](mod@judge) | the verdict on a row |
//! | [`pods`] | the pods that live, and the ends of others |
//! | [`known`] | everything that is known, and the facts for a verdict |
//! | [`election`] | who leads, by a Lease |
//! | [`breaker`] | the stop to a mass of frees that nobody foresaw |
//! | [`patch`] | the one guarded write, and what the answers to it mean |
//! | [`refusal`] | writes that the server refuses though we may make them |
//! | [`reservation`] | the reservation of a freed row: claim, prove, delete |
//! | [`fact`] | what must be true of a pod when its reservation goes |
//! | [`routes`] | from the end of a pod to its pools |
//! | [`work`], [`cases`], [`lanes`] | open work, when each case is looked at, and how the cases of a pool gather |
//! | [`batch`] | the cases of a pool that are worked for together |
//! | [`plan`] | the planner: news and answers in, batches and effects out |
//! | [`history`] | whether the API server's data went back in time |
//! | [`wait`] | waits until a moment, or for nodes |
//! | [`text`] | texts borrowed from JSON; how messages quote them |
//! | [`time`] | moments without a clock |

pub mod address;
pub mod batch;
pub mod breaker;
pub mod cases;
pub mod clearance;
pub mod definitions;
pub mod election;
pub mod evidence;
pub mod fact;
pub mod history;
pub mod id;
pub mod ipam;
pub mod judge;
pub mod known;
pub mod lanes;
pub mod names;
pub mod networks;
pub mod node;
mod operation;
pub mod patch;
pub mod plan;
pub mod pod;
pub mod podref;
pub mod pods;
pub mod pool;
pub mod proof;
pub mod refusal;
pub mod reservation;
pub mod routes;
pub mod sighting;
pub mod text;
pub mod time;
pub mod wait;
pub mod work;
