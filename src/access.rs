//! The rights that `ipgc run` needs, and which of them its account lacks.
//!
//! The rights are those that `manifests/base/rbac.yaml` grants.
//! The API server is asked by access reviews, so a right is known before it is used.
//!
//! Nothing here takes an error for a yes, and nothing uses a right to find out whether it is there.

use std::{borrow::Cow, fmt};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{
    Resource as _,
    api::{
        authorization::v1::SelfSubjectAccessReview as Review,
        coordination::v1::Lease,
        core::v1::{Node, Pod},
        events::v1::Event,
    },
};
use kube::{
    Client, Resource,
    api::{PostParams, Request},
};
use serde_json::{Value, json};

pub use crate::calls::CallError;
use crate::{
    api::{IpPool, NetworkAttachmentDefinition, NodeSlicePool, Reservation},
    calls::call,
    config::Config,
    leader::LEASE,
};

/// Where the kubelets' heartbeats are.
const NODE_LEASES: &str = "kube-node-lease";
/// What a dry run does.
const READS: [&str; 3] = ["get", "list", "watch"];
/// Reviews in flight at a time.
const CONCURRENCY: usize = 4;

/// One verb on the objects of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Right {
    /// As RBAC spells it.
    pub verb: &'static str,
    /// API group, empty for the core group.
    pub group: Cow<'static, str>,
    /// Plural name of the kind.
    pub resource: Cow<'static, str>,
    /// Which objects of the kind.
    pub scope: Scope,
    /// The only one of them, if that is enough.
    pub name: Option<Cow<'static, str>>,
}

impl Right {
    /// To do this with one object.
    #[must_use]
    pub fn on_one<K: Resource<DynamicType = ()>>(
        verb: &'static str,
        namespace: &str,
        name: &str,
    ) -> Self {
        Self {
            verb,
            group: K::group(&()),
            resource: K::plural(&()),
            scope: Scope::Namespace(namespace.to_owned()),
            name: Some(name.to_owned().into()),
        }
    }
}

/// Where a right is needed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The kind has no namespaces.
    Cluster,
    /// In every namespace, those to come included.
    AllNamespaces,
    /// In one namespace.
    Namespace(String),
}

impl fmt::Display for Right {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if let Some(name) = &self.name {
            write!(f, " {name}")?;
        }
        match &self.scope {
            Scope::Cluster => f.write_str(" at the cluster scope"),
            Scope::AllNamespaces => f.write_str(" in all namespaces"),
            Scope::Namespace(namespace) => write!(f, " in namespace {namespace}"),
        }
    }
}

/// All rights that a run needs.
#[must_use]
pub fn needed(config: &Config) -> Vec<Right> {
    let everywhere = &Scope::AllNamespaces;
    let beats = &Scope::Namespace(NODE_LEASES.to_owned());
    let namespace = |name: &str| Scope::Namespace(name.to_owned());
    let pools = config.pool_namespace.as_deref();
    let pools = &pools.map_or(Scope::AllNamespaces, namespace);
    let mut rights: Vec<_> = [
        on::<Pod>(everywhere, &READS),
        on::<Node>(&Scope::Cluster, &READS),
        on::<NetworkAttachmentDefinition>(everywhere, &READS),
        on::<Lease>(beats, &["get", "list"]),
        on::<IpPool>(pools, &["get", "list", "patch"]),
        on::<Reservation>(pools, &["get", "list", "patch", "delete"]),
        on::<NodeSlicePool>(pools, &["list"]),
        on::<Event>(everywhere, &["create"]),
    ]
    .concat();
    if let Some(name) = config.election() {
        let leases = &namespace(name);
        // RBAC cannot limit it to a name: that of what is not there yet is not known.
        rights.extend(on::<Lease>(leases, &["create"]));
        let of_ours = on::<Lease>(leases, &["get", "update"]);
        rights.extend(of_ours.into_iter().map(|right| Right {
            name: Some(LEASE.into()),
            ..right
        }));
    }
    if config.dry_run {
        rights.retain(|right| READS.contains(&right.verb));
    }
    rights
}

/// Rights on one kind.
fn on<K: Resource<DynamicType = ()>>(scope: &Scope, verbs: &[&'static str]) -> Vec<Right> {
    let right = |verb: &&'static str| Right {
        verb,
        group: K::group(&()),
        resource: K::plural(&()),
        scope: scope.clone(),
        name: None,
    };
    verbs.iter().map(right).collect()
}

/// Those of the [`needed`] rights that the account of `client` does not have, in the same order.
///
/// # Errors
/// When one of them could not be asked for: then nothing is known.
pub async fn missing(client: &Client, config: &Config) -> Result<Vec<Right>, CallError> {
    let lacking = async |right: Right| {
        let granted = is_granted(client, &right).await?;
        Ok((!granted).then_some(right))
    };
    stream::iter(needed(config))
        .map(lacking)
        .buffered(CONCURRENCY)
        .try_filter_map(async |right| Ok(right))
        .try_collect()
        .await
}

/// Whether the account of `client` has a right.
///
/// Reads one word of the answer: k8s-openapi's types for all of it would make the program 30 kB larger.
///
/// # Errors
/// When the API server did not say.
pub async fn is_granted(client: &Client, right: &Right) -> Result<bool, CallError> {
    let namespace = match &right.scope {
        Scope::Namespace(namespace) => namespace,
        Scope::Cluster | Scope::AllNamespaces => "",
    };
    let review = json!({
        "apiVersion": Review::API_VERSION,
        "kind": Review::KIND,
        "spec": { "resourceAttributes": {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "namespace": namespace,
            "name": right.name.as_deref().unwrap_or_default(),
        }},
    });
    let request = Request::new(Review::url_path(&(), None))
        .create(&PostParams::default(), review.to_string().into())
        .map_err(kube::Error::BuildRequest)?;
    let answer: Value = call(client.request(request)).await?;
    Ok(answer["status"]["allowed"] == true)
}
