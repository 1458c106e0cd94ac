//! Names of a namespace's objects and nothing else of them.
//!
//! They are asked for as a Table without objects, which is some 130 bytes an object where the metadata
//! of a pod is five thousand.

use std::borrow::Cow;

use http::{HeaderValue, Uri, header::ACCEPT};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::{
    Client, Resource,
    api::{ListParams, Request},
};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::calls::{CallError, text};

/// One page of the names of a namespace's objects, given to `each`; and what the page says of itself.
///
/// # Errors
/// When the page cannot be read. Some names may have been given by then.
pub async fn page_of_names<K: Resource<DynamicType = ()>>(
    client: &Client,
    namespace: &str,
    params: &ListParams,
    mut each: impl FnMut(Cow<'_, str>),
) -> Result<ListMeta, CallError> {
    let text = text(client, table_of::<K>(namespace, params)?).await?;
    let table: Table = serde_json::from_str(&text)?;
    for name in table.names()? {
        each(name?);
    }
    Ok(table.metadata)
}

fn table_of<K: Resource<DynamicType = ()>>(
    namespace: &str,
    params: &ListParams,
) -> Result<http::Request<Vec<u8>>, CallError> {
    let path = K::url_path(&(), Some(namespace));
    let request = Request::new(path).list(params);
    let mut request = request.map_err(kube::Error::BuildRequest)?;
    let url: Result<Uri, _> = format!("{}&includeObject=None", request.uri()).parse();
    *request.uri_mut() = url.map_err(|_| CallError::Foreign("no such URL"))?;
    let table = HeaderValue::from_static("application/json;as=Table;v=v1;g=meta.k8s.io");
    request.headers_mut().insert(ACCEPT, table);
    Ok(request)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Table<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    metadata: ListMeta,
    column_definitions: Option<Vec<Column<'a>>>,
    #[serde(borrow)]
    rows: Option<Vec<Row<'a>>>,
}

#[derive(Deserialize)]
struct Column<'a> {
    #[serde(borrow)]
    format: Cow<'a, str>,
}

#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    cells: Vec<&'a RawValue>,
}

impl<'a> Table<'a> {
    /// The cells of the column that the API marks as the one that names the object.
    fn names(
        &self,
    ) -> Result<impl Iterator<Item = Result<Cow<'a, str>, CallError>> + '_, CallError> {
        let columns = self.column_definitions.iter().flatten();
        let column = columns
            .map(|column| &*column.format)
            .position(|it| it == "name");
        let column = column.filter(|_| self.kind == "Table");
        let column = column.ok_or(CallError::Foreign("no table with a column of names"))?;
        let rows = self.rows.iter().flatten();
        Ok(rows.map(move |row| {
            let cell = row.cells.get(column);
            let cell = cell.ok_or(CallError::Foreign("a row of a table without a name"))?;
            Ok(serde_json::from_str(cell.get())?)
        }))
    }
}
