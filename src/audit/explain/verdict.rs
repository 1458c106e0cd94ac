//! What a verdict says: its rule, its reason, its grade and its wait.

use ipgc_core::judge::{Cause, Held, Unknown, Verdict};

use crate::audit::words;

/// The rule of docs/safety.md.
pub(super) fn rule(verdict: &Verdict, is_mirror: bool) -> Option<u8> {
    match verdict {
        Verdict::Unknown(Unknown::NoProof(_))
        | Verdict::Held(
            Held::Present | Held::Ended | Held::Leaving | Held::InUse(_) | Held::OthersSandbox(_),
        ) => None,
        Verdict::Unknown(_) => Some(1),
        Verdict::Held(Held::Mirror) => Some(2),
        Verdict::Held(Held::Reported | Held::OwnContainer) => Some(5),
        Verdict::Held(Held::Young) => Some(7),
        Verdict::Held(Held::Unused | Held::Drift) => Some(9),
        Verdict::Stale(stale) => Some(match stale.cause {
            Cause::Deleted if is_mirror => 2,
            Cause::Deleted => 3,
            Cause::Completed => 4,
            Cause::Predecessor => 6,
            Cause::Leftover => 8,
        }),
    }
}

pub(super) fn reason(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Held(held) => held.to_string(),
        Verdict::Unknown(unknown) => unknown.to_string(),
        Verdict::Stale(stale) => words::stale(stale),
    }
}

pub(super) fn grade(verdict: &Verdict) -> Option<String> {
    match verdict {
        Verdict::Stale(stale) => Some(stale.grade().as_str().to_owned()),
        _ => None,
    }
}

pub(super) fn wait_seconds(verdict: &Verdict) -> Option<u64> {
    match verdict {
        Verdict::Stale(stale) => {
            let moment = stale.clearance.wait.moment()?;
            Some(moment.since(crate::snapshot::NOW).as_secs())
        }
        _ => None,
    }
}
