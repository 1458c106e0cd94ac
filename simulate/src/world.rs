//! The truth about the cluster, which the API server does not know: which sandboxes run, and which addresses answer.
//!
//! [`World`] is shared by all tasks of a run. It writes to the API server directly, as a kubelet or a controller does on
//! whose requests no fault acts. It decides nothing about time: [`crate::kubelet`] and [`crate::cluster`] do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use testkit::{Server, pods::Kubelet};
use tokio::time::{Instant, sleep};

use crate::{
    dice::Dice,
    story::{Net, Story},
};

/// The namespace of pools, definitions, and pods.
pub const NS: &str = "default";

/// A handle to the cluster.
#[derive(Clone)]
pub struct World {
    pub server: Server,
    /// Writes what a kubelet writes.
    pub api: Kubelet,
    pub nets: Arc<[Net]>,
    /// How many seconds the clock of ipgc, and of those who run it by hand, is ahead of the API server's.
    ahead: Arc<AtomicI64>,
    begun: Instant,
    state: Arc<Mutex<State>>,
}

/// Everything that changes.
pub struct State {
    /// The small choices of the run.
    pub dice: Dice,
    pub machines: Vec<Machine>,
    /// The pods whose objects are there, or whose sandboxes run, by the number of their uid.
    pub pods: BTreeMap<u64, Pod>,
    /// The pods whose kubelets are at work for them.
    pub lives: BTreeSet<u64>,
    /// All sandboxes that there ever were.
    pub sandboxes: Vec<Sandbox>,
    /// Addresses that were given to a second sandbox while a first one had them.
    pub doubled: Vec<Doubled>,
    /// Forced releases that ipgc would have allowed though its pod reports the address and answers on it.
    pub wrong: Vec<String>,
    /// How often each thing happened.
    pub counts: BTreeMap<String, u64>,
    /// The lines of the trace, if they are wanted.
    pub trace: Option<Vec<(Duration, String)>>,
    /// Whether all is well: no DEL is lost, and no machine migrates.
    pub is_calm: bool,
    /// Until then, names of gone pods are not used again.
    pub names_wait: Duration,
    /// So many of a hundred ADDs pause for long between their look at a pool and their write.
    pub long_looks: usize,
    /// The clients of the copies of ipgc, by their numbers.
    pub clients: BTreeMap<usize, String>,
    /// Since then, or from then on, the copies of ipgc hear and read everything.
    pub heard_from: Duration,
    next: u64,
}

/// A machine, whether or not its node is there.
// Independent facts, not the states of an automaton.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Its name, and that of its node.
    pub name: String,
    /// Whether it has power.
    pub power: bool,
    pub kubelet: bool,
    /// Whether it reaches the API server.
    pub connected: bool,
    /// How often it was booted.
    pub boot: u64,
    /// How many seconds its clock is ahead of the API server's.
    pub ahead: i64,
    /// Whether its fence is not taken back when it is booted.
    pub forgets: bool,
}

impl Machine {
    /// Whether its kubelet does what the API server wants.
    pub fn is_at_work(&self) -> bool {
        self.power && self.kubelet && self.connected
    }
}

// Independent facts, not the states of an automaton.
#[allow(clippy::struct_excessive_bools)]
#[derive(Clone, Debug, Default)]
pub struct Pod {
    pub name: String,
    /// Its place among the owners, and its number there.
    pub owner: (usize, usize),
    pub machine: usize,
    /// Its networks, by their places.
    pub nets: Vec<usize>,
    /// Whether it is to be deleted.
    pub deleting: bool,
    /// Whether its containers ended by themselves.
    pub completed: bool,
    /// Whether its object is gone.
    pub gone: bool,
    /// Whether its status says that it is at its end.
    pub terminal: bool,
    /// Whether its containers ran once.
    pub has_run: bool,
    /// Whether it is a static pod, and its object the mirror of it.
    pub is_static: bool,
    /// Whether its sandbox is broken, so that its kubelet makes another.
    pub fails: bool,
    /// Since when ipgc knows enough, if no state shows the sandbox that its kubelet makes.
    pub unseen: Option<Duration>,
}

