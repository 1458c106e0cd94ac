//! kubectl and promtool of the PATH, which stand in for a build where their version fits.
//!
//! A kubectl fits when its minor version is within one of the API server's, as Kubernetes supports it. A promtool
//! fits from 2.40 on: it reads the files of the tests. One that does not fit, or does not say its version, is passed
//! over.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

use super::Tool;
use crate::Result;

/// The oldest promtool of major version 2 with which the tests were run is 2.42.
const OLDEST_PROMTOOL: (u32, u32) = (2, 40);

/// The tool, if the PATH has one that fits. The answer holds as long as the process.
pub(super) fn on_path(tool: Tool) -> Result<Option<PathBuf>> {
    static KUBECTL: OnceLock<Option<PathBuf>> = OnceLock::new();
    static PROMTOOL: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = match tool {
        Tool::Kubectl => &KUBECTL,
        Tool::Promtool => &PROMTOOL,
        _ => return Ok(None),
    };
    if let Some(found) = found.get() {
        return Ok(found.clone());
    }
    let server = Tool::KubeApiserver.version()?;
    let path = env::var_os("PATH").unwrap_or_default();
    let fitting = first_fitting(tool, env::split_paths(&path), &server, said);
    Ok(found.get_or_init(|| fitting).clone())
}

/// The first that fits, which need not be the first that is there.
fn first_fitting(
    tool: Tool,
    mut folders: impl Iterator<Item = PathBuf>,
    server: &str,
    said: impl Fn(Tool, &Path) -> Option<String>,
) -> Option<PathBuf> {
    folders.find_map(|folder| {
        let program = folder.join(tool.name());
        fits(tool, &said(tool, &program)?, server).then_some(program)
    })
}

/// The output of a program about its version.
fn said(tool: Tool, program: &Path) -> Option<String> {
    let arguments: &[&str] = match tool {
        Tool::Kubectl => &["version", "--client", "--output=json"],
        _ => &["--version"],
    };
    let answer = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let said = [answer.stdout, answer.stderr].concat();
    answer
        .status
        .success()
        .then(|| String::from_utf8_lossy(&said).into_owned())
}

/// Whether tests may use the program that says this of its version.
fn fits(tool: Tool, said: &str, server: &str) -> bool {
    match tool {
        Tool::Kubectl => {
            let said: Value = serde_json::from_str(said).unwrap_or_default();
            let client = said["clientVersion"]["gitVersion"].as_str();
            let versions = client.and_then(numbers).zip(numbers(server));
            versions.is_some_and(|(client, server)| {
                client.0 == server.0 && client.1.abs_diff(server.1) <= 1
            })
        }
        Tool::Promtool => said
            .split_once("version ")
            .and_then(|(_, version)| numbers(version))
            .is_some_and(|version| version >= OLDEST_PROMTOOL && version.0 <= 3),
        _ => false,
    }
}

/// Major and minor of `v1.34.4`, `2.42.0+ds`, `1.35`.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let (major, rest) = version.trim_start_matches('v').split_once('.')?;
    let end = rest.find(|letter: char| !letter.is_ascii_digit());
    let minor = &rest[..end.unwrap_or(rest.len())];
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::same("v1.34.1", true)]
    #[case::one_older("v1.33.9", true)]
    #[case::one_newer("v1.35.0-rc.1", true)]
    #[case::too_old("v1.32.4-dispatcher", false)]
    #[case::too_new("v1.36.0", false)]
    #[case::another_major("v2.34.0", false)]
    #[case::no_version("main", false)]
    fn a_kubectl_fits_within_one_minor_version_of_the_server(
        #[case] version: &str,
        #[case] expected: bool,
    ) {
        let said = format!(r#"{{"clientVersion": {{"major": "1", "gitVersion": "{version}"}}}}"#);
        assert_eq!(fits(Tool::Kubectl, &said, "v1.34.4"), expected);
        assert!(!fits(Tool::Kubectl, version, "v1.34.4"), "not the JSON");
    }

    #[test]
    fn one_that_does_not_fit_is_passed_over() {
        let said = |_: Tool, program: &Path| {
            let version = match program.to_str()? {
                "/old/kubectl" => "v1.32.4",
                "/fits/kubectl" => "v1.33.0",
                "/late/kubectl" => "v1.34.4",
                _ => return None,
            };
            Some(format!(
                r#"{{"clientVersion": {{"gitVersion": "{version}"}}}}"#
            ))
        };
        let found = |folders: &[&str]| {
            let folders = folders.iter().map(PathBuf::from);
            first_fitting(Tool::Kubectl, folders, "v1.34.4", said)
        };
        let all = found(&["/none", "/old", "/fits", "/late"]);
        assert_eq!(all, Some("/fits/kubectl".into()));
        assert_eq!(found(&["/none", "/old"]), None);
    }

    #[rstest]
    #[case(
        "promtool, version 2.42.0+ds (branch: debian/sid)\n  build user: x\n",
        true
    )]
    #[case("promtool, version 3.13.5 (branch: HEAD, revision: 0)", true)]
    #[case("promtool, version 2.39.1 (branch: HEAD)", false)]
    #[case("promtool, version 4.0.0 (branch: HEAD)", false)]
    #[case("promtool, version  (branch: , revision: unknown)", false)]
    fn a_promtool_fits_from_2_40_to_3(#[case] said: &str, #[case] expected: bool) {
        assert_eq!(fits(Tool::Promtool, said, "v1.34.4"), expected);
    }
}
