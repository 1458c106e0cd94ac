//! The answers to reads.

use serde_json::Value;

use super::{Cluster, METADATA, Shown, count, ensure, refused, refused_for, same, text, with};

/// The names of the objects of a list.
fn names(list: &Value) -> impl Iterator<Item = String> {
    let items = list["items"].as_array().into_iter().flatten();
    items.map(|item| text(item, "/metadata/name").to_owned())
}

pub(super) async fn pages_are_one_consistent_revision(cluster: &Cluster) -> Shown {
    for index in 0..5 {
        let name = format!("page-{index}");
        cluster.pod(&name, |pod| pod.label("set", "page")).await?;
    }
    cluster.clear("pods/page-2-a").await?;
    let page = async |token: &str| {
        let options = [
            ("labelSelector", "set=page"),
            ("limit", "2"),
            ("continue", token),
        ];
        cluster.list("pods", &options).await
    };
    let first = page("").await?;
    cluster.clear("pods/page-4").await?;
    cluster
        .pod("page-2-a", |pod| pod.label("set", "page"))
        .await?;
    let mut found: Vec<_> = names(&first).collect();
    let mut token = text(&first, "/metadata/continue").to_owned();
    while !token.is_empty() {
        let next = page(&token).await?;
        let revision = |list: &Value| list["metadata"]["resourceVersion"].clone();
        same("resourceVersion", &revision(&next), revision(&first))?;
        found.extend(names(&next));
        text(&next, "/metadata/continue").clone_into(&mut token);
    }
    same(
        "names",
        &found.join(" "),
        "page-0 page-1 page-2 page-3 page-4",
    )
}

pub(super) async fn bad_options_are_bad_requests(cluster: &Cluster) -> Shown {
    for (plural, option) in [
        ("pods", ("continue", "nonsense")),
        ("pods", ("fieldSelector", "spec.nope=1")),
        ("ippools", ("fieldSelector", "spec.nope=1")),
        ("ippools", ("resourceVersion", "nonsense")),
    ] {
        let answer = cluster.list(plural, &[("limit", "1"), option]).await;
        refused_for(answer, 400, "BadRequest")?;
    }
    Ok(())
}

pub(super) async fn items_of_builtin_types_carry_no_type(cluster: &Cluster) -> Shown {
    cluster.pod("read-type", |pod| pod).await?;
    cluster.pool("read-type", 0).await?;
    let list = cluster.get("pods").await?;
    same("kind", &list["kind"], "PodList")?;
    let kind = list["items"][0].get("kind");
    ensure(kind.is_none(), "a pod in a list has a kind")?;
    same("kind", &cluster.get("pods/read-type").await?["kind"], "Pod")?;
    let list = cluster.get("ippools").await?;
    same("kind", &list["kind"], "IPPoolList")?;
    same("item", &list["items"][0]["kind"], "IPPool")
}

pub(super) async fn metadata_can_be_read_alone(cluster: &Cluster) -> Shown {
    let name = "read-metadata";
    cluster.pod(name, |pod| pod.label("set", name)).await?;
    let one = cluster.read("pods/read-metadata", METADATA).await?;
    same("kind", &one["kind"], "PartialObjectMetadata")?;
    ensure(!text(&one, "/metadata/uid").is_empty(), "no uid")?;
    ensure(one.get("spec").is_none(), "there is a spec")?;
    let accept = METADATA.replace("Metadata;", "MetadataList;");
    let path = with("pods", &[("labelSelector", "set=read-metadata")]);
    let list = cluster.read(&path, &accept).await?;
    same("items", &count(&list), 1)?;
    same("kind", &list["kind"], "PartialObjectMetadataList")
}

pub(super) async fn names_can_be_read_alone(cluster: &Cluster) -> Shown {
    for index in 0..3 {
        cluster
            .pod(&format!("read-names-{index}"), |pod| pod)
            .await?;
    }
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let (mut names, mut token) = (Vec::new(), String::new());
    loop {
        let options = [
            ("limit", "2"),
            ("continue", &*token),
            ("includeObject", "None"),
        ];
        let table = cluster.read(&with("pods", &options), accept).await?;
        same("kind", &table["kind"], "Table")?;
        same("format", &table["columnDefinitions"][0]["format"], "name")?;
        for row in table["rows"].as_array().into_iter().flatten() {
            ensure(row["object"].is_null(), "a row has an object")?;
            names.push(text(row, "/cells/0").to_owned());
        }
        text(&table, "/metadata/continue").clone_into(&mut token);
        let left = table["metadata"]["remainingItemCount"].as_u64();
        same("more follow", &left.is_some(), !token.is_empty())?;
        if token.is_empty() {
            break;
        }
    }
    names.retain(|name| name.starts_with("read-names-"));
    same(
        "names",
        &names,
        ["read-names-0", "read-names-1", "read-names-2"],
    )
}

pub(super) async fn selectors_choose_by_field_and_label(cluster: &Cluster) -> Shown {
    for (name, node, app) in [("one", "s1", "x"), ("two", "s2", "y"), ("three", "", "")] {
        let pod = |pod: crate::fixtures::PodBuilder| {
            let pod = pod.label("set", "select");
            if node.is_empty() {
                pod
            } else {
                pod.node(node).label("app", app)
            }
        };
        cluster.pod(&format!("select-{name}"), pod).await?;
    }
    let here = format!(
        "metadata.name=select-two,metadata.namespace={}",
        cluster.namespace
    );
    for (fields, labels, wanted) in [
        ("spec.nodeName=s1", "", 1),
        (&*here, "", 1),
        ("spec.nodeName=", "", 1),
        ("metadata.name=select-two", "", 1),
        ("metadata.namespace!=elsewhere,spec.nodeName=s2", "", 1),
        ("status.phase=Running", "", 0),
        ("", ",app in (x, z)", 1),
        ("", ",app", 2),
        ("", ",!app", 1),
    ] {
        let all = format!("set=select{labels}");
        let options = [("fieldSelector", fields), ("labelSelector", &*all)];
        let list = cluster.list("pods", &options).await?;
        same(&format!("{options:?}"), &count(&list), wanted)?;
    }
    Ok(())
}

pub(super) async fn missing_objects_and_resources_are_not_found(cluster: &Cluster) -> Shown {
    let status = refused(cluster.get("pods/read-nothing").await, 404)?;
    same("reason", &status.reason, "NotFound")?;
    same(
        "message",
        &status.message,
        "pods \"read-nothing\" not found",
    )?;
    refused(cluster.get("nothings/x").await, 404).map(drop)
}

pub(super) async fn unknown_paths_are_not_found(cluster: &Cluster) -> Shown {
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
        let status = refused(cluster.get(path).await, 404)?;
        same(path, &status.message, message)?;
    }
    cluster.pool("read-status", 0).await?;
    let answer = cluster.get("ippools/read-status/status").await;
    refused_for(answer, 404, "NotFound")
}

pub(super) async fn the_version_can_be_asked_for(cluster: &Cluster) -> Shown {
    same("major", &cluster.get("/version").await?["major"], "1")
}
