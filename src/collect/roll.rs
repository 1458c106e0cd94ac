//! The roll of a namespace: which of some pods exist, by the names of all pods in it.
//!
//! A whole namespace is a few pages of names. A question that comes during a list waits for the next list, which
//! answers all waiting questions. So each list begins after its questions, and is a proof (docs/safety.md).

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use ipgc_core::proof::Presence;
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, api::ListParams};
use tokio::time::Instant;

use super::{
    groups::Inbox,
    names::{Table, table_of},
};
use crate::{calls::CallError, history::History};

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
            let name = name?;
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
