//! The three collectors: how each is started, and until when its replica is watched.
//!
//! Waits are short everywhere: ipgc's by its flags, upstream's loop has none, and its reconciler gets a
//! schedule of seconds. A side is watched until all expected frees have happened,
//! and a while longer, since more may happen.

use std::{collections::BTreeMap, time::Duration};

use e2e::{
    Cluster, ControlPlane, Error, Options, Result,
    audit::{AuditLog, Mark, Request},
    cluster::create,
    control_plane::ADMIN,
    node::install::{ACCOUNT, NAMESPACE},
    ours::{self, Ipgc},
    upstream::Upstream,
    wait::{self, Probe},
};
use futures::FutureExt as _;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::{Api, Client, api::PostParams};
use serde_json::{Value, json};

use crate::{
    replica::{Replica, Snapshot},
    states::{Address, Outcome, Setting, State},
};

/// The user of upstream's collectors that may do all they need but GET a pod.
const UPSTREAM_WITHOUT_GET: &str = "upstream-without-get";

/// ipgc's waits. W is 4 s for one row; the longest is that of a reservation without a row, 10 s more. By the
/// environment, where a name that the binary does not know is no error: the rows that it stands for
/// then miss their time, and the test says so.
const IPGC_SETTINGS: &[(&str, &str)] = &[
    ("COOLDOWN", "1s"),
    ("GRACE", "2s"),
    ("DEL_BUDGET", "1s"),
    ("ADD_BUDGET", "1s"),
    ("MAX_POD_GRACE", "1s"),
    ("LEFTOVER_GRACE", "3s"),
    ("SWEEP_INTERVAL", "2s"),
    // Each run is alone with its pools, and several run at a time.
    ("LEADER_ELECT", "false"),
    ("LISTEN", "127.0.0.1:0"),
];

/// How long a side may take for what is expected of it. Upstream's loop needs up to two seconds for an
/// address.
const DEADLINE: Duration = Duration::from_secs(40);

/// How long upstream's collectors are watched after that.
const UPSTREAM_HOLD: Duration = Duration::from_secs(2);

/// How long ipgc is: more than any wait that it could have begun for a row that must stay.
const IPGC_HOLD: Duration = Duration::from_secs(6);

/// The schedule of a pass over all states, which takes 12 s: passes that overlap make each other fail.
const LONG_PASS: &str = "@every 15s";

/// The schedule of a pass over a few states.
const SHORT_PASS: &str = "@every 2s";

/// How long the reconciler may take for its first pass.
const PASS: Duration = Duration::from_secs(60);

/// How long all sides may take together, builds of servers and of ipgc aside.
const ALL: Duration = Duration::from_secs(300);

/// The collectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Upstream's per-node daemon.
    ControlLoop,
    /// Upstream's cron job.
    Reconciler,
    /// Ours.
    Ipgc,
}

impl Side {
    /// The outcome that is expected of it for an address; none where it does not run.
    pub fn expected(self, address: &Address) -> Option<Outcome> {
        match self {
            Self::ControlLoop => address.control_loop,
            Self::Reconciler => Some(address.reconciler),
            Self::Ipgc => Some(address.right),
        }
    }
}

/// The outcome for each address, by side, number of the state and position in it.
pub type Outcomes = BTreeMap<(Side, usize, usize), Outcome>;

/// The outcomes of a side, and its replica.
type Done = (Outcomes, Replica);

/// Brings all states about, once for each side.
pub async fn observe(states: &[State]) -> Result<Outcomes> {
    // Not part of the time that the sides have.
    ours::program().await?;
    let options = Options {
        users: vec![(UPSTREAM_WITHOUT_GET.to_owned(), Vec::new())],
        ..Options::default()
    };
    let servers = || ControlPlane::start(options.clone());
    let (shared, reconcilers) = futures::try_join!(servers(), servers())?;
    let sides = async {
        prepare_upstream(&shared).await?;
        prepare_upstream(&reconcilers).await?;
        Cluster::of(&shared).await?.apply_manifests().await?;
        let (first, second) = futures::try_join!(
            beside_each_other(&shared, states),
            one_after_the_other(&reconcilers, states),
        )?;
        Ok(first.into_iter().chain(second).collect())
    };
    let done = tokio::time::timeout(ALL, sides).await;
    done.map_err(|_| Error::late("all sides to be done", ALL, "they were not"))?
}

/// The loop and ipgc look into their own namespace's pools only.
async fn beside_each_other(plane: &ControlPlane, states: &[State]) -> Result<Outcomes> {
    use Setting::{BadRange, GetRefused, Ordinary, SilentNode};
    let loops = [Ordinary, GetRefused, BadRange].map(|it| control_loop(plane, states, it).boxed());
    let ours = [Ordinary, BadRange].map(|setting| ipgc(plane, states, setting).boxed());
    let done = futures::future::try_join_all(loops.into_iter().chain(ours)).await?;
    // Alone: it loses a right of the account that all of them have.
    let refused = ipgc(plane, states, GetRefused).boxed().await?;
    Cluster::of(plane).await?.apply_manifests().await?;
    // Last: nothing that was not seen to end may be freed any more once a node is silent.
    let last = ipgc(plane, states, SilentNode).boxed().await?;
    // Up to here all replicas are kept, and with them their nodes' heartbeats.
    let outcomes = done.into_iter().chain([refused, last]);
    Ok(outcomes.flat_map(|(outcomes, _)| outcomes).collect())
}

