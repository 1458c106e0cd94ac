//! What GET and LIST answer.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, ListParams, VersionMatch};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use std::time::Duration;
use testkit::{Server, fixtures};

fn server_with_pods(count: usize) -> Server {
    let server = Server::new();
    for index in 0..count {
        server.put(
            fixtures::pod("shop", &format!("cart-{index:02}"))
                .node("n1")
                .build(),
        );
    }
    server
}

fn status_code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("no status: {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn get_finds_an_object_or_tells_not_found() {
    let server = server_with_pods(1);
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let pod = pods.get("cart-00").await.unwrap();
    assert_eq!(pod.spec.unwrap().node_name.as_deref(), Some("n1"));
    let error = pods.get("cart-01").await.unwrap_err();
    let kube::Error::Api(status) = error else {
        panic!("{error}")
    };
    assert_eq!((status.code, status.reason.as_str()), (404, "NotFound"));
    assert_eq!(status.message, "pods \"cart-01\" not found");
}

#[tokio::test(start_paused = true)]
async fn pages_are_one_consistent_revision() {
    let server = server_with_pods(5);
    let pods: Api<Pod> = Api::all(server.client());
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    server.delete("pods", "shop", "cart-04").unwrap();
    server.put(fixtures::pod("shop", "cart-02-a").build());
    let mut names: Vec<String> = first.iter().map(ResourceExt::name_any).collect();
    let mut token = first.metadata.continue_.clone();
    while let Some(next) = token {
        let page = pods
            .list(&ListParams::default().limit(2).continue_token(&next))
            .await
            .unwrap();
        assert_eq!(
            page.metadata.resource_version,
            first.metadata.resource_version
        );
        names.extend(page.iter().map(ResourceExt::name_any));
        token = page.metadata.continue_.clone();
    }
    assert_eq!(
        names,
        ["cart-00", "cart-01", "cart-02", "cart-03", "cart-04"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_is_gone() {
    let server = server_with_pods(3);
    let pods: Api<Pod> = Api::all(server.client());
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    server.put(fixtures::pod("shop", "new").build());
    server.compact();
    let error = pods
        .list(&ListParams::default().limit(2).continue_token(&token))
        .await
        .unwrap_err();
    assert_eq!(status_code(&error), 410);
}

#[tokio::test(start_paused = true)]
async fn retention_expires_old_revisions_by_itself() {
    let server = server_with_pods(3);
    let pods: Api<Pod> = Api::all(server.client());
    let first = pods.list(&ListParams::default().limit(2)).await.unwrap();
    let token = first.metadata.continue_.unwrap();
    let again = ListParams::default().limit(2).continue_token(&token);
    tokio::time::sleep(Duration::from_secs(61)).await;
    server.put(fixtures::pod("shop", "new").build());
    assert!(pods.list(&again).await.is_ok());
    tokio::time::sleep(Duration::from_secs(1201)).await;
    server.put(fixtures::pod("shop", "newer").build());
    assert_eq!(status_code(&pods.list(&again).await.unwrap_err()), 410);
}

#[tokio::test(start_paused = true)]
async fn exact_and_future_versions() {
    let server = server_with_pods(2);
    let pods: Api<Pod> = Api::all(server.client());
    let then = server.revision();
    server.put(fixtures::pod("shop", "later").build());
    let exact = ListParams::default()
        .at(&then.to_string())
        .matching(VersionMatch::Exact);
    assert_eq!(pods.list(&exact).await.unwrap().items.len(), 2);
    let at_least = ListParams::default()
        .at(&then.to_string())
        .matching(VersionMatch::NotOlderThan);
    assert_eq!(pods.list(&at_least).await.unwrap().items.len(), 3);
    let future = ListParams::default().at("9999");
    assert_eq!(status_code(&pods.list(&future).await.unwrap_err()), 504);
}

#[tokio::test(start_paused = true)]
async fn selectors_choose_by_field_and_label() {
    let server = Server::new();
    server.put(
        fixtures::pod("a", "one")
            .node("n1")
            .label("app", "x")
            .running()
            .build(),
    );
    server.put(
        fixtures::pod("a", "two")
            .node("n2")
            .label("app", "y")
            .build(),
    );
    server.put(fixtures::pod("b", "three").node("n1").build());
    let pods: Api<Pod> = Api::all(server.client());
    let count = async |params: ListParams| pods.list(&params).await.unwrap().items.len();
    let all = ListParams::default;
    assert_eq!(count(all().fields("spec.nodeName=n1")).await, 2);
    assert_eq!(
        count(all().fields("spec.nodeName!=n1,status.phase==Pending")).await,
        1
    );
    assert_eq!(
        count(all().fields("metadata.name=three,metadata.namespace=b")).await,
        1
    );
    assert_eq!(count(all().labels("app in (x, z)")).await, 1);
    assert_eq!(count(all().labels("app notin (x)")).await, 2);
    assert_eq!(count(all().labels("app")).await, 2);
    assert_eq!(count(all().labels("!app")).await, 1);
    assert_eq!(count(all().labels("app!=x")).await, 2);
    let error = pods.list(&all().fields("spec.nope=1")).await.unwrap_err();
    assert_eq!(status_code(&error), 400);
}

#[tokio::test(start_paused = true)]
async fn metadata_only_reads() {
    let server = server_with_pods(2);
    let pods: Api<Pod> = Api::namespaced(server.client(), "shop");
    let one = pods.get_metadata("cart-00").await.unwrap();
    assert_eq!(one.types.unwrap().kind, "PartialObjectMetadata");
    let list = pods.list_metadata(&ListParams::default()).await.unwrap();
    assert_eq!(list.types.kind, "PartialObjectMetadataList");
    assert_eq!(list.items.len(), 2);
    let raw = http::Request::get("/api/v1/namespaces/shop/pods/cart-00")
        .header(
            "accept",
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        )
        .body(vec![])
        .unwrap();
    let text = server.client().request_text(raw).await.unwrap();
    assert!(!text.contains("spec"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn list_items_of_builtin_types_carry_no_type_and_custom_ones_do() {
    let server = server_with_pods(1);
    server.put(fixtures::pool("kube-system", "10.0.0.0/24").build());
    let client = server.client();
    let get = async |path: &str| {
        let request = http::Request::get(path).body(vec![]).unwrap();
        client.request::<serde_json::Value>(request).await.unwrap()
    };
    let pods = get("/api/v1/pods").await;
    assert_eq!(pods["kind"], "PodList");
    assert!(pods["items"][0].get("kind").is_none());
    let pools = get("/apis/whereabouts.cni.cncf.io/v1alpha1/ippools").await;
    assert_eq!(pools["items"][0]["kind"], "IPPool");
}

#[tokio::test(start_paused = true)]
async fn dynamic_objects_and_cluster_scoped_ones_work() {
    let server = Server::new();
    server.put(fixtures::node("n1", true));
    server.put(fixtures::pool("kube-system", "10.0.0.0/24").build());
    let nodes: Api<Node> = Api::all(server.client());
    assert_eq!(
        nodes
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .len(),
        1
    );
    assert!(nodes.get("n1").await.is_ok());
    let resource = ApiResource {
        group: "whereabouts.cni.cncf.io".into(),
        version: "v1alpha1".into(),
        api_version: "whereabouts.cni.cncf.io/v1alpha1".into(),
        kind: "IPPool".into(),
        plural: "ippools".into(),
    };
    let pools: Api<DynamicObject> = Api::namespaced_with(server.client(), "kube-system", &resource);
    assert!(pools.get("10.0.0.0-24").await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn unknown_resources_and_paths_are_not_served() {
    let server = Server::new();
    let client = server.client();
    let status_text = "the server could not find the requested resource";
    for (path, message) in [
        ("/api/v1/widgets", status_text),
        ("/apis/nope.io/v1/things", "404 page not found"),
        ("/what", "404 page not found"),
    ] {
        let request = http::Request::get(path).body(vec![]).unwrap();
        let error = client.request_text(request).await.unwrap_err();
        let kube::Error::Api(status) = error else {
            panic!("{error}")
        };
        assert_eq!((status.code, status.message.as_str()), (404, message));
    }
}

#[tokio::test(start_paused = true)]
async fn version_and_discovery() {
    let server = Server::builder().version("v1.30.2").build();
    let client = server.client();
    assert_eq!(client.apiserver_version().await.unwrap().minor, "30");
    let groups = client.list_api_groups().await.unwrap();
    assert!(
        groups
            .groups
            .iter()
            .any(|group| group.name == "whereabouts.cni.cncf.io")
    );
    let core = client.list_core_api_resources("v1").await.unwrap();
    assert!(
        core.resources
            .iter()
            .any(|resource| resource.name == "pods")
    );
    let reviews = client
        .list_api_group_resources("authorization.k8s.io/v1")
        .await
        .unwrap();
    assert_eq!(reviews.resources.len(), 1);
}
