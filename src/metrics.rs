//! The metrics in OpenMetrics text (docs/operations.md names them all).
//!
//! No number lives here: counters are read from [`Counters`], gauges from [`Vitals`], what a sweep found
//! from its report, all when they are asked for. So a pool that is gone is gone from here, and nobody counts
//! anything twice. Labels are words of ours and names of pools, never texts of errors or names of pods.
//!
//! [`Counters`]: crate::report::Counters

use std::{fmt, sync::Arc};

use ipgc_core::{
    evidence::Grade,
    judge::{Cause, Word},
};
use prometheus_client::{
    collector::Collector,
    encoding::{
        DescriptorEncoder, EncodeGaugeValue, EncodeMetric, MetricEncoder, NoLabelSet, text,
    },
    metrics::{MetricType, histogram::Histogram},
    registry::Registry,
};

use crate::{
    collect::sweep::{PoolTally, SweepReport},
    report::Trigger,
    vitals::Vitals,
};

/// Media type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of one process.
#[derive(Debug)]
pub struct Metrics(Registry);

impl Metrics {
    /// Those of this run.
    #[must_use]
    pub fn new(vitals: Arc<Vitals>) -> Self {
        let mut registry = Registry::with_prefix("ipgc");
        registry.register_collector(Box::new(Exporter(vitals)));
        Self(registry)
    }

    /// The present text.
    ///
    /// # Errors
    /// Writing to a `String` cannot fail, but the encoder's signature allows for it.
    pub fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.0)?;
        Ok(out)
    }
}

/// Reads all of it.
#[derive(Debug)]
struct Exporter(Arc<Vitals>);

impl Collector for Exporter {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families(encoder);
        self.counters(&mut families)?;
        self.histograms(&mut families)?;
        self.process(&mut families)?;
        self.sweep(&mut families)
    }
}

impl Exporter {
    fn counters(&self, families: &mut Families<'_>) -> fmt::Result {
        let counters = self.0.counters();
        let mut freed = families.counter("freed", "Rows that were freed")?;
        for (grade, cause) in pairs(&Grade::ALL, &Cause::ALL) {
            for trigger in Trigger::ALL {
                let labels = [
                    ("grade", grade.as_str()),
                    ("cause", cause.as_str()),
                    ("trigger", trigger.as_str()),
                ];
                let value = counters.rows_freed.of(grade, cause, trigger).get();
                count(&mut freed.encode_family(&labels)?, value)?;
            }
        }
        let help =
            "Rows and reservations that may not be freed, or not yet, counted when that is found";
        let mut refused = families.counter("free_refused", help)?;
        for (reason, counter) in [
            ("breaker", &counters.frees_stopped),
            ("immutable", &counters.claims_forbidden),
            ("rejected", &counters.frees_refused),
            ("unfenced", &counters.rows_held),
            ("unknown", &counters.rows_unknown),
        ] {
            count(
                &mut refused.encode_family(&[("reason", reason)])?,
                counter.get(),
            )?;
        }
        let help = "Pods whose rows could not be freed within the retries, left to the sweep";
        let value = counters.retries_exhausted.get();
        count(&mut families.counter("retries_exhausted", help)?, value)?;
        let help = "How often the API server's data went back in time, as when etcd is restored from a backup";
        let value = counters.history_went_back.get();
        count(&mut families.counter("history_went_back", help)?, value)?;
        let help = "Events that were not sent";
        let value = counters.events_dropped.get();
        count(&mut families.counter("events_dropped", help)?, value)?;
        let help = "Requests to the API server, by the code of the answer, or error";
        let mut requests = families.counter("api_requests", help)?;
        for ([verb, resource], code, value) in counters.requests.snapshot() {
            let labels = [("verb", verb), ("resource", resource), ("code", &code)];
            count(&mut requests.encode_family(&labels)?, value)?;
        }
        Ok(())
    }

    fn histograms(&self, families: &mut Families<'_>) -> fmt::Result {
        let spread = &self.0.counters().spread;
        let help = "Seconds from the end of the pod, or from when a sweep first saw the row stale, until it was gone";
        let mut freed = families.0.encode_descriptor(
            "time_to_free_seconds",
            help,
            None,
            MetricType::Histogram,
        )?;
        for trigger in Trigger::ALL {
            let labels = [("trigger", trigger.as_str())];
            spread
                .time_to_free(trigger)
                .encode(freed.encode_family(&labels)?)?;
        }
        let help = "Seconds that a sweep took which came to its end";
        families.histogram("sweep_duration_seconds", help, &spread.sweep_duration)?;
        families.histogram("patch_rows", "Rows to a patch", &spread.patch_rows)
    }