impl Pod {
    /// `namespace/name`.
    pub fn podref(&self) -> String {
        format!("{NS}/{}", self.name)
    }
}

#[derive(Clone, Debug)]
pub struct Sandbox {
    pub id: String,
    pub uid: u64,
    /// Its pod.
    pub podref: String,
    pub machine: usize,
    /// The addresses that it has or had.
    pub addresses: Vec<Address>,
    /// When multus reported it.
    pub reported: Option<Duration>,
    /// When it ended.
    pub until: Option<Duration>,
}

/// An address of a sandbox.
#[derive(Clone, Debug)]
pub struct Address {
    pub ip: IpAddr,
    /// The pool whose row it is.
    pub pool: String,
    /// The key of the row.
    pub key: String,
    /// The place of its network, and its interface.
    pub net: usize,
    pub interface: String,
    /// When the row was written.
    pub from: Duration,
    /// When its ADD saw the reservation that was there already, and made none.
    pub accepted: Option<Duration>,
    /// When it answered no more, or was given to another sandbox.
    pub until: Option<Duration>,
    /// Whether its ADD was done.
    pub answers: bool,
}

impl Sandbox {
    pub fn runs(&self) -> bool {
        self.until.is_none()
    }

    /// The addresses that answer now.
    pub fn answering(&self) -> impl Iterator<Item = &Address> {
        let all = self.addresses.iter();
        all.filter(|it| self.runs() && it.until.is_none() && it.answers)
    }
}

/// An address that two sandboxes had.
#[derive(Clone, Debug)]
pub struct Doubled {
    pub ip: IpAddr,
    /// The first sandbox, and the second.
    pub sandboxes: (String, String),
    /// Its pool and the key of its row.
    pub row: (String, String),
    /// When it was given to the first, and to the second.
    pub at: (Duration, Duration),
}

