//! `ipgc run`: the collector as a process.

use std::{pin::pin, process::ExitCode, time::Duration};

use kube::Client;
use tokio::time::{error::Elapsed, timeout};
use tracing::{error, info, level_filters::LevelFilter, warn};

use super::{
    Ended, block_on, cluster, log, print,
    signals::Signals,
    values::{Hold, Listen, duration, fraction, hold, listen, unfenced},
    waits,
};
use crate::{
    access::{self, Right, Scope},
    admin::Admin,
    backoff::Backoff,
    config::Config,
    core::{
        breaker::Limits,
        evidence::{Policy, Unfenced},
    },
    leader::lacks_namespace,
    once,
    run::Collector,
    snapshot::neighbours,
};

const EXAMPLES: &str = "\
Exit code: 0 ended by a signal, 1 the run failed, 2 error in flags, configuration or rights. With --once:
0 nothing is left that should go, 1 something is left or the run failed

Examples:
  ipgc run --once --dry-run                  tell what would be freed, from this machine
  ipgc run --once --wait 20m                 free what may go within 20 minutes, and end
  ipgc run --cooldown 5s --grace 5m          wait longer before an address is given back
  ipgc run --unfenced free-after=12h         free after that what nodes hold that nobody fences
  ipgc run --keep-podref 'driver/*,*/vip-*'  never touch rows of these owners
  RUST_LOG=debug ipgc run --log-format json  say more, for machines";

/// Longer than a run that ends by itself goes on after its wait.
const ONCE: Duration = Duration::from_hours(1);

/// Arguments of `ipgc run`. Durations read like `90s` or `5m`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    cluster: cluster::Args,

    /// Wait after the end of a pod whose sandbox is known to be stopped; at least 1s
    #[arg(long, env = "IPGC_COOLDOWN", value_name = "DURATION", default_value = "2s", value_parser = duration)]
    cooldown: Duration,

    #[command(flatten)]
    waits: waits::Args,

    /// What becomes of addresses of a deleted pod whose node is silent and not fenced: hold, or
    /// free-after=DURATION counted from the pod's end
    #[arg(long, env = "IPGC_UNFENCED", value_name = "POLICY", default_value = "hold", value_parser = unfenced)]
    unfenced: Unfenced,

    /// Longest hold of an address whose pod nobody saw ending, on behalf of nodes that may still run
    /// it: a duration, or forever
    #[arg(long, env = "IPGC_UNWITNESSED_HOLD", value_name = "DURATION", default_value = "forever", value_parser = hold)]
    unwitnessed_hold: Hold,

    /// Time between two looks at all addresses
    #[arg(long, env = "IPGC_SWEEP_INTERVAL", value_name = "DURATION", default_value = "5m", value_parser = duration)]
    sweep_interval: Duration,

    /// More than this part of all addresses without a pod, whose ends nobody saw, opens the breaker
    #[arg(long, env = "IPGC_BREAKER_FRACTION", value_name = "FRACTION", default_value_t = 0.5, value_parser = fraction)]
    breaker_fraction: f64,

    /// Only more than this many addresses open the breaker
    #[arg(
        long,
        env = "IPGC_BREAKER_MIN",
        value_name = "NUMBER",
        default_value_t = 50
    )]
    breaker_min: usize,

    /// While the breaker is open, such addresses are freed after so long, or when their pool is
    /// acknowledged
    #[arg(long, env = "IPGC_BREAKER_HOLD", value_name = "DURATION", default_value = "30m", value_parser = duration)]
    breaker_hold: Duration,

    /// End after one look at all addresses, as soon as all is freed that may go at once or within --wait; a
    /// summary is printed. The --listen address is not served
    #[arg(long, env = "IPGC_ONCE")]
    once: bool,

    /// With --once: how long to wait for addresses that may not go yet. Where nobody saw the pod end, that takes some
    /// minutes
    #[arg(long, env = "IPGC_WAIT", value_name = "DURATION", default_value = "10m", requires = "once", value_parser = duration)]
    wait: Duration,

    /// Take every decision and write nothing: what would be freed is logged
    #[arg(long, env = "IPGC_DRY_RUN")]
    dry_run: bool,

    /// How often a pod is tried again after a failure
    #[arg(
        long,
        env = "IPGC_MAX_RETRIES",
        value_name = "NUMBER",
        default_value_t = 5
    )]
    max_retries: u32,

    /// How many pools are read at a time
    #[arg(long, env = "IPGC_WORKERS", value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,

    /// Free addresses only while holding the Lease ipgc; --leader-elect=false where there is one copy
    #[arg(
        long,
        env = "IPGC_LEADER_ELECT",
        value_name = "BOOL",
        default_value_t = true,
        num_args = 0..=1,
        default_missing_value = "true",
        require_equals = true,
        action = clap::ArgAction::Set
    )]
    leader_elect: bool,

    /// Namespace of that Lease
    #[arg(
        long,
        env = "IPGC_LEASE_NAMESPACE",
        value_name = "NAMESPACE",
        default_value = "ipgc-system"
    )]
    lease_namespace: String,

    /// Where /livez, /readyz and /metrics are served: an address with a port, or none
    #[arg(long, env = "IPGC_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:8080", value_parser = listen)]
    listen: Listen,

    /// Name of this process in the Lease and in the events that it sends
    #[arg(
        long,
        env = "HOSTNAME",
        value_name = "NAME",
        default_value = "ipgc",
        hide = true
    )]
    instance: String,

    /// Format of the log; RUST_LOG filters it
    #[arg(
        long,
        env = "IPGC_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: log::Format,
}

