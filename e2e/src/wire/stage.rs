//! The stage: two API servers on one store, of which one lags, a proxy before both, and `ipgc run` that knows the proxy
//! alone.

use std::{path::Path, time::Instant};

use super::proxy::Proxy;
use crate::{
    Result,
    bench::stage::{Collector, Stage},
    process::Process,
};

/// Servers, and ipgc's way to them.
pub struct Behind {
    pub proxy: Proxy,
    pub stage: Stage,
    // Until the end of the scene.
    _second: Process,
    begun: Instant,
}

impl Behind {
    /// Starts all but ipgc, which is this program.
    pub async fn new(program: &Path) -> Result<Self> {
        let begun = Instant::now();
        let mut stage = Stage::new(program).await?;
        let (second, url) = stage.plane.another_api_server().await?;
        let proxy = Proxy::start(&stage.plane, &url).await?;
        stage.access = stage.access.by_way_of(proxy.url());
        Ok(Self {
            proxy,
            stage,
            _second: second,
            begun,
        })
    }

    /// Tells the person who waits what happens now.
    pub fn say(&self, what: &str) {
        eprintln!("{:>5} s  {what}", self.begun.elapsed().as_secs());
    }

    /// Ends it all. Something wrong is an error, with the end of ipgc's log.
    pub async fn end(self, collector: Collector, wrong: Vec<String>) -> Result<()> {
        if !wrong.is_empty() {
            return Err(collector.fault(wrong.join("\n")));
        }
        collector.stop().await?;
        self.stage.stop().await
    }
}
