//! The files that are made from our types and kept in the repository: CRDs and JSON Schemas.
//!
//! The program prints the kept ones, so that it needs none of what makes them. The example writes them, and the
//! tests compare: both have this module.

use ipgc::{api, audit};
use serde_json::Value;

/// The first line of every CRD.
const HEADER: &str = "# Generated from ipgc's types. Do not edit.\n";

/// All of them as (path in the repository, text). The text is the same on every run.
///
/// # Panics
/// When a CRD cannot be written as YAML. The four depend on no input.
#[must_use]
pub fn generated() -> Vec<(String, String)> {
    crds().into_iter().chain(schemas()).collect()
}

/// The CRDs, each named `<group>_<plural>.yaml`.
fn crds() -> Vec<(String, String)> {
    api::crds()
        .iter()
        .map(|crd| {
            let path = format!("crds/{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
            #[expect(clippy::expect_used, reason = "constant input, see the docs above")]
            let yaml = serde_saphyr::to_string(crd).expect("a CRD is plain data");
            (path, format!("{HEADER}{yaml}"))
        })
        .collect()
}

/// The schemas, each named after the command whose `-o json` it describes.
fn schemas() -> [(String, String); 3] {
    let file = |command: &str, schema: Value| {
        (
            format!("schemas/{command}.json"),
            // As a file ends.
            format!("{schema:#}\n"),
        )
    };
    [
        file("audit", audit::report::schema()),
        file("explain", audit::explain::report::schema()),
        file("watch", audit::line::schema()),
    ]
}