/// Runs until SIGTERM or SIGINT.
pub(super) fn main(args: &Args) -> Ended {
    log::start(args.log_format, LevelFilter::INFO, &[])?;
    let config = args.config()?;
    if let Some(warning) = args.waits.warning() {
        warn!("{warning}");
    }
    block_on(async {
        let clients = args.cluster.clients().await?;
        let listen = args.listen.filter(|_| !args.once);
        let once = args.once.then_some(args.wait);
        collect(clients, config, listen, once).await
    })
}

async fn collect(
    (requests, watches): (Client, Client),
    config: Config,
    listen: Listen,
    once: Option<Duration>,
) -> Ended {
    let signals = Signals::listen()?;
    let mut shutdown = pin!(async { info!("{}, shutting down", signals.end().await) });
    let collector = Collector::new(requests, watches, config.clone());
    // Before anything is asked of the API server, which may be out of reach: a probe that is refused says
    // nothing. It answers until the run has ended.
    let _admin = match listen {
        None => None,
        Some(address) => {
            let admin = Admin::start(address, collector.vitals().clone()).await;
            let admin =
                admin.map_err(|error| format!("cannot listen on {address} (--listen): {error}"))?;
            info!(address = %admin.address(), "serving /livez, /readyz and /metrics");
            Some(admin)
        }
    };
    let unfit = tokio::select! {
        () = &mut shutdown => return Ok(ExitCode::from(u8::from(once.is_some()))),
        unfit = unfit_in_time(collector.requests(), &config, once.is_some()) => unfit,
    };
    match unfit {
        Ok(None) => {}
        Ok(Some(reason)) => return Err(reason),
        Err(_) => {
            error!("the API server does not say which rights there are");
            return Ok(ExitCode::FAILURE);
        }
    }
    let (client, namespace) = (collector.requests().clone(), config.pool_namespace.clone());
    let neighbours = tokio::spawn(async move {
        for note in neighbours::pods(&client, namespace.as_deref()).await {
            warn!("{note}");
        }
    });
    let running = collector.start();
    if let Some(wait) = once {
        let summary = once::once(running, &config, wait, shutdown).await;
        neighbours.abort();
        return match summary {
            Ok(summary) => {
                let code = ExitCode::from(u8::from(!summary.is_clear()));
                print(&summary.to_string(), code)
            }
            Err(reason) => {
                error!(%reason, "run failed");
                Ok(ExitCode::FAILURE)
            }
        };
    }
    let mut phase = running.phase();
    let ended = phase.wait_for(|phase| *phase == crate::run::Phase::Done);
    tokio::select! {
        () = shutdown => {}
        _ = ended => {}
    }
    running.stop();
    neighbours.abort();
    let counters = std::sync::Arc::clone(running.counters());
    let result = running.done().await;
    for (name, value) in counters.snapshot() {
        if value > 0 {
            info!(name, value, "counted");
        }
    }
    Ok(match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            error!(%reason, "run failed");
            ExitCode::FAILURE
        }
    })
}

