//! An object of any kind as it comes from the API server: what is not asked for is skipped while it is read.
//!
//! Where times and managed fields are read, an object whose time is after 9999-12-30, or whose managed fields are
//! deeper than `serde_json` goes, fails its whole list for ever. The API server lets anybody write such a one.

use std::collections::HashMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, de::IgnoredAny};

/// Any object, with these parts of its spec and its status.
#[derive(Clone, Debug, Deserialize)]
pub struct Lean<Spec = IgnoredAny, Status = IgnoredAny> {
    pub metadata: Metadata,
    pub spec: Option<Spec>,
    pub status: Option<Status>,
}

/// Every field may be absent or null.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    pub namespace: Option<String>,
    pub name: Option<String>,
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub annotations: Option<HashMap<String, String>>,
}

impl From<Metadata> for ObjectMeta {
    /// Its name, and the version that a watch goes on from.
    fn from(own: Metadata) -> Self {
        Self {
            namespace: own.namespace,
            name: own.name,
            resource_version: own.resource_version,
            ..Self::default()
        }
    }
}
