//! The faults of a wire: which there are, how often each is to happen, and how often it did.
//!
//! Nothing here touches a connection.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

use rand::RngExt as _;
use tokio::{sync::watch, time::Instant};

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The connection is reset, and the API server never saw the request.
    ResetUnsent,
    /// The API server did what was asked, and the connection is reset in the place of the answer.
    ResetUnanswered,
    /// The connection is half-open: the request is swallowed, and nothing comes back.
    HalfOpenUnsent,
    /// The same after the API server did what was asked.
    HalfOpenUnanswered,
    /// The body of the answer comes a few bytes at a time.
    SlowBody,
    /// 429 with `Retry-After`.
    Busy,
    /// 503.
    Down,
    /// A watch ends in the middle of an object.
    CutWatch,
    /// The connection of a watch is reset.
    ResetWatch,
    /// The connection of a watch is half-open: it says nothing any more.
    DeafWatch,
}

impl Fault {
    /// All faults, in the order of their declaration, in words.
    pub const ALL: [(Self, &'static str); 10] = [
        (Self::ResetUnsent, "reset before the API server saw it"),
        (Self::ResetUnanswered, "reset in the place of the answer"),
        (Self::HalfOpenUnsent, "half-open, request swallowed"),
        (Self::HalfOpenUnanswered, "half-open, answer swallowed"),
        (Self::SlowBody, "slow body, 2 to 64 kB a second"),
        (Self::Busy, "429 with Retry-After"),
        (Self::Down, "503"),
        (Self::CutWatch, "watch cut within an object"),
        (Self::ResetWatch, "watch reset"),
        (Self::DeafWatch, "watch half-open"),
    ];
}

/// How probable a fault is, and which come in turn: each comes soon, and then as often as it is here.
type Odds = (f64, &'static [Fault]);

/// What is to happen.
#[derive(Clone, Debug)]
pub struct Weather {
    /// To requests that are no watch.
    pub requests: Odds,
    /// To watches as they begin.
    pub starts: Odds,
    /// To watches that have begun.
    pub watches: Odds,
    /// The seconds after which it happens to those.
    pub life: Range<f64>,
    /// No watch gets deaf later: ipgc notices after a while only.
    pub deaf_until: Instant,
}

impl Weather {
    /// Everything. A tenth of all requests fails, and every watch.
    pub fn wild(life: Range<f64>, deaf_for: Duration) -> Self {
        use Fault::{
            Busy, CutWatch as Cut, DeafWatch as Deaf, Down, HalfOpenUnanswered as Silent,
            HalfOpenUnsent as Swallowed, ResetUnanswered as Unanswered, ResetUnsent as Unsent,
            ResetWatch as Reset, SlowBody as Slow,
        };
        Self {
            requests: (
                0.1,
                &[
                    Busy, Down, Slow, Unsent, Unanswered, Swallowed, Silent, Busy, Down, Slow,
                    Unsent, Unanswered, Busy, Down,
                ],
            ),
            starts: (0.1, &[Busy, Down]),
            watches: (
                1.0,
                &[
                    Cut, Reset, Deaf, Cut, Cut, Reset, Cut, Cut, Reset, Cut, Cut, Reset, Cut, Cut,
                    Reset, Cut,
                ],
            ),
            life,
            deaf_until: Instant::now() + deaf_for,
        }
    }

    /// Half of all requests are too many.
    pub fn overload() -> Self {
        let half = (0.5, &[Fault::Busy] as &[_]);
        Self {
            requests: half,
            starts: half,
            watches: (0.0, &[]),
            life: 0.0..1.0,
            deaf_until: Instant::now(),
        }
    }
}

/// The faults of a wire at work. Calm weather has none.
#[derive(Debug, Default)]
pub struct Faults {
    weather: watch::Sender<Option<Weather>>,
    /// How many requests, and watches, had one.
    requests: AtomicUsize,
    watches: AtomicUsize,
    happened: [AtomicU64; Fault::ALL.len()],
}

impl Faults {
    /// Lets this happen from now on; without a weather, nothing, not even to answers that are on their way.
    pub fn set(&self, weather: Option<Weather>) {
        self.weather.send_replace(weather);
    }

    /// Whether nothing is to happen.
    pub fn is_calm(&self) -> bool {
        self.weather.borrow().is_none()
    }

    /// The fault of a request, if it has one.
    pub fn of_request(&self, is_watch: bool) -> Option<Fault> {
        let weather = self.weather.borrow();
        let weather = weather.as_ref()?;
        let odds = if is_watch {
            weather.starts
        } else {
            weather.requests
        };
        drawn(odds, &self.requests)
    }

    /// The fault of a watch, and when it happens: known as soon as the weather is bad. Without one, never.
    pub async fn of_watch(&self) -> (Fault, Instant) {
        let mut weather = self.weather.subscribe();
        let weather = weather.wait_for(Option::is_some).await;
        let fate = weather
            .ok()
            .and_then(|weather| fate(weather.as_ref()?, &self.watches));
        match fate {
            Some(fate) => fate,
            None => std::future::pending().await,
        }
    }

    /// It happened.
    pub fn count(&self, fault: Fault) {
        self.happened[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How often it happened.
    pub fn happened(&self, fault: Fault) -> u64 {
        self.happened[fault as usize].load(Ordering::Relaxed)
    }
}

/// The fault of a watch in this weather.
fn fate(weather: &Weather, count: &AtomicUsize) -> Option<(Fault, Instant)> {
    let after = Duration::from_secs_f64(rand::rng().random_range(weather.life.clone()));
    let at = Instant::now() + after;
    let fault = drawn(weather.watches, count)?;
    let is_late = fault == Fault::DeafWatch && at > weather.deaf_until;
    (!is_late).then_some((fault, at))
}

/// The next of them, or none.
fn drawn((odds, faults): Odds, count: &AtomicUsize) -> Option<Fault> {
    if !rand::rng().random_bool(odds) {
        return None;
    }
    let number = count.fetch_add(1, Ordering::Relaxed);
    faults.get(number % faults.len().max(1)).copied()
}
