//! Steps that several states share.

use e2e::{
    Result,
    cni::Sandbox,
    pods::{End, PodPlan},
    pools::Row,
};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::replica::Place;

impl Place<'_> {
    /// The state's pod ends as a kubelet ends it, and its DEL is lost.
    pub(super) async fn end(&self) -> Result<()> {
        self.namespace().end_pod(&self.pod(), End::Succeeded).await
    }

    /// The pod goes, and one of the same name takes over its row, as ADD does it. The rows of the
    /// plugin's own making would have to wait here for the lease that the loop holds.
    pub(super) async fn successor(&self, plan: &PodPlan) -> Result<()> {
        let namespace = self.namespace();
        namespace.force_delete_pod(&plan.name).await?;
        namespace.pod(plan).await?;
        let sandbox = Sandbox::new(&namespace.name, &plan.name);
        let row = Row::new(sandbox.id, self.podref(), "net1");
        namespace.plant_row(&self.pool(), 1, &row).await
    }

    /// The same, and it runs.
    pub(super) async fn running_successor(&self, plan: &PodPlan) -> Result<()> {
        self.successor(plan).await?;
        let ip = self.fill("10.{n}.0.1").parse();
        let ip = ip?;
        let interface = self.interface(&self.network(), &[ip]);
        self.namespace().run_pod(&plan.name, &[interface]).await?;
        Ok(())
    }

    pub(super) fn successors_plan(&self) -> PodPlan {
        self.plan(&self.pod(), &self.network().name)
    }

    /// A running pod of a network of both families.
    pub(super) async fn dual_stack_pod(&self) -> Result<()> {
        let network = self.network_of(&["10.{n}.0.0/24", "fd00:0:0:{n}::/64"]);
        self.namespace().attach(&network).await?;
        let plan = self.plan(&self.pod(), &network.name);
        self.run(&plan, &network).await
    }

    /// A running pod whose address is on its primary interface.
    pub(super) async fn pod_on_the_default_network(&self) -> Result<()> {
        let (pod, network) = (self.pod(), self.network());
        self.namespace().attach(&network).await?;
        let reference = self.reference(&network);
        let plan = PodPlan::new(pod.as_str())
            .on(&self.replica.node.name)
            .annotation("v1.multus-cni.io/default-network", &reference);
        self.namespace().pod(&plan).await?;
        let ips = self.add(&pod, &network, "eth0").await?;
        self.namespace().run_pod(&pod, &[]).await?;
        let status = json!([{
            "name": reference, "interface": "eth0", "ips": ips, "default": true, "dns": {},
        }]);
        self.annotate(Some(&status.to_string())).await
    }

    pub(super) async fn patch_status(&self, patch: Value) -> Result<()> {
        // Conditions are merged by their type, as a controller would have it.
        self.namespace()
            .pods()
            .patch_status(
                &self.pod(),
                &PatchParams::default(),
                &Patch::Strategic(patch),
            )
            .await?;
        Ok(())
    }
}
