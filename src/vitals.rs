//! A run as it is seen from outside: whether it lives, whether it is ready, and what its last sweep found. Nothing is
//! decided here.

use std::{sync::Arc, time::Duration};

use crate::{collect::context::Context, pulse::Phase, report::SweepReport};

/// A sweep that has not got on for so long hangs: its longest step is a request, which ends after 20 s, and waits
/// beat twice a minute.
const STUCK: Duration = Duration::from_mins(5);

impl Context {
    /// Whether the run gets on: false when its sweep has hung for five minutes. One that fails gets on, for a new
    /// process would fail too, and know less: what was seen ending is lost with this one. A copy that does not lead sweeps
    /// all the same.
    pub fn is_alive(&self) -> bool {
        // Before it starts, it asks for its rights, each under a deadline, and nothing can hang.
        *self.phase.borrow() == Phase::New || self.pulse.silence() <= STUCK
    }

    /// The conditions that are missing until the run is ready, in a few words each.
    pub fn not_ready(&self) -> Vec<String> {
        let phase = *self.phase.borrow();
        let mut missing = Vec::new();
        match phase {
            Phase::New => {
                let reason = "not started: the API server has not said yet which rights there are";
                return vec![reason.to_owned()];
            }
            Phase::Done => return vec!["the run has ended".to_owned()],
            Phase::Ready if !self.leadership.is_known() => {
                missing.push("the Lease could neither be read nor written".to_owned());
            }
            Phase::Starting | Phase::Ready => {}
        }
        for (resource, synced) in &self.synced {
            if !*synced.borrow() {
                missing.push(format!("no complete list or no watch of {resource}"));
            }
        }
        let refused = self.gate.refused_requests().into_iter();
        missing.extend(refused.map(|what| format!("the API server does not allow us to {what}")));
        missing
    }

    /// When the last sweep ended, in seconds since 1970; zero before the first.
    pub fn last_sweep(&self) -> f64 {
        let ended = self.sweeps.borrow().ended_at;
        ended.map_or(0.0, |ended| ended.as_duration().as_secs_f64())
    }

    /// The findings of the last sweep that read all pools; `None` before the first one, and while another copy leads,
    /// which shows the same.
    pub fn report(&self) -> Option<Arc<SweepReport>> {
        let report = self.sweeps.borrow();
        let is_there = report.ended_at.is_some() || report.pools + report.pools_unreadable > 0;
        (is_there && self.is_leader()).then(|| Arc::clone(&report))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;
    use crate::config::Config;

    fn context() -> Context {
        // Nobody asks it.
        let client = testkit::Server::new().client();
        let context = Context::new(client, Config::default());
        context.phase.send_replace(Phase::Ready);
        context
    }

    async fn seconds(seconds: u64) {
        sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn five_minutes_without_a_step_are_no_life() {
        let context = context();
        seconds(300).await;
        assert!(context.is_alive());
        seconds(1).await;
        assert!(!context.is_alive());
        context.pulse.beat();
        assert!(context.is_alive());
        context.pulse.through(seconds(86_400)).await;
        assert!(context.is_alive(), "a long wait is no illness");
        seconds(301).await;
        assert!(!context.is_alive());
    }
}
