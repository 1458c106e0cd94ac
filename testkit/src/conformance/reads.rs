//! What reads answer.

use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, VersionMatch};
use serde_json::Value;

use super::{Cluster, Verdict, clear, ensure, refused, refused_for, same, text};

pub(super) async fn pages_are_one_consistent_revision(cluster: &Cluster) -> Verdict {
    for index in 0..5 {
        cluster
            .pod(&format!("page-{index}"), |pod| pod.label("set", "page"))
            .await?;
    }
    clear(&cluster.pods(), "page-2-a").await?;
    let pods = cluster.pods();
    let params = || ListParams::default().labels("set=page").limit(2);
    let first = pods.list(&params()).await.map_err(text)?;
    let now = DeleteParams::default().grace_period(0);
    pods.delete("page-4", &now).await.map_err(text)?;
    cluster
        .pod("page-2-a", |pod| pod.label("set", "page"))
        .await?;
    let mut names: Vec<String> = first.iter().map(ResourceExt::name_any).collect();
    let mut token = first.metadata.continue_.clone().unwrap_or_default();
    while !token.is_empty() {
        let next = params().continue_token(&token);
        let page = pods.list(&next).await.map_err(text)?;
        same(
            "resourceVersion",
            &page.metadata.resource_version,
            &first.metadata.resource_version,
        )?;
        names.extend(page.iter().map(ResourceExt::name_any));
        token = page.metadata.continue_.clone().unwrap_or_default();
    }
    same(
        "names",
        names.join(" ").as_str(),
        "page-0 page-1 page-2 page-3 page-4",
    )
}

pub(super) async fn an_invalid_continue_token_is_a_bad_request(cluster: &Cluster) -> Verdict {
    let params = ListParams::default().limit(1).continue_token("nonsense");
    refused_for(cluster.pods().list(&params).await, 400, "BadRequest")
}

async fn raw(cluster: &Cluster, path: &str, accept: &str) -> Result<Value, String> {
    let request = http::Request::get(path)
        .header("accept", accept)
        .body(Vec::new())
        .map_err(text)?;
    cluster.client.request(request).await.map_err(text)
}

pub(super) async fn items_of_builtin_types_carry_no_type(cluster: &Cluster) -> Verdict {
    cluster.pod("read-type", |pod| pod).await?;
    cluster.pool("read-type", 0).await?;
    let namespace = &cluster.namespace;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let list = raw(cluster, &pods, "application/json").await?;
    same("kind", &list["kind"], &Value::from("PodList"))?;
    ensure(
        list["items"][0].get("kind").is_none(),
        "a pod in a list has a kind",
    )?;
    let pod = raw(cluster, &format!("{pods}/read-type"), "application/json").await?;
    same("kind", &pod["kind"], &Value::from("Pod"))?;
    let pools = format!("/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{namespace}/ippools");
    let list = raw(cluster, &pools, "application/json").await?;
    same("kind", &list["kind"], &Value::from("IPPoolList"))?;
    same("item", &list["items"][0]["kind"], &Value::from("IPPool"))
}

pub(super) async fn metadata_can_be_read_alone(cluster: &Cluster) -> Verdict {
    let name = "read-metadata";
    cluster.pod(name, |pod| pod.label("set", name)).await?;
    let one = cluster.pods().get_metadata(name).await.map_err(text)?;
    same("uid", one.metadata.uid.is_some(), true)?;
    let params = ListParams::default().labels("set=read-metadata");
    let list = cluster.pods().list_metadata(&params).await.map_err(text)?;
    same("items", list.items.len(), 1)?;
    same(
        "kind",
        list.types.kind.as_str(),
        "PartialObjectMetadataList",
    )?;
    let path = format!("/api/v1/namespaces/{}/pods/{name}", cluster.namespace);
    let accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let pod = raw(cluster, &path, accept).await?;
    same("kind", &pod["kind"], &Value::from("PartialObjectMetadata"))?;
    ensure(pod.get("spec").is_none(), "there is a spec")
}

pub(super) async fn names_can_be_read_alone(cluster: &Cluster) -> Verdict {
    for index in 0..3 {
        let name = format!("read-names-{index}");
        cluster.pod(&name, |pod| pod).await?;
    }
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let path = format!("/api/v1/namespaces/{}/pods", cluster.namespace);
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let query = format!("?limit=2&continue={token}&includeObject=None");
        let table = raw(cluster, &format!("{path}{query}"), accept).await?;
        same("kind", &table["kind"], &Value::from("Table"))?;
        let column = &table["columnDefinitions"][0];
        same("format", &column["format"], &Value::from("name"))?;
        let rows = table["rows"].as_array().cloned().unwrap_or_default();
        ensure(
            rows.iter().all(|row| row["object"].is_null()),
            "a row has an object",
        )?;
        let cells = rows.iter().filter_map(|row| row["cells"][0].as_str());
        names.extend(cells.map(str::to_owned));
        let metadata = &table["metadata"];
        metadata["continue"]
            .as_str()
            .unwrap_or_default()
            .clone_into(&mut token);
        let left = metadata["remainingItemCount"].as_u64();
        same("more follow", left.is_some(), !token.is_empty())?;
        if token.is_empty() {
            break;
        }
    }
    names.retain(|name| name.starts_with("read-names-"));
    let wanted = "read-names-0 read-names-1 read-names-2";
    same("names", names.join(" ").as_str(), wanted)
}

