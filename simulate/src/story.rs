//! The story of a seed: the cluster, and all that people, machines and the API server do to it, as a list that can be
//! shortened. Pure.

use std::{fmt, time::Duration};

use testkit::Garble;

use crate::{dice::Dice, faults::At};

/// A cluster, and all that happens in it.
#[derive(Clone, Debug)]
pub struct Story {
    /// The seed that it was made of, and of which the small choices of a run are made.
    pub seed: u64,
    /// How many machines there are.
    pub machines: usize,
    /// How many copies of ipgc there are.
    pub copies: usize,
    /// The networks that pods ask for.
    pub nets: Vec<Net>,
    /// The owners of pods.
    pub owners: Vec<Owner>,
    /// Time between sweeps.
    pub sweep_interval: Duration,
    /// `--leftover-grace`.
    pub leftover_grace: Duration,
    /// Whether whereabouts' own collectors work beside ipgc.
    pub upstream: bool,
    /// Whether the breaker opens for a few rows, and for two minutes.
    pub cautious: bool,
    /// A crash of the first copy.
    pub crash: Option<At>,
    /// Deeds, by time.
    pub steps: Vec<Step>,
}

/// A network: one definition.
#[derive(Clone, Debug)]
pub struct Net {
    /// Name of the definition.
    pub name: &'static str,
    /// `network_name`.
    pub network_name: Option<&'static str>,
    /// The ranges: two of a dual-stack network.
    pub ranges: &'static [&'static str],
    /// Whether addresses are reserved across ranges.
    pub reserves: bool,
}

/// The owner of pods.
#[derive(Clone, Debug)]
pub struct Owner {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// How many pods it has.
    pub pods: usize,
    /// The networks of each pod, by their place among those of the story.
    pub nets: Vec<usize>,
}

/// A kind of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Names return.
    StatefulSet,
    /// Names never return.
    ReplicaSet,
    /// Names never return, and pods end by themselves.
    Job,
    /// Names never return, and a pod is replaced by another one that runs before it ends.
    VirtualMachine,
    /// A pod without an owner: a person makes it again under its name.
    Bare,
}

impl Kind {
    /// The controller of its pods: `apiVersion` and kind.
    #[must_use]
    pub fn controller(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::StatefulSet => Some(("apps/v1", "StatefulSet")),
            Self::ReplicaSet => Some(("apps/v1", "ReplicaSet")),
            Self::Job => Some(("batch/v1", "Job")),
            Self::VirtualMachine => Some(("kubevirt.io/v1", "VirtualMachineInstance")),
            Self::Bare => None,
        }
    }

    /// Whether a name is used again.
    #[must_use]
    pub fn names_return(self) -> bool {
        matches!(self, Self::StatefulSet | Self::Bare)
    }
}

/// A deed and its moment.
#[derive(Clone, Debug)]
pub struct Step {
    /// The time since the begin of the story.
    pub at: Duration,
    /// The deed.
    pub deed: Deed,
}

/// Something that is done to the cluster. A pod is chosen among those that are there then.
#[derive(Clone, Debug)]
pub enum Deed {
    /// Somebody deletes a pod, and its kubelet stops it.
    Delete(usize),
    /// Somebody deletes a pod by force: its object goes at once.
    Force(usize),
    /// The sandbox of a pod dies, and its kubelet makes another.
    Crash(usize),
    /// A pod ends by itself.
    Complete(usize),
    /// A pod that runs gets one more network.
    Plug(usize),
    /// A network of a pod that runs is taken away.
    Unplug(usize),
    /// Somebody deletes all pods of a machine.
    Drain(usize),
    /// Somebody exempts a pool for so long.
    Hold(usize, Duration),
    /// Somebody deletes a pool, with all its rows.
    RemovePool(usize),
    /// Somebody deletes a definition, and makes it again after so long.
    RemoveDefinition(usize, Duration),
    /// Etcd is backed up, and restored after so long.
    Restore(Duration),
    /// A machine is without power for so long.
    Power(usize, Duration),
    /// A machine is cut off for so long, and its sandboxes answer on.
    Partition(usize, Duration),
    /// The kubelet of a machine is stopped for so long, and its sandboxes answer on.
    NoKubelet(usize, Duration),
    /// Somebody taints the node of a machine without power out of service.
    Fence(usize),
    /// Somebody states that a machine without power runs no sandboxes.
    DeclareEmpty(usize),
    /// Somebody removes the node of a machine without power.
    RemoveNode(usize),
    /// A copy of ipgc is stopped and started again.
    Restart(usize),
    /// A copy of ipgc crashes at so many writes from now, before or after the server did the write.
    CrashAtWrite(usize, usize, bool),
    /// A fault of the API server for so long.
    Fault(Fault, Duration),
    /// The API server ends all watches.
    EndWatches,
    /// The API server forgets old versions.
    Compact,
}

