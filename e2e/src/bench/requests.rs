//! The requests of ipgc to the API server, read from the audit log.
//!
//! The binary bears a user agent that nobody else here has. Its watches are apart, since they are the
//! price of running at all, and so are the renewals of its own Lease; and so are its events, which have a
//! budget of their own.

use std::collections::BTreeMap;

use crate::{
    Error, Result,
    audit::{AuditLog, Mark, Request},
};

/// How its user agent begins.
const AGENT: &str = "ipgc/";

/// The resource of reservations.
pub const RESERVATIONS: &str = "overlappingrangeipreservations";

/// Its requests, in the order of their answers: without its watches, and the renewals of its own Lease.
pub struct Ours {
    pub requests: Vec<Request>,
    pub events: usize,
}

impl Ours {
    /// Those after a mark.
    pub fn since(audit: &AuditLog, mark: Mark) -> Result<Self> {
        let mut requests = audit.since(mark)?;
        // It renews its Lease at the least. No request at all would meet every goal.
        if !requests.iter().any(Self::is_ours) {
            return Err(Error::Other(format!("no request of {AGENT}")));
        }
        let is_own_lease =
            |request: &Request| request.resource == "leases" && request.namespace == "ipgc-system";
        requests.retain(|request| {
            Self::is_ours(request) && request.verb != "watch" && !is_own_lease(request)
        });
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
        let mut counts = BTreeMap::<_, usize>::new();
        for request in &self.requests {
            let key = (&request.verb, &request.resource);
            *counts.entry(key).or_default() += 1;
        }
        let counts = counts.iter();
        let counts: Vec<_> = counts
            .map(|((verb, resource), count)| format!("{count} {verb} {resource}"))
            .collect();
        format!("{}; {} events", counts.join(", "), self.events)
    }
}
