//! Administrators who run `ipgc release`: of a report, of what a node holds, of one address. They say only what is true:
//! that a machine runs nothing, or that nothing answers on an address. Once they try an address that answers, which must be
//! refused.

use std::{net::IpAddr, sync::Arc, time::Duration};

use ipgc::{
    audit::{audit, filter::Filter, report::Source},
    byhand::{
        Fate, Picked,
        force::{self, Forced},
        release::release,
        report,
    },
    config::Config,
    snapshot::{
        Snapshot,
        live::{Scan, read},
    },
};
use ipgc_core::{evidence::Policy, pool::ObservedPool};
use tokio::time::sleep;

use crate::{faults::OURS, oracle::Violation, story::Release, world::World};

/// `--timeout`.
const LONGEST: Duration = Duration::from_secs(900);
/// A command is ended before a machine that was booted anew can make a sandbox.
const LOOK: Duration = Duration::from_millis(250);

impl World {
    /// Somebody runs `ipgc release`, and may end it early.
    pub(crate) async fn release(self, what: Release, policy: Policy) {
        let client = self.server.client_named(&format!("{OURS}-by-hand"));
        let Ok(snapshot) = read(&client, &Scan::default()).await else {
            return self.tell("release: nothing could be read", String::new);
        };
        let dead = match what {
            Release::Dead(machine) => Some(machine),
            _ => None,
        };
        let picked = match what {
            Release::Report | Release::Dead(_) => {
                let (filter, now) = (Filter::default(), self.wall().to_string());
                let made = audit(&snapshot, &policy, &filter, Source::Cluster, now);
                // It may be read later, by a clock that has jumped since.
                if self.percent(50) {
                    sleep(self.millis(1_000, 100_000)).await;
                }
                report::picks(&made, dead.is_some(), self.wall()).ok()
            }
            Release::Held(machine) => {
                let node = self.machine(machine).name;
                Some(force::held_by(&snapshot, &policy, &node).0)
            }
            Release::Address(number) => self.one(&snapshot, &policy, number),
        };
        let is_sure = matches!(what, Release::Report | Release::Dead(_));
        let wanted = |picked: &Picked| {
            let mut picks = picked.picks().iter();
            let is_true = dead.is_none_or(|it| !self.machine(it).power);
            !picked.picks().is_empty()
                && is_true
                && (is_sure || picks.all(|it| !self.answers(it.address)))
        };
        let Some(picked) = picked.filter(wanted) else {
            return self.tell("release: nothing that a person could say", String::new);
        };
        let kind = match what {
            Release::Report => "release --from",
            Release::Dead(_) => "release --from --assume-dead",
            Release::Held(_) => "release --held-by",
            Release::Address(_) => "release --force",
        };
        self.tell(kind, || {
            let picks = picked.picks().iter();
            let picks: Vec<_> = picks
                .map(|it| (it.address, it.podref.to_string()))
                .collect();
            format!("a person runs {kind}: {picks:?}")
        });
        let config = Config {
            policy,
            sweep_interval: Duration::from_secs(60),
            instance: "ipgc release".to_owned(),
            said_dead: dead
                .iter()
                .map(|it| self.machine(*it).name.into())
                .collect(),
            ..Config::default()
        };
        let patience = if self.percent(30) {
            self.millis(1_000, 60_000)
        } else {
            LONGEST
        };
        let stop = async {
            // A person who said that it runs nothing takes that back before (assumption 5).
            let Some(machine) = dead else {
                return std::future::pending().await;
            };
            while !self.machine(machine).power {
                sleep(LOOK).await;
            }
        };
        let picked = Arc::new(picked);
        let clients = (client.clone(), client);
        let done = release(clients, config, &picked, patience, stop, |_, _, _| {}).await;
        if let Err(error) = done {
            self.tell("release: fails", || format!("ipgc release: {error}"));
        }
        for (pick, fate) in picked.picks().iter().zip(picked.fates()) {
            let kind = match &fate {
                Fate::Done(_) => "release: freed",
                Fate::Freed(_) | Fate::Left(..) => "release: freed but for its reservation",
                Fate::Kept(_) => "release: kept",
                Fate::Gone => "release: gone already",
                _ => "release: still waits",
            };
            self.tell(kind, || format!("{kind}: {} {fate:?}", pick.address));
        }
    }

    /// Whether a sandbox has an address, in whatever network.
    fn answers(&self, ip: IpAddr) -> bool {
        let state = self.state();
        let mut sandboxes = state.sandboxes.iter().filter(|it| it.runs());
        sandboxes.any(|it| {
            it.addresses
                .iter()
                .any(|it| it.ip == ip && it.until.is_none())
        })
    }

    /// The only thing at an address of the snapshot; none if a sandbox has it, and then that must be refused.
    fn one(&self, snapshot: &Snapshot, policy: &Policy, number: usize) -> Option<Picked> {
        let pools: Vec<_> = snapshot.observed().collect();
        let rows = pools.iter().flat_map(ObservedPool::rows);
        let all: Vec<_> = rows.filter_map(|row| row.content().ok()).collect();
        let row = all.get(number.checked_rem(all.len())?)?;
        let (ip, podref) = (row.address, &row.podref);
        let pod = snapshot.pod(podref.as_str());
        let is_needed = pod
            .is_some_and(|pod| !pod.phase.is_terminal() && pod.status.has_address(ip))
            && self.answers(ip);
        match force::at(snapshot, policy, ip, None) {
            Ok(Forced::Pick(_)) if is_needed => {
                let text = format!("a person may force {ip}, which {podref} reports");
                self.state().wrong.push(Violation(text));
                None
            }
            Ok(Forced::Pick(pick)) => Some(Picked::new(vec![pick], Duration::ZERO)),
            Ok(Forced::Unreadable(_)) => None,
            Err(reason) => {
                if is_needed {
                    self.tell("release --force is refused", || {
                        format!("release --force {ip} of {podref} is refused: {reason}")
                    });
                }
                None
            }
        }
    }
}
