//! A row that some rule is about, and what is known when the rule fits.

use ipgc_core::ipam::parse;

use super::prelude::*;

/// The present of most tests.
pub const NOW: u64 = 5_000;

/// The definition of the network without a name, and that of the network `red`.
pub const PLAIN: &str = r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}"#;
pub const RED: &str = r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24","network_name":"red"}}"#;

/// Definitions of these networks, as `(name, spec.config)`.
pub fn definitions(all: &[(&str, &str)]) -> Definitions {
    let read = |(name, config): &(&str, &str)| ((*name).into(), parse(config, "net"));
    all.iter().map(read).collect()
}

pub fn judged(row: &Value, presence: &Presence, known: &Known, now: u64) -> Verdict {
    let pool = observe(&pool_document("10.0.0.0/24", &[("5", row.clone())]));
    known.judge(&pool, presence, &Policy::default(), now)
}

/// The verdict on 10.0.0.5 of net1.
pub fn verdict(presence: &Presence, known: &Known) -> Verdict {
    judged(&row_value(POD, &sandbox(1), "net1"), presence, known, NOW)
}

/// The verdict on the same address in a row without an interface.
pub fn verdict_without_interface(presence: &Presence, known: &Known) -> Verdict {
    let row = json!({"id": sandbox(1), "podref": POD});
    judged(&row, presence, known, NOW)
}

#[track_caller]
pub fn stale(verdict: Verdict) -> Stale {
    match verdict {
        Verdict::Stale(stale) => stale,
        other => panic!("{other:?}"),
    }
}

pub fn living(uid: &str) -> Living {
    Living {
        uid: uid.into(),
        running_since: None,
        completed: None,
        sandboxes: Sandboxes::default(),
    }
}

#[track_caller]
pub fn assert_held(verdict: &Verdict, reason: Held) {
    assert_eq!(*verdict, Verdict::Held(reason));
}

/// The node of all pods, ready and at work the whole time.
pub fn at_work() -> Nodes {
    working(&["node-1"], NOW)
}

/// A pod at its end that is still there.
pub fn done() -> PodState {
    PodState {
        phase: Phase::Succeeded,
        containers: containers(&[("main", ENDED)]),
        ..reporting(POD, "net1", "10.0.0.5")
    }
}

pub fn completed(end: &Arc<Ended>) -> Known {
    Known {
        living: Some(Living {
            completed: Some(Arc::clone(end)),
            ..living(&end.last.uid)
        }),
        ..Known::default().seen(0).on(at_work())
    }
}

/// A row that was seen at 0 while its pod was absent, and a pod that runs since `since`.
pub fn predecessor(since: u64) -> Known {
    Known {
        living: Some(Living {
            running_since: Some(at(since)),
            ..living("uid-1")
        }),
        sighting: Some(Sighting {
            first: at(0),
            while_absent: Some(at(0)),
        }),
        ..Known::default().on(at_work())
    }
}

/// One that lives on another address.
pub fn elsewhere() -> PodState {
    reporting(POD, "net1", "10.0.0.6")
}

pub fn sibling(address: &str, interface: Option<&str>, id: u64) -> RowContent {
    RowContent {
        address: ip(address),
        interface: interface.map(Into::into),
        sandbox: sandbox(id).into(),
        ..row_content()
    }
}

/// The pod's other row bears another sandbox.
pub fn leftover() -> Known {
    Known {
        siblings: Some(vec![row_content(), sibling("10.0.0.6", Some("net1"), 2)]),
        living: Some(living("uid-1")),
        ..Known::default().seen(0).on(at_work())
    }
}
