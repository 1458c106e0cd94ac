//! Names of a namespace's objects and nothing else of them.
//!
//! They are asked for as a Table without objects, which is some 130 bytes an object where the metadata
//! of a pod is five thousand.

use http::{HeaderValue, Uri, header::ACCEPT};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    api::{ListParams, Request},
    core::request::Error,
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    calls::{Built, CallError},
    history::Page,
};

/// The request for a page of a list as a [`Table`].
pub fn table_of(list: &Request, params: &ListParams) -> Built {
    let mut request = list.list(params)?;
    let url: Result<Uri, _> = format!("{}&includeObject=None", request.uri()).parse();
    *request.uri_mut() = url.map_err(|error| Error::BuildRequest(error.into()))?;
    let table = HeaderValue::from_static("application/json;as=Table;v=v1;g=meta.k8s.io");
    request.headers_mut().insert(ACCEPT, table);
    Ok(request)
}

/// One page of names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Table {
    kind: String,
    metadata: ListMeta,
    column_definitions: Option<Vec<Value>>,
    rows: Option<Vec<Row>>,
}

#[derive(Deserialize)]
struct Row {
    cells: Vec<Value>,
}

impl Page for Table {
    fn metadata(&self) -> &ListMeta {
        &self.metadata
    }
}

impl Table {
    /// The names: the cells of the column that the API marks as the one that names the object.
    pub fn names(&self) -> Result<impl Iterator<Item = Result<&str, CallError>>, CallError> {
        let mut columns = self.column_definitions.iter().flatten();
        let column = columns.position(|column| column["format"] == "name");
        let column = column.filter(|_| self.kind == "Table");
        let column = column.ok_or(CallError::Foreign("no table with a column of names"))?;
        let rows = self.rows.iter().flatten();
        Ok(rows.map(move |row| {
            let name = row.cells.get(column).and_then(Value::as_str);
            name.ok_or(CallError::Foreign("a row of a table without a name"))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(table: &str) -> Result<Vec<String>, CallError> {
        let table: Table = serde_json::from_str(table)?;
        let names = table.names()?;
        names.map(|name| Ok(name?.to_owned())).collect()
    }

    #[test]
    fn the_name_is_in_the_column_that_is_marked_so_wherever_it_stands() {
        let table = r#"{"kind": "Table", "metadata": {}, "columnDefinitions": [
            {"name": "Age", "format": ""}, {"name": "Called", "format": "name"}, {"name": "IP", "format": ""}
        ], "rows": [
            {"cells": ["1d", "web-0", null], "object": null},
            {"cells": ["2d", "web-\u0031", ["a", {"b": 1}]]}
        ]}"#;
        assert_eq!(
            names_of(table).ok(),
            Some(vec!["web-0".into(), "web-1".into()])
        );
    }

    #[test]
    fn a_row_without_its_name_is_an_error_and_so_is_a_table_without_names() {
        let row = |cells: &str| {
            let columns = r#"[{"format": ""}, {"format": "name"}]"#;
            names_of(&format!(
                r#"{{"kind": "Table", "metadata": {{}}, "columnDefinitions": {columns}, "rows": [{{"cells": {cells}}}]}}"#
            ))
        };
        assert!(row(r#"["1d", "web-0"]"#).is_ok());
        for cells in [r"[]", r#"["1d"]"#, r#"["1d", 7]"#, r#""web-0""#] {
            assert!(row(cells).is_err(), "{cells}");
        }
        for (kind, format) in [("Table", ""), ("PodList", "name")] {
            let plain = format!(
                r#"{{"kind": "{kind}", "metadata": {{}}, "columnDefinitions": [{{"format": "{format}"}}], "rows": []}}"#
            );
            assert!(names_of(&plain).is_err(), "{plain}");
        }
        let table = r#"{"kind": "Table", "metadata": {}, "columnDefinitions": [{"format": "name"}], "rows": []}"#;
        assert!(names_of(table).is_ok_and(|names| names.is_empty()));
    }
}
