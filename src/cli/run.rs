//! `ipgc run`: the collector as a process.

use std::{pin::pin, process::ExitCode, sync::Arc, time::Duration};

use kube::Client;
use tokio::time::{error::Elapsed, timeout};
use tracing::{error, info, warn};

use super::{
    Ended, block_on, cluster, log, print, signals,
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
    run::{Collector, Phase, Running},
    snapshot::{neighbours, server},
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
// Flags, not the states of a machine.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    cluster: cluster::Args,

    /// Wait after a pod's end that proves its sandbox stopped; at least 1s
    #[arg(long, env = "IPGC_COOLDOWN", value_name = "DURATION", default_value = "2s", value_parser = duration)]
    cooldown: Duration,

    #[command(flatten)]
    waits: waits::Args,

    /// Addresses of a deleted pod whose node is silent and not fenced: hold, or free-after=DURATION since the pod's end
    #[arg(long, env = "IPGC_UNFENCED", value_name = "POLICY", default_value = "hold", value_parser = unfenced)]
    unfenced: Unfenced,

    /// Longest hold of an address whose pod nobody saw end, for nodes that may still run it: a duration, or forever
    #[arg(long, env = "IPGC_UNWITNESSED_HOLD", value_name = "DURATION", default_value = "forever", value_parser = hold)]
    unwitnessed_hold: Hold,

    /// Time between two looks at all addresses
    #[arg(long, env = "IPGC_SWEEP_INTERVAL", value_name = "DURATION", default_value = "5m", value_parser = duration)]
    sweep_interval: Duration,

    /// The breaker opens when more than this part of all rows has no pod, and the watch did not show the ends of these pods
    #[arg(long, env = "IPGC_BREAKER_FRACTION", value_name = "FRACTION", default_value_t = 0.5, value_parser = fraction)]
    breaker_fraction: f64,

    /// Only more than this many such addresses open the breaker
    #[arg(long, env = "IPGC_BREAKER_MIN", value_name = "NUMBER", default_value_t = Limits::default().min)]
    breaker_min: usize,

    /// While the breaker is open, such addresses are freed after this time, or when their pool is acknowledged
    #[arg(long, env = "IPGC_BREAKER_HOLD", value_name = "DURATION", default_value = "30m", value_parser = duration)]
    breaker_hold: Duration,

    /// End after one look at all addresses, when all is freed that may go within --wait, and print a summary. --listen
    /// is not served
    #[arg(long, env = "IPGC_ONCE")]
    once: bool,

    /// With --once: how long to wait for addresses that may not go yet
    #[arg(long, env = "IPGC_WAIT", value_name = "DURATION", default_value = "10m", requires = "once", value_parser = duration)]
    wait: Duration,

    /// Decide everything and write nothing: the log tells what would be freed
    #[arg(long, env = "IPGC_DRY_RUN")]
    dry_run: bool,

    /// Also free addresses of ResourceClaims that are gone, as DRANET leaves them. Needs Kubernetes 1.34 and the right
    /// to list ResourceClaims
    #[arg(long, env = "IPGC_RESOURCE_CLAIMS")]
    resource_claims: bool,

    /// Also delete pools that for a day have had no row, no write, and no network attachment definition that leads to
    /// them. Needs the right to delete IPPools; deletes none with --once
    #[arg(long, env = "IPGC_COLLECT_EMPTY_POOLS")]
    collect_empty_pools: bool,

    /// How often a pod is tried again after a failure
    #[arg(long, env = "IPGC_MAX_RETRIES", value_name = "NUMBER", default_value_t = Config::default().max_retries)]
    max_retries: u32,

    /// How many pools are read at a time
    #[arg(long, env = "IPGC_WORKERS", value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,

    /// Free addresses only while holding the Lease ipgc; --leader-elect=false if there is one copy
    #[arg(long, env = "IPGC_LEADER_ELECT", value_name = "BOOL", default_value_t = true, action = clap::ArgAction::Set)]
    #[arg(num_args = 0..=1, default_missing_value = "true", require_equals = true)]
    leader_elect: bool,

    /// Namespace of that Lease
    #[arg(long, env = "IPGC_LEASE_NAMESPACE", value_name = "NAMESPACE", default_value_t = "ipgc-system".to_owned())]
    lease_namespace: String,

    /// Where /livez, /readyz and /metrics are served: an address with a port, or none
    #[arg(long, env = "IPGC_LISTEN", value_name = "ADDRESS", default_value = "0.0.0.0:8080", value_parser = listen)]
    listen: Listen,

    /// Name of this process in the Lease and in the events that it sends
    #[arg(long, env = "HOSTNAME", value_name = "NAME", default_value_t = Config::default().instance, hide = true)]
    instance: String,

    /// Format of the log; RUST_LOG filters it
    #[arg(long, env = "IPGC_LOG_FORMAT", value_name = "FORMAT", value_enum, default_value_t = log::Format::Text)]
    log_format: log::Format,
}

