//! A definition as it comes from the API server, with nothing but its configuration.

use ipgc_core::definitions::{self, Definition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::lean::Lean;
use crate::api::NetworkAttachmentDefinition;

/// A definition, stripped while it is read. One whose spec is of another shape is one that cannot be read.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = "NetworkAttachmentDefinition")]
#[serde(from = "Lean<Box<RawValue>>")]
pub struct LeanDefinition {
    metadata: ObjectMeta,
    /// What it says, or why that cannot be read.
    pub definition: Definition,
}

#[derive(Deserialize)]
struct Spec {
    /// Absent or empty where a CNI configuration file on the nodes has the name of the object.
    config: Option<String>,
}

impl LeanDefinition {
    /// `namespace/name` and what it says; `None` for an object without one of the two.
    pub fn into_definition(self) -> Option<(String, Definition)> {
        let (namespace, name) = (self.metadata.namespace?, self.metadata.name?);
        Some((format!("{namespace}/{name}"), self.definition))
    }
}

impl From<Lean<Box<RawValue>>> for LeanDefinition {
    fn from(object: Lean<Box<RawValue>>) -> Self {
        let spec = object.spec.as_deref().map_or("null", RawValue::get);
        let config = serde_json::from_str::<Option<Spec>>(spec).map(|spec| spec?.config);
        // The text of the error quotes values.
        let shapeless = |_| "the object has not the shape of a definition".to_owned();
        let config = config.as_ref().map(Option::as_deref).map_err(shapeless);
        let name = object.metadata.name.as_deref().unwrap_or_default();
        Self {
            definition: definitions::read(name, config),
            metadata: object.metadata.into(),
        }
    }
}
