//! Addresses that have to be given back: of pods that are gone, and of pods that stay and need them no more.

use e2e::{
    cni::{Network, Sandbox},
    pods::End,
    pools::{Row, Rows},
};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use super::{
    Address, END,
    Outcome::{self, Freed, Kept, ToldFreed},
    STARTING, State, address, freed, kept,
};

/// The second family of a dual-stack pod.
fn second_family(right: Outcome) -> Address {
    address(1, right).at("fd00:0:0:{n}::1", "fd00-0-0-{n}---64", 1, "fd00-0-0-{n}--1")
}

/// The main job of every collector. The first four keep the loop busy, at most of a second each, while the rest
/// of the states happens.
pub fn pods_that_ended_in_order() -> State {
    State::new([1, 2, 3, 4].map(freed))
        .built(step!(|place| {
            let network = place.network();
            place.namespace().attach(&network).await?;
            for pod in 1..=4 {
                let name = format!("{}-{pod}", place.pod());
                place
                    .run(&place.plan(&name, &network.name), &network)
                    .await?;
            }
            Ok(())
        }))
        .then(step!(|place| {
            for pod in 1..=4 {
                let name = format!("{}-{pod}", place.pod());
                place.namespace().end_pod(&name, End::Succeeded).await?;
            }
            Ok(())
        }))
}

pub fn a_pod_of_a_dual_stack_network() -> State {
    let addresses = [freed(1), second_family(Freed)];
    State::new(addresses)
        .built(step!(|place| place.dual_stack_pod().await))
        .then(END)
}

/// Upstream's DEL ends at the first range in which it finds nothing.
pub fn a_dual_stack_pod_whose_first_row_is_gone_already() -> State {
    let addresses = [second_family(Freed).upstream(ToldFreed, Freed)];
    State::new(addresses)
        .built(step!(|place| {
            place.dual_stack_pod().await?;
            let namespace = place.namespace();
            namespace.pull_row(&place.pool(), 1).await?;
            namespace.pull_reservation(&place.fill("10.{n}.0.1")).await
        }))
        .then(END)
}

/// Upstream's DEL takes a missing reservation for a failure and ends there.
pub fn a_dual_stack_pod_whose_first_reservation_is_gone() -> State {
    let addresses = [
        freed(1).without_reservation(),
        second_family(Freed).upstream(ToldFreed, Freed),
    ];
    State::new(addresses)
        .built(step!(|place| {
            place.dual_stack_pod().await?;
            let reservation = place.fill("10.{n}.0.1");
            place.namespace().pull_reservation(&reservation).await
        }))
        .then(END)
}

/// The loop has no sweep.
pub fn a_pod_deleted_while_the_collector_was_down() -> State {
    State::new([freed(1).upstream(Kept, Freed)]).built(step!(|place| {
        place.running_pod().await?;
        place.end().await
    }))
}

/// The loop finds pools through network attachments only.
pub fn a_pod_whose_network_attachment_was_deleted_first() -> State {
    State::new([freed(1).upstream(Kept, Freed)]).then(step!(|place| {
        place
            .attachments()
            .delete(&place.network().name, &DeleteParams::default())
            .await?;
        place.end().await
    }))
}

/// The attachment now names another pool than the one with the row.
pub fn a_pod_whose_network_attachment_got_another_range() -> State {
    State::new([freed(1).upstream(Kept, Freed)]).then(step!(|place| {
        let name = place.network().name;
        let edited = Network::range(&name, &place.fill("10.{n}.128.0/24"));
        let patch = json!({"spec": {"config": edited.config().to_string()}});
        place
            .attachments()
            .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        place.end().await
    }))
}

/// The loop reads the first plugin of a list and no other.
pub fn a_pod_of_a_plugin_list_whose_ipam_is_not_the_first() -> State {
    State::new([freed(1).upstream(Kept, Freed)])
        .built(step!(|place| {
            let network = place.network();
            let config = json!({
                "cniVersion": "1.0.0",
                "name": network.name,
                "plugins": [{"type": "tuning"}, {"type": "bridge", "ipam": network.ipam}],
            });
            place
                .namespace()
                .network_attachment(&network.name, &config)
                .await?;
            let plan = place.plan(&place.pod(), &network.name);
            place.run(&plan, &network).await
        }))
        .then(END)
}

