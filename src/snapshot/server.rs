//! Whether the API server is new enough. Only asks for its version.

use ipgc_core::text::excerpt;
use kube::Client;

use crate::calls::call;

/// The oldest minor version whose kubelets stop the sandbox of a completed pod before they report its end.
const OLDEST: u32 = 27;
/// Kubelets may be three minor versions older than the API server.
const SKEW: u32 = 3;

/// A sentence about an API server that is too old, that may have kubelets which are, or whose version is not known.
pub async fn note(client: &Client) -> Option<String> {
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use rstest::rstest;
    use testkit::Server;

    use super::*;

    #[rstest]
    #[case::too_old("v1.26.15", Some("needs 1.27"))]
    #[case::old_of_a_provider("v1.26.15-eks-1", Some("needs 1.27"))]
    #[case::of_old_kubelets("v1.29.0", Some("kubectl get nodes"))]
    #[case::new("v1.30.0", None)]
    #[case::odd("v1.x", Some("cannot be read"))]
    #[tokio::test]
    async fn an_old_api_server_is_told(#[case] version: &str, #[case] words: Option<&str>) {
        let server = Server::builder().version(version).build();
        let note = note(&server.client()).await;
        match words {
            Some(words) => assert!(note.as_ref().unwrap().contains(words), "{note:?}"),
            None => assert_eq!(note, None),
        }
    }
}
