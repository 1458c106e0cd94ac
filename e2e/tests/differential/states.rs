//! The states: what is in the cluster, what is right, and what upstream does instead.
//!
//! In each, some pods hold addresses, and some of them end while a collector looks. `right` is what
//! the rules of docs/safety.md say in the end, after all waits; it is what ipgc has to do. The
//! behaviour of upstream is known from its code and confirmed by each run.
//!
//! Here is what a state is made of; the states themselves stand by what is right: `gone`, `living`, and `settings` for
//! those of a kind of their own.

/// A step, from its body.
macro_rules! step {
    (|$place:ident| $body:expr) => {
        |$place| futures::FutureExt::boxed(async move { $body })
    };
}

mod gone;
mod living;
mod settings;
mod steps;

use std::fmt;

pub use self::{gone::*, living::*, settings::*};
use crate::replica::Step;
use Outcome::{Freed, Kept, ReservationLost, ToldFreed};

/// The state's pod starts.
const STARTING: Step = step!(|place| place.starting_pod().await);

/// The state's pod runs.
const RUNNING: Step = step!(|place| place.running_pod().await);

/// It ends as a kubelet ends it, and its DEL is lost.
const END: Step = step!(|place| place.end().await);

/// A termination grace that no test waits for.
const LONG: u32 = 300;

/// Under which circumstances collectors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// All is well with them.
    Ordinary,
    /// Their account may list and watch pods, but not GET one.
    GetRefused,
    /// There is a pool whose range does not parse.
    BadRange,
    /// A node falls silent. The loop's daemon runs on that node and is cut off with it.
    SilentNode,
}

/// The outcome for an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that held it still does.
    Kept,
    /// Nothing holds it any more.
    Freed,
    /// It is in its pool, and no longer reserved: a pod of another range may get it too.
    ReservationLost,
    /// It is reserved, and no longer in its pool.
    ReservationLeft,
    /// All that held it still does, and an event says that it was freed.
    ToldFreed,
}

/// An address, its right outcome, and the outcomes of upstream. Texts may have `{n}`, the number of
/// the state, and `{node}`.
pub struct Address {
    pub ip: String,
    pub row: Option<(String, i128)>,
    pub reservation: Option<String>,
    pub right: Outcome,
    /// Nothing where there is no loop to look at it.
    pub control_loop: Option<Outcome>,
    pub reconciler: Outcome,
}

/// A state.
pub struct State {
    pub name: &'static str,
    pub number: usize,
    pub setting: Setting,
    pub addresses: Vec<Address>,
    /// Makes the objects that are there when a collector begins to look.
    pub build: Step,
    /// Makes the changes that the collector then sees.
    pub act: Step,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kept => "kept",
            Freed => "freed",
            ReservationLost => "kept, reservation freed",
            Self::ReservationLeft => "freed, reservation kept",
            ToldFreed => "kept, said to be freed",
        })
    }
}

/// An address of the range that most states use, with a row and a reservation.
fn address(offset: u8, right: Outcome) -> Address {
    let ip = format!("10.{{n}}.0.{offset}");
    Address {
        row: Some(("10.{n}.0.0-24".into(), offset.into())),
        reservation: Some(ip.clone()),
        ip,
        right,
        control_loop: Some(right),
        reconciler: right,
    }
}

/// An address that has to stay.
fn kept(offset: u8) -> Address {
    address(offset, Kept)
}

/// An address that has to be given back.
fn freed(offset: u8) -> Address {
    address(offset, Freed)
}

impl Address {
    /// The outcomes of upstream, where they differ from the right one.
    fn upstream(mut self, control_loop: Outcome, reconciler: Outcome) -> Self {
        self.control_loop = Some(control_loop);
        self.reconciler = reconciler;
        self
    }

    fn without_loop(mut self) -> Self {
        self.control_loop = None;
        self
    }

    fn without_row(mut self) -> Self {
        self.row = None;
        self
    }

    fn without_reservation(mut self) -> Self {
        self.reservation = None;
        self
    }

    fn at(mut self, ip: &str, pool: &str, offset: i128, reservation: &str) -> Self {
        self.ip = ip.into();
        self.row = Some((pool.into(), offset));
        self.reservation = Some(reservation.into());
        self
    }
}

impl State {
    /// A state of an ordinary setting: a pod runs, and nothing happens any more.
    fn new(addresses: impl IntoIterator<Item = Address>) -> Self {
        Self {
            name: "",
            number: 0,
            setting: Setting::Ordinary,
            addresses: addresses.into_iter().collect(),
            build: RUNNING,
            act: step!(|_place| Ok(())),
        }
    }

    /// The address as text.
    pub fn ip(&self, address: &Address) -> String {
        address.ip.replace("{n}", &self.number.to_string())
    }

    /// With something else than a pod that runs.
    fn built(mut self, build: Step) -> Self {
        self.build = build;
        self
    }

    fn then(mut self, act: Step) -> Self {
        self.act = act;
        self
    }

    fn in_setting(mut self, setting: Setting) -> Self {
        self.setting = setting;
        self
    }
}

/// Gives the states their names and numbers.
pub fn numbered(states: Vec<(&'static str, State)>) -> Vec<State> {
    (1..)
        .zip(states)
        .map(|(number, (name, state))| State {
            name,
            number,
            ..state
        })
        .collect()
}
