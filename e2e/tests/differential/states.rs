//! The states: what is in the cluster, what is right, and what upstream does instead.
//!
//! In each, some pods hold addresses, and some of them end while a collector looks. `right` is what
//! the rules of docs/safety.md say in the end, after all waits; it is what ipgc has to do. What
//! upstream does is known from its code and confirmed by each run.

use std::fmt;

use e2e::{
    Error, Result,
    cni::{Network, Sandbox},
    pods::{End, PodPlan},
    pools::{Row, Rows},
};
use futures::FutureExt as _;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};

use crate::replica::{Fate, Place, Step};
use Outcome::{Freed, Kept, ReservationLost, ToldFreed};

/// A termination grace that no test waits for.
const LONG: u32 = 300;

/// Under which circumstances collectors run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// All is well with them.
    Ordinary,
    /// Their account may list and watch pods, but not GET one.
    GetRefused,
    /// There is a pool whose range does not parse.
    BadRange,
    /// A node falls silent. The loop's daemon runs on that node and is cut off with it.
    SilentNode,
}

/// What became of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All that held it still does.
    Kept,
    /// Nothing holds it any more.
    Freed,
    /// It is in its pool, and no longer reserved: a pod of another range may get it too.
    ReservationLost,
    /// It is reserved, and no longer in its pool.
    ReservationLeft,
    /// All that held it still does, and an event says that it was freed.
    ToldFreed,
}

/// An address, what is right about it, and what upstream does. Texts may have `{n}`, the number of
/// the state, and `{node}`.
pub struct Address {
    pub ip: String,
    pub row: Option<(String, i128)>,
    pub reservation: Option<String>,
    pub right: Outcome,
    /// Nothing where there is no loop to look at it.
    pub control_loop: Option<Outcome>,
    pub reconciler: Outcome,
}

/// A state.
pub struct State {
    pub name: &'static str,
    pub number: usize,
    pub setting: Setting,
    pub addresses: Vec<Address>,
    /// What is there when a collector begins to look.
    pub build: Step,
    /// What happens then.
    pub act: Step,
}

impl From<Fate> for Outcome {
    fn from(fate: Fate) -> Self {
        match (fate.row_gone, fate.reservation_gone) {
            (Some(false), Some(true)) => ReservationLost,
            (Some(true), Some(false)) => Self::ReservationLeft,
            (Some(true), _) | (_, Some(true)) => Freed,
            _ if fate.told => ToldFreed,
            _ => Kept,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Kept => "kept",
            Freed => "freed",
            ReservationLost => "kept, reservation freed",
            Self::ReservationLeft => "freed, reservation kept",
            ToldFreed => "kept, said to be freed",
        })
    }
}

/// An address of the range that most states use, with a row and a reservation.
fn address(offset: u8, right: Outcome) -> Address {
    let ip = format!("10.{{n}}.0.{offset}");
    Address {
        row: Some(("10.{n}.0.0-24".into(), offset.into())),
        reservation: Some(ip.clone()),
        ip,
        right,
        control_loop: Some(right),
        reconciler: right,
    }
}

/// An address that has to stay.
fn kept(offset: u8) -> Address {
    address(offset, Kept)
}

/// An address that has to be given back.
fn freed(offset: u8) -> Address {
    address(offset, Freed)
}

impl Address {
    /// What upstream does, where that is not what is right.
    fn upstream(mut self, control_loop: Outcome, reconciler: Outcome) -> Self {
        self.control_loop = Some(control_loop);
        self.reconciler = reconciler;
        self
    }

    fn without_loop(mut self) -> Self {
        self.control_loop = None;
        self
    }

    fn without_row(mut self) -> Self {
        self.row = None;
        self
    }

    fn without_reservation(mut self) -> Self {
        self.reservation = None;
        self
    }

    fn at(mut self, ip: &str, pool: &str, offset: i128, reservation: &str) -> Self {
        self.ip = ip.into();
        self.row = Some((pool.into(), offset));
        self.reservation = Some(reservation.into());
        self
    }
}

