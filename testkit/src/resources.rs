//! Which resources the server knows, and what is special about each.
//!
//! A resource is data: names, scope, schema, selectable fields. The handlers stay generic and ask
//! here.

use crate::object::TypeMeta;
use crate::schema::{Schema, optional, required};

/// One kind of object and the rules it follows.
#[derive(Clone, Debug)]
#[must_use = "it does nothing by itself"]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// API version, such as `v1`.
    pub version: String,
    /// Kind, such as `Pod`.
    pub kind: String,
    /// Plural name as in URLs.
    pub plural: String,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Built-in types and custom resources differ: list items of built-in types carry no type.
    pub builtin: bool,
    /// Whether `/status` exists, and the main resource therefore ignores `status`.
    pub status: bool,
    /// The members that are known: others are removed on write. `None` accepts everything.
    pub schema: Option<Schema>,
    /// Field labels that selectors may use, besides `metadata.name` and `metadata.namespace`.
    pub field_labels: Vec<String>,
}

impl Resource {
    /// A namespaced built-in resource.
    pub fn builtin(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
            builtin: true,
            status: false,
            schema: None,
            field_labels: Vec::new(),
        }
    }

    /// A namespaced custom resource.
    pub fn custom(group: &str, version: &str, kind: &str, plural: &str) -> Self {
        Self {
            builtin: false,
            ..Self::builtin(group, version, kind, plural)
        }
    }

    /// Objects without a namespace.
    pub fn cluster_scoped(mut self) -> Self {
        self.namespaced = false;
        self
    }

    /// With a `/status` subresource.
    pub fn with_status(mut self) -> Self {
        self.status = true;
        self
    }

    /// With a structural schema: validated and pruned on write.
    pub fn with_schema(mut self, schema: Schema) -> Self {
        self.schema = Some(schema);
        self
    }

    /// With further selectable fields, given as paths such as `spec.nodeName`.
    pub fn with_field_labels(mut self, labels: &[&str]) -> Self {
        self.field_labels = labels.iter().map(|label| (*label).to_owned()).collect();
        self
    }

    /// `apiVersion` of its objects.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `plural.group`, or the plural alone in the core group.
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }

    pub(crate) fn type_meta(&self) -> TypeMeta {
        TypeMeta {
            api_version: self.api_version(),
            kind: self.kind.clone(),
        }
    }

    pub(crate) fn is(&self, group: &str, plural: &str) -> bool {
        self.group == group && self.plural == plural
    }

    pub(crate) fn is_pod(&self) -> bool {
        self.is("", "pods")
    }
}

/// `name.group`, or the name alone in the core group.
pub(crate) fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() {
        name.to_owned()
    } else {
        format!("{name}.{group}")
    }
}

/// All resources of a server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    resources: Vec<Resource>,
}

impl Registry {
    pub(crate) fn standard() -> Self {
        let mut registry = Self::default();
        for resource in builtin_resources().into_iter().chain(custom_resources()) {
            registry.add(resource);
        }
        registry
    }

    /// Adds a resource, or replaces the one of the same group and plural.
    pub(crate) fn add(&mut self, resource: Resource) {
        let same = |known: &&mut Resource| known.is(&resource.group, &resource.plural);
        match self.resources.iter_mut().find(same) {
            Some(known) => *known = resource,
            None => self.resources.push(resource),
        }
    }

    pub(crate) fn get(&self, table: usize) -> &Resource {
        &self.resources[table]
    }

    pub(crate) fn get_mut(&mut self, table: usize) -> &mut Resource {
        &mut self.resources[table]
    }

    pub(crate) fn all(&self) -> &[Resource] {
        &self.resources
    }

    /// The table of the resource that is served there.
    pub(crate) fn served(&self, group: &str, version: &str, plural: &str) -> Option<usize> {
        self.resources
            .iter()
            .position(|resource| resource.is(group, plural) && resource.version == version)
    }

    /// Whether a group is part of every server, whatever custom resources it has.
    pub(crate) fn is_builtin_group(&self, group: &str, version: &str) -> bool {
        let served = |resource: &Resource| {
            resource.group == group && resource.version == version && resource.builtin
        };
        group == "authorization.k8s.io" || self.resources.iter().any(served)
    }

    /// The table of a resource that a test names: its plural, qualified by `.group` where needed.
    pub(crate) fn table(&self, name: &str) -> usize {
        let is_it = |it: &Resource| it.plural == name || it.qualified() == name;
        let table = self.resources.iter().position(is_it);
        table.unwrap_or_else(|| panic!("unknown resource {name}"))
    }

    pub(crate) fn by_kind(&self, api_version: &str, kind: &str) -> Option<usize> {
        self.resources
            .iter()
            .position(|resource| resource.api_version() == api_version && resource.kind == kind)
    }
}

fn builtin_resources() -> Vec<Resource> {
    vec![
        Resource::builtin("", "v1", "Pod", "pods")
            .with_status()
            .with_field_labels(&["spec.nodeName", "status.phase"]),
        Resource::builtin("", "v1", "Node", "nodes")
            .cluster_scoped()
            .with_status(),
        Resource::builtin("", "v1", "Namespace", "namespaces")
            .cluster_scoped()
            .with_status(),
        Resource::builtin("events.k8s.io", "v1", "Event", "events").with_field_labels(&["reason"]),
        Resource::builtin("coordination.k8s.io", "v1", "Lease", "leases"),
    ]
}

/// The custom resources of multus and whereabouts; those that ipgc writes have the schemas of their CRDs.
fn custom_resources() -> Vec<Resource> {
    let row = Schema::Object(vec![
        required("id", Schema::Text),
        required("podref", Schema::Text),
        optional("ifname", Schema::Text),
    ]);
    let pool = Schema::Object(vec![optional(
        "spec",
        Schema::Object(vec![
            required("range", Schema::Text),
            required("allocations", Schema::Map(Box::new(row))),
        ]),
    )]);
    let reservation = Schema::Object(vec![required(
        "spec",
        Schema::Object(vec![
            required("podref", Schema::Text),
            optional("containerid", Schema::Text),
            optional("ifname", Schema::Text),
        ]),
    )]);
    let whereabouts = "whereabouts.cni.cncf.io";
    vec![
        Resource::custom(
            "k8s.cni.cncf.io",
            "v1",
            "NetworkAttachmentDefinition",
            "network-attachment-definitions",
        ),
        Resource::custom(whereabouts, "v1alpha1", "IPPool", "ippools").with_schema(pool),
        Resource::custom(
            whereabouts,
            "v1alpha1",
            "OverlappingRangeIPReservation",
            "overlappingrangeipreservations",
        )
        .with_schema(reservation),
        Resource::custom(whereabouts, "v1alpha1", "NodeSlicePool", "nodeslicepools"),
        Resource::custom("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims"),
        Resource::custom("k8s.cni.cncf.io", "v1alpha1", "IPAMClaim", "ipamclaims"),
    ]
}
