//! The request log: each request, its client, and its answer.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use tokio::time::Instant;

use crate::faults::Match;
use crate::request::Request;

/// The growing log of a server.
#[derive(Default)]
pub(crate) struct Log {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    next: usize,
    requests: Vec<Request>,
}

impl Log {
    /// Enters a request and numbers it.
    pub(crate) fn begin(&self, request: &mut Request) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        request.number = inner.next;
        inner.next += 1;
        inner.requests.push(request.clone());
    }

    /// Notes the answer; without a code the connection broke.
    pub(crate) fn finish(&self, number: usize, status: Option<u16>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let found = inner
            .requests
            .binary_search_by_key(&number, |request| request.number);
        if let Ok(index) = found {
            let request = &mut inner.requests[index];
            request.status = status;
            request.answered_at = Some(Instant::now());
        }
    }

    pub(crate) fn snapshot(&self) -> Requests {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        Requests(inner.requests.clone())
    }

    pub(crate) fn clear(&self) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.requests.clear();
    }
}

/// The requests so far, oldest first. Prints as one line per request.
#[derive(Clone, Debug, Default)]
#[must_use = "it does nothing by itself"]
pub struct Requests(Vec<Request>);

impl Requests {
    /// How many requests `predicate` takes.
    pub fn count(&self, predicate: impl Fn(&Request) -> bool) -> usize {
        self.0.iter().filter(|request| predicate(request)).count()
    }

    /// The requests that match, as a log of their own.
    pub fn matching(&self, matcher: &Match) -> Self {
        self.filter(|request| matcher.matches(request))
    }

    /// The requests that `predicate` takes, as a log of their own.
    pub fn filter(&self, predicate: impl Fn(&Request) -> bool) -> Self {
        Self(
            self.0
                .iter()
                .filter(|request| predicate(request))
                .cloned()
                .collect(),
        )
    }
}

impl Deref for Requests {
    type Target = [Request];

    fn deref(&self) -> &[Request] {
        &self.0
    }
}

impl<'a> IntoIterator for &'a Requests {
    type Item = &'a Request;
    type IntoIter = std::slice::Iter<'a, Request>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.0.first() else {
            return f.write_str("no requests\n");
        };
        for request in &self.0 {
            let since = request.at.saturating_duration_since(first.at);
            writeln!(f, "{:>9.3}s {request}", since.as_secs_f64())?;
        }
        Ok(())
    }
}