/// The loop never looks for a node's own pool.
pub fn a_pod_in_its_nodes_slice() -> State {
    let address = freed(7)
        .at(
            "10.{n}.1.7",
            "slice-{n}-{node}-10.{n}.1.0-24",
            7,
            "slice-{n}-10.{n}.1.7",
        )
        .upstream(Kept, Freed);
    State::new([address])
        .built(step!(|place| {
            // Planted, since the plugin takes its node from a file of the machine.
            let network = Network::range(place.fill("net-{n}"), &place.fill("10.{n}.0.0/16"))
                .network_name(&place.fill("slice-{n}"))
                .with("node_slice_size", "/24");
            place.namespace().attach(&network).await?;
            let namespace = place.namespace();
            let (node, slice) = (place.fill("{node}"), place.fill("10.{n}.1.0/24"));
            let (name, range) = (place.fill("slice-{n}"), place.fill("10.{n}.0.0/16"));
            let free = place.fill("10.{n}.2.0/24");
            let slices = [(&*node, &*slice), ("", &*free)];
            namespace
                .plant_slices(&name, &range, "/24", &slices)
                .await?;
            let sandbox = Sandbox::new(&namespace.name, place.pod());
            let row = Row::new(&sandbox.id, sandbox.podref(), "net1");
            let pool = place.fill("slice-{n}-{node}-10.{n}.1.0-24");
            namespace
                .plant_pool(&pool, &slice, &Rows::from([(7, row)]))
                .await?;
            namespace
                .plant_reservation(&place.fill("slice-{n}-10.{n}.1.7"), &place.podref(), "net1")
                .await?;
            let ip = place.fill("10.{n}.1.7").parse();
            let ip = ip?;
            let interface = place.interface(&network, &[ip]);
            let plan = place.plan(&place.pod(), &network.name);
            namespace.running_pod(&plan, &[interface]).await?;
            Ok(())
        }))
        .then(END)
}

/// The loop takes a missing annotation for a pod without networks.
pub fn a_pod_deleted_before_it_had_an_annotation() -> State {
    State::new([freed(1).upstream(Kept, Freed)])
        .built(STARTING)
        .then(step!(|place| {
            place.namespace().end_pod(&place.pod(), End::Failed).await
        }))
}

pub fn a_deleted_pod_whose_annotation_does_not_parse() -> State {
    State::new([freed(1).upstream(Kept, Freed)])
        .built(step!(|place| {
            place.running_pod_with_status(Some("[{")).await
        }))
        .then(END)
}

/// The loop skips the pod's primary interface.
pub fn a_deleted_pod_with_its_address_on_the_default_network() -> State {
    State::new([freed(1).upstream(Kept, Freed)])
        .built(step!(|place| place.pod_on_the_default_network().await))
        .then(END)
}

pub fn a_reservation_that_a_gone_pod_left_without_a_row() -> State {
    State::new([freed(1).without_row().upstream(Kept, Freed)]).built(step!(|place| {
        place.running_pod().await?;
        place.namespace().pull_row(&place.pool(), 1).await?;
        place.end().await
    }))
}

/// For both of upstream's collectors a pod holds its address as long as its object is there.
pub fn a_job_that_is_complete() -> State {
    State::new([freed(1).upstream(Kept, Kept)]).then(step!(|place| {
        place
            .namespace()
            .finish_pod(&place.pod(), End::Succeeded)
            .await?;
        Ok(())
    }))
}

pub fn an_evicted_pod() -> State {
    State::new([freed(1).upstream(Kept, Kept)]).then(step!(|place| {
        place
            .namespace()
            .finish_pod(&place.pod(), End::Failed)
            .await?;
        place
            .patch_status(json!({"status": {"reason": "Evicted"}}))
            .await
    }))
}

/// Of an earlier pod of that name. To the loop, rows of a pod that is there are in use.
pub fn an_old_row_beside_that_of_a_running_pod() -> State {
    State::new([kept(1), freed(2).upstream(Kept, Freed)]).built(step!(|place| {
        place.running_pod().await?;
        let namespace = place.namespace();
        let sandbox = Sandbox::new(&namespace.name, place.pod());
        let row = Row::new(sandbox.id, place.podref(), "net1");
        namespace.plant_row(&place.pool(), 2, &row).await?;
        namespace
            .plant_reservation(&place.fill("10.{n}.0.2"), &place.podref(), "net1")
            .await
    }))
}