impl World {
    /// The world of a story before it begins.
    pub fn new(story: &Story, trace: bool) -> Self {
        let server = Server::new();
        let now = Instant::now();
        let machines = (1..=story.machines).map(|number| Machine {
            name: format!("n{number}"),
            power: true,
            kubelet: true,
            connected: true,
            ..Machine::default()
        });
        let is_brief = story.returns.is_some_and(|it| it.is_brief);
        let long_looks = if is_brief { 60 } else { 10 };
        let state = State {
            dice: Dice::new(story.seed ^ 0x5eed),
            machines: machines.collect(),
            pods: BTreeMap::new(),
            lives: BTreeSet::new(),
            sandboxes: Vec::new(),
            doubled: Vec::new(),
            wrong: Vec::new(),
            counts: BTreeMap::new(),
            trace: trace.then(Vec::new),
            is_calm: false,
            names_wait: story.returns.map_or(Duration::ZERO, |_| Duration::MAX),
            long_looks,
            clients: BTreeMap::new(),
            heard_from: Duration::ZERO,
            next: 1,
        };
        Self {
            api: Kubelet::new(&server),
            server,
            nets: story.nets.clone().into(),
            ahead: Arc::default(),
            begun: now,
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// The state, which is never held over an await.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time since the begin.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn begun(&self) -> Instant {
        self.begun
    }

    /// The present by the clock of ipgc.
    pub fn wall(&self) -> Timestamp {
        self.server.now() + SignedDuration::from_secs(self.ahead.load(Ordering::Relaxed))
    }

    /// The clock of a machine jumps, or that of ipgc.
    pub(crate) fn jump(&self, machine: Option<usize>, by: i64) {
        self.tell("a clock jumps", format_args!("of {machine:?} by {by} s"));
        match machine {
            Some(machine) => self.state().machines[machine].ahead += by,
            None => {
                self.ahead.fetch_add(by, Ordering::Relaxed);
            }
        }
    }

    /// Something happened: it is counted by its kind, and told in the trace with its details.
    pub fn tell(&self, kind: &str, details: impl fmt::Display) {
        let now = self.now();
        let mut state = self.state();
        *state.counts.entry(kind.to_owned()).or_default() += 1;
        if let Some(trace) = &mut state.trace {
            trace.push((now, format!("{kind}: {details}")));
        }
    }

    /// Something happened so often.
    pub fn note(&self, kind: &str, count: usize) {
        if count > 0 {
            let mut state = self.state();
            *state.counts.entry(kind.to_owned()).or_default() += count as u64;
        }
    }

    /// A time from `from` to `to`, in milliseconds.
    pub fn millis(&self, from: u64, to: u64) -> Duration {
        self.state().dice.millis(from, to)
    }

    /// Whether something happens that happens in so many of a hundred cases.
    pub fn percent(&self, of_hundred: usize) -> bool {
        self.state().dice.percent(of_hundred)
    }

    /// A number that nothing else has.
    pub fn next(&self) -> u64 {
        let mut state = self.state();
        state.next += 1;
        state.next
    }

    /// A pod as it is now, if it is known.
    pub fn pod(&self, uid: u64) -> Option<Pod> {
        self.state().pods.get(&uid).cloned()
    }

    /// The machine, as it is now.
    pub fn machine(&self, machine: usize) -> Machine {
        self.state().machines[machine].clone()
    }

    /// The places of the sandboxes of a pod that run.
    pub fn running(&self, uid: u64) -> Vec<usize> {
        let state = self.state();
        let all = state.sandboxes.iter().enumerate();
        all.filter(|(_, it)| it.uid == uid && it.runs())
            .map(|(at, _)| at)
            .collect()
    }

    /// The pods that are so, by the numbers of their uids.
    pub fn pods(&self, is_so: impl Fn(&Pod) -> bool) -> Vec<(u64, Pod)> {
        let state = self.state();
        let pods = state.pods.iter().filter(|(_, pod)| is_so(pod));
        pods.map(|(uid, pod)| (*uid, pod.clone())).collect()
    }

    /// Changes what is known of a pod, if it is known.
    pub(crate) fn set(&self, uid: u64, change: impl FnOnce(&mut Pod)) {
        if let Some(pod) = self.state().pods.get_mut(&uid) {
            change(pod);
        }
    }

    /// Deletes a pod gracefully, unless another deed of the same moment removed it.
    pub(crate) fn begin_delete(&self, uid: u64, name: &str) {
        if self.pod(uid).is_some_and(|pod| !pod.gone) {
            self.api.begin_delete(NS, name);
            self.set(uid, |pod| pod.deleting = true);
        }
    }

    /// Something happens after a while.
    pub(crate) fn after(&self, time: Duration, happens: impl FnOnce(Self) + Send + 'static) {
        let this = self.clone();
        tokio::spawn(async move {
            sleep(time).await;
            happens(this);
        });
    }

    /// A sandbox ends, and its addresses answer no more.
    pub fn end_sandbox(&self, at: usize) {
        let now = self.now();
        self.state().sandboxes[at].until.get_or_insert(now);
    }

    /// All sandboxes of a machine end.
    pub fn end_all(&self, machine: usize) {
        let now = self.now();
        for sandbox in &mut self.state().sandboxes {
            if sandbox.machine == machine {
                sandbox.until.get_or_insert(now);
            }
        }
    }

    /// The rows of all pools, by the names of these.
    pub(crate) fn all_rows(&self) -> BTreeMap<String, Map<String, Value>> {
        let pools = self.server.list("ippools").into_iter();
        let named = pools.map(|pool| {
            let name = pool["metadata"]["name"].as_str().unwrap_or_default();
            (name.to_owned(), rows(&pool))
        });
        named.collect()
    }

    /// The node of a machine, if it is there.
    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.server.get("nodes", "", name)
    }
}

pub(crate) fn is_ready(node: &Value) -> bool {
    node["status"]["conditions"][0]["status"] == "True"
}

pub fn rows(pool: &Value) -> Map<String, Value> {
    let rows = pool["spec"]["allocations"].as_object();
    rows.cloned().unwrap_or_default()
}
