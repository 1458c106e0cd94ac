//! Rights on objects of the API server, and which of them an account lacks.
//!
//! The API server is asked by access reviews, so a right is known before it is used.
//!
//! Nothing here takes an error for a yes, and nothing uses a right to find out whether it is there.

use std::{borrow::Cow, fmt};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{Resource as _, api::authorization::v1::SelfSubjectAccessReview as Review};
use kube::{
    Client, Resource,
    api::{PostParams, Request},
};
use serde_json::{Value, json};

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

/// Rights on one kind.
#[must_use]
pub fn on<K: Resource<DynamicType = ()>>(scope: &Scope, verbs: &[&'static str]) -> Vec<Right> {
    let right = |verb: &&'static str| Right {
        verb,
        group: K::group(&()),
        resource: K::plural(&()),
        scope: scope.clone(),
        name: None,
    };
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
