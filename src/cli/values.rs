//! The values of flags: durations, policies, addresses to listen on.

use std::{net::SocketAddr, time::Duration};

use jiff::SignedDuration;

use crate::core::{evidence::Unfenced, podref::Glob};

/// The length of a hold; for ever if there is none. It has a name, since clap takes a plain `Option` for a flag that may be left out.
pub(super) type Hold = Option<Duration>;

/// The address to listen on, if any.
pub(super) type Listen = Option<SocketAddr>;

/// Reads `90s`, `5m`, `1h30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let signed: SignedDuration = text
        .parse()
        .map_err(|_| "not a duration like 90s, 5m or 1h30m".to_owned())?;
    Duration::try_from(signed).map_err(|_| "a duration cannot be negative".to_owned())
}

/// Reads `0.0.0.0:8080`, `[::]:8080`, and `none` or nothing.
pub(super) fn listen(text: &str) -> Result<Listen, String> {
    match text {
        "" | "none" => Ok(None),
        _ => text
            .parse()
            .map(Some)
            .map_err(|_| "neither an address like 0.0.0.0:8080 or [::]:8080 nor none".to_owned()),
    }
}

/// Reads a glob over podrefs that may match one.
pub(super) fn glob(text: &str) -> Result<Glob, String> {
    if text.contains(['/', '*']) {
        Ok(Glob::new(text))
    } else {
        Err("it matches no namespace/name".to_owned())
    }
}

/// Reads `hold` or `free-after=10m`.
pub(super) fn unfenced(text: &str) -> Result<Unfenced, String> {
    match text.split_once('=') {
        None if text == "hold" => Ok(Unfenced::Hold),
        Some(("free-after", after)) => duration(after).map(Unfenced::FreeAfter),
        _ => Err("neither hold nor free-after=DURATION".to_owned()),
    }
}

/// Reads `forever` or a duration.
pub(super) fn hold(text: &str) -> Result<Hold, String> {
    match text {
        "forever" => Ok(None),
        _ => duration(text).map(Some),
    }
}

/// Reads a number from 0 to 1.
pub(super) fn fraction(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let fits = (0.0..=1.0).contains(&number);
    fits.then_some(number)
        .ok_or_else(|| "not between 0 and 1".to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn where_to_listen_is_an_address_or_nowhere() {
        for nowhere in ["", "none"] {
            assert_eq!(listen(nowhere).unwrap(), None);
        }
        for address in ["0.0.0.0:8080", "127.0.0.1:0", "[::]:8080"] {
            assert_eq!(listen(address).unwrap(), address.parse().ok(), "{address}");
        }
        for bad in [
            ":8080",
            "8080",
            "localhost:8080",
            "::8080",
            "0.0.0.0",
            "1.2.3.4:65536",
        ] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_value_is_refused() {
        for bad in ["", "free", "free-after", "free-after=", "hold=1s"] {
            assert!(unfenced(bad).is_err(), "{bad}");
        }
        for bad in ["", "never", "-1s"] {
            assert!(hold(bad).is_err(), "{bad}");
        }
        for bad in ["", "half", "-0.1", "1.1", "NaN", "inf"] {
            assert!(fraction(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_duration_panics(text in "\\PC{0,20}", unit in "[0-9]{0,25}[a-zµ]{0,3}") {
            let _ = duration(&text);
            let _ = duration(&unit);
        }
    }
}
