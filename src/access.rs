//! Rights on objects of the API server, and which of them an account lacks.
//!
//! The API server is asked by access reviews, so a right is known before it is used.
//!
//! Nothing here takes an error for a yes, and nothing uses a right to find out whether it is there.

use std::{borrow::Cow, fmt};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::{Api, Client, Resource, api::PostParams};

pub use crate::calls::CallError;
use crate::calls::call;

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
    /// To do this with objects of a kind.
    fn on<K: Resource<DynamicType = ()>>(verb: &'static str, scope: Scope) -> Self {
        Self {
            verb,
            group: K::group(&()),
            resource: K::plural(&()),
            scope,
            name: None,
        }
    }

    /// To do this with one object.
    pub fn on_one<K: Resource<DynamicType = ()>>(
        verb: &'static str,
        namespace: &str,
        name: &str,
    ) -> Self {
        Self {
            name: Some(name.to_owned().into()),
            ..Self::on::<K>(verb, Scope::Namespace(namespace.to_owned()))
        }
    }
}

/// The place in which a right is needed.
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

/// All of them in one line.
pub fn names(rights: &[Right]) -> String {
    let names: Vec<_> = rights.iter().map(Right::to_string).collect();
    names.join(", ")
}

/// Rights on one kind.
pub fn on<K: Resource<DynamicType = ()>>(scope: &Scope, verbs: &[&'static str]) -> Vec<Right> {
    let right = |verb: &&'static str| Right::on::<K>(verb, scope.clone());
    verbs.iter().map(right).collect()
}

/// Those of these rights that the account of `client` does not have, in the same order.
///
/// # Errors
/// When one of them could not be asked for: then nothing is known.
pub async fn missing(client: &Client, rights: Vec<Right>) -> Result<Vec<Right>, CallError> {
    let lacking = async |right: Right| {
        let granted = is_granted(client, &right).await?;
        Ok((!granted).then_some(right))
    };
    stream::iter(rights)
        .map(lacking)
        .buffered(CONCURRENCY)
        .try_filter_map(async |right| Ok(right))
        .try_collect()
        .await
}

/// Whether the account of `client` has a right.
///
/// # Errors
/// When the API server did not say.
pub async fn is_granted(client: &Client, right: &Right) -> Result<bool, CallError> {
    let namespace = match &right.scope {
        Scope::Namespace(namespace) => Some(namespace.clone()),
        Scope::Cluster | Scope::AllNamespaces => None,
    };
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                verb: Some(right.verb.to_owned()),
                group: Some(right.group.clone().into_owned()),
                resource: Some(right.resource.clone().into_owned()),
                namespace,
                name: right.name.clone().map(Cow::into_owned),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews = Api::all(client.clone());
    let answer = call(reviews.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
