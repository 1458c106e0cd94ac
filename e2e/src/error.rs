//! Errors while servers are built, started and asked.
//!
//! Errors of other crates come by `?`, with the line that asked: it tells what was being done. All others are whole
//! sentences for the person who reads a failed test run. Where a server is concerned, they have the end of its log.
//! Nothing here retries.

use std::{fmt, io, panic::Location, time::Duration};

/// Any failure of the harness.
pub enum Error {
    /// An error of another crate.
    Foreign {
        /// The error.
        source: Box<dyn std::error::Error + Send + Sync>,
        /// The line that asked.
        at: &'static Location<'static>,
    },
    /// A condition did not come true in time, in a sentence.
    Deadline(String),
    /// Something else is not as it has to be, in a sentence.
    Other(String),
}

/// The result of the whole crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign { source, at } => write!(f, "{source} (at {at})"),
            Self::Deadline(sentence) | Self::Other(sentence) => f.write_str(sentence),
        }
    }
}

/// The sentence too: it is what a test that returns an error prints.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<E: std::error::Error + Send + Sync + 'static> From<E> for Error {
    #[track_caller]
    fn from(source: E) -> Self {
        Self::Foreign {
            source: source.into(),
            at: Location::caller(),
        }
    }
}

impl Error {
    /// A condition did not come true within this time, and this state was the last that was seen.
    pub fn late(what: &str, after: Duration, state: &str) -> Self {
        Self::Deadline(format!("waited {after:?} for {what}; last seen: {state}"))
    }

    /// The HTTP status with which the API server refused, if that is what happened.
    pub fn api_code(&self) -> Option<u16> {
        match self.source_as()? {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }

    /// Whether the API server did not do what was asked, or could not be asked.
    pub fn is_of_api(&self) -> bool {
        self.source_as::<kube::Error>().is_some()
    }

    /// The operating system's error, if it is one.
    pub fn io(&self) -> Option<&io::Error> {
        self.source_as()
    }

    fn source_as<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Foreign { source, .. } => source.downcast_ref(),
            _ => None,
        }
    }
}
