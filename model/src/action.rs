//! The actions of the model, in words.

use std::fmt;

use crate::world::{MachineId, Name, WEB, address, machine_name, podref};

/// One step of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Time passes.
    Tick,
    /// The StatefulSet makes its pod.
    Create(MachineId),
    /// A kubelet begins a sandbox, and ADD gives it an address unless that is slow.
    Start(u8),
    /// ADD, slow.
    Add(u8),
    /// Multus writes the network-status, the kubelet says Running.
    Report(u8),
    /// The same, with an entry missing.
    ReportLess(u8),
    /// A graceful deletion begins.
    Delete(Name),
    /// A deletion by force.
    Force(Name),
    /// The pod garbage collector writes Failed.
    Evict(Name),
    /// The pod ends by itself and stays.
    Complete(Name),
    /// The kubelet stops a sandbox, DEL included.
    Stop(u8),
    /// The kubelet stops a sandbox, and its DEL is lost.
    StopWithoutDel(u8),
    /// The kubelet says that all is over, and the object goes.
    Finish(u8),
    /// A bystander takes the lowest free address.
    OtherTakes,
    /// A bystander gives its address back.
    OtherLeaves(Name),
    /// A kubelet stops working.
    Down(MachineId),
    /// The node controller sees it.
    NotReady(MachineId),
    /// The kubelet works again.
    Back(MachineId),
    /// A person fences the node.
    Fence(MachineId),
    /// The server does a write that nobody waits for any more.
    Late(usize),
    /// Upstream's collector frees the row of a pod that is absent.
    Upstream(u8),
    /// A step of a replica of ipgc.
    Ipgc(u8, Move),
}

/// A step of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// The watch brings what happened.
    Deliver,
    /// The watch is not heard any more.
    Stall,
    /// It goes on where it was.
    Resume,
    /// It begins anew, with a list.
    Relist,
    /// The process restarts.
    Restart,
    /// Reads the pool.
    Observe,
    /// Reads the pods of its rows.
    Prove,
    /// Reads them, and gets an answer from the past.
    ProveFromPast,
    /// Judges, and sends a patch if anything may go.
    Judge,
    /// The server does the patch.
    Patch,
    /// Reads the reservation and claims it.
    Claim,
    /// The server does the claim.
    ClaimDone,
    /// The answer to the claim is lost.
    ClaimLost,
    /// Reads the pod again.
    Reprove,
    /// Deletes the reservation, or gives it back.
    Release,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pod = |uid: u8| format!("pod {}", letter(uid));
        let short = |name: Name| podref(name).trim_start_matches("d/");
        match *self {
            Self::Tick => f.write_str("time passes"),
            Self::Create(on) => write!(
                f,
                "the StatefulSet makes web-0 anew on {}",
                machine_name(on)
            ),
            Self::Start(uid) => write!(f, "kubelet: sandbox for {}, ADD", pod(uid)),
            Self::Add(sandbox) => write!(f, "ADD for sandbox {sandbox}"),
            Self::Report(uid) => write!(f, "{} is Running and reports its address", pod(uid)),
            Self::ReportLess(uid) => {
                write!(f, "{} is Running, its status lacks the interface", pod(uid))
            }
            Self::Delete(name) => write!(f, "{} is deleted gracefully", short(name)),
            Self::Force(name) => write!(f, "{} is deleted by force", short(name)),
            Self::Evict(name) => write!(
                f,
                "the pod garbage collector writes Failed on {}",
                short(name)
            ),
            Self::Complete(name) => write!(f, "{} completes, its DEL is lost", short(name)),
            Self::Stop(sandbox) => write!(f, "kubelet: sandbox {sandbox} stopped, DEL"),
            Self::StopWithoutDel(sandbox) => {
                write!(f, "kubelet: sandbox {sandbox} stopped, DEL lost")
            }
            Self::Finish(uid) => write!(f, "kubelet: {} is terminal, its object goes", pod(uid)),
            Self::OtherTakes => f.write_str("another pod takes the lowest free address"),
            Self::OtherLeaves(name) => write!(f, "{} gives its address back", short(name)),
            Self::Down(machine) => {
                write!(f, "the kubelet of {} stops working", machine_name(machine))
            }
            Self::NotReady(machine) => write!(f, "{} is NotReady", machine_name(machine)),
            Self::Back(machine) => write!(f, "{} is back", machine_name(machine)),
            Self::Fence(machine) => {
                write!(f, "{} is tainted out-of-service", machine_name(machine))
            }
            Self::Late(_) => f.write_str("the server does a write that ipgc gave up"),
            Self::Upstream(of) => write!(f, "upstream frees {}", address(of)),
            Self::Ipgc(0, step) => write!(f, "ipgc: {step}"),
            Self::Ipgc(replica, step) => write!(f, "ipgc, replica {}: {step}", replica + 1),
        }
    }
}

fn letter(uid: u8) -> char {
    debug_assert_eq!(WEB, 0);
    char::from(b'a' + uid)
}

impl fmt::Display for Move {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Deliver => "the watch brings what happened",
            Self::Stall => "the watch falls silent",
            Self::Resume => "the watch goes on",
            Self::Relist => "the watch begins anew with a list",
            Self::Restart => "restarts",
            Self::Observe => "observes the pool",
            Self::Prove => "reads the pods",
            Self::ProveFromPast => "reads the pods, the answer is from the past",
            Self::Judge => "judges",
            Self::Patch => "its patch is done",
            Self::Claim => "reads the reservation, to claim it",
            Self::ClaimDone => "its claim is done",
            Self::ClaimLost => "gets no answer to its claim",
            Self::Reprove => "reads the pod again",
            Self::Release => "deletes the reservation, or gives it back",
        })
    }
}