/// The reconciler looks everywhere, so it meets one setting's states at a time. The next ones
/// begin with the pods and rows that it has left. A pool that it cannot read ends everything, and comes last.
async fn one_after_the_other(plane: &ControlPlane, states: &[State]) -> Result<Outcomes> {
    use Setting::{BadRange, GetRefused, Ordinary, SilentNode};
    let mut outcomes = Outcomes::new();
    for setting in [Ordinary, SilentNode, GetRefused, BadRange] {
        let (seen, _) = reconciler(plane, states, setting).boxed().await?;
        outcomes.extend(seen);
    }
    Ok(outcomes)
}

async fn control_loop(plane: &ControlPlane, states: &[State], setting: Setting) -> Result<Done> {
    let watched = Watched::build(plane, states, setting, Side::ControlLoop).await?;
    let (user, replica) = (watched.user, &watched.replica);
    let node = &replica.node.name;
    let upstream = Upstream::control_loop(user, plane, &replica.namespace, node).await?;
    replica.act(&watched.states).await?;
    let log = || {
        upstream.still_up()?;
        upstream.log()
    };
    watched.done(UPSTREAM_HOLD, log).await
}

async fn reconciler(plane: &ControlPlane, states: &[State], setting: Setting) -> Result<Done> {
    let watched = Watched::build(plane, states, setting, Side::Reconciler).await?;
    let (user, replica) = (watched.user, &watched.replica);
    // It looks at a moment, so all has happened before.
    replica.act(&watched.states).await?;
    let (schedule, word) = match setting {
        Setting::Ordinary => (LONG_PASS, "reconciler run succeeded"),
        Setting::BadRange => (
            SHORT_PASS,
            "reconciler run failed: failed to retrieve all IP pools: invalid CIDR",
        ),
        _ => (SHORT_PASS, "reconciler run succeeded"),
    };
    let namespace = &replica.namespace;
    let upstream = Upstream::reconciler(user, plane, namespace, schedule).await?;
    let log = || {
        upstream.still_up()?;
        upstream.log()
    };
    let passed = |log: &String| log.contains(word);
    let read = || async { log() };
    wait::until_state("a pass of the reconciler", PASS, read, passed).await?;
    watched.done(UPSTREAM_HOLD, log).await
}

async fn ipgc(plane: &ControlPlane, states: &[State], setting: Setting) -> Result<Done> {
    let watched = Watched::build(plane, states, setting, Side::Ipgc).await?;
    let replica = &watched.replica;
    let access = plane.service_account(NAMESPACE, "ipgc").await?;
    let args = ["--pool-namespace", &replica.namespace.name];
    let cluster = replica.namespace.cluster();
    let ipgc = Ipgc::start(cluster, &access, &args, IPGC_SETTINGS).await?;
    ipgc.is_ready().await?;
    if setting == Setting::GetRefused {
        // Without this right it would not have started.
        forbid_get_of_pods(cluster.client()).await?;
    }
    replica.act(&watched.states).await?;
    let log = || {
        ipgc.still_up()?;
        Ok(ipgc.log())
    };
    watched.done(IPGC_HOLD, log).await
}

/// A replica that one side looks at.
struct Watched<'s> {
    side: Side,
    setting: Setting,
    /// As whom the side asks, in the audit log from this mark on.
    user: &'static str,
    audit: AuditLog,
    mark: Mark,
    states: Vec<&'s State>,
    replica: Replica,
    before: Snapshot,
}

impl<'s> Watched<'s> {
    async fn build(
        plane: &ControlPlane,
        states: &'s [State],
        setting: Setting,
        side: Side,
    ) -> Result<Self> {
        let states: Vec<&State> = states
            .iter()
            .filter(|state| state.setting == setting)
            .collect();
        let (prefix, numbers_from) = match side {
            Side::ControlLoop => ("loop", 0),
            Side::Reconciler => ("cron", 0),
            Side::Ipgc => ("ipgc", 100),
        };
        let cluster = Cluster::of(plane).await?;
        let replica = Replica::build(&cluster, prefix, numbers_from, &states).await?;
        let before = replica.beginning(&states).await?;
        let user = match (side, setting) {
            (Side::Ipgc, _) => ACCOUNT,
            (_, Setting::GetRefused) => UPSTREAM_WITHOUT_GET,
            _ => ADMIN,
        };
        let audit = plane.audit();
        Ok(Self {
            side,
            setting,
            user,
            mark: audit.mark()?,
            audit,
            states,
            replica,
            before,
        })
    }

