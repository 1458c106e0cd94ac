//! The addresses that each collector frees: upstream's per-node loop, upstream's reconciler and ipgc,
//! each on a copy of its own of the same states, on real API servers.
//!
//! ```text
//!  states    one state for each known weakness of upstream, and what is right there
//!    │
//!  replica   builds them: pods, rows from the real plugin, reservations, network attachments
//!    │
//!  sides     ip-control-loop ─▶ a replica ┐ one pair of servers
//!    │       ipgc run        ─▶ a replica ┘
//!    │       ip-reconciler   ─▶ a replica, on servers of its own: it collects everywhere
//!    │
//!  table     what is left of each replica, printed; one test for each state
//! ```
//!
//! A test fails when ipgc does not do what is right, and also when upstream does not show the
//! weakness that its state is about: a table that nobody needs any more must not go on claiming so.
//! No side passes by not running: each state is checked to be there before its collector acts, each
//! collector has to free something or to be seen failing, and an outcome that does not come in
//! time is an error.
//!
//! All states are brought about in one go, by whichever test comes first; the others wait for it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod replica;
mod sides;
mod states;
mod table;

use e2e::Result;
use states::State;

/// A test for each state. Their order here is the order in which they are built and pods end: upstream's
/// loop frees one address after the other, and some states need it to be busy.
macro_rules! states {
    ($($name:ident)+) => {
        fn all() -> Vec<State> {
            let states = vec![$((stringify!($name), states::$name())),+];
            states::numbered(states)
        }

        $(
            #[tokio::test]
            async fn $name() -> Result<()> {
                table::check(stringify!($name)).await
            }
        )+
    };
}

states! {
    // Keep the loop busy.
    pods_that_ended_in_order
    a_pod_of_a_dual_stack_network
    a_dual_stack_pod_whose_first_row_is_gone_already
    a_dual_stack_pod_whose_first_reservation_is_gone
    // Pods that are back before the loop looks.
    a_successor_that_runs_on_an_adopted_row
    a_successor_that_starts_on_an_adopted_row
    a_successor_that_is_terminating_on_an_adopted_row
    // Pods that are gone.
    a_pod_deleted_while_the_collector_was_down
    a_pod_whose_network_attachment_was_deleted_first
    a_pod_whose_network_attachment_got_another_range
    a_pod_of_a_plugin_list_whose_ipam_is_not_the_first
    a_pod_in_its_nodes_slice
    a_pod_deleted_before_it_had_an_annotation
    a_deleted_pod_whose_annotation_does_not_parse
    a_deleted_pod_with_its_address_on_the_default_network
    a_reservation_that_a_gone_pod_left_without_a_row
    // Pods that stay and need their address no more.
    a_job_that_is_complete
    an_evicted_pod
    an_old_row_beside_that_of_a_running_pod
    // Pods that may answer.
    a_pending_pod_without_annotation
    a_running_pod_without_annotation
    a_running_pod_whose_annotation_is_empty
    a_running_pod_whose_annotation_does_not_parse
    a_running_pod_whose_annotation_is_partial
    a_running_pod_of_a_network_without_cni_version
    an_address_on_the_default_network_only
    a_pod_that_was_failed_from_afar
    a_pod_that_a_taint_evicts_and_that_still_runs
    a_reservation_with_the_name_of_its_network
    a_reservation_whose_name_ends_in_a_zero
    a_reservation_of_a_running_pod_without_a_row
    a_row_of_another_consumer
    // States that need a collector, or a node, of their own.
    a_pending_pod_that_the_collector_may_not_get
    a_dead_pod_beside_a_pool_whose_range_does_not_parse
    a_pod_force_deleted_on_a_node_that_is_silent
}