    fn process(&self, families: &mut Families<'_>) -> fmt::Result {
        let vitals = &self.0;
        let help = "Ends of pods and cases in work or waiting";
        families.value("queue_depth", help, &vitals.queue_depth())?;
        let help = "Live pods that can have rows";
        families.value("pods_indexed", help, &vitals.pods_indexed())?;
        let help = "1 where this process leads";
        families.value("leader", help, &i64::from(vitals.is_leader()))?;
        let help = "When this process began, in seconds since 1970";
        families.value("start_timestamp_seconds", help, &vitals.started())?;
        let help = "When the last sweep ended, in seconds since 1970; 0 before the first";
        families.value("last_sweep_timestamp_seconds", help, &vitals.last_sweep())?;
        let help = "1 once the first list of a watch is complete";
        let mut synced = families.gauge("watch_synced", help)?;
        for (resource, is) in vitals.synced() {
            let labels = [("resource", resource)];
            synced
                .encode_family(&labels)?
                .encode_gauge(&i64::from(is))?;
        }
        Ok(())
    }

    /// What the last sweep found. What it does not know has no sample, which is not the same as zero.
    fn sweep(&self, families: &mut Families<'_>) -> fmt::Result {
        let report = self.0.report();
        let report = report.as_deref();
        let open = report.map(|report| i64::from(report.breaker_open));
        families.known("breaker_open", "1 while the breaker is open", open)?;
        let help = "Reservations without a row whose pod does not need them";
        families.known(
            "reservations_orphaned",
            help,
            report.map(|report| report.orphans),
        )?;
        let help = "Pools that cannot be read, or whose range cannot";
        let unreadable = report.map(SweepReport::blind);
        families.known("pools_unreadable", help, unreadable)?;
        let help = "Addresses that more than one live pod uses in one network";
        let duplicates = report.map(|report| report.duplicates);
        families.known("duplicates", help, duplicates)?;
        let help = "Addresses that a live pod uses and has no row of";
        let unallocated = report.and_then(|report| report.unallocated);
        families.known("in_use_unallocated", help, unallocated)?;
        let pools = report.map_or(&[][..], |report| &report.by_pool);
        let pools: Vec<_> = pools
            .iter()
            .map(|pool| (pool.key.to_string(), pool))
            .collect();
        #[expect(
            clippy::cast_precision_loss,
            reason = "a range of 2^53 addresses is as good as endless"
        )]
        let size = |pool: &PoolTally| pool.size.map(|size| size as f64);
        let help = "Addresses that a pool has to give out";
        let mut family = families.gauge("pool_size", help)?;
        for (name, pool) in &pools {
            let Some(size) = size(pool) else { continue };
            family
                .encode_family(&[("pool", name)])?
                .encode_gauge(&size)?;
        }
        let mut family = families.gauge("pool_rows", "Rows of a pool, by verdict")?;
        for (name, pool) in &pools {
            for word in Word::ALL {
                let labels = [("pool", name.as_str()), ("verdict", word.as_str())];
                let rows = pool.words.of(word);
                family.encode_family(&labels)?.encode_gauge(&rows)?;
            }
        }
        let help =
            "For how long the oldest stale row of a pool that no node holds was known to be stale";
        let mut family = families.gauge("oldest_stale_seconds", help)?;
        for (name, pool) in &pools {
            let seconds = pool.oldest_stale.as_secs_f64();
            family
                .encode_family(&[("pool", name)])?
                .encode_gauge(&seconds)?;
        }
        Ok(())
    }
}

/// Writes the heads of families of metrics.
struct Families<'e>(DescriptorEncoder<'e>);

impl Families<'_> {
    fn counter<'f>(
        &'f mut self,
        name: &'f str,
        help: &str,
    ) -> Result<MetricEncoder<'f>, fmt::Error> {
        self.0
            .encode_descriptor(name, help, None, MetricType::Counter)
    }

    fn gauge<'f>(&'f mut self, name: &'f str, help: &str) -> Result<MetricEncoder<'f>, fmt::Error> {
        self.0
            .encode_descriptor(name, help, None, MetricType::Gauge)
    }

    /// A gauge without labels.
    fn value(&mut self, name: &str, help: &str, value: &impl EncodeGaugeValue) -> fmt::Result {
        self.gauge(name, help)?.encode_gauge(value)
    }

    /// A gauge without labels, where it is known.
    fn known(
        &mut self,
        name: &str,
        help: &str,
        value: Option<impl EncodeGaugeValue>,
    ) -> fmt::Result {
        let mut family = self.gauge(name, help)?;
        value.map_or(Ok(()), |value| family.encode_gauge(&value))
    }

    fn histogram(&mut self, name: &str, help: &str, histogram: &Histogram) -> fmt::Result {
        let family = self
            .0
            .encode_descriptor(name, help, None, MetricType::Histogram)?;
        histogram.encode(family)
    }
}

fn count(family: &mut MetricEncoder<'_>, value: u64) -> fmt::Result {
    family.encode_counter::<NoLabelSet, _, f64>(&value, None)
}

fn pairs<'a, A: Copy, B: Copy>(
    first: &'a [A],
    second: &'a [B],
) -> impl Iterator<Item = (A, B)> + use<'a, A, B> {
    first.iter().flat_map(|a| second.iter().map(|b| (*a, *b)))
}
