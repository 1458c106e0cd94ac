//! A dump as kubectl would write it of a cluster whose pods have two rows and two reservations each.
//!
//! Pods are as large as real ones, managed fields aside, which kubectl leaves out.

use std::{
    cell::RefCell,
    io::{self, Write},
};

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::{Value, json, ser::PrettyFormatter};
use testkit::fixtures;

use super::{
    population::{Owner, Population},
    template,
};

/// Pods to a pool of twice as many rows.
const POOL: usize = 1_000;
const NODES: usize = 1_000;

/// The size of a dump.
#[derive(Clone, Copy, Debug)]
pub struct Dump {
    /// Pods that have rows.
    pub pods: usize,
    /// Number of these pods that are left out: their rows are stale.
    pub gone: usize,
    /// Number of the 1,000 nodes that are not ready.
    pub silent: usize,
}

impl Dump {
    /// Writes it.
    pub fn write(self, output: &mut impl Write) -> io::Result<()> {
        let plan = Population {
            interfaces: 2,
            pools: self.pods.div_ceil(POOL),
            nodes: NODES,
            ..Population::new("shop", self.pods)
        };
        let (plan, home) = (&plan, &*plan.namespace);
        let pools = sorted(0..plan.pools, |pool| plan.pool(*pool));
        let pools = pools.map(|number| {
            let mut pool = fixtures::pool(home, &plan.range(number)).build();
            pool["spec"]["allocations"] = plan.allocations(plan.rows_of(number));
            pool
        });
        let addresses = (0..plan.pods).flat_map(|pod| plan.addresses(pod));
        let reservations = sorted(addresses, |address| plan.ip(*address)).map(|address| {
            let interface = format!("net{}", address.interface);
            fixtures::reservation(
                home,
                &plan.ip(address),
                &plan.podref(address.pod),
                &interface,
            )
        });
        let mut model = template::controlled(Owner::ReplicaSet);
        model["metadata"]["namespace"] = home.into();
        model["status"] = template::running()["status"].take();
        let pods = sorted(self.gone..plan.pods, |pod| plan.pod(*pod))
            .map(|number| template::pod_of(&model, plan, number));
        let nodes = (0..NODES).map(|it| fixtures::node(&Population::node(it), it >= self.silent));
        let attachments = sorted(0..plan.pools, |pool| Population::attachment(*pool));
        let attachments = attachments
            .map(|pool| fixtures::nad(home, &Population::attachment(pool), &plan.range(pool)));
        let objects = pools
            .chain(reservations)
            .chain(pods)
            .chain(nodes)
            .chain(attachments);
        let objects = objects.map(|mut object| {
            object["metadata"]["uid"] = template::uid().into();
            object["metadata"]["resourceVersion"] = "1".into();
            object["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z".into();
            object
        });
        let format = PrettyFormatter::with_indent(b"    ");
        let mut writer = serde_json::Serializer::with_formatter(&mut *output, format);
        let mut list = writer.serialize_map(None)?;
        list.serialize_entry("apiVersion", "v1")?;
        list.serialize_entry("items", &Items(RefCell::new(objects)))?;
        list.serialize_entry("kind", "List")?;
        list.serialize_entry("metadata", &json!({"resourceVersion": ""}))?;
        list.end()?;
        writeln!(output)
    }
}

/// In the order of their names, as the API server lists them.
fn sorted<T>(
    items: impl Iterator<Item = T>,
    name: impl Fn(&T) -> String,
) -> impl Iterator<Item = T> {
    let mut items: Vec<_> = items.collect();
    items.sort_by_cached_key(name);
    items.into_iter()
}

/// Objects that are made as they are written.
struct Items<I>(RefCell<I>);

impl<I: Iterator<Item = Value>> Serialize for Items<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&mut *self.0.borrow_mut())
    }
}
