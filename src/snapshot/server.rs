//! Whether the API server is new enough, and whether its CRDs keep all fields that ipgc reads. Only asks for its version
//! and for the schemas that it serves.

use ipgc_core::{patch::Answer, text::excerpt};
use kube::Client;
use serde_json::Value;

use super::Kind;
use crate::calls::call;

/// The oldest minor version whose kubelets stop the sandbox of a completed pod before they report its end.
const OLDEST: u32 = 27;
/// Kubelets may be three minor versions older than the API server.
const SKEW: u32 = 3;

/// Groups with their versions.
const GROUPS: [&str; 2] = ["whereabouts.cni.cncf.io/v1alpha1", "k8s.cni.cncf.io/v1"];
/// The kinds that are read, and the fields that ipgc reads of them; `*` is any key, or any item.
const READ: [(Kind, &str); 4] = [
    (
        Kind::IpPool,
        "spec.range spec.allocations.*.id spec.allocations.*.podref spec.allocations.*.ifname",
    ),
    (
        Kind::Reservation,
        "spec.podref spec.ifname spec.containerid",
    ),
    (
        Kind::NodeSlicePool,
        "spec.range spec.sliceSize status.allocations.*.nodeName status.allocations.*.sliceRange",
    ),
    (Kind::Definition, "spec.config"),
];

/// A sentence for each thing that is wrong.
pub async fn notes(client: &Client) -> Vec<String> {
    let mut notes: Vec<_> = version(client).await.into_iter().collect();
    notes.extend(schemas(client).await);
    notes
}

/// A sentence about an API server that is too old, that may have kubelets which are, or whose version is not known.
async fn version(client: &Client) -> Option<String> {
    let version = match call(client.apiserver_version()).await {
        Ok(version) => version,
        Err(error) => {
            return Some(format!(
                "the version of the API server is not known: {error}"
            ));
        }
    };
    let text = excerpt(&version.git_version);
    // Some providers write `27+`.
    let digits = version
        .minor
        .trim_end_matches(|it: char| !it.is_ascii_digit());
    match digits.parse::<u32>() {
        Ok(minor) if version.major == "1" && minor < OLDEST => Some(format!(
            "the API server is {text}, and ipgc needs 1.{OLDEST} or newer: older kubelets may report the end of a pod \
             before its sandbox is stopped"
        )),
        Ok(minor) if version.major == "1" && minor < OLDEST + SKEW => Some(format!(
            "the API server is {text}, so kubelets may be older than 1.{OLDEST}. Those may report the end of a pod before its \
             sandbox is stopped: kubectl get nodes tells their versions"
        )),
        Ok(_) => None,
        Err(_) => Some(format!(
            "the version of the API server cannot be read: {text}"
        )),
    }
}

/// A sentence for each kind whose CRD drops what ipgc reads, and for each group that is not served.
async fn schemas(client: &Client) -> Vec<String> {
    let mut notes = Vec::new();
    for version in GROUPS {
        let request = http::Request::get(format!("/openapi/v3/apis/{version}"));
        let Ok(request) = request.body(Vec::new()) else {
            continue;
        };
        match call(client.request::<Value>(request)).await {
            Ok(served) => {
                let read = READ.iter().filter(|(kind, _)| kind.type_of().0 == version);
                notes.extend(read.filter_map(|(kind, fields)| dropped(&served, *kind, fields)));
            }
            Err(error) if error.answer() == Answer::Gone => notes.push(format!(
                "the API server does not know {version}: its CRDs are not installed"
            )),
            Err(error) => notes.push(format!(
                "whether the CRDs of {version} keep all that ipgc reads is not known: {error}"
            )),
        }
    }
    notes
}

/// The sentence about a kind of these schemas.
fn dropped(served: &Value, kind: Kind, fields: &str) -> Option<String> {
    let (_, kind) = kind.type_of();
    let schemas = served["components"]["schemas"].as_object()?;
    let is_it = |schema: &&Value| schema["x-kubernetes-group-version-kind"][0]["kind"] == kind;
    let schema = schemas.values().find(is_it)?;
    let lost = fields.split(' ').filter(|field| !keeps(schema, field));
    let lost: Vec<_> = lost.collect();
    (!lost.is_empty()).then(|| {
        format!(
            "the CRD of {kind} drops {}, which ipgc reads: compare it by ipgc crds | kubectl diff -f -",
            lost.join(", ")
        )
    })
}

