//! The Helm chart: as helm renders it, beside the kustomizations; and installed in a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod installed;
mod rendered;
mod values;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use e2e::{
    Result,
    ours::{objects, title, workspace},
    process::success,
    tools::Tool,
};
use serde_json::Value;

fn chart() -> PathBuf {
    workspace().join("charts/ipgc")
}

/// What helm prints; it keeps nothing of its own anywhere else than in `home`.
fn helm(home: &Path, args: &[&str]) -> Result<String> {
    let mut command = Command::new(Tool::Helm.path_blocking()?);
    for folder in ["HELM_CONFIG_HOME", "HELM_CACHE_HOME", "HELM_DATA_HOME"] {
        command.env(folder, home);
    }
    success("helm", command.args(args).output()?)
}

/// The objects of a release named ipgc in `ipgc-system`, with these arguments of helm.
fn template(args: &[&str]) -> Result<Objects> {
    release("ipgc", "ipgc-system", args)
}

/// All that a release of this name would have.
fn release(name: &str, namespace: &str, args: &[&str]) -> Result<Objects> {
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let all = [&["template", name, chart, "--namespace", namespace], args].concat();
    let rendered = helm(&std::env::temp_dir(), &all)?;
    Ok(titled(objects(&rendered)?))
}

/// Objects by their kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn titled(objects: Vec<Value>) -> Objects {
    let objects = objects.into_iter();
    objects.map(|object| (title(&object), object)).collect()
}