/// Runs until SIGTERM or SIGINT.
pub(super) fn main(args: &Args) -> Ended {
    log::start(args.log_format, "info")?;
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
    let signal = signals::listen()?;
    let mut shutdown = pin!(async { info!("{}, shutting down", signal.await) });
    let collector = Collector::new(requests, watches, config);
    let context = Arc::clone(&collector.context);
    // Before anything is asked of the API server, which may be out of reach: a probe that is refused says
    // nothing. It answers until the run has ended.
    let _admin = match listen {
        None => None,
        Some(address) => {
            let admin = Admin::start(address, Arc::clone(&context)).await;
            let admin =
                admin.map_err(|error| format!("cannot listen on {address} (--listen): {error}"))?;
            info!(address = %admin.address(), "serving /livez, /readyz and /metrics");
            Some(admin)
        }
    };
    let unfit = tokio::select! {
        () = &mut shutdown => return Ok(ExitCode::from(u8::from(once.is_some()))),
        unfit = unfit_in_time(&collector.requests, &context.config, once.is_some()) => unfit,
    };
    let Ok(unfit) = unfit else {
        error!("the API server does not say which rights there are");
        return Ok(ExitCode::FAILURE);
    };
    if let Some(reason) = unfit {
        return Err(reason);
    }
    let client = collector.requests.clone();
    let neighbours = tokio::spawn(async move {
        let namespace = context.config.pool_namespace.as_deref();
        let mut notes = neighbours::pods(&client, namespace).await;
        notes.extend(server::notes(&client).await);
        for note in notes {
            warn!("{note}");
            context.counters.start_warnings.inc();
        }
    });
    let running = collector.start();
    let result = match once {
        None => until_stopped(running, shutdown).await.map(|()| None),
        Some(wait) => once::once(running, wait, shutdown).await.map(Some),
    };
    neighbours.abort();
    match result {
        Ok(None) => Ok(ExitCode::SUCCESS),
        Ok(Some(summary)) => {
            let code = ExitCode::from(u8::from(!summary.is_clear()));
            print(&summary.to_string(), code)
        }
        Err(reason) => {
            error!(%reason, "run failed");
            Ok(ExitCode::FAILURE)
        }
    }
}

async fn until_stopped(running: Running, shutdown: impl Future<Output = ()>) -> Result<(), String> {
    let mut phase = running.context.phase.subscribe();
    tokio::select! {
        () = shutdown => {}
        _ = phase.wait_for(|phase| *phase == Phase::Done) => {}
    }
    running.stop();
    let context = Arc::clone(&running.context);
    let result = running.done().await;
    for (name, value) in context.counters.snapshot() {
        if value > 0 {
            info!(name, value, "counted");
        }
    }
    result
}

/// As [`unfit`], but a run that `ends` by itself does not wait for an API server for ever.
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

/// One line about missing rights.
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
    let missing = access::names(missing);
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
            resource_claims: self.resource_claims,
            collect_empty_pools: self.collect_empty_pools,
            dry_run: self.dry_run,
            instance: self.instance.clone(),
            lease_namespace: self.leader_elect.then(|| self.lease_namespace.clone()),
            ..Config::default()
        })
    }
}

#[cfg(test)]
mod tests;