impl State {
    /// A state of an ordinary setting in which nothing happens any more.
    fn new(addresses: impl IntoIterator<Item = Address>, build: Step) -> Self {
        Self {
            name: "",
            number: 0,
            setting: Setting::Ordinary,
            addresses: addresses.into_iter().collect(),
            build,
            act: |_| async { Ok(()) }.boxed(),
        }
    }

    /// The address as text.
    pub fn ip(&self, address: &Address) -> String {
        address.ip.replace("{n}", &self.number.to_string())
    }

    fn then(mut self, act: Step) -> Self {
        self.act = act;
        self
    }

    fn in_setting(mut self, setting: Setting) -> Self {
        self.setting = setting;
        self
    }
}

/// Gives the states their names and numbers.
pub fn numbered(states: Vec<(&'static str, State)>) -> Vec<State> {
    (1..)
        .zip(states)
        .map(|(number, (name, state))| State {
            name,
            number,
            ..state
        })
        .collect()
}

/// Steps that several states share.
impl Place<'_> {
    /// The state's pod ends as a kubelet ends it, and its DEL is lost.
    async fn end(&self) -> Result<()> {
        self.namespace().end_pod(&self.pod(), End::Succeeded).await
    }

    /// The pod goes, and one of the same name takes over its row, as ADD does it. The rows of the
    /// plugin's own making would have to wait here for the lease that the loop holds.
    async fn successor(&self, plan: &PodPlan) -> Result<()> {
        let namespace = self.namespace();
        namespace.force_delete_pod(&plan.name).await?;
        namespace.pod(plan).await?;
        let sandbox = Sandbox::new(&namespace.name, &plan.name);
        let row = Row::new(sandbox.id, self.podref(), "net1");
        namespace.plant_row(&self.pool(), 1, &row).await
    }

    /// The same, and it runs.
    async fn running_successor(&self, plan: &PodPlan) -> Result<()> {
        self.successor(plan).await?;
        let ip = self.fill("10.{n}.0.1").parse();
        let ip = ip.map_err(Error::malformed("an address"))?;
        let interface = self.interface(&self.network(), &[ip]);
        self.namespace().run_pod(&plan.name, &[interface]).await?;
        Ok(())
    }

    fn successors_plan(&self) -> PodPlan {
        self.plan(&self.pod(), &self.network().name)
    }

    /// A running pod of a network of both families.
    async fn dual_stack_pod(&self) -> Result<()> {
        let network = self.network_of(&["10.{n}.0.0/24", "fd00:0:0:{n}::/64"]);
        self.attach(&network).await?;
        let plan = self.plan(&self.pod(), &network.name);
        self.run(&plan, &network).await
    }

    /// A running pod whose address is on its primary interface.
    async fn pod_on_the_default_network(&self) -> Result<()> {
        let (pod, network) = (self.pod(), self.network());
        self.attach(&network).await?;
        let reference = self.reference(&network);
        let mut plan = self
            .plan(&pod, "")
            .annotation("v1.multus-cni.io/default-network", &reference);
        plan.annotations.remove(e2e::pods::NETWORKS);
        self.namespace().pod(&plan).await?;
        let ips = self.add(&pod, &network, "eth0").await?;
        self.namespace().run_pod(&pod, &[]).await?;
        let status = json!([{
            "name": reference, "interface": "eth0", "ips": ips, "default": true, "dns": {},
        }]);
        self.annotate(Some(&status.to_string())).await
    }

    async fn patch_status(&self, patch: Value) -> Result<()> {
        // Conditions are merged by their type, as a controller would have it.
        self.namespace()
            .pods()
            .patch_status(
                &self.pod(),
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await
            .map_err(Error::api("patch a pod's status"))?;
        Ok(())
    }
}

/// The second family of a dual-stack pod.
fn second_family(right: Outcome) -> Address {
    address(1, right).at("fd00:0:0:{n}::1", "fd00-0-0-{n}---64", 1, "fd00-0-0-{n}--1")
}

/// What every collector is for. The first four keep the loop busy, at most of a second each, while the rest
/// of the states happens.
pub fn pods_that_ended_in_order() -> State {
    State::new([1, 2, 3, 4].map(freed), |place| {
        async move {
            let network = place.network();
            place.attach(&network).await?;
            for pod in 1..=4 {
                let name = format!("{}-{pod}", place.pod());
                place
                    .run(&place.plan(&name, &network.name), &network)
                    .await?;
            }
            Ok(())
        }
        .boxed()
    })
    .then(|place| {
        async move {
            for pod in 1..=4 {
                let name = format!("{}-{pod}", place.pod());
                place.namespace().end_pod(&name, End::Succeeded).await?;
            }
            Ok(())
        }
        .boxed()
    })
}

pub fn a_pod_of_a_dual_stack_network() -> State {
    let addresses = [freed(1), second_family(Freed)];
    State::new(addresses, |place| {
        async move { place.dual_stack_pod().await }.boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
}

/// Upstream's DEL ends at the first range in which it finds nothing.
pub fn a_dual_stack_pod_whose_first_row_is_gone_already() -> State {
    let addresses = [second_family(Freed).upstream(ToldFreed, Freed)];
    State::new(addresses, |place| {
        async move {
            place.dual_stack_pod().await?;
            let namespace = place.namespace();
            namespace.pull_row(&place.pool(), 1).await?;
            namespace.pull_reservation(&place.fill("10.{n}.0.1")).await
        }
        .boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
}

/// Upstream's DEL takes a missing reservation for a failure and ends there.
pub fn a_dual_stack_pod_whose_first_reservation_is_gone() -> State {
    let addresses = [
        freed(1).without_reservation(),
        second_family(Freed).upstream(ToldFreed, Freed),
    ];
    State::new(addresses, |place| {
        async move {
            place.dual_stack_pod().await?;
            let reservation = place.fill("10.{n}.0.1");
            place.namespace().pull_reservation(&reservation).await
        }
        .boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
}

/// The loop has no sweep.
pub fn a_pod_deleted_while_the_collector_was_down() -> State {
    State::new([freed(1).upstream(Kept, Freed)], |place| {
        async move {
            place.running_pod().await?;
            place.end().await
        }
        .boxed()
    })
}

/// The loop finds pools through network attachments only.
pub fn a_pod_whose_network_attachment_was_deleted_first() -> State {
    State::new([freed(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            place
                .attachments()
                .delete(&place.network().name, &DeleteParams::default())
                .await
                .map_err(Error::api("delete a network attachment"))?;
            place.end().await
        }
        .boxed()
    })
}

/// The attachment now names another pool than the one with the row.
pub fn a_pod_whose_network_attachment_got_another_range() -> State {
    State::new([freed(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            let name = place.network().name;
            let edited = Network::range(&name, &place.fill("10.{n}.128.0/24"));
            let patch = json!({"spec": {"config": edited.config().to_string()}});
            place
                .attachments()
                .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                .await
                .map_err(Error::api("edit a network attachment"))?;
            place.end().await
        }
        .boxed()
    })
}

/// The loop reads the first plugin of a list and no other.
pub fn a_pod_of_a_plugin_list_whose_ipam_is_not_the_first() -> State {
    State::new([freed(1).upstream(Kept, Freed)], |place| {
        async move {
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
        }
        .boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
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
    State::new([address], |place| {
        async move {
            // Planted, since the plugin takes its node from a file of the machine.
            let network = Network::range(place.fill("net-{n}"), &place.fill("10.{n}.0.0/16"))
                .network_name(&place.fill("slice-{n}"))
                .with("node_slice_size", "/24");
            place.attach(&network).await?;
            plant_slices(place).await?;
            let namespace = place.namespace();
            let sandbox = Sandbox::new(&namespace.name, place.pod());
            let row = Row::new(&sandbox.id, sandbox.podref(), "net1");
            let pool = place.fill("slice-{n}-{node}-10.{n}.1.0-24");
            let range = place.fill("10.{n}.1.0/24");
            namespace
                .plant_pool(&pool, &range, &Rows::from([(7, row)]))
                .await?;
            namespace
                .plant_reservation(&place.fill("slice-{n}-10.{n}.1.7"), &place.podref(), "net1")
                .await?;
            let ip = place.fill("10.{n}.1.7").parse();
            let ip = ip.map_err(Error::malformed("an address"))?;
            let interface = place.interface(&network, &[ip]);
            let plan = place.plan(&place.pod(), &network.name);
            namespace.running_pod(&plan, &[interface]).await?;
            Ok(())
        }
        .boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
}

/// As upstream's node-slice controller leaves it.
async fn plant_slices(place: Place<'_>) -> Result<()> {
    let kind = GroupVersionKind::gvk("whereabouts.cni.cncf.io", "v1alpha1", "NodeSlicePool");
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "NodeSlicePool",
        "metadata": {"name": place.fill("slice-{n}")},
        "spec": {"range": place.fill("10.{n}.0.0/16"), "sliceSize": "/24"},
        "status": {"allocations": [
            {"nodeName": place.fill("{node}"), "sliceRange": place.fill("10.{n}.1.0/24")},
            {"nodeName": "", "sliceRange": place.fill("10.{n}.2.0/24")},
        ]},
    }))
    .map_err(Error::malformed("a node slice pool"))?;
    let namespace = place.namespace();
    let client = namespace.client().clone();
    Api::<DynamicObject>::namespaced_with(client, &namespace.name, &ApiResource::from_gvk(&kind))
        .create(&PostParams::default(), &object)
        .await
        .map_err(Error::api("create a node slice pool"))?;
    Ok(())
}

/// The loop takes a missing annotation for a pod without networks.
pub fn a_pod_deleted_before_it_had_an_annotation() -> State {
    State::new([freed(1).upstream(Kept, Freed)], |place| {
        async move { place.starting_pod().await }.boxed()
    })
    .then(|place| async move { place.namespace().end_pod(&place.pod(), End::Failed).await }.boxed())
}

pub fn a_deleted_pod_whose_annotation_does_not_parse() -> State {
    State::new([freed(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod_with_status(Some("[{")).await }.boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
}

/// The loop skips the pod's primary interface.
pub fn a_deleted_pod_with_its_address_on_the_default_network() -> State {
    State::new([freed(1).upstream(Kept, Freed)], |place| {
        async move { place.pod_on_the_default_network().await }.boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
}

pub fn a_reservation_that_a_gone_pod_left_without_a_row() -> State {
    State::new([freed(1).without_row().upstream(Kept, Freed)], |place| {
        async move {
            place.running_pod().await?;
            place.namespace().pull_row(&place.pool(), 1).await?;
            place.end().await
        }
        .boxed()
    })
}

/// For both of upstream's collectors a pod holds its address as long as its object is there.
pub fn a_job_that_is_complete() -> State {
    State::new([freed(1).upstream(Kept, Kept)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            place
                .namespace()
                .finish_pod(&place.pod(), End::Succeeded)
                .await?;
            Ok(())
        }
        .boxed()
    })
}

pub fn an_evicted_pod() -> State {
    State::new([freed(1).upstream(Kept, Kept)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            place
                .namespace()
                .finish_pod(&place.pod(), End::Failed)
                .await?;
            place
                .patch_status(json!({"status": {"reason": "Evicted"}}))
                .await
        }
        .boxed()
    })
}

/// Of an earlier pod of that name. To the loop, rows of a pod that is there are in use.
pub fn an_old_row_beside_that_of_a_running_pod() -> State {
    State::new([kept(1), freed(2).upstream(Kept, Freed)], |place| {
        async move {
            place.running_pod().await?;
            let namespace = place.namespace();
            let sandbox = Sandbox::new(&namespace.name, place.pod());
            let row = Row::new(sandbox.id, place.podref(), "net1");
            namespace.plant_row(&place.pool(), 2, &row).await?;
            namespace
                .plant_reservation(&place.fill("10.{n}.0.2"), &place.podref(), "net1")
                .await
        }
        .boxed()
    })
}

/// The reconciler looks at it three times within a second, and then frees the address of a pod that starts.
pub fn a_pending_pod_without_annotation() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move { place.starting_pod().await }.boxed()
    })
}

/// To the reconciler, what is not in the annotation is not in use, whatever the annotation is.
pub fn a_running_pod_without_annotation() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod_with_status(None).await }.boxed()
    })
}

pub fn a_running_pod_whose_annotation_is_empty() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod_with_status(Some("[]")).await }.boxed()
    })
}

