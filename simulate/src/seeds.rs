//! The story of a seed, as its dice make it. Pure.

use std::time::Duration;

use ipgc_core::evidence::Policy;
use testkit::Garble;

use crate::{
    dice::Dice,
    plots::{blind, dangers, fenced, joins, plot, releases, seconds},
    story::{Deed, Fault, Immutable, Kind, Net, Owner, Step, Story},
};

/// A network of one range.
const PLAIN: Net = Net {
    name: "plain",
    network_name: None,
    ranges: &["10.1.0.0/28"],
    slices: &[],
    reserves: true,
    spells_out: false,
    of_claims: false,
};

/// All networks that a story may have.
const NETS: [Net; 6] = [
    PLAIN,
    Net {
        name: "blue",
        network_name: Some("blue"),
        ..PLAIN
    },
    Net {
        name: "alone",
        ranges: &["10.2.0.0/28"],
        reserves: false,
        ..PLAIN
    },
    Net {
        name: "dual",
        ranges: &["10.3.0.0/28", "fd00:3::/124"],
        ..PLAIN
    },
    Net {
        name: "wide",
        ranges: &["10.1.0.0/27"],
        ..PLAIN
    },
    Net {
        name: "six",
        ranges: &["fd00:6::/124"],
        spells_out: true,
        ..PLAIN
    },
];

/// Networks whose range is cut up among nodes.
const SLICED: [Net; 2] = [
    Net {
        name: "sliced",
        ranges: &["10.4.0.0/27"],
        slices: &["10.4.0.0/29", "10.4.0.8/29", "10.4.0.16/29", "10.4.0.24/29"],
        ..PLAIN
    },
    Net {
        name: "cut",
        network_name: Some("cut"),
        ranges: &["10.5.0.0/27"],
        slices: &["10.5.0.0/29", "10.5.0.8/29", "10.5.0.16/29", "10.5.0.24/29"],
        reserves: false,
        ..PLAIN
    },
];

/// A network that pods get by a ResourceClaim.
const CLAIMED: Net = Net {
    name: "claimed",
    ranges: &["10.6.0.0/28"],
    of_claims: true,
    ..PLAIN
};