/// A fault of the API server, for the requests of ipgc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// So many of a hundred requests fail with this code, and nothing is done.
    Fails(u16, usize),
    /// The same, of writes only, which are done.
    DoneThenFails(u16, usize),
    /// So many of a hundred connections break before the request is done.
    Breaks(usize),
    /// The same, of writes only, after they are done.
    DoneThenBreaks(usize),
    /// So many of a hundred requests are not answered as long as it lasts.
    Hangs(usize),
    /// So many of a hundred writes are done late, and never answered.
    Late(usize, u64),
    /// Each request waits for so many milliseconds.
    Slow(u64),
    /// A right is lost: on these objects, by this verb.
    Denied(&'static str, &'static str),
    /// Events of all watches come so many milliseconds late.
    Lag(u64),
    /// The watch of these objects is deaf.
    Deaf(&'static str),
    /// So many of a hundred answers are spoiled, in this way.
    Garbled(Garble, usize),
    /// Nothing reaches one copy, and nothing that it sends arrives, as if its machine were suspended.
    Suspended(usize),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fails(code, of) => write!(f, "{of} % of requests fail with {code}"),
            Self::DoneThenFails(code, of) => {
                write!(f, "{of} % of writes are done and answered with {code}")
            }
            Self::Breaks(of) => write!(f, "{of} % of connections break"),
            Self::DoneThenBreaks(of) => write!(f, "{of} % of connections break after the write"),
            Self::Hangs(of) => write!(f, "{of} % of requests hang"),
            Self::Late(of, millis) => write!(f, "{of} % of writes are done {millis} ms late"),
            Self::Slow(millis) => write!(f, "each request takes {millis} ms"),
            Self::Denied(verb, resource) => write!(f, "{verb} of {resource} is forbidden"),
            Self::Lag(millis) => write!(f, "watches lag by {millis} ms"),
            Self::Deaf(resource) => write!(f, "the watch of {resource} is deaf"),
            Self::Garbled(how, of) => write!(f, "{of} % of answers are spoiled: {how:?}"),
            Self::Suspended(copy) => write!(f, "copy {copy} of ipgc is cut off"),
        }
    }
}

impl Fault {
    /// Its name in the counts.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Fails(code, _) => format!("{code}"),
            Self::DoneThenFails(code, _) => format!("done, then {code}"),
            Self::Breaks(_) => "connection breaks".to_owned(),
            Self::DoneThenBreaks(_) => "done, then the connection breaks".to_owned(),
            Self::Hangs(_) => "no answer".to_owned(),
            Self::Late(..) => "done late".to_owned(),
            Self::Slow(_) => "slow answers".to_owned(),
            Self::Denied(verb, resource) => format!("{verb} of {resource} forbidden"),
            Self::Lag(_) => "watches lag".to_owned(),
            Self::Deaf(resource) => format!("deaf watch of {resource}"),
            Self::Garbled(how, _) => format!("answers are spoiled: {how:?}"),
            Self::Suspended(_) => "a copy is cut off".to_owned(),
        }
    }
}

