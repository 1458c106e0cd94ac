//! Label and field selectors, as far as ipgc and the checks use them.

use crate::object::Object;
use crate::resources::Resource;
use crate::status::Failure;
use crate::store::Key;

/// Both selectors of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    labels: Vec<LabelTerm>,
    fields: Vec<FieldTerm>,
}

#[derive(Clone, Debug)]
enum LabelTerm {
    Exists(String),
    Absent(String),
    In(String, Vec<String>),
}

#[derive(Clone, Debug)]
struct FieldTerm {
    field: Field,
    value: String,
    equal: bool,
}

#[derive(Clone, Copy, Debug)]
enum Field {
    Name,
    Namespace,
    Label(usize),
}

impl Selector {
    pub(crate) fn parse(
        resource: &Resource,
        labels: Option<&str>,
        fields: Option<&str>,
    ) -> Result<Self, Failure> {
        Ok(Self {
            labels: labels.map_or(Ok(Vec::new()), parse_labels)?,
            fields: fields.map_or(Ok(Vec::new()), |text| parse_fields(resource, text))?,
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, key: &Key, object: &Object) -> bool {
        self.fields.iter().all(|term| {
            let value = match term.field {
                Field::Name => &key.name,
                Field::Namespace => &key.namespace,
                Field::Label(index) => object.field(index),
            };
            (value == term.value) == term.equal
        }) && self.labels.iter().all(|term| match term {
            LabelTerm::Exists(key) => object.label(key).is_some(),
            LabelTerm::Absent(key) => object.label(key).is_none(),
            LabelTerm::In(key, values) => object
                .label(key)
                .is_some_and(|value| values.iter().any(|wanted| wanted == value)),
        })
    }
}

fn parse_fields(resource: &Resource, text: &str) -> Result<Vec<FieldTerm>, Failure> {
    let bad = |why: String| Failure::bad_request(why);
    text.split(',')
        .filter(|term| !term.is_empty())
        .map(|term| {
            let (label, value, equal) = if let Some((label, value)) = term.split_once("!=") {
                (label, value, false)
            } else if let Some((label, value)) = term.split_once('=') {
                (label, value, true)
            } else {
                return Err(bad(format!(
                    "invalid selector: '{text}'; can't understand '{term}'"
                )));
            };
            let field = match label {
                "metadata.name" => Field::Name,
                "metadata.namespace" if resource.namespaced => Field::Namespace,
                other => resource
                    .field_labels
                    .iter()
                    .position(|known| known == other)
                    .map(Field::Label)
                    .ok_or_else(|| bad(format!("field label not supported: {other}")))?,
            };
            Ok(FieldTerm {
                field,
                value: value.to_owned(),
                equal,
            })
        })
        .collect()
}

fn parse_labels(text: &str) -> Result<Vec<LabelTerm>, Failure> {
    split_outside_parentheses(text)
        .into_iter()
        .map(|term| {
            parse_label_term(term.trim())
                .ok_or_else(|| Failure::bad_request(format!("unable to parse requirement: {term}")))
        })
        .collect()
}

fn split_outside_parentheses(text: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    text.split(|character| {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        character == ',' && depth == 0
    })
    .filter(|term| !term.trim().is_empty())
    .collect()
}

fn parse_label_term(term: &str) -> Option<LabelTerm> {
    if let Some(inner) = term.strip_suffix(')') {
        let (head, values) = inner.split_once('(')?;
        let values = values
            .split(',')
            .map(|value| value.trim().to_owned())
            .collect();
        let mut words = head.split_whitespace();
        let (key, operator) = (words.next()?, words.next()?);
        let is_whole = operator == "in" && words.next().is_none();
        return is_whole.then(|| LabelTerm::In(key.to_owned(), values));
    }
    if let Some((key, value)) = term.split_once('=') {
        return Some(LabelTerm::In(key.to_owned(), vec![value.to_owned()]));
    }
    if term.contains(char::is_whitespace) {
        return None;
    }
    Some(match term.strip_prefix('!') {
        Some(key) => LabelTerm::Absent(key.to_owned()),
        None => LabelTerm::Exists(term.to_owned()),
    })
}