/// The same, for a run that `ends` by itself: it does not wait for an API server for ever.
async fn unfit_in_time(
    client: &Client,
    config: &Config,
    ends: bool,
) -> Result<Option<String>, Elapsed> {
    let patience = if ends { once::SURVEY } else { Duration::MAX };
    timeout(patience, unfit(client, config)).await
}

/// Why nothing could ever be done in this cluster, if that is so.
async fn unfit(client: &Client, config: &Config) -> Option<String> {
    let missing = missing_rights(client, config).await;
    if !missing.is_empty() {
        return Some(lacking(&missing, config.election()));
    }
    let namespace = config.election()?;
    lacks_namespace(client, namespace).await.then(|| {
        format!(
            "namespace {namespace}, where the Lease is to be, does not exist: create it, or name another by --lease-namespace"
        )
    })
}

/// The rights that are missing. As long as the API server does not say, it is asked again: it may
/// start later than we do.
async fn missing_rights(client: &Client, config: &Config) -> Vec<Right> {
    let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(10));
    loop {
        match access::missing(client, config.rights()).await {
            Ok(missing) => return missing,
            Err(error) => {
                let wait = backoff.next_wait();
                warn!(%error, ?wait, "cannot ask for rights");
                tokio::time::sleep(wait).await;
            }
        }
    }
}

/// What to say of them.
fn lacking(missing: &[Right], election: Option<&str>) -> String {
    let of_lease = |right: &Right| match (&right.scope, election) {
        (Scope::Namespace(at), Some(namespace)) => right.resource == "leases" && at == namespace,
        _ => false,
    };
    // A namespace that does not exist has no RoleBinding, and the API server does not say that it does not exist.
    let hint = if missing.iter().any(of_lease) {
        "; the namespace of the Lease has to exist: create it, or name another by --lease-namespace"
    } else {
        ""
    };
    let missing: Vec<_> = missing.iter().map(Right::to_string).collect();
    let missing = missing.join(", ");
    format!("rights are missing, manifests/base/rbac.yaml grants them: {missing}{hint}")
}

