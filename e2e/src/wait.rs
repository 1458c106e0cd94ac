//! Waiting for something with a deadline, and saying what was seen when it did not come.

use std::{
    fmt::Debug,
    future::Future,
    time::{Duration, Instant},
};

use crate::{Error, Result};

/// How often a condition is looked at. A tenth of what a test would notice, and ten requests a second.
pub const POLL: Duration = Duration::from_millis(100);

/// Long enough for anything that a loaded machine of two cores does in these tests.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The result of one check of a condition.
#[derive(Debug)]
pub enum Probe<T> {
    /// The condition holds.
    Done(T),
    /// It does not yet; this is what was seen instead.
    NotYet(String),
}

/// Looks again and again until the probe is done. An error of the probe ends the wait.
pub async fn until<T, F>(what: &str, deadline: Duration, mut probe: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<Probe<T>>>,
{
    let started = Instant::now();
    loop {
        match probe().await? {
            Probe::Done(value) => return Ok(value),
            Probe::NotYet(state) if started.elapsed() >= deadline => {
                return Err(Error::late(what, deadline, &state));
            }
            Probe::NotYet(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// Reads a state again and again until it satisfies the condition; the failure shows the state.
pub async fn until_state<T, F>(
    what: &str,
    deadline: Duration,
    mut read: impl FnMut() -> F,
    holds: impl Fn(&T) -> bool,
) -> Result<T>
where
    T: Debug,
    F: Future<Output = Result<T>>,
{
    let holds = &holds;
    until(what, deadline, || {
        let state = read();
        async move {
            let state = state.await?;
            Ok(if holds(&state) {
                Probe::Done(state)
            } else {
                Probe::NotYet(format!("{state:#?}"))
            })
        }
    })
    .await
}

/// Reads a state for the whole time and fails as soon as it no longer satisfies the condition: the proof
/// that something does *not* happen.
pub async fn holds_for<T, F>(
    what: &str,
    time: Duration,
    mut read: impl FnMut() -> F,
    holds: impl Fn(&T) -> bool,
) -> Result<()>
where
    T: Debug,
    F: Future<Output = Result<T>>,
{
    let started = Instant::now();
    loop {
        let state = read().await?;
        if !holds(&state) {
            let what = format!("{what} to stay so");
            return Err(Error::late(
                &what,
                started.elapsed(),
                &format!("{state:#?}"),
            ));
        }
        if started.elapsed() >= time {
            return Ok(());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Asks again while the server cannot be reached or says that it is not up yet, for as long as a restart of it takes;
/// what else it answers counts.
pub async fn patiently<T, F>(deadline: Duration, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let started = Instant::now();
    loop {
        match ask().await {
            Err(error)
                if error.is_of_api()
                    && matches!(error.api_code(), None | Some(429 | 503))
                    && started.elapsed() < deadline =>
            {
                tokio::time::sleep(POLL).await;
            }
            result => return result,
        }
    }
}
