//! Why the demo did not come to its good end, and the exit code for it.

use std::error::Error;

/// The error that ended the demo.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// There is nothing to play on: a bad kubeconfig, missing CRDs, missing rights.
    #[error("{0}")]
    Setup(String),
    /// The story did not come out as told.
    #[error("not as told: {0}")]
    Story(String),
    /// The API server did not do what was asked.
    #[error("could not {what}: {}", brief(.error))]
    Api {
        /// The request, in words.
        what: String,
        /// The error of the client.
        error: kube::Error,
    },
    /// A person or a supervisor ended it.
    #[error("interrupted")]
    Interrupted,
}

impl Failure {
    /// For `map_err`: the request that failed.
    pub fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |error| Self::Api { what, error }
    }

    /// The exit code: 1 for a story gone wrong, 2 for a place where it cannot be played.
    pub fn code(&self) -> u8 {
        match self {
            Self::Story(_) | Self::Api { .. } => 1,
            Self::Setup(_) => 2,
            Self::Interrupted => 130,
        }
    }
}

/// kube prints a refusal twice, of which the message alone says it; the reason for any other error
/// is the last of its causes.
pub fn brief(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return format!("{} ({})", status.message, status.code);
    }
    let causes = std::iter::successors(error.source(), |&cause| cause.source());
    match causes.last() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

/// Whether the server answered with this HTTP status.
pub fn is_status(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
