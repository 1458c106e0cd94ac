//! Requests to the API server, counted by what was asked and how it was answered.
//!
//! A layer below [`crate::calls`] sees each attempt, watches included. Labels are bounded: a resource that
//! ipgc has no business with is `other`, and nothing of an answer counts but its code.

use std::borrow::Cow;

use http::{Method, Request};
use kube::Client;
use prometheus_client::metrics::{counter::Counter, family::Family};

use crate::calls::{is_watch, via};

/// The usual requests of ipgc: seeded, so that a rate is zero before it is anything else.
const USUAL: [(&str, &[&str]); 9] = [
    ("pods", &["list", "watch", "get"]),
    ("nodes", &["list", "watch", "get"]),
    ("network-attachment-definitions", &["list", "watch"]),
    ("leases", &["list", "get", "create", "update"]),
    ("ippools", &["get", "list", "patch"]),
    (
        "overlappingrangeipreservations",
        &["get", "list", "patch", "delete"],
    ),
    ("nodeslicepools", &["list"]),
    ("events", &["create"]),
    ("selfsubjectaccessreviews", &["create"]),
];

/// Stands for the code of a request that was not answered.
const UNANSWERED: &str = "error";

/// Verb, resource and code, as labels.
type Labels = [(&'static str, Cow<'static, str>); 3];

/// How many requests there were of each kind.
pub type Requests = Family<Labels, Counter>;

/// The usual requests, none of them sent yet.
pub fn seeded() -> Requests {
    let requests = Requests::default();
    for (resource, verbs) in USUAL {
        for verb in verbs {
            let success = if *verb == "create" { "201" } else { "200" };
            for code in [success, UNANSWERED] {
                drop(requests.get_or_create(&labels((verb, resource), code.into())));
            }
        }
    }
    requests
}

fn labels((verb, resource): (&'static str, &'static str), code: Cow<'static, str>) -> Labels {
    [
        ("verb", verb.into()),
        ("resource", resource.into()),
        ("code", code),
    ]
}

/// A client whose requests are counted. A watch counts when its answer begins.
pub fn counted(client: Client, requests: &Requests) -> Client {
    let requests = requests.clone();
    via(client, move |client, request| {
        let requests = requests.clone();
        async move {
            // A request that its caller gives up is not answered either.
            let mut pending = Pending {
                requests,
                labels: labels(kind_of(&request), UNANSWERED.into()),
            };
            let response = client.send(request).await?;
            pending.labels[2].1 = response.status().as_u16().to_string().into();
            Ok(response)
        }
    })
}

/// A request on its way, counted when it is dropped.
struct Pending {
    requests: Requests,
    labels: Labels,
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.requests.get_or_create(&self.labels).inc();
    }
}

/// Verb and resource.
fn kind_of<B>(request: &Request<B>) -> (&'static str, &'static str) {
    // /api/v1/… or /apis/GROUP/VERSION/…, then [namespaces/NAMESPACE/]RESOURCE[/NAME].
    let mut parts = request.uri().path().split('/').skip(1);
    let skipped = if parts.next() == Some("api") { 1 } else { 2 };
    let parts: Vec<_> = parts.skip(skipped).collect();
    let (resource, name) = match parts[..] {
        ["namespaces", _, resource, ref name @ ..] | [resource, ref name @ ..] => (resource, name),
        [] => ("", &[][..]),
    };
    let known = USUAL.into_iter().find(|(known, _)| *known == resource);
    let resource = known.map_or("other", |(resource, _)| resource);
    let verb = match *request.method() {
        Method::GET if is_watch(request) => "watch",
        Method::GET if name.is_empty() => "list",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    };
    (verb, resource)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use kube::{
        Api,
        api::{ListParams, WatchParams},
    };
    use rstest::rstest;
    use testkit::{Match, Server};
    use tokio::time::timeout;

    use super::*;

    #[rstest]
    #[case("GET", "/api/v1/pods?limit=500", "list", "pods")]
    #[case("GET", "/api/v1/pods?limit=5&watch=true", "watch", "pods")]
    #[case("GET", "/api/v1/namespaces/a/pods", "list", "pods")]
    #[case("GET", "/api/v1/namespaces/a/pods/b", "get", "pods")]
    #[case("GET", "/api/v1/nodes/watch=true", "get", "nodes")]
    #[case(
        "PATCH",
        "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/a/ippools/b?fieldManager=x",
        "patch",
        "ippools"
    )]
    #[case(
        "POST",
        "/apis/events.k8s.io/v1/namespaces/a/events",
        "create",
        "events"
    )]
    #[case(
        "PUT",
        "/apis/coordination.k8s.io/v1/namespaces/a/leases/b",
        "update",
        "leases"
    )]
    #[case("DELETE", "/apis/g/v1/namespaces/pods/secrets/pods", "delete", "other")]
    #[case("GET", "/version", "list", "other")]
    #[case("GET", "/", "list", "other")]
    #[case("BREW", "/api/v1/pods", "other", "pods")]
    fn labels_are_what_the_path_says_and_never_a_name(
        #[case] method: &str,
        #[case] path: &str,
        #[case] verb: &str,
        #[case] resource: &str,
    ) {
        let request = Request::builder().method(method).uri(path).body(());
        assert_eq!(kind_of(&request.unwrap()), (verb, resource));
    }

    fn count(requests: &Requests, verb: &'static str, code: &'static str) -> Option<u64> {
        let labels = labels((verb, "pods"), code.into());
        requests.get(&labels).map(|count| count.get())
    }

    #[tokio::test(start_paused = true)]
    async fn every_answer_counts_by_its_code_and_so_does_none() {
        let server = Server::new();
        let counters = seeded();
        let pods: Api<Pod> = Api::all(counted(server.client(), &counters));
        assert_eq!(count(&counters, "list", "200"), Some(0), "seeded");
        pods.list(&ListParams::default()).await.unwrap();
        drop(pods.watch(&WatchParams::default(), "0").await.unwrap());
        server.on(Match::list("pods")).once().fail(503);
        pods.list(&ListParams::default()).await.unwrap_err();
        server.on(Match::list("pods")).once().disconnect();
        pods.list(&ListParams::default()).await.unwrap_err();
        server.on(Match::list("pods")).once().hang();
        let all = ListParams::default();
        timeout(Duration::from_secs(9), pods.list(&all))
            .await
            .unwrap_err();
        let counts = ["200", "503", "error"].map(|code| count(&counters, "list", code));
        assert_eq!(counts, [Some(1), Some(1), Some(2)]);
        assert_eq!(count(&counters, "watch", "200"), Some(1));
    }
}
