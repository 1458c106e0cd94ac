//! Kubernetes Events about what was freed and what could not be.
//!
//! Best effort: a bounded channel, a budget, one attempt each. An event never delays a free and
//! never makes it fail. Reasons and texts on pods are those of upstream's control loop, so that
//! alerts on them go on working (whereabouts `pkg/controlloop`).

use std::{
    fmt::Write as _,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ipgc_core::{
    breaker::ACK_ANNOTATION,
    judge::Held,
    node::{NO_SANDBOXES_ANNOTATION, OUT_OF_SERVICE_TAINT},
    patch::Answer,
    podref::PodRef,
    pool::{PoolKey, RowContent},
    reservation::Reservation,
    text::clean,
};
use jiff::Timestamp;
use k8s_openapi::{
    api::{
        core::v1::{ObjectReference, Pod},
        events::v1::Event,
    },
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, Resource, api::PostParams};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{counters::Counters, names};
use crate::{
    api::{self, IpPool},
    calls::call,
    chance,
    clock::wall,
    leader::Leadership,
};

/// Reason of the events on a success.
pub const COLLECTED: &str = "IPAddressGarbageCollected";
/// Reason of the events on objects that the API server refuses to change, though we may.
pub const REFUSED: &str = "IPAddressGarbageCollectionRefused";
/// Reason of the events on reservations of a namespace in which no reservation can be claimed.
pub const CLAIMS_FORBIDDEN: &str = "IPReservationClaimsForbidden";
/// Reason of the events on a failure.
pub const FAILED: &str = "IPAddressGarbageCollectionFailed";

/// Reason of the event on data that went back in time.
pub const HISTORY: &str = "HistoryWentBack";

const CONTROLLER: &str = "ipgc.dev/ipgc";
/// Limit of `note` in events.k8s.io/v1, in bytes.
const MAX_NOTE: usize = 1_024;
/// Events waiting to be sent; more are dropped and counted.
const BACKLOG: usize = 1_024;
/// Budget: so many at once. Without the reserve it is a kubelet's.
const BURST: u32 = 100 + RESERVE;
/// And one more each, in milliseconds.
const REFILL: u64 = 50;
/// So many are left for warnings, some of which are told once.
const RESERVE: u32 = 20;

/// Takes events without ever waiting.
#[derive(Clone, Debug)]
pub struct Events {
    /// None in a dry run, which tells the cluster nothing.
    sender: Option<mpsc::Sender<Event>>,
    budget: Arc<Budget>,
    counters: Arc<Counters>,
    instance: Arc<str>,
    leadership: Leadership,
    over: CancellationToken,
}

/// Events, and what sends them until [`Events::close`]; `instance` names this process. Events about what this copy has not
/// done itself are told only while it leads.
pub fn channel(
    client: Client,
    counters: Arc<Counters>,
    instance: &str,
    leadership: Leadership,
    dry_run: bool,
) -> (Events, impl Future<Output = ()> + use<>) {
    let (sender, receiver) = mpsc::channel(BACKLOG);
    let events = Events {
        sender: (!dry_run).then_some(sender),
        budget: Arc::new(Budget::new()),
        counters: Arc::clone(&counters),
        instance: instance.into(),
        leadership,
        over: CancellationToken::new(),
    };
    let sending = send(client, receiver, counters, events.over.clone());
    (events, sending)
}

impl Events {
    /// No more events come: what sends them ends after the last one.
    pub fn close(&self) {
        self.over.cancel();
    }

    /// A row of this pod is gone: upstream's success event.
    pub fn address_collected(&self, pod: &PodRef, uid: &str, address: IpAddr, network: &str) {
        let note = format!("successful cleanup of IP address [{address}] from network {network}");
        let regarding = reference::<Pod>(pod.namespace(), pod.name(), uid);
        self.take(COLLECTED, regarding, &note);
    }

    /// The retries for this pod are used up: upstream's failure event.
    pub fn collection_failed(&self, pod: &PodRef, uid: &str) {
        let note = format!("failed to garbage collect addresses for pod {pod}");
        let regarding = reference::<Pod>(pod.namespace(), pod.name(), uid);
        self.take(FAILED, regarding, &note);
    }

    /// These rows of the pool are gone.
    pub fn pool_collected(&self, pool: &PoolKey, uid: &str, freed: &[(IpAddr, PodRef)]) {
        let plural = if freed.len() == 1 { "" } else { "es" };
        let mut note = format!("freed {} address{plural}:", freed.len());
        for (address, pod) in freed {
            // Writing to a String cannot fail.
            let _ = write!(note, " {address} ({pod})");
            if note.len() > MAX_NOTE {
                break;
            }
        }
        self.take_on_pool(COLLECTED, pool, uid, &note);
    }

    /// Rows of this pod are held, because nobody can tell whether it still runs on one of these
    /// nodes; `endless` if their kubelets are at work and may never get through its DELs.
    pub fn held_unfenced(
        &self,
        pool: &PoolKey,
        uid: &str,
        pod: &PodRef,
        nodes: &[Box<str>],
        endless: bool,
    ) {
        let shown = names(nodes);
        let first = nodes.first().map_or("", |node| &**node);
        let note = if endless {
            format!(
                "addresses of pod {pod} are held: its sandbox may still be there on node {shown}, though the kubelet is \
                 at work. It may be starting a container, fail to stop one, or not get through three DELs that are lost. \
                 They are freed by their DEL, if that still comes. Else once all such nodes are booted anew, removed or fenced; \
                 or by hand, if nothing answers on any: ipgc release --force ADDRESS"
            )
        } else {
            format!(
                "addresses of pod {pod} are held: it may still run on node {shown}. \
                 They are freed once the node is back. Or, only if you know that it runs no sandboxes: once it is \
                 removed, or tainted {OUT_OF_SERVICE_TAINT} since it was last ready, or declared empty: kubectl annotate \
                 node {first} --overwrite {NO_SANDBOXES_ANNOTATION}=$(date -u +%FT%TZ)"
            )
        };
        self.take_on_pool("IPAddressHeldUnfenced", pool, uid, &note);
    }

    /// A row of the pool is held for a pod that is not its own.
    pub fn held_in_use(&self, pool: &PoolKey, uid: &str, row: &RowContent, held: &Held) {
        let (address, podref) = (row.address, &row.podref);
        let note = format!(
            "address {address} of pod {podref} is held: {held}. Delete that pod, and the row is freed \
             after its end; a new pod gets an address of its own"
        );
        self.take_on_pool("IPAddressInUseTwice", pool, uid, &note);
    }

    /// The breaker is open, and stops this many rows of the pool.
    pub fn breaker_open(&self, pool: &PoolKey, uid: &str, stopped: usize, since: Timestamp) {
        let note = format!(
            "{stopped} addresses are not freed, since too many at once have lost their pods without \
             anybody seeing it. If these pods are really gone, acknowledge: kubectl -n {} annotate ippools.whereabouts.cni.cncf.io \
             {} --overwrite {ACK_ANNOTATION}=$(date -u +%FT%TZ) (found {since:.0})",
            pool.namespace, pool.name
        );
        self.take_on_pool("IPPoolGCBreakerOpen", pool, uid, &note);
    }

    /// The API server refuses to remove rows from this pool, though we may.
    pub fn pool_refused(&self, pool: &PoolKey, uid: &str, reason: &str) {
        let note = format!("the API server refuses to remove addresses: {reason}");
        self.take_on_pool(REFUSED, pool, uid, &note);
    }

    /// The API server refuses to change or to delete this reservation, though we may.
    pub fn reservation_refused(&self, reservation: &Reservation, reason: &str) {
        let note = format!("the API server refuses to release the reservation: {reason}");
        self.take_on_reservation(REFUSED, reservation, &note);
    }

    /// The API server refuses all claims in the namespace of this reservation, whose claim was the last.
    pub fn claims_forbidden(&self, reservation: &Reservation, reason: &str) {
        let note = format!(
            "reservations of namespace {} are left, and their addresses are not given out: the API server refuses that \
             spec.podref is changed, which has to precede their deletion. Let ipgc change it (docs/operations.md, \
             Claims that are forbidden). Its words: {reason}",
            reservation.namespace
        );
        self.take_on_reservation(CLAIMS_FORBIDDEN, reservation, &note);
    }

    /// The API server's data went back in time. It regards the namespace that each cluster has.
    pub fn history_went_back(&self, note: &str) {
        let regarding = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Namespace".to_owned()),
            name: Some("kube-system".to_owned()),
            ..ObjectReference::default()
        };
        self.take(HISTORY, regarding, note);
    }

    fn take_on_pool(&self, reason: &str, pool: &PoolKey, uid: &str, note: &str) {
        let regarding = reference::<IpPool>(&pool.namespace, &pool.name, uid);
        self.take(reason, regarding, note);
    }

    fn take_on_reservation(&self, reason: &str, it: &Reservation, note: &str) {
        let regarding = reference::<api::Reservation>(&it.namespace, &it.name, &it.uid);
        self.take(reason, regarding, note);
    }

    fn take(&self, reason: &str, regarding: ObjectReference, note: &str) {
        // This copy removed what is gone, even if another one leads by now; and after history went back nobody leads.
        let is_own = [COLLECTED, HISTORY].contains(&reason);
        let Some(sender) = &self.sender else { return };
        if !(is_own || self.leadership.is_held()) {
            return;
        }
        let (kind, reserve) = match reason {
            COLLECTED => ("Normal", RESERVE),
            _ => ("Warning", 0),
        };
        if !self.budget.take(reserve) {
            self.counters.events_dropped.inc();
            return;
        }
        let now = wall();
        let name = regarding.name.as_deref().unwrap_or_default();
        // Room for the suffix within the 253 characters of an object name.
        let name = &name[..name.floor_char_boundary(230)];
        let event = Event {
            metadata: ObjectMeta {
                // Events on what is in no namespace are in this one.
                namespace: Some(regarding.namespace.clone().unwrap_or("default".to_owned())),
                name: Some(format!("{name}.{:016x}", chance::unique())),
                ..ObjectMeta::default()
            },
            action: Some("GarbageCollect".to_owned()),
            event_time: Some(MicroTime(now)),
            // It quotes names and words of others, which may be of several lines.
            note: Some(truncate(clean(note))),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some(CONTROLLER.to_owned()),
            reporting_instance: Some(self.instance.to_string()),
            type_: Some(kind.to_owned()),
            ..Event::default()
        };
        if sender.try_send(event).is_err() {
            self.counters.events_dropped.inc();
        }
    }
}

