//! The network namespace and the pod that have an address, from when to when, and whether the row was
//! freed meanwhile. Reads no namespaces and asks no server.

use std::{
    fmt::{self, Display, Formatter},
    net::IpAddr,
};

use jiff::Timestamp;

use crate::node::frees::Free;

/// Whose namespace it is.
#[derive(Clone, Debug)]
pub struct Bearer {
    /// `namespace/name`.
    pub pod: String,
    /// The sandbox, which is the row's `id`.
    pub sandbox: String,
}

impl Display for Bearer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.pod, self.sandbox)
    }
}

/// One address in one namespace, from when to when it was seen there.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The node.
    pub node: String,
    /// The namespace's name, under which the runtime has it.
    pub namespace: String,
    /// The pod, where the runtime still told when it was seen.
    pub pod: Option<Bearer>,
    /// First seen.
    pub from: Timestamp,
    /// Last seen.
    pub to: Timestamp,
    /// Whether it is there now.
    pub there: bool,
}

impl Holding {
    /// The pod and its sandbox, as far as they are known.
    pub fn who(&self) -> String {
        let bearer = self.pod.as_ref().map(ToString::to_string);
        bearer.unwrap_or_else(|| "of an unknown pod".into())
    }

    /// Whether the row was this sandbox's own. Then it must answer no more, also if it was not up yet.
    fn is_named_by(&self, free: &Free) -> bool {
        let bearer = self.pod.as_ref();
        bearer.is_some_and(|bearer| free.row["id"].as_str() == Some(&bearer.sandbox))
    }

    /// Whether the row was that of its pod, of whichever sandbox: a successor's row is its predecessor's
    /// too as long as that one answers.
    fn may_be_named_by(&self, free: &Free) -> bool {
        let bearer = self.pod.as_ref();
        bearer.is_none_or(|bearer| bearer.pod == free.podref())
    }

    /// Whether the address answered here after its row was freed.
    pub(super) fn is_wronged_by(&self, free: &Free) -> bool {
        let was_up = self.from <= free.at && self.may_be_named_by(free);
        self.to > free.at && (was_up || self.is_named_by(free))
    }
}

/// One address in two namespaces at a time.
#[derive(Clone, Debug)]
pub struct Double {
    /// The address.
    pub address: IpAddr,
    /// The namespace that had it first.
    pub first: Holding,
    /// The namespace that was seen with it later.
    pub second: Holding,
}

impl Double {
    /// Whether the second could have the address because this row was freed under the first.
    pub(super) fn is_made_by(&self, free: &Free) -> bool {
        let after_first = free.at >= self.first.from || self.first.is_named_by(free);
        free.address == self.address && after_first && free.at <= self.second.from
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::json;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// `web` has the address in this sandbox from one second to another.
    fn holding(sandbox: &str, from: i64, to: i64) -> Holding {
        Holding {
            node: "node-1".into(),
            namespace: format!("cni-{sandbox}"),
            pod: Some(Bearer {
                pod: "ns/web".into(),
                sandbox: sandbox.into(),
            }),
            from: at(from),
            to: at(to),
            there: false,
        }
    }

    fn free(podref: &str, sandbox: &str, second: i64) -> Free {
        Free {
            address: [10, 0, 0, 1].into(),
            at: at(second),
            pool: "kube-system/10.0.0.0-24".into(),
            row: json!({"id": sandbox, "podref": podref}),
        }
    }

    #[test]
    fn an_address_that_answers_after_its_free_was_wronged() {
        let known = holding("s1", 10, 30);
        let mut unknown = known.clone();
        unknown.pod = None;
        for (why, holding, free, is_wronged) in [
            ("it answers", &known, free("ns/web", "s1", 20), true),
            ("no more", &known, free("ns/web", "s1", 30), false),
            ("not up yet", &known, free("ns/web", "s1", 5), true),
            ("predecessor's", &known, free("ns/web", "s0", 5), false),
            ("successor's", &known, free("ns/web", "s2", 20), true),
            ("another's", &known, free("ns/other", "s2", 20), false),
            ("bearer unknown", &unknown, free("ns/web", "s1", 20), true),
        ] {
            assert_eq!(holding.is_wronged_by(&free), is_wronged, "{why}");
        }
    }

    #[test]
    fn a_double_is_ours_where_a_free_let_the_second_in() {
        let double = |first| Double {
            address: [10, 0, 0, 1].into(),
            first,
            second: holding("s2", 40, 50),
        };
        let up = double(holding("s1", 10, 50));
        assert!(up.is_made_by(&free("ns/web", "s1", 20)));
        assert!(!up.is_made_by(&free("ns/web", "s0", 5)));
        assert!(!up.is_made_by(&free("ns/web", "s1", 45)));
        let not_up_yet = double(holding("s1", 30, 50));
        assert!(not_up_yet.is_made_by(&free("ns/web", "s1", 20)));
    }
}
