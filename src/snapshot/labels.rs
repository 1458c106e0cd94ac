//! Label selectors in the words of kubectl: `app=web`, `app!=web`, `app in (a, b)`, `app notin (a)`, `app`, `!app`.
//!
//! They are only read here; kube says which labels they choose.

use kube::core::{Expression, Selector};

/// Reads a selector.
///
/// # Errors
/// One line that names the part which is none.
pub fn parse(text: &str) -> Result<Selector, String> {
    // A comma in parentheses stands between values.
    let mut depth = 0_usize;
    let at_comma = |c: char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    let parts = text.split(at_comma).map(str::trim);
    parts
        .map(|part| expression(part).ok_or_else(|| format!("not a label selector: {part:?}")))
        .collect()
}

fn expression(text: &str) -> Option<Expression> {
    if let Some(key) = text.strip_prefix('!') {
        return Some(Expression::DoesNotExist(key_of(key)?));
    }
    if let Some((head, values)) = text.split_once('(') {
        let values = values.strip_suffix(')')?.split(',');
        let values = values.map(value_of).collect::<Option<_>>()?;
        let (key, word) = head.trim().split_once(char::is_whitespace)?;
        let key = key_of(key)?;
        return match word.trim() {
            "in" => Some(Expression::In(key, values)),
            "notin" => Some(Expression::NotIn(key, values)),
            _ => None,
        };
    }
    let Some((key, value)) = text.split_once('=') else {
        return Some(Expression::Exists(key_of(text)?));
    };
    if let Some(key) = key.strip_suffix('!') {
        return Some(Expression::NotEqual(key_of(key)?, value_of(value)?));
    }
    let value = value.strip_prefix('=').unwrap_or(value);
    Some(Expression::Equal(key_of(key)?, value_of(value)?))
}

fn key_of(text: &str) -> Option<String> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/');
    let text = text.trim();
    (!text.is_empty() && text.chars().all(is_key)).then(|| text.to_owned())
}

fn value_of(text: &str) -> Option<String> {
    let is_value = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text = text.trim();
    text.chars().all(is_value).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use kube::core::SelectorExt;
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).into(), (*value).into()))
            .collect()
    }

    #[rstest]
    #[case("app=web", true)]
    #[case("app==web", true)]
    #[case("app=db", false)]
    #[case("app!=web", false)]
    #[case("app!=db", true)]
    #[case("app", true)]
    #[case("!app", false)]
    #[case("!tier", true)]
    #[case("app in (db, web)", true)]
    #[case("app notin (db,web)", false)]
    #[case("app=web,ex.org/zone in (a,b), !tier", true)]
    #[case("app=web,ex.org/zone in (b)", false)]
    #[case("app=web,ex.org/zone!=a", false)]
    fn selectors_choose(#[case] text: &str, #[case] chosen: bool) {
        let labels = labels(&[("app", "web"), ("ex.org/zone", "a")]);
        assert_eq!(parse(text).unwrap().matches(&labels), chosen);
    }

    #[rstest]
    #[case("")]
    #[case("app=web,")]
    #[case("app=a=b")]
    #[case("app in web")]
    #[case("app among (web)")]
    #[case("app in (web")]
    #[case("app>1")]
    fn what_is_none_is_an_error(#[case] text: &str) {
        assert!(
            parse(text)
                .unwrap_err()
                .starts_with("not a label selector: ")
        );
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,40}", like in "[a-z=!(), ]{0,30}") {
            let _ = parse(&text);
            let _ = parse(&like);
        }
    }
}