/// All networks that a story may have.
const NETS: [Net; 6] = [
    Net {
        name: "plain",
        network_name: None,
        ranges: &["10.1.0.0/28"],
        reserves: true,
    },
    Net {
        name: "blue",
        network_name: Some("blue"),
        ranges: &["10.1.0.0/28"],
        reserves: true,
    },
    Net {
        name: "alone",
        network_name: None,
        ranges: &["10.2.0.0/28"],
        reserves: false,
    },
    Net {
        name: "dual",
        network_name: None,
        ranges: &["10.3.0.0/28", "fd00:3::/124"],
        reserves: true,
    },
    Net {
        name: "wide",
        network_name: None,
        ranges: &["10.1.0.0/27"],
        reserves: true,
    },
    Net {
        name: "six",
        network_name: None,
        ranges: &["fd00:6::/124"],
        reserves: true,
    },
];

impl Story {
    /// The story of this seed, whose deeds fall into so much time.
    #[must_use]
    pub fn of(seed: u64, length: Duration) -> Self {
        let dice = &mut Dice::new(seed);
        let machines = 2 + dice.below(2);
        let copies = if dice.percent(25) { 2 } else { 1 };
        let mut nets = NETS.to_vec();
        while nets.len() > 3 {
            nets.remove(dice.below(nets.len()));
        }
        let kinds = [
            Kind::StatefulSet,
            Kind::StatefulSet,
            Kind::ReplicaSet,
            Kind::Job,
            Kind::VirtualMachine,
            Kind::Bare,
        ];
        let owners = (0..2 + dice.below(3)).map(|number| {
            let kind = dice.one(&kinds);
            let mut of: Vec<_> = (0..nets.len()).collect();
            // A pod is not given one address twice.
            while of.len() > 2
                || of
                    .iter()
                    .filter(|it| nets[**it].ranges[0].starts_with("10.1."))
                    .count()
                    > 1
                || (of.len() == 2 && dice.percent(60))
            {
                of.remove(dice.below(of.len()));
            }
            Owner {
                kind,
                name: format!("o{number}"),
                pods: 1 + dice.below(3),
                nets: of,
            }
        });
        let owners = owners.collect();
        let count = 6 + dice.below(40);
        let mut steps: Vec<_> = (0..count)
            .map(|_| Step {
                at: dice.millis(0, u64::try_from(length.as_millis()).unwrap_or(u64::MAX)),
                deed: deed(dice, machines, copies, nets.len()),
            })
            .collect();
        for _ in 0..dice.below(3) {
            let begin = dice.millis(0, u64::try_from(length.as_millis()).unwrap_or(u64::MAX));
            plot(dice, begin, machines, &mut steps);
        }
        steps.sort_by_key(|step| step.at);
        spare_restorations(&mut steps);
        Self {
            seed,
            machines,
            copies,
            nets,
            owners,
            sweep_interval: dice.seconds(60, 300),
            leftover_grace: dice.seconds(60, 600),
            upstream: dice.percent(10),
            cautious: dice.percent(10),
            crash: None,
            steps,
        }
    }
}

impl Story {
    /// A story of few minutes in which nothing fails: for crashes at each request.
    #[must_use]
    pub fn calm(seed: u64) -> Self {
        let mut story = Self::of(seed, Duration::from_secs(240));
        story.copies = 1;
        story.steps.retain(|step| {
            let is_ours = matches!(
                step.deed,
                Deed::Restart(_) | Deed::CrashAtWrite(..) | Deed::Fault(..)
            );
            !is_ours && !matches!(step.deed, Deed::Restore(_))
        });
        story
    }
}

/// No fault keeps ipgc from beginning its watches anew when etcd is restored: assumption 1 of docs/safety.md.
fn spare_restorations(steps: &mut Vec<Step>) {
    const AFTER: Duration = Duration::from_secs(15);
    let restored = steps.iter().filter_map(|step| match step.deed {
        Deed::Restore(time) => Some(step.at + time),
        _ => None,
    });
    let restored: Vec<_> = restored.collect();
    steps.retain(|step| match step.deed {
        Deed::Fault(_, time) => {
            let is_hit = |at: &Duration| step.at < *at + AFTER && *at < step.at + time;
            !restored.iter().any(is_hit)
        }
        _ => true,
    });
}

