//! Faults of the API server for the requests of ipgc, and only for those: kubelets, people and the oracle are not hit.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use testkit::{Failure, Match, Request, Rule, Server, Verb};

use crate::{dice::Dice, story::Fault};

/// The first letters of the name of each client of ipgc.
pub const OURS: &str = "ipgc";

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_ours(request: &Request) -> bool {
    request.client.starts_with(OURS)
}

/// Whether it is sent for the sake of rows and reservations: not to follow objects, and not for a Lease.
pub fn is_work(request: &Request) -> bool {
    is_ours(request) && request.verb != Verb::Watch && request.resource != "leases"
}

fn is_write(request: &Request) -> bool {
    let is_review = request.resource.ends_with("reviews");
    Verb::WRITES.contains(&request.verb) && !is_review
}

/// So many of a hundred of those that `is_meant`.
fn some(of: usize, seed: u64, is_meant: fn(&Request) -> bool) -> Match {
    let dice = Arc::new(Mutex::new(Dice::new(seed)));
    Match::any()
        .filter(move |request| is_ours(request) && is_meant(request) && lock(&dice).percent(of))
}

impl Fault {
    /// Begins; the rules end it.
    pub fn begin(self, server: &Server, seed: u64) -> Vec<Rule> {
        if let Self::Suspended(copy) = self {
            let client = format!("{OURS}-{copy}.");
            let of = Match::any().filter(move |it| it.client.starts_with(&client));
            return vec![server.on(of.clone()).hang(), server.on_events(of).hold()];
        }
        vec![self.rule(server, seed)]
    }

    fn rule(self, server: &Server, seed: u64) -> Rule {
        let any: fn(&Request) -> bool = |_| true;
        match self {
            Self::Fails(429, of) => server
                .on(some(of, seed, any))
                .answer(Failure::too_many_requests(3)),
            Self::Fails(code, of) => server.on(some(of, seed, any)).fail(code),
            Self::DoneThenFails(code, of) => {
                let rule = server.on(some(of, seed, is_write));
                rule.apply_then_answer(Failure::of_code(code))
            }
            Self::Breaks(of) => server.on(some(of, seed, any)).disconnect(),
            Self::DoneThenBreaks(of) => server.on(some(of, seed, is_write)).apply_then_disconnect(),
            Self::Garbled(how, of) => server.on(some(of, seed, any)).garble(how),
            Self::Hangs(of) | Self::Suspended(of) => server.on(some(of, seed, any)).hang(),
            Self::Late(of, millis) => {
                let rule = server.on(some(of, seed, is_write));
                rule.apply_late(Duration::from_millis(millis))
            }
            Self::Slow(millis) => server
                .on(Match::any().filter(is_ours))
                .delay(Duration::from_millis(millis)),
            Self::Denied(verb, resource) => {
                let of = Match::resource(resource)
                    .filter(move |it| it.verb.as_str() == verb && is_ours(it));
                server.deny(of)
            }
            Self::NotFound(resource) => {
                let of = Match::resource(resource);
                let of = of.filter(|it| it.verb == Verb::Get && is_ours(it));
                server.on(of).fail(404)
            }
            Self::Lag(millis) => {
                let rule = server.on_events(Match::any().filter(is_ours));
                rule.delay(Duration::from_millis(millis))
            }
            Self::Down(resource) => server.on(Match::watch(resource).filter(is_ours)).fail(503),
            Self::Deaf(resource) => server
                .on_events(Match::watch(resource).filter(is_ours))
                .hold(),
        }
    }
}

/// Admission forbids all changes of reservations by ipgc from now on, until the rule is removed.
pub fn forbid_claims(server: &Server, code: u16) -> Rule {
    let reason = match code {
        403 => "Forbidden",
        409 => "Conflict",
        422 => "Invalid",
        _ => "BadRequest",
    };
    let words = "admission webhook \"guard.example.com\" denied the request: podref is immutable";
    let claims = Match::patch("overlappingrangeipreservations").filter(is_ours);
    server.on(claims).answer(Failure::new(code, reason, words))
}

/// A crash of one copy of ipgc at a request: from then on nothing that it sends arrives.
pub struct Crash {
    state: Arc<Mutex<CrashState>>,
}

/// A crash to come.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// So many requests are left until then, at least one.
    pub left: usize,
    /// Whether the last of them is done.
    pub is_done: bool,
    /// Whether only writes count, or all work.
    pub only_writes: bool,
}

#[derive(Default)]
struct CrashState {
    /// Writes, or all requests, until the crash, and whether the last of them is done.
    at: Option<At>,
    /// The number of the request that is the last one.
    last: Option<(usize, bool)>,
    is_dead: bool,
}

impl Crash {
    /// Puts the rules of a client in force. It does not crash before it is told to.
    pub fn of(server: &Server, client: &str) -> Self {
        let state = Arc::new(Mutex::new(CrashState::default()));
        let (dead, last) = (Arc::clone(&state), Arc::clone(&state));
        let broken = Match::any().client(client).filter(move |request| {
            let mut state = lock(&dead);
            if state.is_dead {
                return true;
            }
            if let Some(at) = &mut state.at
                && (if at.only_writes {
                    is_write(request)
                } else {
                    is_work(request)
                })
            {
                at.left = at.left.saturating_sub(1);
                if at.left == 0 {
                    let is_done = at.is_done;
                    state.is_dead = true;
                    state.last = Some((request.number, is_done));
                    return !is_done;
                }
            }
            false
        });
        let done = Match::any()
            .client(client)
            .filter(move |request| lock(&last).last == Some((request.number, true)));
        server.on(broken).disconnect();
        server.on(done).apply_then_disconnect();
        Self { state }
    }

    /// It is to crash.
    pub fn at(&self, at: At) {
        lock(&self.state).at = Some(at);
    }

    /// It crashes now.
    pub fn now(&self) {
        lock(&self.state).is_dead = true;
    }

    /// Whether it has crashed at a write, and that was done.
    pub fn died_at_a_write(&self) -> Option<bool> {
        lock(&self.state).last.map(|(_, is_done)| is_done)
    }
}