impl Args {
    fn config(&self) -> Result<Config, String> {
        if self.cooldown < Duration::from_secs(1) {
            return Err("--cooldown must be at least 1s: the pod watch may lag".to_owned());
        }
        if self.sweep_interval < Duration::from_secs(1) {
            return Err("--sweep-interval must be at least 1s".to_owned());
        }
        if self.leader_elect && self.lease_namespace.is_empty() {
            return Err("--lease-namespace is empty".to_owned());
        }
        let policy = Policy {
            cooldown: self.cooldown,
            unfenced: self.unfenced,
            unwitnessed_hold: self.unwitnessed_hold,
            ..self.waits.policy()
        };
        Ok(Config {
            pool_namespace: self.cluster.pool_namespace(),
            policy,
            workers: self.workers.into(),
            max_retries: self.max_retries,
            // One look at all addresses is enough, unless something asks for another.
            sweep_interval: if self.once {
                self.wait + ONCE
            } else {
                self.sweep_interval
            },
            breaker: Limits {
                fraction: self.breaker_fraction,
                min: self.breaker_min,
                hold: self.breaker_hold,
            },
            dry_run: self.dry_run,
            instance: self.instance.clone(),
            lease_namespace: self.leader_elect.then(|| self.lease_namespace.clone()),
            ..Config::default()
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use clap::Parser;
    use testkit::Match;

    use super::*;

    #[derive(Parser)]
    struct Only {
        #[command(flatten)]
        args: Args,
    }

    fn config(args: &[&str]) -> Result<Config, String> {
        let args = ["ipgc"].iter().chain(args);
        Only::try_parse_from(args).unwrap().args.config()
    }

    #[test]
    fn every_flag_reaches_the_settings() {
        let config = config(&[
            "--pool-namespace=net",
            "--cooldown=3s",
            "--grace=4s",
            "--del-budget=5s",
            "--add-budget=15s",
            "--max-pod-grace=6s",
            "--leftover-grace=7s",
            "--keep-podref=a/*",
            "--keep-podref=b/*",
            "--max-retries=8",
            "--workers=9",
            "--unfenced=free-after=10s",
            "--unwitnessed-hold=11s",
            "--sweep-interval=12s",
            "--breaker-fraction=0.25",
            "--breaker-min=13",
            "--breaker-hold=14s",
            "--dry-run",
            "--lease-namespace=mine",
            "--listen=none",
        ])
        .unwrap();
        assert_eq!(config.pool_namespace.as_deref(), Some("net"));
        assert_eq!(config.lease_namespace.as_deref(), Some("mine"));
        assert_eq!(
            config.election(),
            None,
            "a dry run leaves the Lease to others"
        );
        assert_eq!((config.max_retries, config.workers), (8, 9));
        let policy = config.policy;
        let waits = [
            policy.cooldown,
            policy.grace,
            policy.del_budget,
            policy.max_pod_grace,
            policy.leftover_grace,
            policy.add_budget,
        ];
        assert_eq!(waits.map(|wait| wait.as_secs()), [3, 4, 5, 6, 7, 15]);
        let after = |seconds| Duration::from_secs(seconds);
        assert_eq!(policy.unfenced, Unfenced::FreeAfter(after(10)));
        assert_eq!(policy.unwitnessed_hold, Some(after(11)));
        assert_eq!(config.sweep_interval, after(12));
        let limits = Limits {
            fraction: 0.25,
            min: 13,
            hold: after(14),
        };
        assert_eq!(config.breaker, limits);
        assert!(config.dry_run);
        let kept = |podref: &str| policy.keep_podrefs.iter().any(|glob| glob.matches(podref));
        assert!(kept("a/x") && kept("b/x") && !kept("c/x"));
    }

    #[test]
    fn the_defaults_of_the_flags_are_those_of_the_library() {
        let (flags, library) = (config(&[]).unwrap(), Config::default());
        let waits = |policy: &Policy| {
            [
                policy.cooldown,
                policy.grace,
                policy.del_budget,
                policy.max_pod_grace,
                policy.leftover_grace,
                policy.add_budget,
            ]
        };
        assert_eq!(waits(&flags.policy), waits(&library.policy));
        assert_eq!(flags.policy.unfenced, library.policy.unfenced);
        assert_eq!(
            flags.policy.unwitnessed_hold,
            library.policy.unwitnessed_hold
        );
        assert_eq!(flags.sweep_interval, library.sweep_interval);
        assert_eq!(flags.breaker, library.breaker);
        assert_eq!(flags.dry_run, library.dry_run);
        assert_eq!(flags.max_retries, library.max_retries);
        assert_eq!(flags.workers, library.workers);
    }

    #[test]
    fn a_run_that_ends_by_itself_looks_once() {
        let args = ["ipgc", "--once", "--wait=20m"];
        let args = Only::try_parse_from(args).unwrap().args;
        assert_eq!((args.once, args.wait.as_secs()), (true, 20 * 60));
        assert!(args.config().unwrap().sweep_interval > args.wait);
        assert!(Only::try_parse_from(["ipgc", "--wait=20m"]).is_err());
        assert_eq!(
            Only::try_parse_from(["ipgc"]).unwrap().args.wait.as_secs(),
            600
        );
    }

    /// A run that goes on for ever asks for ever.
    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_say_which_rights_there_are_ends_a_run_that_is_to_end() {
        let server = testkit::Server::new();
        server.on(Match::create("selfsubjectaccessreviews")).hang();
        let begun = tokio::time::Instant::now();
        let unfit = unfit_in_time(&server.client(), &electing(), true).await;
        assert!(unfit.is_err());
        assert_eq!(begun.elapsed(), once::SURVEY);
    }

    #[test]
    fn there_is_an_election_unless_told_otherwise() {
        let lease = |args: &[&str]| config(args).unwrap().lease_namespace;
        let standard = Some("ipgc-system".to_owned());
        assert_eq!(lease(&[]), standard);
        assert_eq!(lease(&["--leader-elect"]), standard);
        assert_eq!(lease(&["--leader-elect=true"]), standard);
        assert_eq!(lease(&["--leader-elect=false"]), None);
        assert!(config(&["--lease-namespace="]).is_err());
        assert!(config(&["--leader-elect=false", "--lease-namespace="]).is_ok());
    }

    #[test]
    fn waits_of_less_than_a_kubelet_needs_are_told() {
        let warning = |args: &[&str]| {
            let args = ["ipgc"].iter().chain(args);
            Only::try_parse_from(args).unwrap().args.waits.warning()
        };
        for enough in [
            &[][..],
            &["--grace=0s"],
            &["--del-budget=0s"],
            &["--grace=1m30s", "--del-budget=0s", "--max-pod-grace=0s"],
        ] {
            assert_eq!(warning(enough), None, "{enough:?}");
        }
        let none = ["--grace=0s", "--del-budget=0s", "--max-pod-grace=0s"];
        let text = warning(&none).unwrap();
        assert!(
            text.contains("goes after 0s") && text.contains("1m30s"),
            "{text}"
        );
        assert!(warning(&["--grace=1s", "--del-budget=50s"]).is_some());
    }

    #[test]
    fn what_is_held_for_ever_unless_told_otherwise() {
        let policy = config(&["--unfenced=hold", "--unwitnessed-hold=forever"]);
        let policy = policy.unwrap().policy;
        assert_eq!(policy.unfenced, Unfenced::Hold);
        assert_eq!(policy.unwitnessed_hold, None);
        assert!(config(&["--sweep-interval=999ms"]).is_err());
    }

    fn electing() -> Config {
        config(&["--lease-namespace=mine"]).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_of_the_lease_that_is_missing_is_said_in_one_line() {
        let server = testkit::Server::builder().require_namespaces().build();
        let said = || async { unfit(&server.client(), &electing()).await };
        let missing = said().await.unwrap();
        assert!(missing.contains("namespace mine"), "{missing}");
        assert!(missing.contains("--lease-namespace") && missing.contains("create it"));
        // The account may lack rights there as well.
        let denied = server.deny(Match::resource("leases").namespace("mine"));
        let lacking = said().await.unwrap();
        assert!(lacking.contains("create leases.coordination.k8s.io in namespace mine"));
        assert!(lacking.contains("--lease-namespace"), "{lacking}");
        denied.remove();
        // A run without an election needs none.
        let alone = config(&["--leader-elect=false"]).unwrap();
        assert_eq!(unfit(&server.client(), &alone).await, None);
        server.put(testkit::fixtures::namespace("mine"));
        assert_eq!(said().await, None);
        assert!(server.list("leases").is_empty(), "nothing was made");
    }

    /// Only the API server's own word counts.
    #[tokio::test(start_paused = true)]
    async fn a_lease_that_cannot_be_tried_is_no_missing_namespace() {
        for code in [400, 403, 404, 409, 500] {
            let server = testkit::Server::new();
            server.on(Match::create("leases")).fail(code);
            assert_eq!(unfit(&server.client(), &electing()).await, None, "{code}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_starts_late_is_asked_until_it_answers() {
        let server = testkit::Server::new();
        let reviews = || server.on(Match::create("selfsubjectaccessreviews"));
        reviews().times(40).disconnect();
        reviews().times(40).fail(403);
        reviews().times(4).hang();
        server.on(Match::patch("ippools")).deny();
        let begun = tokio::time::Instant::now();
        let missing = missing_rights(&server.client(), &Config::default()).await;
        assert_eq!(
            lacking(&missing, Some("ipgc-system")),
            "rights are missing, manifests/base/rbac.yaml grants them: \
             patch ippools.whereabouts.cni.cncf.io in all namespaces"
        );
        assert!(begun.elapsed() > Duration::from_mins(1), "hardly waited");
    }
}