pub(super) async fn selectors_choose_by_field_and_label(cluster: &Cluster) -> Verdict {
    cluster
        .pod("select-one", |pod| {
            pod.node("s1").label("set", "select").label("app", "x")
        })
        .await?;
    cluster
        .pod("select-two", |pod| {
            pod.node("s2").label("set", "select").label("app", "y")
        })
        .await?;
    cluster
        .pod("select-three", |pod| pod.label("set", "select"))
        .await?;
    let count = async |fields: &str, labels: &str| {
        let labels = format!("set=select,{labels}");
        let labels = labels.trim_end_matches(',');
        let params = ListParams::default().fields(fields).labels(labels);
        let list = cluster.pods().list(&params).await.map_err(text)?;
        Ok::<_, String>(list.items.len())
    };
    for (fields, labels, wanted) in [
        ("spec.nodeName=s1", "", 1),
        ("spec.nodeName!=s1", "", 2),
        ("spec.nodeName=", "", 1),
        ("metadata.name=select-two", "", 1),
        ("status.phase==Pending,spec.nodeName=s2", "", 1),
        ("status.phase=Running", "", 0),
        ("", "app in (x, z)", 1),
        ("", "app notin (x)", 2),
        ("", "app", 2),
        ("", "!app", 1),
        ("", "app!=x", 2),
    ] {
        let what = format!("fields {fields:?} labels {labels:?}");
        same(&what, count(fields, labels).await?, wanted)?;
    }
    Ok(())
}

pub(super) async fn unsupported_field_labels_are_bad_requests(cluster: &Cluster) -> Verdict {
    let params = ListParams::default().fields("spec.nope=1");
    refused_for(cluster.pods().list(&params).await, 400, "BadRequest")?;
    refused_for(cluster.pools().list(&params).await, 400, "BadRequest")
}

pub(super) async fn missing_objects_and_resources_are_not_found(cluster: &Cluster) -> Verdict {
    let status = refused(cluster.pods().get("read-nothing").await, 404)?;
    same("reason", status.reason.as_str(), "NotFound")?;
    same(
        "message",
        status.message.as_str(),
        "pods \"read-nothing\" not found",
    )?;
    let nothing = cluster.custom("Nothing", "nothings");
    refused(nothing.get("x").await, 404).map(drop)
}

pub(super) async fn unknown_paths_are_not_found(cluster: &Cluster) -> Verdict {
    let status_text = "the server could not find the requested resource";
    let plain_text = "404 page not found";
    for (path, message) in [
        ("/api/v1/widgets", status_text),
        ("/api/v1/namespaces/default/pods/x/nope", status_text),
        ("/what", plain_text),
        ("/apis/nope.example.com/v1/things", plain_text),
        (
            "/apis/whereabouts.cni.cncf.io/v1alpha1/nothings",
            plain_text,
        ),
    ] {
        let request = http::Request::get(path).body(Vec::new()).map_err(text)?;
        let status = refused(cluster.client.request_text(request).await, 404)?;
        same(path, status.message.as_str(), message)?;
    }
    let name = "read-status";
    cluster.pool(name, 0).await?;
    let answer = cluster.pools().get_status(name).await;
    refused_for(answer, 404, "NotFound")
}

pub(super) async fn versions_are_numbers(cluster: &Cluster) -> Verdict {
    let params = ListParams::default().at("nonsense");
    refused_for(cluster.pools().list(&params).await, 400, "BadRequest")
}

pub(super) async fn a_version_of_the_future_times_out(cluster: &Cluster) -> Verdict {
    let params = ListParams::default()
        .at("999999999")
        .matching(VersionMatch::NotOlderThan);
    refused_for(cluster.pods().list(&params).await, 504, "Timeout")
}

pub(super) async fn an_exact_version_shows_the_past(cluster: &Cluster) -> Verdict {
    cluster
        .pod("exact-one", |pod| pod.label("set", "exact"))
        .await?;
    clear(&cluster.pods(), "exact-two").await?;
    let params = || ListParams::default().labels("set=exact");
    let now = cluster.pods().list(&params()).await.map_err(text)?;
    cluster
        .pod("exact-two", |pod| pod.label("set", "exact"))
        .await?;
    let then = params()
        .at(now.metadata.resource_version.as_deref().unwrap_or_default())
        .matching(VersionMatch::Exact);
    let then = cluster.pods().list(&then).await.map_err(text)?;
    same("then", then.items.len(), 1)?;
    let now = cluster.pods().list(&params()).await.map_err(text)?;
    same("now", now.items.len(), 2)
}

pub(super) async fn the_version_can_be_asked_for(cluster: &Cluster) -> Verdict {
    let version = cluster.client.apiserver_version().await.map_err(text)?;
    same("major", version.major.as_str(), "1")
}