fn deed(dice: &mut Dice, machines: usize, copies: usize, nets: usize) -> Deed {
    let net = dice.below(nets);
    let pod = dice.below(1000);
    let machine = dice.below(machines);
    let copy = dice.below(copies);
    match dice.below(100) {
        0..17 => Deed::Delete(pod),
        17..30 => Deed::Force(pod),
        30..35 => Deed::Crash(pod),
        35..38 => Deed::Complete(pod),
        38..40 => Deed::Plug(pod),
        40..42 => Deed::Unplug(pod),
        42..44 => Deed::Drain(machine),
        44 => Deed::Hold(net, dice.seconds(20, 300)),
        45 => Deed::RemovePool(net),
        46..48 => Deed::RemoveDefinition(net, dice.seconds(5, 200)),
        48 => Deed::Restore(dice.seconds(5, 60)),
        49..55 => Deed::Power(machine, dice.seconds(20, 400)),
        55..61 => Deed::Partition(machine, dice.seconds(20, 500)),
        61..64 => Deed::NoKubelet(machine, dice.seconds(20, 400)),
        64..68 => Deed::Fence(machine),
        68..70 => Deed::DeclareEmpty(machine),
        70..72 => Deed::RemoveNode(machine),
        72..77 => Deed::Restart(copy),
        77..82 => Deed::CrashAtWrite(copy, 1 + dice.below(4), dice.percent(50)),
        82..96 => Deed::Fault(fault(dice, copy), dice.seconds(5, 200)),
        96..98 => Deed::EndWatches,
        _ => Deed::Compact,
    }
}

/// Deeds that are dangerous one after the other: ipgc may not write while a name comes back and goes unseen, or while a
/// machine falls silent.
fn plot(dice: &mut Dice, begin: Duration, machines: usize, steps: &mut Vec<Step>) {
    let (pod, machine) = (dice.below(1000), dice.below(machines));
    let time = dice.seconds(30, 120);
    let deeds = match dice.below(4) {
        0 => vec![
            Deed::Fault(Fault::Denied("patch", "ippools"), time),
            Deed::Delete(pod),
            Deed::Fault(Fault::Deaf("pods"), time),
            Deed::Force(pod),
            Deed::Force(pod),
        ],
        1 => vec![
            Deed::Partition(machine, dice.seconds(60, 400)),
            Deed::Force(pod),
            Deed::Force(pod + 1),
            Deed::Restart(0),
        ],
        2 => vec![
            Deed::Crash(pod),
            Deed::Delete(pod),
            Deed::Crash(pod + 1),
            Deed::Force(pod + 1),
        ],
        _ => vec![
            Deed::Fault(Fault::Hangs(90), time),
            Deed::Delete(pod),
            Deed::EndWatches,
            Deed::Force(pod),
            Deed::Compact,
            Deed::Force(pod),
        ],
    };
    let mut at = begin;
    for deed in deeds {
        steps.push(Step { at, deed });
        at += dice.millis(200, 12_000);
    }
}

fn fault(dice: &mut Dice, copy: usize) -> Fault {
    let of = dice.one(&[10, 50, 90]);
    let codes = [401, 403, 404, 409, 410, 422, 429, 500, 503, 504];
    let rights = [
        ("patch", "ippools"),
        ("delete", "overlappingrangeipreservations"),
        ("get", "pods"),
        ("list", "leases"),
    ];
    match dice.below(12) {
        0..2 => Fault::Fails(dice.one(&codes), of),
        2 => Fault::DoneThenFails(dice.one(&[500, 504]), of),
        3 => Fault::Breaks(of),
        4 => Fault::DoneThenBreaks(of),
        5 => Fault::Hangs(of),
        6 => Fault::Late(of, dice.one(&[500, 5_000, 50_000])),
        7 => Fault::Slow(dice.one(&[20, 300, 3_000])),
        8 => {
            let (verb, resource) = dice.one(&rights);
            Fault::Denied(verb, resource)
        }
        9 => Fault::Garbled(
            dice.one(&[Garble::Html, Garble::Truncated, Garble::Item(0)]),
            of,
        ),
        10 => Fault::Suspended(copy),
        _ if dice.percent(50) => Fault::Lag(dice.one(&[200, 1_000, 1_500])),
        _ => Fault::Deaf(dice.one(&["pods", "nodes"])),
    }
}
