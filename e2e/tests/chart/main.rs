//! The Helm chart: as helm renders it, beside the kustomizations; and installed in a real API server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod installed;
mod rendered;
mod values;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use e2e::{ours::workspace, tools::Tool};
use serde::Deserialize;
use serde_json::Value;

fn chart() -> PathBuf {
    workspace().join("charts/ipgc")
}

/// Runs helm, which keeps nothing of its own anywhere else than in `home`.
fn helm(home: &Path, args: &[&str]) -> Output {
    let program = Tool::Helm.path_blocking().unwrap();
    let mut command = Command::new(program);
    command.env("HELM_CONFIG_HOME", home);
    command
        .env("HELM_CACHE_HOME", home)
        .env("HELM_DATA_HOME", home);
    command.args(args).output().unwrap()
}

/// What it printed; its error if it failed.
fn said(output: &Output) -> Result<String, String> {
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The objects of a release named ipgc in `ipgc-system`, with these arguments of helm.
fn template(args: &[&str]) -> Result<Objects, String> {
    release("ipgc", "ipgc-system", args)
}

/// All that a release of this name would have.
fn release(name: &str, namespace: &str, args: &[&str]) -> Result<Objects, String> {
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let all = [&["template", name, chart, "--namespace", namespace], args].concat();
    Ok(objects(&said(&helm(&std::env::temp_dir(), &all))?))
}

/// Objects by their kind, namespace and name.
type Objects = BTreeMap<String, Value>;

fn objects(text: &str) -> Objects {
    let documents = serde_yaml::Deserializer::from_str(text);
    let objects = documents.map(|document| Value::deserialize(document).unwrap());
    let objects = objects.filter(|object| !object.is_null());
    objects.map(|object| (title(&object), object)).collect()
}

fn title(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let metadata = &object["metadata"];
    let (kind, namespace, name) = (
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["name"]),
    );
    format!("{kind} {namespace}/{name}")
}
