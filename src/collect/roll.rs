//! The names of the objects of a namespace, and the roll of its pods: which of some pods exist.
//!
//! Names are asked for as a Table without objects, which is some 130 bytes an object where the metadata of a pod is five
//! thousand.
//!
//! A question that comes while a roll is read waits for the next list, which answers all waiting questions. So each list
//! begins after its questions, and is a proof (docs/safety.md).

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use http::{HeaderValue, Uri, header::ACCEPT};
use ipgc_core::proof::Presence;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ListMeta};
use kube::{
    Client,
    api::{ListParams, Request},
    core::request::Error,
};
use serde::Deserialize;
use serde_json::Value;
use tokio::time::Instant;

use super::groups::Inbox;
use crate::{
    calls::{Built, CallError},
    history::{History, Page},
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
    pub fn names(&self) -> Result<Vec<&str>, CallError> {
        let mut columns = self.column_definitions.iter().flatten();
        let column = columns.position(|column| column["format"] == "name");
        let column = column.filter(|_| self.kind == "Table");
        let column = column.ok_or(CallError::Foreign("no table with a column of names"))?;
        let rows = self.rows.iter().flatten();
        let names = rows.map(|row| {
            let name = row.cells.get(column).and_then(Value::as_str);
            name.ok_or(CallError::Foreign("a row of a table without a name"))
        });
        names.collect()
    }
}

/// Fewest and most pods to a page.
const SMALLEST_PAGE: usize = 500;
const LARGEST_PAGE: usize = 10_000;
/// Pods on a page for each pod that is asked about: reading one costs the server about as much as
/// a few dozen in a list.
const PAGE_FOR_POD: usize = 50;

/// A roll, or why a page of it cannot be read: nothing is known then.
pub type Answer = Result<Roll, Arc<CallError>>;

/// When the roll was begun, and which of the pods that were asked about exist. Pods that are cheaper to read one by one
/// are left out.
pub type Roll = (Instant, Arc<HashMap<String, Presence>>);

/// Answers questions about the pods of a namespace as long as there are some.
pub async fn serve(mut inbox: Inbox<Vec<String>, Answer>, client: &Client, history: &History) {
    while let Some(questions) = inbox.take() {
        let names = questions.iter().flat_map(|(wanted, _)| wanted);
        let wanted: BTreeSet<_> = names.map(String::as_str).collect();
        let roll = read(client, history, &inbox.namespace, &wanted).await;
        let roll = roll.map_err(Arc::new);
        for (_, answer) in questions {
            // The turn that asked may be gone.
            let _ = answer.send(roll.clone());
        }
    }
}

/// The names of these pods that exist, as long as a list takes fewer requests than to read each pod
/// that was not found yet.
async fn read(
    client: &Client,
    history: &History,
    namespace: &str,
    wanted: &BTreeSet<&str>,
) -> Result<Roll, CallError> {
    let size = (PAGE_FOR_POD * wanted.len()).clamp(SMALLEST_PAGE, LARGEST_PAGE);
    let limit = u32::try_from(size).unwrap_or(u32::MAX);
    let first = ListParams::default().limit(limit);
    let begun = Instant::now();
    let mut roll = HashMap::new();
    let find = |page: Table, left| {
        for name in page.names()? {
            if wanted.contains(name) {
                roll.insert(name.to_owned(), Presence::Present(None));
            }
        }
        Ok(left <= wanted.len() - roll.len())
    };
    let is_whole = history
        .pages::<Pod, _>(client, Some(namespace), first, table_of, find)
        .await?;
    if is_whole {
        let absent = wanted.iter().filter(|name| !roll.contains_key(**name));
        let absent: Vec<_> = absent.map(|name| (*name).to_owned()).collect();
        roll.extend(absent.into_iter().map(|name| (name, Presence::Absent)));
    }
    Ok((begun, Arc::new(roll)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names_of(table: &str) -> Result<Vec<String>, CallError> {
        let table: Table = serde_json::from_str(table)?;
        Ok(table.names()?.into_iter().map(str::to_owned).collect())
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