fn keeps(schema: &Value, field: &str) -> bool {
    let mut at = schema;
    for part in field.split('.') {
        let next = match part {
            "*" if at["items"].is_object() => &at["items"],
            "*" => &at["additionalProperties"],
            part => &at["properties"][part],
        };
        // It keeps what it does not declare, and prunes within what it declares.
        if next.is_null() && at["x-kubernetes-preserve-unknown-fields"] == true {
            return true;
        }
        at = next;
    }
    !at.is_null()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rstest::rstest;
    use serde_json::json;
    use testkit::{Match, Server};

    use super::*;
    use crate::api::CRD_FILES;

    /// The schemas as they are served, of the CRDs that the program prints.
    fn served() -> Value {
        let mut schemas = serde_json::Map::new();
        for (_, text) in CRD_FILES {
            let crd: Value = serde_yaml::from_str(text).unwrap();
            let kind = &crd["spec"]["names"]["kind"];
            let mut schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
            schema["x-kubernetes-group-version-kind"] = json!([{"kind": kind}]);
            schemas.insert(kind.to_string(), schema);
        }
        json!({"components": {"schemas": schemas}})
    }

    #[tokio::test]
    async fn a_group_that_is_not_served_is_told() {
        let server = Server::new();
        let client = server.client();
        assert_eq!(schemas(&client).await, [""; 0]);
        server.on(Match::any()).fail(404);
        let told = schemas(&client).await;
        assert_eq!(told.len(), 2);
        assert!(
            told[1].contains("k8s.cni.cncf.io/v1: its CRDs are not"),
            "{told:?}"
        );
        let server = Server::new();
        server.on(Match::any()).deny();
        let told = schemas(&server.client()).await;
        assert!(told[0].contains("is not known"), "{told:?}");
    }

    #[test]
    fn what_the_program_prints_keeps_all() {
        let served = served();
        for (kind, fields) in READ {
            let (_, name) = kind.type_of();
            let schemas = &served["components"]["schemas"];
            assert!(schemas.get(json!(name).to_string()).is_some());
            assert_eq!(dropped(&served, kind, fields), None);
        }
    }

    #[rstest]
    #[case::a_field(
        0,
        "/properties/spec/properties/allocations/additionalProperties/properties",
        "ifname",
        "drops spec.allocations.*.ifname,"
    )]
    #[case::all_below(
        1,
        "/properties",
        "spec",
        "drops spec.podref, spec.ifname, spec.containerid,"
    )]
    #[case::config(3, "/properties/spec/properties", "config", "drops spec.config,")]
    fn what_is_dropped_is_named(
        #[case] which: usize,
        #[case] place: &str,
        #[case] field: &str,
        #[case] words: &str,
    ) {
        let (kind, fields) = READ[which];
        let (_, name) = kind.type_of();
        let mut served = served();
        let schemas = served["components"]["schemas"].as_object_mut().unwrap();
        let schema = schemas.get_mut(&json!(name).to_string()).unwrap();
        let place = schema.pointer_mut(place).unwrap().as_object_mut().unwrap();
        place.remove(field).unwrap();
        let note = dropped(&served, kind, fields).unwrap();
        assert!(note.contains(words), "{note}");
    }

    #[test]
    fn a_schema_that_keeps_what_it_does_not_know_drops_nothing() {
        let schema =
            json!({"properties": {"spec": {"x-kubernetes-preserve-unknown-fields": true}}});
        assert!(keeps(&schema, "spec.allocations.*.id"));
    }

    #[rstest]
    #[case::too_old("v1.26.15", Some("needs 1.27"))]
    #[case::old_of_a_provider("v1.26.15-eks-1", Some("needs 1.27"))]
    #[case::of_old_kubelets("v1.29.0", Some("kubectl get nodes"))]
    #[case::new("v1.30.0", None)]
    #[case::odd("v1.x", Some("cannot be read"))]
    #[tokio::test]
    async fn an_old_api_server_is_told(#[case] version: &str, #[case] words: Option<&str>) {
        let server = Server::builder().version(version).build();
        let note = super::version(&server.client()).await;
        match words {
            Some(words) => assert!(note.as_ref().unwrap().contains(words), "{note:?}"),
            None => assert_eq!(note, None),
        }
    }
}
