//! The copies of ipgc: as they ship, started, stopped, crashed, and started again.

use std::{collections::BTreeMap, time::Duration};

use ipgc::{
    config::Config,
    run::{Collector, Running},
};
use ipgc_core::breaker::Limits;
use testkit::{Cut, Match};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    faults::{At, Crash, OURS},
    story::Story,
    world::World,
};

/// One copy.
struct Copy {
    running: Running,
    crash: Crash,
    client: String,
    config: Config,
}

/// All of them.
pub struct Copies {
    world: World,
    all: Vec<Copy>,
    started: usize,
    /// The counts of copies that are gone.
    counts: BTreeMap<String, u64>,
}

impl Copies {
    /// Starts those of a story.
    pub fn start(world: &World, story: &Story) -> Self {
        let mut copies = Self {
            world: world.clone(),
            all: Vec::new(),
            started: 0,
            counts: BTreeMap::new(),
        };
        for number in 0..story.copies {
            let mut config = Config {
                sweep_interval: story.sweep_interval,
                resource_claims: world.has_resource_claims(),
                lease_namespace: (story.copies > 1).then(|| "ipgc-system".to_owned()),
                ..Config::default()
            };
            config.policy = story.policy();
            if story.cautious {
                config.breaker = Limits {
                    min: 1,
                    fraction: 0.1,
                    hold: Duration::from_secs(120),
                };
            }
            let copy = copies.launch(number, config);
            copies.all.push(copy);
        }
        if let Some(at) = story.crash {
            copies.crash_at(0, at);
        }
        copies
    }

    fn launch(&mut self, number: usize, mut config: Config) -> Copy {
        self.started += 1;
        let client = format!("{OURS}-{number}.{}", self.started);
        config.instance.clone_from(&client);
        let crash = Crash::of(&self.world.server, &client);
        self.world.take_fences_back();
        self.world.state().clients.insert(number, client.clone());
        self.world.deafen(Duration::ZERO);
        let sends = self.world.server.client_named(&client);
        let running = Collector::new(sends.clone(), sends, config.clone()).start();
        self.world.tell("ipgc starts", &client);
        Copy {
            running,
            crash,
            client,
            config,
        }
    }

    /// Stops a copy well, and starts it again.
    pub async fn restart(&mut self, number: usize, crashes: bool) {
        let copy = &self.all[number];
        let kind = if crashes {
            "ipgc crashes"
        } else {
            "ipgc is stopped"
        };
        self.world.tell(kind, &copy.client);
        if crashes {
            copy.crash.now();
            self.world
                .server
                .cut(Match::any().client(&copy.client), Cut::Broken);
        }
        copy.running.stop();
        sleep(self.world.millis(100, 20_000)).await;
        let config = copy.config.clone();
        let new = self.launch(number, config);
        let old = std::mem::replace(&mut self.all[number], new);
        count(&old.running, &mut self.counts);
    }

    /// A copy is to crash.
    pub fn crash_at(&self, number: usize, at: At) {
        self.all[number].crash.at(at);
    }

    /// Starts those again that crash until then.
    pub async fn look_after_until(&mut self, end: Instant) {
        while Instant::now() < end {
            sleep_until(end.min(Instant::now() + Duration::from_secs(5))).await;
            self.look_after().await;
        }
    }

    async fn look_after(&mut self) {
        for number in 0..self.all.len() {
            if let Some(is_done) = self.all[number].crash.died_at_a_write() {
                let kind = if is_done {
                    "crash after a write"
                } else {
                    "crash before a write"
                };
                self.world.tell(kind, &self.all[number].client);
                self.restart(number, true).await;
            }
        }
    }

    /// Stops all of them; the counts of all that there were.
    pub fn stop(mut self) -> BTreeMap<String, u64> {
        for copy in &self.all {
            copy.running.stop();
            count(&copy.running, &mut self.counts);
        }
        self.counts
    }

    /// How many cases are left in the queue of the copies that lead.
    pub fn queued(&self) -> u64 {
        let leading = self
            .all
            .iter()
            .filter(|copy| copy.running.context.is_leader());
        leading
            .map(|copy| sample(&copy.running, "ipgc_queue_depth"))
            .sum()
    }
}

/// A sample without labels of a copy's metrics.
fn sample(running: &Running, name: &str) -> u64 {
    let text = ipgc::metrics::text(&running.context);
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse().ok())
        .unwrap_or_default()
}

/// Adds the counts of a copy.
fn count(running: &Running, counts: &mut BTreeMap<String, u64>) {
    let counters = &running.context.counters;
    for (name, value) in counters.snapshot() {
        if value > 0 {
            *counts.entry(format!("ipgc {name}")).or_default() += value;
        }
    }
    let text = ipgc::metrics::text(&running.context);
    let freed = text
        .lines()
        .filter(|line| line.starts_with("ipgc_freed_total{"));
    for line in freed {
        let label = |name: &str| line.split_once(&format!("{name}=\""))?.1.split('"').next();
        let value = line.rsplit(' ').next().and_then(|it| it.parse().ok());
        if let (Some(grade), Some(cause), Some(value @ 1..)) =
            (label("grade"), label("cause"), value)
        {
            *counts.entry(format!("freed {grade} {cause}")).or_default() += value;
        }
    }
}

/// Longest time that the end of a run may take: the longest waits, a sweep, and some more.
pub const END: Duration = Duration::from_secs(3_600);
