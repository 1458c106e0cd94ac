//! Addresses that have to stay: of pods that may answer, of their successors, and of owners that are no pods.

use e2e::{
    cni::{Network, Sandbox},
    pools::{Row, Rows},
};
use serde_json::json;

use super::{
    LONG,
    Outcome::{Freed, Kept, ReservationLost},
    STARTING, State, kept,
};

/// The reconciler looks at it three times within a second, and then frees the address of a pod that starts.
pub fn a_pending_pod_without_annotation() -> State {
    State::new([kept(1).upstream(Kept, Freed)]).built(STARTING)
}

/// For the reconciler, an address that is not in the annotation is not in use, whatever the annotation is.
pub fn a_running_pod_without_annotation() -> State {
    State::new([kept(1).upstream(Kept, Freed)])
        .built(step!(|place| place.running_pod_with_status(None).await))
}

pub fn a_running_pod_whose_annotation_is_empty() -> State {
    State::new([kept(1).upstream(Kept, Freed)]).built(step!(|place| place
        .running_pod_with_status(Some("[]"))
        .await))
}

pub fn a_running_pod_whose_annotation_does_not_parse() -> State {
    State::new([kept(1).upstream(Kept, Freed)]).built(step!(|place| {
        place.running_pod_with_status(Some("[{")).await
    }))
}

pub fn a_running_pod_whose_annotation_is_partial() -> State {
    State::new([kept(1), kept(2).upstream(Kept, Freed)]).built(step!(|place| {
        let (pod, network) = (place.pod(), place.network());
        place.namespace().attach(&network).await?;
        let twice = format!("{0},{0}", network.name);
        place.namespace().pod(&place.plan(&pod, &twice)).await?;
        let sandbox = Sandbox::new(&place.namespace().name, &pod);
        let first = place.add_to(&sandbox, &network, "net1").await?;
        place.add_to(&sandbox, &network, "net2").await?;
        let reported = place.interface(&network, &first);
        place.namespace().run_pod(&pod, &[reported]).await?;
        Ok(())
    }))
}

/// multus reports no interface of such a network, although it is up.
pub fn a_running_pod_of_a_network_without_cni_version() -> State {
    State::new([kept(1).upstream(Kept, Freed)]).built(step!(|place| {
        let (pod, network) = (place.pod(), place.network());
        let mut config = network.config();
        config.as_object_mut().unwrap().remove("cniVersion");
        let namespace = place.namespace();
        namespace.network_attachment(&network.name, &config).await?;
        namespace.pod(&place.plan(&pod, &network.name)).await?;
        place.add(&pod, &network, "net1").await?;
        namespace.run_pod(&pod, &[]).await?;
        Ok(())
    }))
}

pub fn an_address_on_the_default_network_only() -> State {
    State::new([kept(1).upstream(Kept, Freed)])
        .built(step!(|place| place.pod_on_the_default_network().await))
}

/// A terminal phase that no kubelet wrote: the containers may run.
pub fn a_pod_that_was_failed_from_afar() -> State {
    State::new([kept(1)]).then(step!(|place| {
        place.namespace().fail_pod_from_afar(&place.pod()).await?;
        Ok(())
    }))
}

/// To the reconciler it is gone from the moment on in which its eviction begins.
pub fn a_pod_that_a_taint_evicts_and_that_still_runs() -> State {
    State::new([kept(1).upstream(Kept, Freed)]).then(step!(|place| {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
        });
        place
            .patch_status(json!({"status": {"conditions": [condition]}}))
            .await?;
        place.namespace().delete_pod(&place.pod(), Some(LONG)).await
    }))
}

/// The reconciler takes the whole name for an address.
pub fn a_reservation_with_the_name_of_its_network() -> State {
    let address = kept(1)
        .at(
            "10.{n}.0.1",
            "blue-{n}-10.{n}.0.0-24",
            1,
            "blue-{n}-10.{n}.0.1",
        )
        .upstream(Kept, ReservationLost);
    State::new([address]).built(step!(|place| {
        let network = place.network().network_name(&place.fill("blue-{n}"));
        place.namespace().attach(&network).await?;
        let plan = place.plan(&place.pod(), &network.name);
        place.run(&plan, &network).await
    }))
}

/// The reconciler compares text, and writes the address in another way than the pod.
pub fn a_reservation_whose_name_ends_in_a_zero() -> State {
    let address = kept(1)
        .at(
            "2001:db8:1:{n}:1:1::",
            "2001-db8-1-{n}---64",
            0x1_0001_0000_0000,
            "2001-db8-1-{n}-1-1--0",
        )
        .upstream(Kept, ReservationLost);
    State::new([address]).built(step!(|place| {
        let range = place.fill("2001:db8:1:{n}::/64");
        let network = Network::range(place.fill("net-{n}"), &range)
            .with("range_start", place.fill("2001:db8:1:{n}:1:1::"));
        place.namespace().attach(&network).await?;
        let plan = place.plan(&place.pod(), &network.name);
        place.run(&plan, &network).await
    }))
}

/// The reconciler knows only pods that have rows.
pub fn a_reservation_of_a_running_pod_without_a_row() -> State {
    State::new([kept(1).without_row().upstream(Kept, Freed)]).built(step!(|place| {
        place.running_pod().await?;
        place.namespace().pull_row(&place.pool(), 1).await
    }))
}

/// To the reconciler every owner is a pod.
pub fn a_row_of_another_consumer() -> State {
    State::new([kept(1).upstream(Kept, Freed)]).built(step!(|place| {
        let claim = place.fill("driver-system/claim-{n}");
        let row = Row::new(place.fill("claim-{n}"), claim.as_str(), "net1");
        let namespace = place.namespace();
        let (pool, range) = (place.pool(), place.fill("10.{n}.0.0/24"));
        namespace
            .plant_pool(&pool, &range, &Rows::from([(1, row)]))
            .await?;
        namespace
            .plant_reservation(&place.fill("10.{n}.0.1"), &claim, "net1")
            .await
    }))
}

pub fn a_successor_that_runs_on_an_adopted_row() -> State {
    State::new([kept(1)]).then(step!(|place| {
        place.running_successor(&place.successors_plan()).await
    }))
}

pub fn a_successor_that_starts_on_an_adopted_row() -> State {
    State::new([kept(1).upstream(Kept, Freed)]).then(step!(|place| {
        place.successor(&place.successors_plan()).await?;
        place.namespace().prepare_pod(&place.pod()).await?;
        Ok(())
    }))
}

/// The loop does not ask which pod it is that terminates.
pub fn a_successor_that_is_terminating_on_an_adopted_row() -> State {
    State::new([kept(1).upstream(Freed, Kept)]).then(step!(|place| {
        let plan = place.successors_plan().grace(LONG);
        place.running_successor(&plan).await?;
        place.namespace().delete_pod(&plan.name, Some(LONG)).await
    }))
}
