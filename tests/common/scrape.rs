//! The metrics of a run, as Prometheus would read them.

use std::collections::{BTreeMap, BTreeSet};

use ipgc::{metrics, run::Running};

use super::{NS, POOL};

/// The samples of one text, by name and labels as they stand there.
pub struct Scrape(pub BTreeMap<String, f64>);

impl Scrape {
    /// Those of a run, now.
    pub fn of(running: &Running) -> Self {
        Self::parse(&metrics::text(&running.context))
    }

    /// Reads a text, which must end as OpenMetrics does.
    pub fn parse(text: &str) -> Self {
        assert!(text.ends_with("# EOF\n"), "{text}");
        let mut samples = BTreeMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let before = samples.insert(name.to_owned(), value.parse().unwrap());
            assert!(before.is_none(), "twice: {line}");
        }
        Self(samples)
    }

    /// A sample, if it is there.
    pub fn get(&self, sample: &str) -> Option<f64> {
        self.0.get(sample).copied()
    }

    /// How many rows of [`POOL`](super::POOL) have this verdict.
    pub fn rows(&self, verdict: &str) -> Option<f64> {
        let pool = format!("{NS}/{POOL}");
        self.get(&format!(
            "ipgc_pool_rows{{pool=\"{pool}\",verdict=\"{verdict}\"}}"
        ))
    }

    /// A sample of [`POOL`](super::POOL).
    pub fn of_pool(&self, name: &str) -> Option<f64> {
        self.get(&format!("{name}{{pool=\"{NS}/{POOL}\"}}"))
    }

    /// The kinds of frees that there were, with their numbers.
    pub fn freed(&self) -> Vec<(&str, f64)> {
        let all = self.all("ipgc_freed_total").into_iter();
        all.filter(|(_, count)| *count > 0.0).collect()
    }

    /// Checks that none of these has a sample.
    #[track_caller]
    pub fn lacks(&self, names: &[&str]) {
        for name in names {
            assert!(self.all(name).is_empty(), "{name}");
        }
    }

    /// All samples of one name, by their labels.
    pub fn all(&self, name: &str) -> BTreeMap<&str, f64> {
        let samples = self.0.iter();
        let own = samples.filter_map(|(sample, value)| {
            let labels = sample.strip_prefix(name)?;
            (labels.is_empty() || labels.starts_with('{')).then_some((labels, *value))
        });
        own.collect()
    }

    /// The names of all samples.
    pub fn names(&self) -> BTreeSet<&str> {
        let samples = self.0.keys();
        samples
            .map(|sample| sample.split('{').next().unwrap())
            .collect()
    }
}
