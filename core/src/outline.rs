//! The JSON of a pod cut down to what is read of it, as fast as it can be stepped over.
//!
//! A dump of a large cluster is a gigabyte, nine tenths of which decide nothing. Nothing is interpreted
//! here but the type: what is kept is kept as it is written. It lives in this crate because code is made fast
//! here, and small in the other.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The first value of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct First {
    /// If it is a pod: what is left of it.
    pub pod: Option<String>,
    /// Its length, with what precedes it; zero where it is no such pod.
    pub length: usize,
}

/// Reads the first value of a text if it is a pod that can be read.
///
/// # Errors
/// When the text ends within it.
pub fn first_pod(text: &[u8]) -> serde_json::Result<First> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<Pod<'_>>();
    match values.next().transpose() {
        Ok(Some(pod)) => Ok(First {
            pod: Some(serde_json::to_string(&pod)?),
            length: values.byte_offset(),
        }),
        Err(error) if error.is_eof() => Err(error),
        _ => Ok(First {
            pod: None,
            length: 0,
        }),
    }
}

/// The length of the first value of a text, with what precedes it.
///
/// # Errors
/// When it is none, or when the text ends within it.
pub fn first_length(text: &[u8]) -> serde_json::Result<usize> {
    let mut values = serde_json::Deserializer::from_slice(text).into_iter::<&RawValue>();
    match values.next() {
        Some(value) => value.map(|_| values.byte_offset()),
        None => serde_json::from_slice::<&RawValue>(b"").map(|_| 0),
    }
}

type Raw<'t> = Option<&'t RawValue>;

/// The type of a pod. Where it stands first, what is no pod is given up at once.
#[derive(Deserialize, Serialize)]
enum Version {
    #[serde(rename = "v1")]
    V1,
}

#[derive(Deserialize, Serialize)]
enum Kind {
    Pod,
}

#[derive(Deserialize, Serialize)]
struct Pod<'t> {
    #[serde(rename = "apiVersion")]
    version: Version,
    kind: Kind,
    #[serde(borrow)]
    metadata: Option<Metadata<'t>>,
    #[serde(borrow)]
    spec: Option<Spec<'t>>,
    #[serde(borrow)]
    status: Option<Status<'t>>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Metadata<'t> {
    #[serde(borrow)]
    name: Raw<'t>,
    #[serde(borrow)]
    namespace: Raw<'t>,
    #[serde(borrow)]
    uid: Raw<'t>,
    #[serde(borrow)]
    deletion_timestamp: Raw<'t>,
    #[serde(borrow)]
    annotations: Option<Annotations<'t>>,
    #[serde(borrow)]
    owner_references: Option<Vec<Owner<'t>>>,
}

#[derive(Deserialize, Serialize)]
struct Annotations<'t> {
    #[serde(rename = "k8s.v1.cni.cncf.io/network-status", borrow)]
    status: Raw<'t>,
    #[serde(rename = "k8s.v1.cni.cncf.io/networks", borrow)]
    request: Raw<'t>,
    #[serde(rename = "v1.multus-cni.io/default-network", borrow)]
    default_network: Raw<'t>,
    #[serde(rename = "kubernetes.io/config.mirror", borrow)]
    mirror: Raw<'t>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Owner<'t> {
    #[serde(borrow)]
    api_version: Raw<'t>,
    #[serde(borrow)]
    kind: Raw<'t>,
    #[serde(borrow)]
    controller: Raw<'t>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'t> {
    #[serde(borrow)]
    node_name: Raw<'t>,
    #[serde(borrow)]
    host_network: Raw<'t>,
    #[serde(borrow)]
    termination_grace_period_seconds: Raw<'t>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status<'t> {
    #[serde(borrow)]
    phase: Raw<'t>,
    #[serde(borrow)]
    conditions: Option<Vec<Condition<'t>>>,
    #[serde(borrow)]
    container_statuses: Option<Vec<Container<'t>>>,
    #[serde(borrow)]
    init_container_statuses: Option<Vec<Container<'t>>>,
    #[serde(borrow)]
    ephemeral_container_statuses: Option<Vec<Container<'t>>>,
}

#[derive(Deserialize, Serialize)]
struct Condition<'t> {
    #[serde(rename = "type", borrow)]
    kind: Raw<'t>,
    #[serde(borrow)]
    status: Raw<'t>,
}

#[derive(Deserialize, Serialize)]
struct Container<'t> {
    #[serde(borrow)]
    name: Raw<'t>,
    #[serde(borrow)]
    state: Raw<'t>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    const POD: &str = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p\u0041","labels":{"a":"b"},"annotations":{"x":"y","k8s.v1.cni.cncf.io/networks":"net"}},"spec":{"containers":[{"env":[]}],"nodeName":"n"},"status":{"phase":"Running","containerStatuses":[{"name":"c","image":"i","state":{"running":{}}}]}}"#;
    const LEFT: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p\u0041","namespace":null,"uid":null,"deletionTimestamp":null,"annotations":{"k8s.v1.cni.cncf.io/network-status":null,"k8s.v1.cni.cncf.io/networks":"net","v1.multus-cni.io/default-network":null,"kubernetes.io/config.mirror":null},"ownerReferences":null},"spec":{"nodeName":"n","hostNetwork":null,"terminationGracePeriodSeconds":null},"status":{"phase":"Running","conditions":null,"containerStatuses":[{"name":"c","state":{"running":{}}}],"initContainerStatuses":null,"ephemeralContainerStatuses":null}}"#;

    #[test]
    fn of_a_pod_is_left_what_decides_as_it_is_written() {
        let text = format!("  {POD}, {{");
        let first = first_pod(text.as_bytes()).unwrap();
        assert_eq!(first.pod.as_deref(), Some(LEFT));
        assert_eq!(first.length, POD.len() + 2);
        assert_eq!(first_length(text.as_bytes()).unwrap(), POD.len() + 2);
    }

    #[rstest]
    #[case::another(r#"{"apiVersion":"v1","kind":"Node"}"#)]
    #[case::no_object("7 ")]
    #[case::odd(r#"{"apiVersion":"v1","kind":"Pod","metadata":7}"#)]
    #[case::untyped("{}")]
    fn what_is_no_pod_is_left_alone(#[case] text: &str) {
        let none = First {
            pod: None,
            length: 0,
        };
        assert_eq!(first_pod(text.as_bytes()).unwrap(), none);
    }

    #[test]
    fn a_text_that_ends_too_early_says_so() {
        for length in 0..POD.len() {
            let text = &POD.as_bytes()[..length];
            assert!(first_length(text).unwrap_err().is_eof(), "{length}");
            if length > 0 {
                assert!(first_pod(text).unwrap_err().is_eof(), "{length}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60), like in "[{}\":,a-zP1 ]{0,60}") {
            for bytes in [&*bytes, like.as_bytes()] {
                let _ = first_pod(bytes);
                let _ = first_length(bytes);
            }
        }
    }
}
