//! The metrics in OpenMetrics text (docs/operations.md names them all).
//!
//! No number lives here: counters are read from [`Counters`], gauges from the context of the run, what a sweep found
//! from its report, all when they are asked for. So a pool that is gone is gone from here, and nobody counts
//! anything twice. Labels are words of ours and names of pools and nodes, never texts of errors or names of pods.
//!
//! [`Counters`]: crate::report::Counters

use std::{fmt, sync::Arc};

use ipgc_core::judge::Word;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeGaugeValue, EncodeLabelSet, EncodeMetric, text},
    metrics::MetricType,
    registry::Registry,
};

use crate::{
    collect::context::Context,
    report::{NODES_SHOWN, SweepReport},
};

/// Media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The present text of the metrics of a run.
pub fn text(context: &Arc<Context>) -> String {
    let mut registry = Registry::with_prefix("ipgc");
    registry.register_collector(Box::new(Exporter(Arc::clone(context))));
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = text::encode(&mut out, &registry);
    out
}

#[derive(Debug)]
struct Exporter(Arc<Context>);

impl Collector for Exporter {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        counters(&self.0, &mut encoder)?;
        process(&self.0, &mut encoder)?;
        sweep(&self.0, &mut encoder)
    }
}

fn counters(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let counters = &context.counters;
    let mut family = |name, help, metric: &dyn EncodeMetric| {
        metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
    };
    family("freed", "Rows that were freed", &counters.freed)?;
    let help = "Pods whose rows could not be freed within the retries, left to the sweep";
    family("retries_exhausted", help, &counters.retries_exhausted)?;
    let help =
        "How often the API server's data went back in time, as when etcd is restored from a backup";
    family("history_went_back", help, &counters.history_went_back)?;
    let help = "Warnings at the start about another collector in the cluster, or an old API server";
    family("start_warnings", help, &counters.start_warnings)?;
    let help = "Events that were not sent";
    family("events_dropped", help, &counters.events_dropped)?;
    let help = "Requests to the API server, by the code of the answer, or error";
    family("api_requests", help, &counters.requests)?;
    let help = "Seconds from the end of the pod, or from when a sweep first saw the row stale, until it was gone";
    family("time_to_free_seconds", help, &counters.time_to_free)?;
    let help = "Seconds that a sweep took which came to its end";
    family("sweep_duration_seconds", help, &counters.sweep_duration)?;
    family("patch_rows", "Rows to a patch", &counters.patch_rows)?;
    let help =
        "Rows and reservations that may not be freed, or not yet, counted when that is found";
    let mut refused = encoder.encode_descriptor("free_refused", help, None, MetricType::Counter)?;
    for (reason, count) in [
        ("breaker", &counters.frees_stopped),
        ("immutable", &counters.claims_forbidden),
        ("rejected", &counters.frees_refused),
        ("unfenced", &counters.rows_held),
        ("unknown", &counters.rows_unknown),
    ] {
        count.encode(refused.encode_family(&[("reason", reason)])?)?;
    }
    Ok(())
}

fn process(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let help = "Cases (an owner in a pool) in work or waiting";
    let open = context.outlook.borrow().open;
    gauge(encoder, "queue_depth", help, Some(open))?;
    let help = "Live pods that can have rows";
    let pods = context.evidence().pods.count_live();
    gauge(encoder, "pods_indexed", help, Some(pods))?;
    let leads = usize::from(context.is_leader());
    gauge(encoder, "leader", "1 where this process leads", Some(leads))?;
    let help = "When this process began, in seconds since 1970";
    let started = context.started.as_duration().as_secs_f64();
    gauge(encoder, "start_timestamp_seconds", help, Some(started))?;
    let help = "When the last sweep ended, in seconds since 1970; 0 before the first";
    let swept = context.last_sweep();
    gauge(encoder, "last_sweep_timestamp_seconds", help, Some(swept))?;
    let synced = context.synced.iter().map(|(resource, synced)| {
        let is_synced = i64::from(*synced.borrow());
        ([("resource", *resource)], is_synced)
    });
    let help = "1 once the first list of a watch is complete, 0 while it cannot begin for minutes";
    gauges(encoder, "watch_synced", help, synced)
}

/// The findings of the last sweep. A number that it does not know has no sample, which is not the same as zero.
fn sweep(context: &Context, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let report = context.report();
    let report = report.as_deref();
    let open = report.map(|it| usize::from(it.breaker_open));
    gauge(encoder, "breaker_open", "1 while the breaker is open", open)?;
    let orphans = report.and_then(|it| it.orphans);
    let help = "Reservations without a row whose pod does not need them";
    gauge(encoder, "reservations_orphaned", help, orphans)?;
    let unreadable = report.map(SweepReport::blind);
    let help = "Pools that cannot be read, or whose range cannot";
    gauge(encoder, "pools_unreadable", help, unreadable)?;
    let duplicates = report.map(|it| it.duplicates);
    let help = "Addresses that more than one live pod uses in one network";
    gauge(encoder, "duplicates", help, duplicates)?;
    let unallocated = report.and_then(|it| it.unallocated);
    let help = "Addresses that a live pod uses and has no row of";
    gauge(encoder, "in_use_unallocated", help, unallocated)?;
    let nodes = report.map(SweepReport::held_by).unwrap_or_default();
    let nodes = nodes.iter().take(NODES_SHOWN);
    let nodes = nodes.map(|(node, rows)| ([("node", &**node)], *rows));
    let help = "Stale rows that a silent node holds, for the nodes that hold most";
    gauges(encoder, "rows_held_by_node", help, nodes)?;
    let pools = report.map_or(&[][..], |report| &report.by_pool).iter();
    let pools: Vec<_> = pools.map(|pool| (pool.key.to_string(), pool)).collect();
    let pools = || pools.iter().map(|(name, pool)| (("pool", &**name), *pool));
    #[expect(clippy::cast_precision_loss, reason = "2^53 addresses are endless")]
    let sizes = pools().filter_map(|(name, pool)| Some(([name], pool.size? as f64)));
    let help = "Addresses that a pool has to give out";
    gauges(encoder, "pool_size", help, sizes)?;
    let taken = pools().filter_map(|(name, pool)| pool.size.map(|_| ([name], pool.taken)));
    let help = "Rows of the addresses that a pool has to give out";
    gauges(encoder, "pool_taken", help, taken)?;
    let rows = pools().flat_map(|(name, pool)| {
        let labels = |word: Word| [name, ("verdict", word.as_str())];
        Word::ALL.map(|word| (labels(word), pool.words[word as usize]))
    });
    gauges(encoder, "pool_rows", "Rows of a pool, by verdict", rows)?;
    let oldest = pools().map(|(name, pool)| ([name], pool.oldest_stale.as_secs_f64()));
    let help =
        "For how long the oldest stale row of a pool that no node holds was known to be stale";
    gauges(encoder, "oldest_stale_seconds", help, oldest)
}
fn gauges<L: EncodeLabelSet>(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: impl IntoIterator<Item = (L, impl EncodeGaugeValue)>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    let mut samples = samples.into_iter();
    samples.try_for_each(|(labels, value)| family.encode_family(&labels)?.encode_gauge(&value))
}

/// A gauge without labels, where it is known.
fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    value: Option<impl EncodeGaugeValue>,
) -> fmt::Result {
    let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    value.map_or(Ok(()), |value| family.encode_gauge(&value))
}