fn reference<K: Resource<DynamicType = ()>>(
    namespace: &str,
    name: &str,
    uid: &str,
) -> ObjectReference {
    ObjectReference {
        api_version: Some(K::api_version(&()).into_owned()),
        kind: Some(K::kind(&()).into_owned()),
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn truncate(mut note: String) -> String {
    if note.len() > MAX_NOTE {
        note.truncate(note.floor_char_boundary(MAX_NOTE - '…'.len_utf8()));
        note.push('…');
    }
    note
}

async fn send(
    client: Client,
    mut receiver: mpsc::Receiver<Event>,
    counters: Arc<Counters>,
    over: CancellationToken,
) {
    loop {
        let event = over.run_until_cancelled(receiver.recv()).await;
        let Some(event) = event.unwrap_or_else(|| receiver.try_recv().ok()) else {
            return;
        };
        let namespace = event.metadata.namespace.clone().unwrap_or_default();
        let api: Api<Event> = Api::namespaced(client.clone(), &namespace);
        let Err(error) = call(api.create(&PostParams::default(), &event)).await else {
            counters.events_sent.inc();
            continue;
        };
        counters.events_dropped.inc();
        // A namespace on its way out answers 403, one that is gone 404: no news.
        match error.answer() {
            Answer::Gone | Answer::Forbidden => debug!(namespace, %error, "event not sent"),
            _ => warn!(namespace, %error, "event not sent"),
        }
    }
}

/// A token bucket, as the time at which it is full again, in milliseconds since it was made.
#[derive(Debug)]
struct Budget {
    begun: Instant,
    full_at: AtomicU64,
}

impl Budget {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            full_at: AtomicU64::new(0),
        }
    }

    /// Takes one, if more than `reserve` are there.
    fn take(&self, reserve: u32) -> bool {
        let now = u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let room = REFILL * u64::from(BURST - reserve);
        let take = |full_at: u64| {
            let full_at = full_at.max(now) + REFILL;
            (full_at - now <= room).then_some(full_at)
        };
        let (order, full_at) = (Ordering::Relaxed, &self.full_at);
        full_at.fetch_update(order, order, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// In steps that the refill does not divide evenly.
    #[tokio::test(start_paused = true)]
    async fn the_budget_is_twenty_a_second_at_any_pace() {
        let budget = Budget::new();
        while budget.take(0) {}
        let mut taken = 0;
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(30)).await;
            taken += u32::from(budget.take(0));
        }
        assert!((1_199..=1_201).contains(&taken), "{taken}");
    }

    #[test]
    fn notes_end_on_a_character_boundary() {
        for note in [
            "ü".repeat(2_000),
            format!("x{}", "ü".repeat(2_000)),
            "short".to_owned(),
        ] {
            let cut = truncate(note.clone());
            assert!(cut.len() <= MAX_NOTE);
            assert!(note.starts_with(cut.trim_end_matches('…')));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_budget_is_a_burst_and_twenty_a_second() {
        let budget = Budget::new();
        let taken = |reserve| (0..1_000).filter(|_| budget.take(reserve)).count();
        assert_eq!(taken(RESERVE), 100);
        assert_eq!(taken(0), 20, "of those that are told once");
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!((taken(RESERVE), taken(0)), (0, 20));
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!((taken(RESERVE), taken(0)), (100, 20));
    }
}
