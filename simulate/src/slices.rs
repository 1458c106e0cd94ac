//! Node slices: the ranges that whereabouts' controller cuts up among nodes, and the pools that ADD and DEL use.

use serde_json::Value;
use testkit::fixtures;

use crate::{
    story::Net,
    world::{NS, World},
};

const POOLS: &str = "nodeslicepools";

/// A pool: its name, and its range.
pub type Place = (String, &'static str);

impl World {
    /// The controller makes the NodeSlicePool of a network that is cut up, without any node.
    pub(crate) fn cut_up(&self, net: usize) {
        let of = &self.nets[net];
        let Some(name) = of.slice_pool() else { return };
        let free: Vec<_> = of.slices.iter().map(|slice| ("", *slice)).collect();
        let pool = fixtures::node_slice_pool(NS, name, of.ranges[0], of.slice_size(), &free);
        self.server.put(pool);
    }

    /// A node joins: the controller gives it the first free slice of each range, unless it has one.
    pub(crate) fn give_slices(&self, node: &str) {
        for name in self.nets.iter().filter_map(Net::slice_pool) {
            let is_node = |slice: &Value, name: &str| slice["nodeName"] == name;
            let pool = self.server.get(POOLS, NS, name).unwrap_or_default();
            let all = pool["status"]["allocations"].as_array();
            if all.is_none_or(|all| all.iter().any(|it| is_node(it, node))) {
                continue;
            }
            self.server.edit(POOLS, NS, name, |pool| {
                let all = pool["status"]["allocations"].as_array_mut();
                let mut all = all.into_iter().flatten();
                if let Some(free) = all.find(|it| is_node(it, "")) {
                    free["nodeName"] = node.into();
                }
            });
            self.tell("a node gets a slice", format_args!("{node} of {name}"));
        }
    }

    /// A node leaves: its slices are free. The pools of the node stay, with all rows.
    pub(crate) fn take_slices(&self, node: &str) {
        for name in self.nets.iter().filter_map(Net::slice_pool) {
            self.server.edit(POOLS, NS, name, |pool| {
                let all = pool["status"]["allocations"].as_array_mut();
                for slice in all
                    .into_iter()
                    .flatten()
                    .filter(|it| it["nodeName"] == node)
                {
                    slice["nodeName"] = "".into();
                }
            });
        }
    }

    /// The pools that a machine's ADDs and DELs use for a network; none if it has no slice.
    pub(crate) fn places_on(&self, net: usize, machine: usize) -> Vec<Place> {
        let of = &self.nets[net];
        let Some(name) = of.slice_pool() else {
            return self.places(net);
        };
        let node = self.machine(machine).name;
        let pool = self.server.get(POOLS, NS, name).unwrap_or_default();
        let all = pool["status"]["allocations"].as_array();
        let own = all.and_then(|all| all.iter().find(|it| it["nodeName"] == node.as_str()));
        let own = own.map_or(&Value::Null, |own| &own["sliceRange"]);
        let slice = of.slices.iter().find(|slice| *own == **slice);
        let slice = slice.map(|slice| (pool_name(of.network_name, Some(&node), slice), *slice));
        slice.into_iter().collect()
    }

    /// All pools that a network may have.
    pub(crate) fn places(&self, net: usize) -> Vec<Place> {
        let of = &self.nets[net];
        let machines = self.state().machines.clone();
        let slices = machines.iter().flat_map(|machine| {
            let name = |slice| {
                (
                    pool_name(of.network_name, Some(&machine.name), slice),
                    slice,
                )
            };
            of.slices.iter().copied().map(name)
        });
        let whole = of.ranges.iter().filter(|_| of.slices.is_empty());
        let whole = whole.map(|range| (pool_name(of.network_name, None, range), *range));
        whole.chain(slices).collect()
    }
}

/// The name of the pool of a range, or of a node's slice, in a network.
fn pool_name(network: Option<&str>, node: Option<&str>, range: &str) -> String {
    let range = fixtures::pool_name(range);
    let parts = network.into_iter().chain(node).chain([&*range]);
    parts.collect::<Vec<_>>().join("-")
}
