//! What a request costs the API server: its CPU time for many equal ones, less what it does by itself.

use std::time::{Duration, Instant};

use super::{measure::Meter, table::float};
use crate::Result;

/// How long the server is watched doing nothing for anybody.
const IDLE: Duration = Duration::from_secs(2);

/// Tells prices of one server.
pub struct Prices {
    server: Meter,
    /// What it does by itself, as part of a core.
    idle: f64,
}

impl Prices {
    /// Watches a server that nobody uses for a while.
    pub async fn of(server: Meter) -> Result<Self> {
        let (cpu, begun) = (server.cpu()?, Instant::now());
        tokio::time::sleep(IDLE).await;
        let used = server.cpu()?.saturating_sub(cpu);
        let idle = used.as_secs_f64() / begun.elapsed().as_secs_f64();
        Ok(Self { server, idle })
    }

    /// The server's CPU for one of so many equal requests.
    pub async fn each(
        &self,
        count: usize,
        requests: impl AsyncFnOnce() -> Result<()>,
    ) -> Result<Duration> {
        let (cpu, begun) = (self.server.cpu()?, Instant::now());
        requests().await?;
        let used = self.server.cpu()?.saturating_sub(cpu);
        let own = used.saturating_sub(begun.elapsed().mul_f64(self.idle));
        Ok(own.div_f64(float(count as u64)))
    }
}
