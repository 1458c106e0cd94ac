//! Structural schemas of custom resources: pruning of unknown fields and validation.
//!
//! A small subset of what a CRD can say: types, required members and maps. Pruning runs before
//! validation, as in the API server.

use serde_json::Value;

use crate::status::Cause;

/// The values that are allowed at one place of an object.
#[derive(Clone, Debug)]
pub enum Schema {
    /// A string.
    Text,
    /// An object with known members; others are pruned.
    Object(Vec<Member>),
    /// An object with free keys (`additionalProperties`).
    Map(Box<Schema>),
}

/// A member of [`Schema::Object`].
#[derive(Clone, Debug)]
pub struct Member {
    /// JSON name.
    pub name: &'static str,
    /// The values that are allowed in it.
    pub schema: Schema,
    /// Whether it has to be there.
    pub required: bool,
}

/// A member that has to be there.
pub fn required(name: &'static str, schema: Schema) -> Member {
    Member {
        name,
        schema,
        required: true,
    }
}

/// A member that may be absent.
pub fn optional(name: &'static str, schema: Schema) -> Member {
    Member {
        name,
        schema,
        required: false,
    }
}

impl Schema {
    /// Removes every member the schema does not know.
    pub fn prune(&self, value: &mut Value) {
        match (self, value) {
            (Self::Object(members), Value::Object(map)) => {
                map.retain(|key, _| members.iter().any(|member| member.name == key));
                for member in members {
                    if let Some(inner) = map.get_mut(member.name) {
                        member.schema.prune(inner);
                    }
                }
            }
            (Self::Map(schema), Value::Object(map)) => {
                for inner in map.values_mut() {
                    schema.prune(inner);
                }
            }
            _ => {}
        }
    }

    /// Collects what is wrong with `value`, which sits at `path`.
    pub fn validate(&self, value: &Value, path: &str, causes: &mut Vec<Cause>) {
        let want = match (self, value) {
            (Self::Text, Value::String(_)) => return,
            (Self::Object(members), Value::Object(map)) => {
                for member in members {
                    let field = join(path, member.name);
                    match map.get(member.name) {
                        Some(inner) => member.schema.validate(inner, &field, causes),
                        None if member.required => causes.push(Cause::required(field)),
                        None => {}
                    }
                }
                return;
            }
            (Self::Map(schema), Value::Object(map)) => {
                for (key, inner) in map {
                    schema.validate(inner, &join(path, key), causes);
                }
                return;
            }
            (Self::Text, _) => "string",
            (Self::Object(_) | Self::Map(_), _) => "object",
        };
        causes.push(Cause::wrong_type(path, want, type_of(value)));
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