pub fn a_running_pod_whose_annotation_does_not_parse() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod_with_status(Some("[{")).await }.boxed()
    })
}

pub fn a_running_pod_whose_annotation_is_partial() -> State {
    State::new([kept(1), kept(2).upstream(Kept, Freed)], |place| {
        async move {
            let (pod, network) = (place.pod(), place.network());
            place.attach(&network).await?;
            let twice = format!("{0},{0}", network.name);
            place.namespace().pod(&place.plan(&pod, &twice)).await?;
            let sandbox = Sandbox::new(&place.namespace().name, &pod);
            let first = place.add_to(&sandbox, &network, "net1").await?;
            place.add_to(&sandbox, &network, "net2").await?;
            let reported = place.interface(&network, &first);
            place.namespace().run_pod(&pod, &[reported]).await?;
            Ok(())
        }
        .boxed()
    })
}

/// multus reports no interface of such a network, although it is up.
pub fn a_running_pod_of_a_network_without_cni_version() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move {
            let (pod, network) = (place.pod(), place.network());
            let mut config = network.config();
            config.as_object_mut().unwrap().remove("cniVersion");
            let namespace = place.namespace();
            namespace.network_attachment(&network.name, &config).await?;
            namespace.pod(&place.plan(&pod, &network.name)).await?;
            place.add(&pod, &network, "net1").await?;
            namespace.run_pod(&pod, &[]).await?;
            Ok(())
        }
        .boxed()
    })
}

