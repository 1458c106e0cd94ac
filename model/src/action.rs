//! The actions of the model, in words.

use std::fmt;

use crate::world::{MachineId, Name, WEB, address, machine_name, podref};

/// One step of the model; the text below says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Tick,
    Create(MachineId),
    Start(u8),
    Add(u8),
    Report(u8),
    ReportLess(u8),
    Delete(Name),
    Force(Name),
    Evict(Name),
    Complete(Name),
    Stop(u8),
    StopWithoutDel(u8),
    Finish(u8),
    OtherTakes,
    OtherLeaves(Name),
    Down(MachineId),
    NotReady(MachineId),
    Back(MachineId),
    Fence(MachineId),
    Late(usize),
    Upstream(u8),
    Ipgc(u8, Move),
}

/// A step of a replica; the text below says what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    Deliver,
    Stall,
    Resume,
    Relist,
    Restart,
    Observe,
    Prove,
    ProveFromPast,
    Judge,
    Patch,
    Claim,
    ClaimDone,
    ClaimLost,
    Reprove,
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
