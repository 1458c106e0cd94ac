//! The printed JSON fits the published schemas, and has no field that they do not describe.
//!
//! Most tests here go through [`Schema::check`] with what they get. It takes the keywords that our schemas use, and
//! panics at any other. It asks for more than a schema does: a field that is not described is an error too.

use std::{collections::BTreeSet, sync::LazyLock};

use serde::Serialize;

use super::*;

pub(super) const AUDIT_TEXT: &str = include_str!("../../schemas/audit.json");
pub(super) static AUDIT: LazyLock<Schema> = LazyLock::new(|| Schema::new(AUDIT_TEXT));
pub(super) static EXPLAIN: LazyLock<Schema> =
    LazyLock::new(|| Schema::new(include_str!("../../schemas/explain.json")));

pub(super) struct Schema(Value);

/// The fields of an object that are described; `None` where any may be.
type Described = Option<BTreeSet<String>>;

impl Schema {
    fn new(text: &str) -> Self {
        Self(serde_json::from_str(text).unwrap())
    }

    pub(super) fn check(&self, printed: &impl Serialize) {
        self.check_text(&serde_json::to_string_pretty(printed).unwrap());
    }

    pub(super) fn check_text(&self, text: &str) {
        let value = serde_json::from_str(text).unwrap();
        if let Err(reason) = self.whole(&self.0, &value, "") {
            panic!("{reason}\n{text}");
        }
    }

    /// The value fits, and all its fields are described.
    fn whole(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let described = self.fits(schema, value, at)?;
        if let (Some(described), Some(fields)) = (described, value.as_object()) {
            let mut unknown = fields.keys().filter(|field| !described.contains(*field));
            if let Some(field) = unknown.next() {
                return Err(format!("{at}.{field} is not described"));
            }
        }
        Ok(())
    }

    fn fits(&self, schema: &Value, value: &Value, at: &str) -> Result<Described, String> {
        let keywords = schema.as_object().unwrap();
        // Without a type anything may be there.
        let mut described = Some(BTreeSet::new());
        if keywords.keys().all(|keyword| keyword == "description") {
            return Ok(None);
        }
        let mut also = |more: Described| {
            described = described
                .take()
                .zip(more)
                .map(|(all, more)| all.union(&more).cloned().collect());
        };
        let wrong = |keyword: &str| Err(format!("{at} is not of {keyword}: {value}"));
        for (keyword, wanted) in keywords {
            let of_each = || wanted.as_array().unwrap().iter();
            match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" => {}
                "$ref" => {
                    let path = wanted.as_str().unwrap().strip_prefix('#').unwrap();
                    also(self.fits(self.0.pointer(path).unwrap(), value, at)?);
                }
                "type" => {
                    let is_one = match wanted {
                        Value::Array(types) => types.iter().any(|wanted| is_a(value, wanted)),
                        wanted => is_a(value, wanted),
                    };
                    if !is_one {
                        return wrong(keyword);
                    }
                }
                "const" if value == wanted => {}
                // These keywords say nothing about values that are no numbers.
                "minimum" if integer(value) >= integer(wanted) || !value.is_number() => {}
                "maximum" if integer(value) <= integer(wanted) || !value.is_number() => {}
                "const" | "minimum" | "maximum" => return wrong(keyword),
                // The widths of integers, of which the type and the minimum say enough.
                "format" => assert!(wanted.as_str().unwrap().starts_with("uint")),
                "required" => {
                    let mut missing =
                        of_each().filter(|name| value.get(name.as_str().unwrap()).is_none());
                    if let Some(name) = missing.next() {
                        return Err(format!("{at} has no {name}"));
                    }
                }
                "properties" => {
                    let properties = wanted.as_object().unwrap();
                    for (name, schema) in properties {
                        if let Some(value) = value.get(name) {
                            self.whole(schema, value, &format!("{at}.{name}"))?;
                        }
                    }
                    also(Some(properties.keys().cloned().collect()));
                }
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.whole(wanted, item, &format!("{at}[{number}]"))?;
                    }
                }
                "anyOf" | "oneOf" => {
                    let tried = of_each().map(|schema| self.fits(schema, value, at));
                    let (fit, reasons): (Vec<_>, Vec<_>) = tried.partition(Result::is_ok);
                    if fit.is_empty() {
                        let reasons: Vec<_> = reasons.into_iter().filter_map(Result::err).collect();
                        return Err(format!("{at} is none of {keyword}: {}", reasons.join("; ")));
                    }
                    if keyword == "oneOf" && fit.len() > 1 {
                        return wrong("one only");
                    }
                    fit.into_iter().flatten().for_each(&mut also);
                }
                _ => panic!("{at}: the keyword {keyword} is not known here"),
            }
        }
        Ok(described)
    }
}

fn is_a(value: &Value, wanted: &Value) -> bool {
    match wanted.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => integer(value).is_some(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("the type {other} is not known here"),
    }
}

fn integer(value: &Value) -> Option<i128> {
    let small = || value.as_i64().map(i128::from);
    value.as_u64().map(i128::from).or_else(small)
}

/// The check itself: each of these changes of a report is found.
#[test]
fn what_a_schema_does_not_say_is_found() {
    let report = serde_json::to_value(dump(&shop()).judged()).unwrap();
    AUDIT.check(&report);
    let changed = |path: &str, value: Value| {
        let mut report = report.clone();
        let (parent, field) = path.rsplit_once('/').unwrap();
        let parent = report.pointer_mut(parent).unwrap();
        if value == json!("gone") {
            parent.as_object_mut().unwrap().remove(field).unwrap();
        } else {
            parent[field] = value;
        }
        AUDIT.whole(&AUDIT.0, &report, "").unwrap_err()
    };
    for (path, value, says) in [
        ("/made", json!("gone"), " has no \"made\""),
        ("/more", json!(1), ".more is not described"),
        ("/version", json!("1"), ".version is not of type"),
        ("/version", json!(-1), ".version is not of minimum"),
        ("/source", json!("dump"), ".source is none of oneOf"),
        ("/notes", json!([1]), ".notes[0] is not of type"),
        ("/totals/split", json!({}), ".totals.split is not described"),
        (
            "/findings/0/problem",
            json!("odd"),
            ".findings[0].problem is none of oneOf",
        ),
        (
            "/findings/0/more",
            json!(1),
            ".findings[0].more is not described",
        ),
        (
            "/findings/0/row/more",
            json!(1),
            ".findings[0].row.more is not described",
        ),
        (
            "/findings/0/row/key",
            json!(2),
            ".findings[0].row is none of anyOf",
        ),
    ] {
        assert_begins(&changed(path, value), says);
    }
}

/// The output of the program itself, for dumps with and without findings.
#[test]
fn the_program_prints_what_its_schemas_say() {
    let idle = server();
    put_pool(&idle, &[]);
    let parts = [Kind::IpPool, Kind::Reservation];
    for file in [dump(&shop()), dump(&idle), part(&shop(), &parts)] {
        let path = file.0.to_str().unwrap();
        let (_, stdout, stderr) = audit_of(&file, &["-o", "json"]);
        assert_eq!(stderr, "");
        AUDIT.check_text(&stdout);
        for subject in ["10.0.0.2", "default/gone", POOL, "node/n1"] {
            let (code, stdout, stderr) = ipgc(&["explain", subject, "-f", path, "-o", "json"]);
            // Not each is in each of them.
            match code {
                0 => EXPLAIN.check_text(&stdout),
                _ => assert!(stderr.contains("nothing is known"), "{stderr}"),
            }
        }
    }
}
