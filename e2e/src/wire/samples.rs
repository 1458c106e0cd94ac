//! Memory, file descriptors, connections and open cases of ipgc while the scene goes on: the most of each, and how it grows.

use std::time::{Duration, Instant};

use super::proxy::Proxy;
use crate::{
    Error, Result,
    bench::{stage::Collector, table::float},
};

/// The metric of open work: cases, of which each is an owner in a pool.
const QUEUE: &str = "ipgc_queue_depth ";

/// How often ipgc is measured.
const EVERY: Duration = Duration::from_secs(5);

/// Memory in megabytes, file descriptors, connections to the proxy, open cases: now, at the most, or more in an hour.
pub type Amounts = [f64; 4];

/// In words.
pub fn words([memory, descriptors, connections, queue]: Amounts) -> String {
    format!(
        "{memory:.1} MB, {descriptors:.0} descriptors, {connections:.0} connections, {queue:.0} open cases"
    )
}

/// How many cases are open, by ipgc's metrics.
pub fn open_cases(metrics: &str) -> Result<f64> {
    let open = metrics.lines().find_map(|line| line.strip_prefix(QUEUE));
    let open = open.and_then(|number| number.parse().ok());
    open.ok_or_else(|| Error::Other(format!("{QUEUE}has no number")))
}

/// Measurements at intervals.
pub struct Samples {
    begun: Instant,
    /// In hours since the begin.
    taken: Vec<(f64, Amounts)>,
    /// Of memory and connections by the counts of the kernel and the proxy, which miss nothing.
    pub most: Amounts,
}

impl Samples {
    /// Measures until something is done, and returns what that gives.
    pub async fn take<T>(
        proxy: &Proxy,
        collector: &Collector,
        done: impl Future<Output = T>,
    ) -> Result<(Self, T)> {
        let mut samples = Self {
            begun: Instant::now(),
            taken: Vec::new(),
            most: Amounts::default(),
        };
        let mut done = std::pin::pin!(done);
        let mut ticks = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                biased;
                done = &mut done => return Ok((samples, done)),
                _ = ticks.tick() => samples.measure(proxy, collector).await?,
            }
        }
    }

    async fn measure(&mut self, proxy: &Proxy, collector: &Collector) -> Result<()> {
        let meter = collector.meter();
        let queue = open_cases(&collector.scrape().await?)?;
        let (connections, most_connections) = proxy.connections();
        let descriptors = float(meter.descriptors()? as u64);
        let megabytes = |bytes| float(bytes) / 1e6;
        let (connections, most) = (float(connections as u64), float(most_connections as u64));
        let peaks = [megabytes(meter.peak()?), descriptors, most, queue];
        for (most, peak) in self.most.iter_mut().zip(peaks) {
            *most = most.max(peak);
        }
        let amounts = [
            megabytes(meter.resident()?),
            descriptors,
            connections,
            queue,
        ];
        let hours = self.begun.elapsed().as_secs_f64() / 3_600.0;
        // A run of half an hour tells how it goes.
        let minute = |hours: f64| (hours * 60.0).floor();
        let last = self.taken.last().map(|(at, _)| minute(*at));
        if last.is_none_or(|last| last < minute(hours)) {
            eprintln!("{:>5.0} min  {}", minute(hours), words(amounts));
        }
        self.taken.push((hours, amounts));
        Ok(())
    }

    /// The growth of each in an hour, by the line that fits best to what was measured from then on.
    pub fn growth(&self, from: Duration) -> Amounts {
        let from = from.as_secs_f64() / 3_600.0;
        let taken: Vec<_> = self.taken.iter().filter(|(at, _)| *at >= from).collect();
        let count = float(taken.len() as u64);
        let mean = |of: &dyn Fn(&(f64, Amounts)) -> f64| {
            taken.iter().map(|it| of(it)).sum::<f64>() / count
        };
        let middle = mean(&|it| it.0);
        let width = mean(&|it| (it.0 - middle).powi(2));
        let slope = |index: usize| {
            let level = mean(&|it| it.1[index]);
            mean(&|it| (it.0 - middle) * (it.1[index] - level)) / width
        };
        [0, 1, 2, 3].map(slope)
    }
}
