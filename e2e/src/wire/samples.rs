//! Memory, file descriptors, connections and open cases of ipgc while a scene goes on: the most of each, and how it grows.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::stage::Behind;
use crate::{
    Error, Result,
    bench::{stage::Collector, table::float},
};

/// The metric of open work: cases, of which each is an owner in a pool.
const QUEUE: &str = "ipgc_queue_depth ";

/// Memory in megabytes, file descriptors, connections to the proxy, open cases: now, at the most, or more in an hour.
#[derive(Clone, Copy, Debug, Default)]
pub struct Amounts(pub [f64; 4]);

impl Amounts {
    pub fn megabytes(self) -> f64 {
        self.0[0]
    }

    pub fn connections(self) -> f64 {
        self.0[2]
    }

    pub fn queue(self) -> f64 {
        self.0[3]
    }
}

impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [memory, descriptors, connections, queue] = self.0;
        write!(
            f,
            "{memory:.1} MB, {descriptors:.0} descriptors, {connections:.0} connections, {queue:.0} open cases"
        )
    }
}

/// Measurements at intervals.
pub struct Samples {
    begun: Instant,
    every: Duration,
    /// In hours since the begin.
    taken: Vec<(f64, Amounts)>,
    /// By the kernel's own high-water mark.
    peak: f64,
    /// By the proxy's own count.
    most_connections: f64,
}

impl Samples {
    pub fn new(every: Duration) -> Self {
        Self {
            begun: Instant::now(),
            every,
            taken: Vec::new(),
            peak: 0.0,
            most_connections: 0.0,
        }
    }

    /// Measures until something is done, and returns what that gives.
    pub async fn take<T>(
        &mut self,
        behind: &Behind,
        collector: &Collector,
        done: impl Future<Output = T>,
    ) -> Result<T> {
        let mut done = std::pin::pin!(done);
        let mut ticks = tokio::time::interval(self.every);
        loop {
            tokio::select! {
                biased;
                done = &mut done => return Ok(done),
                _ = ticks.tick() => self.measure(behind, collector).await?,
            };
        }
    }

    /// Measures now.
    pub async fn measure(&mut self, behind: &Behind, collector: &Collector) -> Result<Amounts> {
        let meter = collector.meter();
        let metrics = collector.scrape().await?;
        let queue = metrics.lines().find_map(|line| line.strip_prefix(QUEUE));
        let queue = queue.and_then(|number| number.parse().ok());
        let queue = queue.ok_or_else(|| Error::Other(format!("{QUEUE}has no number")))?;
        self.peak = float(meter.peak()?) / 1e6;
        let (connections, most) = behind.proxy.connections();
        self.most_connections = float(most as u64);
        let amounts = Amounts([
            float(meter.resident()?) / 1e6,
            float(meter.descriptors()? as u64),
            float(connections as u64),
            queue,
        ]);
        let hours = self.begun.elapsed().as_secs_f64() / 3_600.0;
        // A run of half an hour tells how it goes.
        let minute = |hours: f64| (hours * 60.0).floor();
        let last = self.taken.last().map(|(at, _)| minute(*at));
        if last.is_none_or(|last| last < minute(hours)) {
            eprintln!("{:>5.0} min  {amounts}", minute(hours));
        }
        self.taken.push((hours, amounts));
        Ok(amounts)
    }

    /// The most of each.
    pub fn most(&self) -> Amounts {
        let of = |index: usize| {
            let values = self.taken.iter().map(|(_, amounts)| amounts.0[index]);
            values.fold(0.0, f64::max)
        };
        let mut most = Amounts([0, 1, 2, 3].map(of));
        most.0[0] = self.peak;
        most.0[2] = self.most_connections;
        most
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
            let level = mean(&|it| it.1.0[index]);
            mean(&|it| (it.0 - middle) * (it.1.0[index] - level)) / width
        };
        Amounts([0, 1, 2, 3].map(slope))
    }
}
