//! The metrics and labels that an expression of PromQL asks for, as far as rules and dashboard here need it.

use std::collections::{BTreeMap, BTreeSet};

use rstest::rstest;

/// The parts of an expression: metrics with the labels that it names beside them, and other labels.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub metrics: BTreeMap<String, BTreeSet<String>>,
    pub grouped: BTreeSet<String>,
}

/// Words of PromQL that are neither metrics nor labels.
const WORDS: [&str; 20] = [
    "sum",
    "max",
    "min",
    "by",
    "and",
    "absent",
    "time",
    "rate",
    "increase",
    "deriv",
    "changes",
    "histogram_quantile",
    "topk",
    "label_values",
    "or",
    "unless",
    "on",
    "without",
    "offset",
    "bool",
];

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// Reads an expression word by word. A word that it does not know it takes for a metric.
pub fn asked(expression: &str) -> Asked {
    let mut asked = Asked::default();
    let mut rest = expression;
    let mut last = String::new();
    while let Some(c) = rest.chars().next() {
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        let inside = |closing| {
            let end = rest.find(closing).expect(expression);
            rest[1..end].split(',').map(|part| part.trim().to_owned())
        };
        rest = match c {
            '{' => {
                // Labels are matched within quotes that hold neither braces nor commas here.
                let labels =
                    inside('}').map(|part| part[..part.find(['=', '!']).unwrap()].to_owned());
                asked
                    .metrics
                    .get_mut(&last)
                    .expect(expression)
                    .extend(labels);
                &rest[rest.find('}').unwrap() + 1..]
            }
            '(' if ["by", "on"].contains(&&*last) => {
                asked.grouped.extend(inside(')'));
                last = String::new();
                &rest[rest.find(')').unwrap() + 1..]
            }
            '[' => &rest[rest.find(']').expect(expression) + 1..],
            _ if word.is_empty() => &rest[c.len_utf8()..],
            _ => {
                let is_number = word.starts_with(|c: char| c.is_ascii_digit());
                if !is_number && !WORDS.contains(&word) {
                    asked.metrics.entry(word.to_owned()).or_default();
                }
                word.clone_into(&mut last);
                &rest[word.len()..]
            }
        };
    }
    asked
}

#[rstest]
#[case("max(ipgc_leader) > 0.5", &[("ipgc_leader", "")], "")]
#[case("sum by (a, b) (rate(x_total{c=\"d e\",f!~\"2..\"}[1h:5m]))", &[("x_total", "c f")], "a b")]
#[case("l:x:sum / y and absent(z == 1)", &[("l:x:sum", ""), ("y", ""), ("z", "")], "")]
#[case("a and on (b) c == 1", &[("a", ""), ("c", "")], "b")]
#[case("stddev(x)", &[("stddev", ""), ("x", "")], "")]
fn expressions_are_read(
    #[case] expression: &str,
    #[case] metrics: &[(&str, &str)],
    #[case] grouped: &str,
) {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
    let metrics = metrics
        .iter()
        .map(|(name, labels)| ((*name).to_owned(), words(labels)));
    let expected = Asked {
        metrics: metrics.collect(),
        grouped: words(grouped),
    };
    assert_eq!(asked(expression), expected);
}