pub fn an_address_on_the_default_network_only() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move { place.pod_on_the_default_network().await }.boxed()
    })
}

/// A terminal phase that no kubelet wrote: the containers may run.
pub fn a_pod_that_was_failed_from_afar() -> State {
    State::new([kept(1)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            place.namespace().fail_pod_from_afar(&place.pod()).await?;
            Ok(())
        }
        .boxed()
    })
}

/// To the reconciler it is gone from the moment on in which its eviction begins.
pub fn a_pod_that_a_taint_evicts_and_that_still_runs() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            let condition = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
            });
            place
                .patch_status(json!({"status": {"conditions": [condition]}}))
                .await?;
            place.namespace().delete_pod(&place.pod(), Some(LONG)).await
        }
        .boxed()
    })
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
    State::new([address], |place| {
        async move {
            let network = place.network().network_name(&place.fill("blue-{n}"));
            place.attach(&network).await?;
            let plan = place.plan(&place.pod(), &network.name);
            place.run(&plan, &network).await
        }
        .boxed()
    })
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
    State::new([address], |place| {
        async move {
            let range = place.fill("2001:db8:1:{n}::/64");
            let network = Network::range(place.fill("net-{n}"), &range)
                .with("range_start", place.fill("2001:db8:1:{n}:1:1::"));
            place.attach(&network).await?;
            let plan = place.plan(&place.pod(), &network.name);
            place.run(&plan, &network).await
        }
        .boxed()
    })
}

