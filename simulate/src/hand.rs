//! Administrators who run `ipgc release --force`. They say only what is true: that nothing answers on an address. Once they
//! try an address that answers, which must be refused.

use std::{future::pending, net::IpAddr, time::Duration};

use ipgc::{
    byhand::{
        NotDone, Writer,
        force::{Forced, Subject, at},
    },
    snapshot::{
        Snapshot,
        live::{Scan, read},
    },
};
use ipgc_core::{evidence::Policy, pool::ObservedPool};
use tokio::time::sleep;

use crate::{faults::OURS, world::World};

/// No command takes longer.
const LONGEST: Duration = Duration::from_secs(900);

impl World {
    /// Somebody runs `ipgc release --force`, and may end it early.
    pub(crate) async fn release(self, number: usize, policy: Policy) {
        let client = self.server.client_named(&format!("{OURS}-by-hand"));
        let Ok(snapshot) = read(&client, &Scan::default()).await else {
            return self.tell("release: nothing could be read", "");
        };
        let found = self.one(&snapshot, &policy, number);
        let Some(it) = found.filter(|it| !self.answers(it.address)) else {
            return self.tell("release: nothing that a person could say", "");
        };
        self.tell("release --force", format_args!("{it:?}"));
        let patience = if self.percent(30) {
            self.millis(1_000, 60_000)
        } else {
            LONGEST
        };
        let writer = Writer::new(&client, policy, None);
        let stopping = async {
            sleep(patience).await;
            writer.stop().cancel();
            pending::<()>().await;
        };
        let freeing = async {
            let Some((_, reservation)) = writer.free(&it, false).await? else {
                return Ok("release: freed");
            };
            let released = writer.release(&it.pool, reservation).await;
            match (released, &it.subject) {
                (Ok(0), Subject::Reservation(_)) => Ok("release: kept"),
                (Ok(_), _) => Ok("release: freed"),
                (Err(_), Subject::Row(_)) => Ok("release: freed but for its reservation"),
                (Err(reason), Subject::Reservation(_)) => Err(reason),
            }
        };
        let done = tokio::select! {
            done = freeing => done,
            () = stopping => return,
        };
        let (kind, why) = match done {
            Ok(kind) => (kind, String::new()),
            Err(NotDone::Gone) => ("release: gone already", String::new()),
            Err(reason @ NotDone::Kept(_)) => ("release: kept", reason.to_string()),
            Err(reason) => ("release: fails", reason.to_string()),
        };
        self.tell(kind, format_args!("{} {why}", it.address));
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
    fn one(&self, snapshot: &Snapshot, policy: &Policy, number: usize) -> Option<Forced> {
        let pools: Vec<_> = snapshot.observed().collect();
        let rows = pools.iter().flat_map(ObservedPool::rows);
        let all: Vec<_> = rows.filter_map(|row| row.content().ok()).collect();
        let row = all.get(number.checked_rem(all.len())?)?;
        let (ip, podref) = (row.address, &row.podref);
        let pod = snapshot.pod(podref.as_str());
        let is_needed = pod
            .is_some_and(|pod| !pod.phase.is_terminal() && pod.status.has_address(ip))
            && self.answers(ip);
        match at(snapshot, policy, ip, None) {
            Ok(_) if is_needed => {
                let text = format!("a person may force {ip}, which {podref} reports");
                self.state().wrong.push(text);
                None
            }
            Ok(it) => it.is_readable.then_some(it),
            Err(reason) => {
                if is_needed {
                    self.tell(
                        "release --force is refused",
                        format_args!("{ip} of {podref}: {reason}"),
                    );
                }
                None
            }
        }
    }
}
