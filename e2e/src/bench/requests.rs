//! What ipgc asked the API server, read from the audit log: how much, and when its proofs began.
//!
//! The binary bears a user agent that nobody else here has. Its watches are apart, since they are the
//! price of running at all, and so are its events, which have a budget of their own.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::Timestamp;

use crate::{
    Error, Result,
    audit::{AuditLog, Counts, Mark, Request},
};

/// How its user agent begins.
const AGENT: &str = "ipgc/";

/// The resource of reservations.
pub const RESERVATIONS: &str = "overlappingrangeipreservations";

/// Its requests, in the order of their answers.
pub struct Ours {
    pub requests: Vec<Request>,
    pub events: usize,
}

impl Ours {
    /// Those after a mark.
    pub fn since(audit: &AuditLog, mark: Mark) -> Result<Self> {
        let mut requests = audit.since(mark)?;
        requests.retain(|request| Self::is_ours(request) && request.verb != "watch");
        let all = requests.len();
        requests.retain(|request| request.resource != "events");
        Ok(Self {
            events: all - requests.len(),
            requests,
        })
    }

    /// Whether ipgc asked it.
    pub fn is_ours(request: &Request) -> bool {
        request.user_agent.starts_with(AGENT)
    }

    /// How many there were of a verb on a resource.
    pub fn count(&self, verb: &str, resource: &str) -> usize {
        let same = |request: &&Request| request.verb == verb && request.resource == resource;
        self.requests.iter().filter(same).count()
    }

    /// How many changed something.
    pub fn writes(&self) -> usize {
        let reads = ["get", "list"];
        let writes = |request: &&Request| !reads.contains(&&*request.verb);
        self.requests.iter().filter(writes).count()
    }

    /// All of them by verb and resource, as one line.
    pub fn summary(&self) -> String {
        let mut counts = Counts::new();
        for request in &self.requests {
            let key = (request.verb.clone(), request.resource.clone());
            *counts.entry(key).or_default() += 1;
        }
        let counts = counts.iter();
        let counts: Vec<_> = counts
            .map(|((verb, resource), count)| format!("{count} {verb} {resource}"))
            .collect();
        format!("{}; {} events", counts.join(", "), self.events)
    }

    /// Of all deletions of reservations the longest time from the beginning of the proof to the deletion.
    /// The proof is the last read of pods that had been answered by then; the pages of a list belong to
    /// its first.
    pub fn oldest_proof(&self) -> Result<Option<Duration>> {
        let mut proofs = Vec::new();
        let mut first_page = BTreeMap::new();
        let mut by_arrival: Vec<_> = self.requests.iter().collect();
        by_arrival.sort_by(|a, b| a.received.cmp(&b.received));
        for request in &by_arrival {
            if request.resource != "pods" || !["get", "list"].contains(&&*request.verb) {
                continue;
            }
            let mut begun = time(&request.received)?;
            if request.verb == "list" {
                if request.uri.contains("continue=") {
                    begun = *first_page.get(&request.namespace).unwrap_or(&begun);
                } else {
                    first_page.insert(request.namespace.clone(), begun);
                }
            }
            proofs.push((time(&request.answered)?, begun));
        }
        proofs.sort_unstable();
        let mut oldest = None;
        for request in by_arrival {
            if request.verb != "delete" || request.resource != RESERVATIONS {
                continue;
            }
            let deleted = time(&request.received)?;
            let before = proofs.partition_point(|(answered, _)| *answered <= deleted);
            let begun = before.checked_sub(1).map(|last| proofs[last].1);
            // Without any read since the mark it is older than the mark: as long as the whole run.
            let begun = begun.unwrap_or(Timestamp::UNIX_EPOCH);
            let age = Duration::try_from(deleted.duration_since(begun)).unwrap_or_default();
            oldest = oldest.max(Some(age));
        }
        Ok(oldest)
    }
}

/// A time of the audit log.
pub fn time(text: &str) -> Result<Timestamp> {
    text.parse().map_err(Error::malformed(text))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn asked(verb: &str, resource: &str, uri: &str, at: u32) -> Request {
        let stamp = |at: u32| format!("2026-01-01T10:00:{at:02}.000000Z");
        Request {
            id: String::new(),
            user: String::new(),
            user_agent: "ipgc/0.1.0".into(),
            verb: verb.into(),
            resource: resource.into(),
            namespace: "bench".into(),
            name: String::new(),
            code: 200,
            uri: uri.into(),
            received: stamp(at),
            answered: stamp(at + 1),
        }
    }

    #[test]
    fn a_proof_begins_with_the_first_page_of_the_last_list_before_the_deletion() {
        let ours = |requests| Ours {
            requests,
            events: 0,
        };
        let list = |at| asked("list", "pods", "/pods?limit=500", at);
        let more = |at| asked("list", "pods", "/pods?limit=500&continue=x", at);
        let delete = |at| asked("delete", RESERVATIONS, "/", at);
        let age = |requests| ours(requests).oldest_proof().unwrap();
        assert_eq!(age(vec![list(1)]), None);
        assert_eq!(age(vec![list(1), delete(3)]), Some(Duration::from_secs(2)));
        let paged = vec![list(1), more(3), delete(5), list(6), delete(8)];
        assert_eq!(age(paged), Some(Duration::from_secs(4)));
        // What was not answered yet proves nothing.
        let late = vec![list(1), list(4), delete(4)];
        assert_eq!(age(late), Some(Duration::from_secs(3)));
        assert!(age(vec![delete(4)]) > Some(Duration::from_secs(3600)));
    }
}
