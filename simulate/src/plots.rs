//! Deeds that are dangerous one after the other, or while something fails. Pure.

use std::time::Duration;

use crate::{
    dice::Dice,
    story::{Deed, Fault, Step},
};

/// Puts deeds one after the other, at most so many milliseconds apart.
fn in_turn(dice: &mut Dice, begin: Duration, most: u64, deeds: Vec<Deed>, steps: &mut Vec<Step>) {
    let mut at = begin;
    for deed in deeds {
        steps.push(Step { at, deed });
        at += dice.millis(200, most);
    }
}

/// Deeds that are dangerous one after the other: ipgc may not write while a name comes back and goes unseen, or while a
/// machine falls silent.
pub(crate) fn plot(dice: &mut Dice, begin: Duration, machines: usize, steps: &mut Vec<Step>) {
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
    in_turn(dice, begin, 12_000, deeds, steps);
}

/// Each is the only thing that shows one guard: an earlier incarnation that still answers; pods that were born and deleted by
/// force while no watch showed anything, for longer than W.
pub(crate) fn dangers(dice: &mut Dice, begin: Duration, steps: &mut Vec<Step>) {
    let pod = dice.below(1000);
    if dice.percent(35) {
        let deed = Deed::Again(pod, dice.seconds(200, 500));
        steps.push(Step { at: begin, deed });
        return;
    }
    let gap = dice.seconds(400, 900);
    let fault = Deed::Fault(Fault::Down("pods"), gap);
    after(begin, [(0, fault), (0, Deed::EndWatches)], steps);
    force_some(dice, begin, steps);
    // The next watch has to list the pods, and finds nothing of those that were born and deleted in between.
    let end = begin + gap.saturating_sub(Duration::from_secs(9));
    let unused = Deed::NoNames(Duration::from_secs(60));
    after(end, [(0, unused), (8, Deed::Compact)], steps);
    force_some(dice, end, steps);
}

/// Puts these deeds so many seconds after `begin`.
fn after(begin: Duration, deeds: impl IntoIterator<Item = (u64, Deed)>, steps: &mut Vec<Step>) {
    let deeds = deeds.into_iter();
    steps.extend(deeds.map(|(seconds, deed)| Step {
        at: begin + Duration::from_secs(seconds),
        deed,
    }));
}

/// Six pods are deleted by force within some seconds.
fn force_some(dice: &mut Dice, from: Duration, steps: &mut Vec<Step>) {
    let pod = dice.below(1000);
    steps.extend((0..6).map(|number| Step {
        at: from + dice.millis(1_000, 8_000),
        deed: Deed::Force(pod + number),
    }));
}

/// A machine that was fenced works again; its pods are deleted by force while it is cut off, for longer than rows of
/// claims wait. Perhaps the taint was forgotten, or the watch does not tell what became of the node.
pub(crate) fn fenced(dice: &mut Dice, begin: Duration, machines: usize, steps: &mut Vec<Step>) {
    let machine = dice.below(machines);
    let mut deeds = vec![
        (0, Deed::Power(machine, Duration::from_secs(80))),
        (60, Deed::Fence(machine, dice.percent(50))),
        (150, Deed::Partition(machine, dice.seconds(600, 700))),
    ];
    if dice.percent(50) {
        let deaf = Deed::Fault(Fault::Deaf("nodes"), dice.seconds(100, 300));
        deeds.push((70, deaf));
    }
    after(begin, deeds, steps);
    force_some(dice, begin + Duration::from_secs(150), steps);
}