/// The reconciler knows only pods that have rows.
pub fn a_reservation_of_a_running_pod_without_a_row() -> State {
    State::new([kept(1).without_row().upstream(Kept, Freed)], |place| {
        async move {
            place.running_pod().await?;
            place.namespace().pull_row(&place.pool(), 1).await
        }
        .boxed()
    })
}

/// To the reconciler every owner is a pod.
pub fn a_row_of_another_consumer() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move {
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
        }
        .boxed()
    })
}

pub fn a_successor_that_runs_on_an_adopted_row() -> State {
    State::new([kept(1)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| async move { place.running_successor(&place.successors_plan()).await }.boxed())
}

pub fn a_successor_that_starts_on_an_adopted_row() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            place.successor(&place.successors_plan()).await?;
            place.namespace().prepare_pod(&place.pod()).await?;
            Ok(())
        }
        .boxed()
    })
}

/// The loop does not ask which pod it is that terminates.
pub fn a_successor_that_is_terminating_on_an_adopted_row() -> State {
    State::new([kept(1).upstream(Freed, Kept)], |place| {
        async move { place.running_pod().await }.boxed()
    })
    .then(|place| {
        async move {
            let mut plan = place.successors_plan();
            plan.grace = LONG.into();
            place.running_successor(&plan).await?;
            place.namespace().delete_pod(&plan.name, Some(LONG)).await
        }
        .boxed()
    })
}

