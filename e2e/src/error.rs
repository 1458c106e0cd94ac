//! Errors while servers are built, started and asked.
//!
//! Every variant is a whole sentence for the person who reads a failed test run: it names the thing
//! that failed and, where a server is concerned, the end of that server's log. Nothing here retries.

use std::{fmt, io, path::PathBuf, time::Duration};

/// Any failure of the harness.
#[derive(thiserror::Error)]
pub enum Error {
    /// The operating system said no.
    #[error("{what}: {source}")]
    Io {
        /// The action that failed, with the path or program.
        what: String,
        /// The cause.
        source: io::Error,
    },
    /// A request to the API server failed.
    #[error("{what}: {source}")]
    Api {
        /// The request, in words.
        what: String,
        /// The cause.
        source: Box<kube::Error>,
    },
    /// JSON or YAML that is not what it should be.
    #[error("{what}: {why}")]
    Malformed {
        /// Which document.
        what: String,
        /// The message of the parser.
        why: String,
    },
    /// The Go toolchain is needed, and it is not there or too old.
    #[error("{tool} has to be built and {found}: install Go {go} or newer from go.dev/dl{assets}")]
    NoGo {
        /// The tool that was wanted.
        tool: &'static str,
        /// The state of the Go toolchain, in words.
        found: String,
        /// The Go version that builds all tools.
        go: String,
        /// A second way out, if the tool has one.
        assets: &'static str,
    },
    /// `KUBEBUILDER_ASSETS` points to a place without the tool.
    #[error("KUBEBUILDER_ASSETS is set, but {} is no file", path.display())]
    Assets {
        /// Where the tool was looked for.
        path: PathBuf,
    },
    /// A command ended with an error.
    #[error("{what} failed ({status}):\n{output}")]
    Command {
        /// The command.
        what: String,
        /// Its exit status.
        status: String,
        /// The end of what it printed.
        output: String,
    },
    /// A server did not come up.
    #[error("{server} did not start: {why}\n--- the end of {} (IPGC_E2E_KEEP=1 keeps it) ---\n{tail}", log.display())]
    Start {
        /// Which server.
        server: &'static str,
        /// In one line.
        why: String,
        /// Its log file.
        log: PathBuf,
        /// The last lines of that file.
        tail: String,
    },
    /// A condition did not come true in time.
    #[error("waited {after:?} for {what}; last seen: {state}")]
    Deadline {
        /// The condition.
        what: String,
        /// How long was waited.
        after: Duration,
        /// The last state that was seen.
        state: String,
    },
    /// The CNI plugin answered with an error of its own.
    #[error("CNI {command} for {interface}: code {code}: {message} {details}")]
    Cni {
        /// ADD or DEL.
        command: &'static str,
        /// The interface.
        interface: String,
        /// The CNI error code.
        code: u64,
        /// Its text.
        message: String,
        /// More of it, may be empty.
        details: String,
    },
    /// Something was asked that this machine or this user cannot do.
    #[error("{0}")]
    Unsupported(String),
}

/// The result of the whole crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The sentence too: it is what a test that returns an error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Adds what was being done to an operating-system error.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// Adds what was being asked to an API error.
    pub fn api(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        move |source| Self::Api {
            what,
            source: Box::new(source),
        }
    }

    /// Adds the document's name to a parser's error.
    pub fn malformed<E: std::fmt::Display>(what: impl Into<String>) -> impl FnOnce(E) -> Self {
        let what = what.into();
        move |why| Self::Malformed {
            what,
            why: why.to_string(),
        }
    }

    /// The HTTP status with which the API server refused, if that is what happened.
    pub fn api_code(&self) -> Option<u16> {
        match self {
            Self::Api { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status.code),
                _ => None,
            },
            _ => None,
        }
    }
}
