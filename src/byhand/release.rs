//! A run of the collector that touches nothing but what was picked, and ends when that is done.

use std::{collections::BTreeMap, future::Future, pin::pin, sync::Arc, time::Duration};

use ipgc_core::{breaker::Open, clearance::Wait, time::Moment};
use kube::Client;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use crate::{
    access,
    clock::Clock,
    collect::{
        picked::{Fate, Pick, Picked, Subject},
        reservation_api::ReservationApi,
    },
    config::Config,
    run::{Collector, Phase},
};

/// Until then it is not known whether a kubelet is at work: its Lease changes every ten seconds, and has to be
/// seen to change twice.
const LISTENING: Duration = Duration::from_secs(45);

/// No release waits longer.
const LONGEST: Duration = Duration::from_hours(1_000);
/// The time to ask, after all was done, which reservations are still there.
const VERIFY: Duration = Duration::from_secs(10);

/// Runs until nothing more is to be expected of what was picked, at the most until `deadline`, or until `stop`. Each
/// change of a fate is told. What became of each is in `picked`.
///
/// # Errors
/// One line: nothing could be done, or the run failed.
pub async fn release(
    clients: (Client, Client),
    config: Config,
    picked: &Arc<Picked>,
    deadline: Duration,
    stop: impl Future<Output = ()>,
    mut tell: impl FnMut(&Pick, &Fate, Moment),
) -> Result<(), String> {
    let end = Instant::now() + deadline.min(LONGEST);
    if let Some(namespace) = &config.pool_namespace {
        picked.keep_others_than(namespace);
    }
    let config = Config {
        picked: Some(Arc::clone(picked)),
        lease_namespace: None,
        ..config
    };
    let mut news = Teller {
        picked,
        clock: Clock::start_at(picked.seen_before()),
        told: vec![Fate::Unseen; picked.picks().len()],
        is_listening: true,
        is_over: false,
    };
    let fates = picked.fates();
    if fates.iter().all(Fate::is_final) {
        news.is_over = true;
        news.tell(&fates, &mut tell);
        return Ok(());
    }
    let reservations = ReservationApi::new(clients.0.clone(), Arc::default());
    let missing = access::missing(&clients.0, config.rights()).await;
    let missing = missing.map_err(|error| format!("cannot ask for rights: {error}"))?;
    if !missing.is_empty() {
        return Err(format!("rights are missing: {}", access::names(&missing)));
    }
    let mut told = picked.subscribe();
    let running = Collector::new(clients.0, clients.1, config).start();
    let mut phase = running.vitals.phase.subscribe();
    // The run may be ready already.
    phase.mark_changed();
    let mut is_ready = false;
    let mut stop = pin!(stop);
    let mut listened = pin!(sleep(LISTENING));
    loop {
        tokio::select! {
            biased;
            () = &mut stop => break,
            () = sleep_until(end) => break,
            changed = phase.changed() => {
                is_ready |= *phase.borrow() == Phase::Ready;
                if changed.is_err() || *phase.borrow() == Phase::Done {
                    break;
                }
            }
            () = &mut listened, if news.is_listening => news.is_listening = false,
            _ = told.changed() => {}
        }
        let fates = picked.fates();
        news.tell(&fates, &mut tell);
        if fates.iter().all(Fate::is_final) {
            break;
        }
    }
    running.stop();
    let result = running.done().await;
    verify(&reservations, picked).await;
    news.is_over = true;
    news.tell(&picked.fates(), &mut tell);
    result?;
    if is_ready {
        return Ok(());
    }
    let unread = "pods, nodes and network attachment definitions could not all be read in time";
    Err(unread.to_owned())
}

/// Tells what is new.
struct Teller<'p> {
    picked: &'p Picked,
    clock: Clock,
    told: Vec<Fate>,
    /// The nodes that are waited for are not known yet.
    is_listening: bool,
    /// Nothing more is to come.
    is_over: bool,
}

impl Teller<'_> {
    fn tell(&mut self, fates: &[Fate], tell: &mut impl FnMut(&Pick, &Fate, Moment)) {
        let now = self.clock.now();
        for ((pick, fate), told) in self.picked.picks().iter().zip(fates).zip(&mut self.told) {
            let is_to_come = match (&*told, fate) {
                (_, Fate::Waits(Wait::For(_) | Wait::AtMost(..))) => self.is_listening,
                // Something else follows; and each look reckons a moment anew.
                (
                    _,
                    Fate::Unseen
                    | Fate::Asked(_)
                    | Fate::Freed(_)
                    | Fate::Stopped(Open::NotAssessed),
                )
                | (Fate::Waits(Wait::Until(_)), Fate::Waits(Wait::Until(_)))
                | (Fate::Stopped(_), Fate::Stopped(_)) => true,
                _ => false,
            };
            let is_news = told != fate && (self.is_over || !is_to_come);
            if is_news {
                tell(pick, fate, now);
                *told = fate.clone();
            }
        }
    }
}

/// A reservation that was to go may have been given back, and one of which nobody knows may have gone.
async fn verify(api: &ReservationApi, picked: &Picked) {
    let mut asked = BTreeMap::<&str, BTreeMap<String, (usize, &str)>>::new();
    for (at, (pick, fate)) in picked.picks().iter().zip(picked.fates()).enumerate() {
        if let Subject::Reservation { name, uid } = &pick.subject
            && matches!(fate, Fate::Done(_) | Fate::Asked(_))
        {
            let of_namespace = asked.entry(&pick.pool.namespace).or_default();
            of_namespace.insert(name.clone(), (at, uid));
        }
    }
    // One limit for all of it: the person has waited long enough.
    let end = Instant::now() + VERIFY;
    for (namespace, names) in asked {
        let wanted = names.keys().cloned().collect();
        let found = timeout_at(end, api.named(namespace, &wanted)).await;
        let found = match &found {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err("no answer in time".to_owned()),
        };
        for (name, (at, uid)) in &names {
            let is_there = match &found {
                Ok(found) => Ok(found.get(name).is_some_and(|found| found.uid == *uid)),
                Err(reason) => Err(reason.as_str()),
            };
            picked.saw_at_the_end(*at, is_there);
        }
    }
}