impl Story {
    /// The story of this seed, whose deeds fall into so much time.
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
            let of = some_of(dice, &nets);
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
                at: dice.millis(0, millis(length)),
                deed: deed(dice, machines, copies, nets.len()),
            })
            .collect();
        for _ in 0..dice.below(3) {
            let begin = dice.millis(0, millis(length));
            plot(dice, begin, machines, &mut steps);
        }
        steps.sort_by_key(|step| step.at);
        spare_restorations(&mut steps);
        let mut story = Self {
            seed,
            machines,
            copies,
            nets,
            owners,
            sweep_interval: dice.seconds(60, 300),
            leftover_grace: dice.seconds(60, 600),
            upstream: dice.percent(10),
            cautious: dice.percent(10),
            immutable: None,
            crash: None,
            returns: None,
            steps,
        };
        story.add_actors(length);
        story
    }

    /// The waits of ipgc and of those who run `ipgc release`.
    pub fn policy(&self) -> Policy {
        Policy {
            leftover_grace: self.leftover_grace,
            ..Policy::default()
        }
    }

    /// Adds what only some clusters have. Each has dice of its own, so that the rest of a story does not depend on it.
    fn add_actors(&mut self, length: Duration) {
        let dice = |actor: u64| Dice::new(self.seed ^ (actor << 40));
        let end = millis(length);
        let of_static = &mut dice(1);
        if of_static.percent(20) {
            self.owners.push(Owner {
                kind: Kind::Static,
                name: "static".to_owned(),
                pods: self.machines,
                nets: some_of(of_static, &self.nets),
            });
        }
        let by_hand = &mut dice(2);
        if by_hand.percent(12) {
            let begin = by_hand.millis(0, end);
            releases(by_hand, begin, self.machines, &mut self.steps);
        }
        let of_slices = &mut dice(3);
        if of_slices.percent(20) {
            let net = self.nets.len();
            self.nets.push(of_slices.one(&SLICED));
            for owner in &mut self.owners {
                match of_slices.below(3) {
                    0 => owner.nets[0] = net,
                    1 if owner.nets.len() < 2 => owner.nets.push(net),
                    _ => {}
                }
            }
            let begin = of_slices.millis(0, end);
            joins(of_slices, begin, net, self.machines, &mut self.steps);
        }
        let of_clocks = &mut dice(5);
        if of_clocks.percent(15) {
            for _ in 0..2 + of_clocks.below(4) {
                let deed = match of_clocks.below(4) {
                    0 => Deed::Acknowledge,
                    1 => Deed::Jump(Some(of_clocks.below(self.machines)), by(of_clocks)),
                    _ => Deed::Jump(None, by(of_clocks)),
                };
                let at = of_clocks.millis(0, end);
                self.steps.push(Step { at, deed });
            }
        }
        let of_claims = &mut dice(4);
        if of_claims.percent(8) {
            self.immutable = Some(Immutable {
                code: of_claims.one(&[400, 403, 409, 422]),
                is_mended: of_claims.percent(40),
            });
        }
        let of_danger = &mut dice(6);
        if of_danger.percent(30) {
            let begin = of_danger.millis(0, end);
            dangers(of_danger, begin, &mut self.steps);
        }
        let of_devices = &mut dice(7);
        if of_devices.percent(15) {
            let net = self.nets.len();
            self.nets.push(CLAIMED);
            let owners = self.owners.iter_mut();
            for owner in owners.filter(|it| it.kind != Kind::Static) {
                if owner.nets.len() < 2 {
                    owner.nets.push(net);
                } else if of_devices.percent(50) {
                    owner.nets[0] = net;
                }
            }
            let begin = of_devices.millis(20_000, 80_000);
            fenced(of_devices, begin, self.machines, &mut self.steps);
        }
        let of_blind = &mut dice(8);
        if of_blind.percent(20) {
            let begin = of_blind.millis(40_000, 150_000);
            blind(of_blind, begin, self.machines, &mut self.steps);
        }
        let of_seconds = &mut dice(9);
        if of_seconds.percent(20) {
            let begin = of_seconds.millis(end / 2, end / 6 * 5);
            seconds(of_seconds, begin, &mut self.steps);
        }
        self.steps.sort_by_key(|step| step.at);
        spare_restorations(&mut self.steps);
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// The networks of a pod, by their places.
fn some_of(dice: &mut Dice, nets: &[Net]) -> Vec<usize> {
    let mut of: Vec<_> = (0..nets.len()).collect();
    // A pod is not given one address twice.
    let is_shared = |it: &&usize| nets[**it].ranges[0].starts_with("10.1.");
    while of.len() > 2
        || of.iter().filter(is_shared).count() > 1
        || (of.len() == 2 && dice.percent(60))
    {
        of.remove(dice.below(of.len()));
    }
    of
}

impl Story {
    /// A story of few minutes in which nothing fails: for crashes, and pods that come back, at each request.
    pub fn calm(seed: u64) -> Self {
        let mut story = Self::of(seed, Duration::from_secs(240));
        story.copies = 1;
        story.steps.retain(|step| {
            let is_ours = matches!(
                step.deed,
                Deed::Restart(_) | Deed::CrashAtWrite(..) | Deed::Fault(..)
            );
            !is_ours && !matches!(step.deed, Deed::Restore(_) | Deed::NoNames(_))
        });
        story
    }
}

/// No fault keeps ipgc from beginning its watches anew when etcd is restored, and none restores a version that is newer
/// than the present one: assumption 1 of docs/safety.md.
fn spare_restorations(steps: &mut Vec<Step>) {
    const AFTER: Duration = Duration::from_secs(15);
    let mut over = Duration::ZERO;
    steps.retain(|step| match step.deed {
        Deed::Restore(time) => {
            let is_first = step.at >= over;
            over = over.max(step.at + time);
            is_first
        }
        _ => true,
    });
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
        64..68 => Deed::Fence(machine, false),
        68..70 => Deed::DeclareEmpty(machine),
        70..72 => Deed::RemoveNode(machine),
        72..77 => Deed::Restart(copy),
        77..82 => Deed::CrashAtWrite(copy, 1 + dice.below(4), dice.percent(50)),
        82..96 => Deed::Fault(fault(dice, copy), dice.seconds(5, 200)),
        96..98 => Deed::EndWatches,
        _ => Deed::Compact,
    }
}

/// So many seconds a clock jumps.
fn by(dice: &mut Dice) -> i64 {
    let size = dice.one(&[30, 120, 600, 3_600, 21_600]);
    if dice.percent(50) { size } else { -size }
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
        9 => {
            let how = dice.one(&[Garble::Html, Garble::Truncated, Garble::Item(0)]);
            Fault::Garbled(how, of)
        }
        10 => Fault::Suspended(copy),
        _ if dice.percent(50) => Fault::Lag(dice.one(&[200, 1_000, 1_500])),
        _ => Fault::Deaf(dice.one(&["pods", "nodes"])),
    }
}
