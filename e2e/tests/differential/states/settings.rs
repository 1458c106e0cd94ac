//! States in which something is wrong with the cluster itself, for all who look at it.

use e2e::{
    pods::End,
    pools::{Row, Rows},
};

use super::{
    END,
    Outcome::{Freed, Kept},
    Setting, State, freed, kept,
};

/// To the reconciler an error is absence. The loop and ipgc see the end of that pod's predecessor, and of
/// another pod, so that they have something to ask.
pub fn a_pending_pod_that_the_collector_may_not_get() -> State {
    State::new([kept(1).upstream(Kept, Freed)])
        .built(step!(|place| {
            let network = place.network();
            place.running_pod().await?;
            let other = place.plan(&format!("{}-other", place.pod()), &network.name);
            place.run(&other, &network).await
        }))
        .then(step!(|place| {
            place.successor(&place.successors_plan()).await?;
            place.namespace().prepare_pod(&place.pod()).await?;
            let other = format!("{}-other", place.pod());
            place.namespace().end_pod(&other, End::Succeeded).await
        }))
        .in_setting(Setting::GetRefused)
}

/// The reconciler gives up at the first pool that it cannot read.
pub fn a_dead_pod_beside_a_pool_whose_range_does_not_parse() -> State {
    let unreadable = kept(1)
        .at("10.{n}.9.1", "unreadable-{n}", 1, "")
        .without_reservation();
    State::new([freed(1).upstream(Freed, Kept), unreadable])
        .built(step!(|place| {
            let row = Row::new("ab".repeat(32), place.podref(), "net1");
            place
                .namespace()
                .plant_pool(
                    &place.fill("unreadable-{n}"),
                    "no range",
                    &Rows::from([(1, row)]),
                )
                .await?;
            place.running_pod().await
        }))
        .then(END)
        .in_setting(Setting::BadRange)
}

/// Its sandbox may answer as long as nobody stopped it. The second pod is on a node that lives.
pub fn a_pod_force_deleted_on_a_node_that_is_silent() -> State {
    let mut silent = kept(1).without_loop();
    silent.reconciler = Freed;
    State::new([silent, freed(2).without_loop()])
        .built(step!(|place| {
            let network = place.network();
            place.namespace().attach(&network).await?;
            let plan = place.plan(&place.pod(), &network.name);
            let plan = plan.on(&place.replica.other_node.name);
            place.run(&plan, &network).await?;
            let other = place.plan(&format!("{}-other", place.pod()), &network.name);
            // No other pod can have had its name, so it does not matter which pods the silent node still runs.
            place.run(&other.of_replica_set(), &network).await
        }))
        .then(step!(|place| {
            place.replica.other_node.silence().await?;
            let namespace = place.namespace();
            namespace.force_delete_pod(&place.pod()).await?;
            let other = format!("{}-other", place.pod());
            namespace.end_pod(&other, End::Succeeded).await
        }))
        .in_setting(Setting::SilentNode)
}
