//! The ways in which the verdict on a row, or on a reservation without one, would change: one sentence for each.

use ipgc_core::{
    judge::{Cause, Held, Stale, Unknown, Verdict},
    pool::Unreadable,
};

use crate::audit::{
    assess::{Assessor, Item, Judged},
    report::Source,
    words,
};

/// The sentences about it.
pub fn changes(assessor: &Assessor<'_>, it: &Judged<'_>) -> Vec<String> {
    let (policy, podref) = (assessor.policy, it.owner());
    let pod = assessor.snapshot.pod(podref);
    // The own grace of a pod that is gone is not known.
    let grace = pod.and_then(|pod| pod.termination_grace);
    let rows = assessor.index.rows_of(podref).rows();
    let wait = policy.wait_of(grace, assessor.longest_grace, rows);
    let wait = words::duration(wait);
    let cooldown = words::duration(policy.cooldown);
    let leftover = words::duration(policy.leftover_grace);
    let begins = match pod {
        Some(pod) if pod.phase.is_terminal() => {
            "once all its containers are known to have ended, or its pod is gone,"
        }
        _ => "once its pod ends",
    };
    let ends = format!(
        "{begins} it is stale: it goes after {cooldown} if the kubelet says that its sandbox is stopped, \
         else after {wait}, and not while its node is silent"
    );
    let one = |text: &str| vec![text.to_owned()];
    match &it.verdict {
        Verdict::Held(Held::Reported | Held::Present | Held::ResourceClaim) => vec![ends],
        Verdict::Held(Held::OwnContainer) => vec![
            "once its pod has no container of this id any more, another rule decides".to_owned(),
            ends,
        ],
        Verdict::Held(Held::InUse(pod) | Held::OthersSandbox(pod)) => vec![format!(
            "once pod {pod} has ended it is stale, and goes when that pod's end allows it: delete the pod, and a new \
             one gets an address of its own"
        )],
        Verdict::Held(Held::Mirror) => vec![format!(
            "once the mirror pod is gone it is stale, and goes after at least {leftover}"
        )],
        Verdict::Held(Held::Ended) => vec![
            "once its node is fenced, it is stale".to_owned(),
            ends,
        ],
        Verdict::Held(Held::Leaving) => vec![
            "once the node is back, its kubelet ends the pod; of a node that is off, taint it \
             node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
                .to_owned(),
            "stale once the pod object is gone".to_owned(),
        ],
        Verdict::Held(Held::Changing) => vec![
            "once its pod runs and its network-status can be read, that tells whether it has the address"
                .to_owned(),
            ends,
        ],
        Verdict::Held(Held::Unused) => vec![
            format!(
                "stale after {leftover} to a collector that saw the row with this id while a pod of this name lived \
                 that ended; or as left behind, once all rows that the pod reports bear one sandbox, and not this one's"
            ),
            "by hand, if nobody answers on it: ipgc release --force ADDRESS".to_owned(),
            ends,
        ],
        Verdict::Held(Held::Drift) => vec![
            format!(
                "stale as left behind, after {leftover}, once the network-status is complete and all rows that \
                 the pod reports bear one sandbox, and not this one's"
            ),
            ends,
        ],
        Verdict::Unknown(Unknown::Unreadable(Unreadable::IpamClaim(_))) => {
            one("once whereabouts frees it after the end of its IPAMClaim, or somebody changes it: ipgc never touches it")
        }
        Verdict::Unknown(Unknown::Unreadable(Unreadable::ResourceClaim(_))) => one(
            "once its ResourceClaim is gone, by ipgc run --resource-claims: without this flag ipgc never touches it",
        ),
        // The way out for a reservation that says nothing which ipgc may act on.
        Verdict::Unknown(Unknown::Unreadable(_)) if matches!(it.item, Item::Reservation(..)) => {
            let force = it.address.filter(|_| it.names_no_pod()).map(words::force);
            let delete = || "kubectl delete, once you know what the field means".to_owned();
            vec![format!(
                "by itself ipgc never touches what it cannot read; by hand, if it is of no use: {}",
                force.unwrap_or_else(delete)
            )]
        }
        Verdict::Unknown(Unknown::Unreadable(_)) => one(
            "a change of the row or of its pool: by itself ipgc never touches what it cannot read; where its address is \
             known, ipgc release --force frees it",
        ),
        Verdict::Unknown(Unknown::Exempt) => {
            one("once the annotation ipgc.dev/hold or ipgc.dev/keep of its pool no more names it")
        }
        Verdict::Unknown(Unknown::KeptOwner) => one("once --keep-podref no more matches its owner"),
        Verdict::Unknown(Unknown::NoProof(_)) => {
            one("once the pods are known: read the cluster, or dump all kinds with -A, IPPools first")
        }
        Verdict::Stale(stale) => of_stale(stale, podref, &wait, assessor.snapshot.source),
    }
}

fn of_stale(stale: &Stale, podref: &str, wait: &str, source: Source) -> Vec<String> {
    let mut changes = Vec::new();
    match &*stale.clearance.wait.nodes {
        [] if stale.clearance.wait.is_timed() => changes.push(
            "a collector that has run for longer may free it sooner: it knows the row, or saw the end".to_owned(),
        ),
        [] => changes.push("once the nodes are known".to_owned()),
        nodes if stale.clearance.endless.is_some() => {
            changes.push(
                "when CNI DEL removes it: if its kubelet still calls DEL, and whereabouts on that node reaches the API \
                 server again"
                    .to_owned(),
            );
            changes.push(format!(
                "when all of these were booted anew after its pod's end, as a running ipgc sees, or have been gone for \
                 {wait}, or are fenced, which counts while they are not ready: {}",
                words::names(nodes)
            ));
            changes.push(
                "by hand, if nothing answers on it: ipgc release --force ADDRESS".to_owned(),
            );
        }
        nodes => {
            changes.push(format!(
                "when all of these have been back, or gone, for {wait}: {}",
                words::names(nodes)
            ));
            // Files may be old.
            let command = words::declare_empty(nodes).filter(|_| source == Source::Cluster);
            let command = command.map(|command| format!(": {command}"));
            changes.push(format!(
                "sooner if they run no sandboxes and you say so{}",
                command.unwrap_or_default()
            ));
        }
    }
    match stale.cause {
        Cause::Deleted => changes.push(format!("held again if a pod {podref} is there")),
        Cause::Completed => {
            changes.push("sooner once the pod object is deleted, if its end was seen".to_owned());
        }
        Cause::Predecessor | Cause::Leftover => {
            changes.push("held again if its pod reports the address".to_owned());
        }
    }
    changes
}