/// What ipgc knows is not so any more, or never was, and little tells.
pub(crate) fn blind(dice: &mut Dice, begin: Duration, machines: usize, steps: &mut Vec<Step>) {
    let seconds = Duration::from_secs;
    let fault = |at, fault, time| (at, Deed::Fault(fault, seconds(time)));
    let cut_off = |at| (0..machines).map(move |it| (at, Deed::Partition(it, seconds(600))));
    let delete = |pod| (0..4).map(move |number| (0, Deed::Delete(pod + number)));
    // When what was before the first list is in doubt no more.
    let late = begin + seconds(300);
    let pod = dice.below(1000);
    match dice.below(6) {
        0 | 1 => fenced(dice, begin, machines, steps),
        // Nodes that are there cannot be found.
        2 => {
            let lost = [Fault::NotFound("nodes"), Fault::Deaf("nodes")];
            let lost = lost.map(|it| fault(0, it, 450)).into_iter();
            after(begin, lost.chain(cut_off(1)), steps);
            force_some(dice, begin, steps);
        }
        // Pods end well. Their successors are deleted by force before a watch shows them, and perhaps cannot be read.
        3 => {
            let mut deeds = vec![
                (0, Deed::NoNames(seconds(70))),
                fault(65, Fault::Down("pods"), 120),
                (65, Deed::EndWatches),
                (180, Deed::Compact),
            ];
            deeds.extend(delete(pod).chain(cut_off(130)));
            let unread = [Fault::NotFound("pods"), Fault::Denied("get", "pods")];
            if dice.percent(60) {
                deeds.push(fault(75, dice.one(&unread), 105));
            }
            after(begin, deeds, steps);
            force_some(dice, begin + seconds(130), steps);
        }
        // Successors accept reservations that ipgc has no right to claim yet, and are deleted by force.
        4 => {
            let claims = Fault::Denied("patch", "overlappingrangeipreservations");
            let mut deeds = vec![(0, Deed::NoNames(seconds(50))), fault(0, claims, 90)];
            deeds.extend(delete(pod).chain(cut_off(70)));
            after(late, deeds, steps);
            force_some(dice, late + seconds(70), steps);
        }
        // The watch lags less than the cooldown, and successors live for less than that.
        _ => {
            after(late, [fault(0, Fault::Lag(1_800), 150)], steps);
            let brief = |n: u8| (1 + 8 * u64::from(n), Deed::Brief(pod + usize::from(n)));
            after(late, (0..12).map(brief), steps);
        }
    }
}

/// Sandboxes break within a minute, and ipgc has heard and swept all since long before.
pub(crate) fn seconds(dice: &mut Dice, begin: Duration, steps: &mut Vec<Step>) {
    let from = begin.saturating_sub(Duration::from_secs(300));
    let to = begin + Duration::from_secs(150);
    steps.retain(|step| {
        let end = match step.deed {
            Deed::Fault(_, time) | Deed::Restore(time) => step.at + time,
            Deed::Restart(_) | Deed::CrashAtWrite(..) | Deed::EndWatches | Deed::Compact => step.at,
            _ => return true,
        };
        step.at > to || end < from
    });
    let pod = dice.below(1000);
    steps.extend((0..6).map(|number| Step {
        at: begin + dice.millis(0, 60_000),
        deed: Deed::Second(pod + number, dice.percent(20)),
    }));
}

/// A machine loses its power and its pods are deleted, or only that; then somebody frees what is left.
pub(crate) fn releases(dice: &mut Dice, begin: Duration, machines: usize, steps: &mut Vec<Step>) {
    let (pod, machine) = (dice.below(1000), dice.below(machines));
    let mut deeds = vec![Deed::Force(pod), Deed::Force(pod + 1), Deed::Force(pod + 2)];
    if dice.percent(60) {
        deeds.insert(0, Deed::Power(machine, dice.seconds(100, 600)));
    }
    for _ in 0..2 + dice.below(3) {
        deeds.push(Deed::Release(dice.below(1000)));
    }
    in_turn(dice, begin, 60_000, deeds, steps);
}

/// A node leaves its slices, and joins again, perhaps after another one.
pub(crate) fn joins(
    dice: &mut Dice,
    begin: Duration,
    net: usize,
    machines: usize,
    steps: &mut Vec<Step>,
) {
    let (pod, machine) = (dice.below(1000), dice.below(machines));
    let deeds = [
        Deed::Force(pod),
        Deed::Power(machine, dice.seconds(60, 200)),
        Deed::Power((machine + 1) % machines, dice.seconds(40, 200)),
        Deed::RemoveNode(machine),
        Deed::RemoveNode((machine + 1) % machines),
        Deed::Force(pod + 1),
        Deed::RemoveDefinition(net, dice.seconds(5, 200)),
    ];
    let mut at = begin;
    for deed in deeds {
        if dice.percent(60) {
            steps.push(Step { at, deed });
        }
        at += dice.millis(200, 30_000);
    }
}
