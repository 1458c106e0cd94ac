//! [`NetworkAttachmentDefinition`]: one secondary network, kind of the Network Plumbing Working
//! Group, read by multus and by whereabouts.
//!
//! Plain data. The CNI configuration in it is text to this module; it is parsed elsewhere. It
//! never writes.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Extra, top_level_extra};

/// Everything of a `NetworkAttachmentDefinition` beside its type and metadata; flattened into the
/// object.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[kube(
    group = "k8s.cni.cncf.io",
    version = "v1",
    kind = "NetworkAttachmentDefinition",
    plural = "network-attachment-definitions",
    singular = "network-attachment-definition",
    shortname = "net-attach-def",
    doc = "A network that pods can ask for beside the one of the cluster.",
    namespaced,
    no_spec,
    derive = "Default",
    derive = "PartialEq"
)]
pub struct NetworkAttachmentDefinitionBody {
    /// The network. Absent when a CNI configuration file on the nodes has the name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "NetworkSpec")]
    pub spec: Option<NetworkSpec>,

    /// Unknown fields of the top level.
    #[serde(flatten, deserialize_with = "top_level_extra")]
    #[schemars(skip)]
    pub extra: Extra,
}

/// How a network is made (network-attachment-definition-client 1.7,
/// `NetworkAttachmentDefinitionSpec`).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NetworkSpec {
    /// A CNI configuration, or a list of them, as JSON text. Absent or empty when a file on the
    /// nodes has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub config: Option<String>,

    /// Unknown fields of `spec`.
    #[serde(flatten)]
    #[schemars(skip)]
    pub extra: Extra,
}

impl NetworkAttachmentDefinition {
    /// The text of `spec.config`; `None` when it is absent or empty, both of which mean that the
    /// configuration is in a file on the nodes.
    #[must_use]
    pub fn config(&self) -> Option<&str> {
        let config = self.spec.spec.as_ref()?.config.as_deref()?;
        (!config.is_empty()).then_some(config)
    }
}
