//! How things are said: durations, waits and commands, in one place so that they are said alike.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use ipgc_core::{
    address::reservation_names,
    clearance::Wait,
    judge::{Cause, Stale},
    podref::{PodRef, is_object_name},
    pool::{PoolKey, RowContent},
    routes::Slice,
    time::Moment,
};
use jiff::{
    SignedDuration,
    fmt::friendly::{Spacing, SpanPrinter},
};
use serde_json::json;

pub use crate::report::names;
use crate::{report::NAMED, snapshot::NOW};

/// `3m30s`.
pub fn duration(duration: Duration) -> String {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    let printer = SpanPrinter::new().spacing(Spacing::None);
    printer.duration_to_string(&SignedDuration::from_secs(seconds))
}

/// Why a row is stale, and when it goes.
pub fn stale(stale: &Stale) -> String {
    let cause = match stale.cause {
        Cause::Deleted => "its pod is gone",
        Cause::Completed => "its pod is in a terminal phase",
        Cause::Predecessor => "it was there before its pod",
        Cause::Leftover => "its pod runs in another sandbox",
    };
    let after = |moment: &Moment| duration(moment.since(NOW));
    let Wait { until, nodes } = &stale.clearance.wait;
    let wait = match (until, &**nodes) {
        (Some(moment), []) => format!("; goes {} after a collector has begun", after(moment)),
        (_, nodes) if stale.clearance.endless.is_some() => format!(
            ", and a kubelet may still be at its DELs; held until booted anew, gone, or off and fenced: {}",
            names(nodes)
        ),
        (None, []) => "; held, since the nodes are not known".to_owned(),
        (None, nodes) => format!("; held until back or fenced: {}", names(nodes)),
        (Some(moment), nodes) => format!(
            "; held for {}, or until back or fenced: {}",
            after(moment),
            names(nodes)
        ),
    };
    cause.to_owned() + &wait
}

/// Whether these may stand in a command: foreign texts hold whatever they like, and a shell reads it.
fn are_names(texts: &[&str]) -> bool {
    texts.iter().all(|text| is_object_name(text))
}

/// What explains a pool, if its names are some.
pub fn explain_pool(namespace: &str, name: &str) -> Option<String> {
    are_names(&[namespace, name]).then(|| format!("ipgc explain {namespace}/{name}"))
}

/// The flags by which a command reads these files again. None where it cannot: what came through a pipe is gone.
pub fn from_files(files: &[PathBuf]) -> Option<String> {
    let flags = files.iter().map(|file| {
        let path = file.to_str()?;
        let is_over = path == "-" || path.starts_with("/dev/");
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/".contains(&byte);
        // As a word of its own it would be a flag.
        let here = if path.starts_with('-') { "./" } else { "" };
        let word = if path.bytes().all(is_plain) {
            format!("{here}{path}")
        } else {
            format!("'{here}{}'", path.replace('\'', r"'\''"))
        };
        (!is_over).then(|| format!(" -f {word}"))
    });
    flags.collect()
}

/// The statement that nodes run no sandboxes, if their names are some.
pub fn declare_empty(nodes: &[Box<str>]) -> Option<String> {
    let named = match nodes {
        [] => return None,
        _ if nodes.len() > NAMED => "NODE...".to_owned(),
        _ if nodes.iter().all(|node| are_names(&[node])) => nodes.join(" "),
        _ => return None,
    };
    Some(format!(
        "kubectl annotate node {named} --overwrite ipgc.dev/no-sandboxes=$(date -u +%FT%TZ)"
    ))
}

/// The taint by which Kubernetes removes the pods of a node that is off, if its name is one.
pub fn out_of_service(nodes: &[Box<str>]) -> Option<String> {
    let [node] = nodes else { return None };
    are_names(&[node]).then(|| {
        format!(
            "kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        )
    })
}

/// The deletion of a pod, if its names are some.
pub fn delete_pod(podref: &PodRef, by_force: bool) -> Option<String> {
    let (namespace, name) = (podref.namespace(), podref.name());
    let force = if by_force { " --force" } else { "" };
    are_names(&[namespace, name])
        .then(|| format!("kubectl -n {namespace} delete pod {name}{force}"))
}

/// The removal of whatever holds an address, once a person has typed it.
pub fn force(address: IpAddr) -> String {
    format!("ipgc release --force {address}")
}

/// The creation of the reservation that a row lacks, as whereabouts makes it; it fails if there is one. None where
/// whereabouts could not make it, or where a name is none.
pub fn reserve(namespace: &str, network: Option<&str>, row: &RowContent) -> Option<String> {
    // Whereabouts writes the short form, and no object can have a name that begins with a dash.
    let is_possible = network.is_some() || !row.address.to_string().starts_with(':');
    let names = reservation_names(row.address, network);
    let name = names.first().filter(|_| is_possible)?;
    let mut spec = json!({ "podref": row.podref.as_str() });
    if let Some(interface) = &row.interface {
        spec["ifname"] = (**interface).into();
    }
    let reservation = json!({
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": { "name": name, "namespace": namespace },
        "spec": spec,
    });
    let mut texts = vec![namespace, name, row.podref.namespace(), row.podref.name()];
    texts.extend(row.interface.as_deref());
    are_names(&texts).then(|| format!("echo '{reservation}' | kubectl create -f -"))
}

/// The removal of a pool, if it is still as it was seen: whoever has an address of it since then keeps it. None where
/// what identifies it is no name.
pub fn delete_pool(pool: &PoolKey, uid: &str, version: &str) -> Option<String> {
    let PoolKey { namespace, name } = pool;
    are_names(&[namespace, name, uid, version]).then(|| format!(
        r#"echo '{{"apiVersion":"v1","kind":"DeleteOptions","preconditions":{{"uid":"{uid}","resourceVersion":"{version}"}}}}' | kubectl delete -f - --raw /apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{namespace}/ippools/{name}"#
    ))
}

/// Takes a slice away from a node, if it still is that node's.
pub fn unassign(slice: &Slice, index: usize) -> Option<String> {
    let (namespace, name, node) = (&slice.namespace, &slice.name, &slice.node);
    let path = format!("/status/allocations/{index}/nodeName");
    are_names(&[namespace, name, node]).then(|| format!(
        "kubectl -n {namespace} patch nodeslicepools.whereabouts.cni.cncf.io {name} --type=json -p \
         '[{{\"op\":\"test\",\"path\":\"{path}\",\"value\":\"{node}\"}},\
         {{\"op\":\"replace\",\"path\":\"{path}\",\"value\":\"\"}}]'"
    ))
}
