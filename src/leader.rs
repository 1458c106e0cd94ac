//! Leader election on a Lease: keeps this copy's candidacy up to date, and tells whether it leads.
//!
//! The algorithm is [`ipgc_core::election`]; here are its requests, each under a deadline of its own. A
//! copy leads until a moment, not until it is told otherwise: one that was stopped, or whose requests
//! hang, has stepped down by the clock. Nothing here knows what a leader does.

use std::{sync::Arc, time::Duration};

use ipgc_core::{
    election::{Candidate, LEASE_DURATION, RETRY_PERIOD, Record, Step},
    history::Versions,
    time::Moment,
};
use k8s_openapi::{
    api::{
        coordination::v1::{Lease, LeaseSpec},
        core::v1::Namespace,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::{
    calls::{CallError, call, within},
    chance,
    clock::{Clock, wall},
};

/// Name of the Lease.
pub const LEASE: &str = "ipgc";
/// Annotation on the Lease by which a person pauses all writes of all copies, whatever its value, until it is removed.
pub const PAUSE_ANNOTATION: &str = "ipgc.dev/pause";
/// Annotation on the Lease by which a person asks for a sweep: each new value asks for one.
pub const SWEEP_ANNOTATION: &str = "ipgc.dev/sweep";

/// A request for the Lease that takes longer is given up: after a renewal that was given up, a leader mostly has time
/// for another one before it steps down.
const LOOK: Duration = Duration::from_secs(3);
/// A fault of the Lease that lasts is logged once in so long.
const TELL_AGAIN: Duration = Duration::from_mins(1);
/// A shutdown waits no longer for the Lease to be given back; it runs out by itself.
const RELEASE: Duration = Duration::from_secs(1);

/// The state of the election as this copy knows it.
#[derive(Clone, Debug, Default)]
struct State {
    /// This copy leads until then.
    until: Moment,
    /// The Lease could be read, or written, at least once, and its namespace is not known to have gone since.
    is_known: bool,
}

/// Whether this copy leads.
#[derive(Clone, Debug)]
pub struct Leadership {
    clock: Clock,
    state: watch::Receiver<State>,
}

impl Leadership {
    /// That of the only copy there is: it always leads.
    pub fn always(clock: Clock) -> Self {
        let (_, state) = watch::channel(State {
            until: Moment::new(Duration::MAX),
            is_known: true,
        });
        Self { clock, state }
    }

    /// Whether it leads now.
    pub fn is_held(&self) -> bool {
        self.clock.now() < self.state.borrow().until
    }

    /// Waits until it leads: for ever, once the election is over.
    pub async fn held(&self) {
        let mut state = self.state.clone();
        let held = state.wait_for(|state| self.clock.now() < state.until);
        if held.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it does not lead.
    pub async fn lost(&self) {
        while self.is_held() {
            let until = self.state.borrow().until;
            // Renewed meanwhile, it is held for longer.
            sleep(self.clock.until(until)).await;
        }
    }

    /// Whether the Lease could be read, or written, at least once, and its namespace is not known to have gone since.
    pub fn is_known(&self) -> bool {
        self.state.borrow().is_known
    }
}

/// Whether the API server says that the Lease cannot be made since there is no such namespace. It is asked to make it as a
/// dry run.
pub async fn lacks_namespace(client: &Client, namespace: &str) -> bool {
    let leases = Api::<Lease>::namespaced(client.clone(), namespace);
    let mut lease = Lease::default();
    lease.metadata.name = Some(LEASE.to_owned());
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = call(leases.create(&dry, &lease)).await;
    made.is_err_and(|error| error.is_absence_of::<Namespace>(namespace))
}

/// Takes part in the election.
pub struct Elector {
    api: Api<Lease>,
    candidate: Candidate,
    clock: Clock,
    state: watch::Sender<State>,
    namespace: String,
    /// Nobody is to write, as a person says on the Lease.
    paused: bool,
    /// The last renewal of the Lease that bore the pause.
    paused_at: Option<MicroTime>,
    /// The last value of [`SWEEP_ANNOTATION`].
    sweep: Option<String>,
    /// Told when a person asks for a sweep. Where there is no election nobody can ask.
    sweep_wanted: Arc<Notify>,
    /// The Lease as we wrote it last. It is written again without a read before, as long as nobody else writes.
    own: Option<Lease>,
    /// Tells when the API server's data went back in time.
    epoch: watch::Receiver<Versions>,
}

impl Elector {
    /// A candidate for the Lease in this namespace. `instance` is what people know this copy by.
    pub fn new(
        client: Client,
        namespace: &str,
        instance: &str,
        clock: Clock,
        epoch: watch::Receiver<Versions>,
        sweep_wanted: Arc<Notify>,
    ) -> (Self, Leadership) {
        let (sender, state) = watch::channel(State::default());
        // A container that is started anew in its pod bears the same name, and holds nothing.
        let identity = format!("{instance}_{:016x}", chance::unique());
        let elector = Self {
            api: Api::namespaced(client, namespace),
            candidate: Candidate::new(&identity),
            clock,
            state: sender,
            namespace: namespace.to_owned(),
            paused: false,
            paused_at: None,
            sweep: None,
            sweep_wanted,
            own: None,
            epoch,
        };
        (elector, Leadership { clock, state })
    }

    /// Takes part until `over`, then gives the Lease back.
    pub async fn run(mut self, over: CancellationToken) {
        over.run_until_cancelled(self.take_part()).await;
        self.lead_until(Moment::EPOCH);
        match timeout(RELEASE, self.give_back()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, "leadership not given back"),
            Err(_) => warn!("leadership not given back in time"),
        }
    }

    async fn take_part(&mut self) {
        let mut led = false;
        let mut told = None::<(Instant, bool)>;
        let mut epoch = self.epoch.clone();
        loop {
            let looked = tokio::select! {
                biased;
                Ok(()) = epoch.changed() => {
                    // Our last write may be undone: the Lease has to be written again before it counts.
                    self.own = None;
                    self.candidate.step_down();
                    self.lead_until(Moment::EPOCH);
                    continue;
                }
                looked = self.look() => looked,
            };
            match looked {
                Ok(()) => {
                    self.state.send_modify(|state| state.is_known = true);
                    told = None;
                }
                // Somebody else wrote first: the next look says who.
                Err(error) if error.is_conflict() => debug!(%error, "Lease not written"),
                Err(error) => {
                    let is_gone = error.is_absence_of::<Namespace>(&self.namespace);
                    if is_gone {
                        self.state.send_modify(|state| state.is_known = false);
                    }
                    if told.is_none_or(|(at, of)| of != is_gone || at.elapsed() >= TELL_AGAIN) {
                        told = Some((Instant::now(), is_gone));
                        self.tell_failure(&error, is_gone);
                    }
                }
            }
            let now = self.clock.now();
            let held_until = self.candidate.held_until();
            // A paused copy goes on renewing, or another copy would take over.
            let held_until = held_until.filter(|until| *until > now && !self.paused);
            self.lead_until(held_until.unwrap_or(Moment::EPOCH));
            let leads = held_until.is_some();
            if leads != led {
                let identity = self.candidate.identity();
                let said = if leads {
                    "leading"
                } else {
                    "not leading any more"
                };
                info!(identity, "{said}");
            }
            led = leads;
            // Copies that started together must not look together.
            let pause = chance::part_of(RETRY_PERIOD, 0.8..1.2);
            tokio::select! {
                biased;
                () = sleep(pause) => {}
                // The next look begins with it.
                Ok(()) = epoch.changed() => epoch.mark_changed(),
            }
        }
    }

    fn tell_failure(&self, error: &CallError, is_gone: bool) {
        let namespace = &self.namespace;
        if is_gone {
            let todo = "create it, or name another by --lease-namespace";
            let said = "the namespace of the Lease is gone: nobody leads, and nothing is written";
            warn!(namespace, lease = LEASE, todo, "{said}");
        } else {
            warn!(%error, namespace, lease = LEASE, "no look at the Lease");
        }
    }

    /// Reads the Lease unless it is known, and writes it if we may.
    async fn look(&mut self) -> Result<(), CallError> {
        // Forgotten unless it is written again: after a failure the Lease is read.
        let mut read = self.own.take();
        if read.is_none() {
            read = within(LOOK, self.api.get_opt(LEASE)).await?;
            // One that is gone says nothing, a pause neither.
            self.obey(&read.clone().unwrap_or_default());
        }
        let begun = self.clock.now();
        let record = read.as_ref().and_then(record);
        if self.candidate.note_read(record, begun) == Step::Wait {
            return Ok(());
        }
        let lease = self.in_our_name(read.clone().unwrap_or_default());
        let params = PostParams::default();
        let written = if read.is_some() {
            within(LOOK, self.api.replace(LEASE, &params, &lease)).await?
        } else {
            within(LOOK, self.api.create(&params, &lease)).await?
        };
        let version = written.metadata.resource_version.as_deref();
        self.candidate.wrote(version.unwrap_or_default(), begun);
        self.obey(&written);
        self.own = Some(written);
        Ok(())
    }

    /// Obeys the annotations of a person on the Lease. A change by anybody else makes the next write a conflict, and the Lease is read.
    fn obey(&mut self, lease: &Lease) {
        let said = |name| lease.metadata.annotations.as_ref()?.get(name).cloned();
        let renewed = lease.spec.as_ref().and_then(|it| it.renew_time.clone());
        let says_so = said(PAUSE_ANNOTATION).is_some();
        // A person's edit keeps the time of the last renewal, and a restored Lease has an older one.
        let is_older = lease.metadata.name.is_some() && renewed < self.paused_at;
        let paused = says_so || self.paused && is_older;
        if says_so {
            self.paused_at = renewed;
        }
        match (self.paused, paused) {
            (false, true) => {
                warn!(
                    "paused: nothing is written while the Lease bears the annotation {PAUSE_ANNOTATION}"
                );
            }
            (true, false) => info!("no longer paused"),
            _ => {}
        }
        self.paused = paused;
        let wanted = said(SWEEP_ANNOTATION);
        let is_new = wanted.is_some() && wanted != self.sweep;
        self.sweep = wanted;
        // A sweep that was asked for before this copy began is its first one.
        if is_new && self.state.borrow().is_known {
            info!("a sweep is asked for by an annotation of the Lease");
            self.sweep_wanted.notify_one();
        }
    }

    fn lead_until(&self, until: Moment) {
        self.state.send_modify(|state| state.until = until);
    }

    /// The Lease as we write it; whatever else it has stays.
    fn in_our_name(&self, mut lease: Lease) -> Lease {
        if self.paused {
            // A restoration may have undone it. Written again, it ends and is told as always.
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.entry(PAUSE_ANNOTATION.to_owned()).or_default();
        }
        let now = Some(MicroTime(wall()));
        let spec = lease.spec.unwrap_or_default();
        let identity = self.candidate.identity();
        let is_ours = spec.holder_identity.as_deref() == Some(identity);
        let transitions = spec.lease_transitions.unwrap_or(0);
        let known = lease.metadata.name.is_some();
        Lease {
            metadata: ObjectMeta {
                name: Some(LEASE.to_owned()),
                ..lease.metadata
            },
            spec: Some(LeaseSpec {
                acquire_time: if is_ours {
                    spec.acquire_time
                } else {
                    now.clone()
                },
                renew_time: now,
                holder_identity: Some(identity.to_owned()),
                lease_duration_seconds: i32::try_from(LEASE_DURATION.as_secs()).ok(),
                lease_transitions: Some(transitions.saturating_add(i32::from(known && !is_ours))),
                ..spec
            }),
        }
    }

    /// Writes that nobody holds it, so that the next one need not wait for it to run out. Read again
    /// before that, since the last write may have been cut off.
    async fn give_back(&self) -> Result<(), CallError> {
        let Some(held) = call(self.api.get_opt(LEASE)).await? else {
            return Ok(());
        };
        let spec = held.spec.unwrap_or_default();
        if spec.holder_identity.as_deref() != Some(self.candidate.identity()) {
            return Ok(());
        }
        let free = Lease {
            metadata: held.metadata,
            spec: Some(LeaseSpec {
                holder_identity: None,
                // As client-go has it: a program that reckons from the last renewal need not wait either.
                lease_duration_seconds: Some(1),
                renew_time: Some(MicroTime(wall())),
                ..spec
            }),
        };
        call(self.api.replace(LEASE, &PostParams::default(), &free)).await?;
        info!("leadership given back");
        Ok(())
    }
}

fn record(lease: &Lease) -> Option<Record<'_>> {
    let spec = lease.spec.as_ref()?;
    let seconds = spec.lease_duration_seconds.unwrap_or(0);
    Some(Record {
        version: lease.metadata.resource_version.as_deref()?,
        holder: spec.holder_identity.as_deref().unwrap_or_default(),
        duration: Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
    })
}