/// To the reconciler an error is absence. The loop and ipgc see the end of that pod's predecessor, and of
/// another pod, so that they have something to ask.
pub fn a_pending_pod_that_the_collector_may_not_get() -> State {
    State::new([kept(1).upstream(Kept, Freed)], |place| {
        async move {
            let network = place.network();
            place.running_pod().await?;
            let other = place.plan(&format!("{}-other", place.pod()), &network.name);
            place.run(&other, &network).await
        }
        .boxed()
    })
    .then(|place| {
        async move {
            place.successor(&place.successors_plan()).await?;
            place.namespace().prepare_pod(&place.pod()).await?;
            let other = format!("{}-other", place.pod());
            place.namespace().end_pod(&other, End::Succeeded).await
        }
        .boxed()
    })
    .in_setting(Setting::GetRefused)
}

/// The reconciler gives up at the first pool that it cannot read.
pub fn a_dead_pod_beside_a_pool_whose_range_does_not_parse() -> State {
    let unreadable = kept(1)
        .at("10.{n}.9.1", "unreadable-{n}", 1, "")
        .without_reservation();
    State::new([freed(1).upstream(Freed, Kept), unreadable], |place| {
        async move {
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
        }
        .boxed()
    })
    .then(|place| async move { place.end().await }.boxed())
    .in_setting(Setting::BadRange)
}

/// Its sandbox may answer as long as nobody stopped it. The second pod is on a node that lives.
pub fn a_pod_force_deleted_on_a_node_that_is_silent() -> State {
    let mut silent = kept(1).without_loop();
    silent.reconciler = Freed;
    State::new([silent, freed(2).without_loop()], |place| {
        async move {
            let network = place.network();
            place.attach(&network).await?;
            let plan = place.plan(&place.pod(), &network.name);
            let plan = plan.on(place.replica.other_node.name.as_str());
            place.run(&plan, &network).await?;
            let other = place.plan(&format!("{}-other", place.pod()), &network.name);
            // Nobody else can have borne its name, whatever the silent node still runs.
            place.run(&other.of_replica_set(), &network).await
        }
        .boxed()
    })
    .then(|place| {
        async move {
            place.replica.other_node.silence().await?;
            let namespace = place.namespace();
            namespace.force_delete_pod(&place.pod()).await?;
            let other = format!("{}-other", place.pod());
            namespace.end_pod(&other, End::Succeeded).await
        }
        .boxed()
    })
    .in_setting(Setting::SilentNode)
}