    /// Waits for what is expected to be freed, then as long as `hold`, and says what became of all. A
    /// missing free is no error here: it is reported with all the rest.
    async fn settle(&self, hold: Duration) -> Result<Outcomes> {
        let what = format!("{:?} to do what is expected of it", self.side);
        let waited = wait::until(&what, DEADLINE, || async {
            let seen = self.outcomes().await?;
            let mut awaited = self.expected();
            awaited.retain(|key, expected| *expected != Outcome::Kept && seen[key] != *expected);
            Ok(if awaited.is_empty() {
                Probe::Done(())
            } else {
                Probe::NotYet(format!("{awaited:?}"))
            })
        })
        .await;
        match waited {
            Ok(()) | Err(Error::Deadline(_)) => {}
            Err(error) => return Err(error),
        }
        tokio::time::sleep(hold).await;
        self.outcomes().await
    }

    fn expected(&self) -> Outcomes {
        let mut expected = Outcomes::new();
        for state in &self.states {
            for (position, address) in state.addresses.iter().enumerate() {
                if let Some(outcome) = self.side.expected(address) {
                    expected.insert((self.side, state.number, position), outcome);
                }
            }
        }
        expected
    }

    async fn outcomes(&self) -> Result<Outcomes> {
        let now = self.replica.snapshot().await?;
        let mut outcomes = Outcomes::new();
        for state in &self.states {
            for (position, address) in state.addresses.iter().enumerate() {
                let outcome = self.replica.outcome(state, address, &self.before, &now);
                outcomes.insert((self.side, state.number, position), outcome);
            }
        }
        Ok(outcomes)
    }

    /// Waits for the end, and makes sure that the side did something: else what it kept says nothing. The log is an
    /// error if the side has ended by itself.
    async fn done(self, hold: Duration, log: impl Fn() -> Result<String>) -> Result<Done> {
        let seen = self.settle(hold).await?;
        let log = log()?;
        match (self.setting, self.side) {
            // Its log has said why.
            (Setting::BadRange, Side::Reconciler) => {}
            (Setting::GetRefused, _) => self.was_refused().await?,
            _ if seen.values().any(|outcome| *outcome == Outcome::Freed) => {}
            (_, side) => {
                let what = format!("{side:?} freed nothing; its log:\n{log}");
                return Err(Error::Other(what));
            }
        }
        Ok((seen, self.replica))
    }

    /// Waits until the server has refused a GET of a pod to the side.
    async fn was_refused(&self) -> Result<()> {
        let what = format!("a GET of a pod to be refused to {}", self.user);
        let read = || async { self.audit.since(self.mark) };
        let refused = |asked: &Vec<Request>| {
            asked.iter().any(|asked| {
                let get = (asked.verb.as_str(), asked.resource.as_str()) == ("get", "pods");
                get && asked.user == self.user && asked.code == 403
            })
        };
        wait::until_state(&what, wait::PATIENCE, read, refused).await?;
        Ok(())
    }
}

/// The rights of upstream's manifests, but for GET of pods.
async fn prepare_upstream(plane: &ControlPlane) -> Result<()> {
    const ALL: &[&str] = &["*"];
    const READ: &[&str] = &["get", "list", "watch"];
    let rule = |group: &str, resource: &str, verbs: &[&str]| -> Value {
        json!({"apiGroups": [group], "resources": [resource], "verbs": verbs})
    };
    let rules = json!([
        rule("whereabouts.cni.cncf.io", "*", ALL),
        rule("coordination.k8s.io", "leases", ALL),
        rule("", "pods", &["list", "watch"]),
        rule("", "nodes", READ),
        rule("k8s.cni.cncf.io", "network-attachment-definitions", READ),
        rule("", "events", ALL),
        rule("events.k8s.io", "events", ALL),
    ]);
    let client = plane.admin().await?;
    bind(&client, UPSTREAM_WITHOUT_GET, &rules).await
}

/// Takes the right to GET pods away from ipgc.
async fn forbid_get_of_pods(client: &Client) -> Result<()> {
    let roles = Api::<ClusterRole>::all(client.clone());
    let mut role = roles.get("ipgc").await?;
    for rule in role.rules.iter_mut().flatten() {
        if rule.resources.iter().flatten().any(|name| name == "pods") {
            rule.verbs.retain(|verb| verb != "get");
        }
    }
    roles.replace("ipgc", &PostParams::default(), &role).await?;
    Ok(())
}

/// Gives a user a cluster role of the same name.
async fn bind(client: &Client, name: &str, rules: &Value) -> Result<()> {
    let role = json!({"metadata": {"name": name}, "rules": rules});
    let binding = json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    create::<ClusterRole>(&Api::all(client.clone()), role).await?;
    create::<ClusterRoleBinding>(&Api::all(client.clone()), binding).await?;
    Ok(())
}
