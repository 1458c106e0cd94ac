//! All that tests of decisions use: the builders, and the types that they build.

pub use std::{collections::HashMap, sync::Arc, time::Duration};

pub use ipgc_core::{
    address::Range,
    clearance::{Clearance, LOOK_AGAIN, Living, Wait},
    definitions::Definitions,
    evidence::{Ended, Grade, Policy, Sandboxes, Unfenced},
    id::IdTag,
    judge::{Cause, Held, Stale, Unknown, Verdict, judge},
    networks::{Request, Status},
    node::{NodeState, Nodes, Standing},
    pod::{ContainerState, Phase, PodState},
    podref::{Glob, PodRef},
    pool::{ObservedPool, RowContent, Unreadable},
    proof::Presence,
    reservation::Reservation,
    sighting::Sighting,
    time::Moment,
};
pub use proptest::prelude::*;
pub use rstest::rstest;
pub use serde_json::{Value, json};

pub use super::{arbitrary::*, rules::*, *};
