//! What kube needs of the crate `jsonpath-rust`, for which it stands in by a `[patch]` of the workspace.
//!
//! kube reads token and expiry out of what a login of kind `gcp` prints (`auth-provider` of a kubeconfig, which kubectl
//! took until 1.25) by paths such as `{.credential.access_token}`. The original brings a parser generator and regular
//! expressions for that, a megabyte of the program. Here a path is `$` and then names (`.name`, `['name']`)
//! and numbers (`[0]`, `[-1]`); any other is an error that says so, and never an empty answer.

use std::{error::Error, fmt};

use serde_json::Value;

/// A path that is none, or of a kind that this crate does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPath {
    path: String,
    at: usize,
}

impl fmt::Display for NoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, at } = self;
        write!(
            f,
            "only names and numbers are known in a path, as in $.items[0].name: {path:?} at byte {at}"
        )
    }
}

impl Error for NoPath {}

/// What can be asked by a path.
pub trait JsonPath {
    /// The value at the path, if there is one.
    ///
    /// # Errors
    /// The path cannot be read.
    fn query(&self, path: &str) -> Result<Vec<&Value>, NoPath>;
}

impl JsonPath for Value {
    fn query(&self, path: &str) -> Result<Vec<&Value>, NoPath> {
        let mut found = Some(self);
        // To the end, whatever is found: a path is right or wrong by itself.
        for step in steps(path)? {
            found = found.and_then(|value| step.of(value));
        }
        Ok(found.into_iter().collect())
    }
}

/// One step down.
enum Step<'p> {
    Name(&'p str),
    /// From the end where it is negative.
    Number(i64),
}

impl Step<'_> {
    fn of<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        match *self {
            Self::Name(name) => value.as_object()?.get(name),
            Self::Number(number) => {
                let items = value.as_array()?;
                let at = match usize::try_from(number.unsigned_abs()).ok()? {
                    back if number < 0 => items.len().checked_sub(back)?,
                    at => at,
                };
                items.get(at)
            }
        }
    }
}

fn steps(path: &str) -> Result<Vec<Step<'_>>, NoPath> {
    let wrong = |rest: &str| NoPath {
        path: path.to_owned(),
        at: path.len() - rest.len(),
    };
    let mut steps = Vec::new();
    let mut rest = path.strip_prefix('$').ok_or_else(|| wrong(path))?;
    while !rest.is_empty() {
        let (step, length) = first(rest).ok_or_else(|| wrong(rest))?;
        steps.push(step);
        rest = &rest[length..];
    }
    Ok(steps)
}

/// The step that a text begins with, and its length.
fn first(text: &str) -> Option<(Step<'_>, usize)> {
    if let Some(rest) = text.strip_prefix('.') {
        let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        return (end > 0).then(|| (Step::Name(&rest[..end]), 1 + end));
    }
    let rest = text.strip_prefix('[')?;
    for quote in ['\'', '"'] {
        if let Some(quoted) = rest.strip_prefix(quote) {
            let end = quoted.find(quote)?;
            let name = &quoted[..end];
            // A name with escapes is another than its text.
            let ends = quoted[end + 1..].starts_with(']') && !name.contains('\\');
            return ends.then_some((Step::Name(name), end + 4));
        }
    }
    let end = rest.find(']')?;
    let number = rest[..end].parse().ok()?;
    Some((Step::Number(number), end + 2))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use serde_json::json;

    use super::*;

    /// As gcloud prints it.
    fn config() -> Value {
        json!({
            "credential": { "access_token": "secret", "token_expiry": "2026-01-01T00:00:00Z" },
            "a.b": [1, [2, { "c-d": 3 }]],
        })
    }

    #[test]
    fn paths_of_names_and_numbers_are_followed() {
        let config = config();
        for (path, value) in [
            ("$.credential.access_token", json!("secret")),
            ("$['credential'][\"access_token\"]", json!("secret")),
            ("$['a.b'][0]", json!(1)),
            ("$['a.b'][1][-1].c-d", json!(3)),
            ("$['a.b'][-2]", json!(1)),
            ("$", config.clone()),
        ] {
            assert_eq!(config.query(path).unwrap(), [&value], "{path}");
        }
    }

    #[test]
    fn what_is_not_there_is_no_error() {
        let config = config();
        for path in [
            "$.credential.none",
            "$.credential.access_token.more",
            "$.credential[0]",
            "$['a.b'][2]",
            "$['a.b'][-3]",
            "$['a.b'][9223372036854775807]",
            "$['a.b'][-9223372036854775808]",
        ] {
            assert_eq!(config.query(path).unwrap(), [&json!(null); 0], "{path}");
        }
    }

    #[test]
    fn what_is_not_known_is_an_error_and_no_empty_answer() {
        let config = config();
        for (path, at) in [
            ("", 0),
            ("credential", 0),
            ("$credential", 1),
            ("$.", 1),
            ("$..access_token", 1),
            ("$.credential.*", 12),
            ("$.credential[*]", 12),
            ("$.none[?(@.a == 'b')]", 6),
            ("$['a.b'][0:1]", 8),
            ("$['a.b'][0,1]", 8),
            ("$['a", 1),
            ("$['a'", 1),
            ("$['a\\'b']", 1),
            ("$[", 1),
            ("$[9223372036854775808]", 1),
        ] {
            let error = config.query(path).unwrap_err();
            assert_eq!((error.path.as_str(), error.at), (path, at));
        }
    }
}
