//! An IPPool as text, without managed fields, labels, status and white space: a tenth of it may be who wrote what, and
//! half of it indentation.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ObservedPool, PoolKey};
use crate::time::Moment;

/// A pool that can be read, in as few bytes as its rows take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeanPool {
    /// Namespace and name.
    pub key: PoolKey,
    /// The text, to be parsed by [`ObservedPool::parse`].
    pub text: Box<str>,
}

impl LeanPool {
    /// Makes the text of an IPPool lean.
    ///
    /// # Errors
    /// Where [`ObservedPool::parse`] fails, or the resourceVersion is no text.
    pub fn parse(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str::<Parts<'_>>(text)?.lean()
    }
}

/// What is kept.
#[derive(Deserialize)]
struct Parts<'t> {
    metadata: Metadata<'t>,
    #[serde(borrow)]
    spec: Option<&'t RawValue>,
}

#[derive(Deserialize, Serialize)]
struct Metadata<'t> {
    name: String,
    namespace: Option<String>,
    uid: String,
    #[serde(rename = "resourceVersion")]
    resource_version: Option<String>,
    #[serde(borrow)]
    annotations: Option<&'t RawValue>,
}

impl Parts<'_> {
    fn lean(self) -> serde_json::Result<LeanPool> {
        let metadata = serde_json::to_string(&self.metadata)?;
        let spec = self.spec.map_or("null", RawValue::get);
        let text = compact(&format!(r#"{{"metadata":{metadata},"spec":{spec}}}"#));
        let pool = ObservedPool::parse(&text, Moment::EPOCH, |_| false).map_err(|error| error.0)?;
        let text = text.into();
        Ok(LeanPool {
            key: pool.key,
            text,
        })
    }
}

/// JSON without white space between its values.
fn compact(json: &str) -> String {
    let mut compact = String::with_capacity(json.len());
    let mut is_text = false;
    for (nth, part) in json.split('"').enumerate() {
        if nth > 0 {
            compact.push('"');
        }
        if is_text {
            compact.push_str(part);
            let slashes = part.bytes().rev().take_while(|byte| *byte == b'\\');
            // Then the quote is part of the text.
            is_text = slashes.count() % 2 == 1;
        } else {
            compact.extend(part.split_ascii_whitespace());
            is_text = true;
        }
    }
    compact
}

/// The version of whereabouts' kinds that is known.
#[derive(Deserialize)]
pub(crate) enum Version {
    #[serde(rename = "whereabouts.cni.cncf.io/v1alpha1")]
    V1Alpha1,
}

#[derive(Deserialize)]
enum Kind {
    #[serde(rename = "IPPool")]
    IpPool,
}

/// A pool with its type. Where that stands first, what is no pool is given up at once.
#[derive(Deserialize)]
pub(crate) struct Typed<'t> {
    #[serde(rename = "apiVersion")]
    _version: Version,
    #[serde(rename = "kind")]
    _kind: Kind,
    #[serde(borrow)]
    metadata: Metadata<'t>,
    #[serde(borrow)]
    spec: Option<&'t RawValue>,
}

impl Typed<'_> {
    /// The pool, if it can be read.
    pub(crate) fn lean(self) -> Option<LeanPool> {
        let Self { metadata, spec, .. } = self;
        Parts { metadata, spec }.lean().ok()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn what_is_never_read_is_not_kept() {
        let pool = json!({
            "apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7",
                "annotations": { "ipgc.dev/keep": "1,  \"2\\" }, "managedFields": [{ "manager": "whereabouts" }],
            },
            "spec": { "range": "10.0.0.0/24", "allocations": { "1": { "id": " x  y ", "podref": "d/p" } } },
        });
        let text = serde_json::to_string_pretty(&pool).unwrap();
        let lean = LeanPool::parse(&text).unwrap();
        assert_eq!(lean.key.to_string(), "n/p");
        assert!(!lean.text.contains('\n') && !lean.text.contains("manager"));
        let kept: Value = serde_json::from_str(&lean.text).unwrap();
        assert_eq!(kept["spec"], pool["spec"]);
        assert_eq!(
            kept["metadata"]["annotations"],
            pool["metadata"]["annotations"]
        );
        assert_eq!(kept["metadata"]["resourceVersion"], "7");
        let again = LeanPool::parse(&lean.text).unwrap();
        assert_eq!(again.text.len(), lean.text.len());
        assert!(LeanPool::parse(r#"{"metadata":{"name":"p"}}"#).is_err());
    }

    proptest! {
        #[test]
        fn what_is_compact_says_the_same(texts in proptest::collection::vec("[ab \"\\\\\n\té]{0,8}", 0..8)) {
            let pairs = texts.iter().map(|text| (text.clone(), json!([text, 1, null])));
            let value = Value::Object(pairs.collect());
            let short = compact(&serde_json::to_string_pretty(&value).unwrap());
            prop_assert_eq!(short, serde_json::to_string(&value).unwrap());
        }
    }
}
