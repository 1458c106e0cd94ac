//! Lists and watches of pods in protobuf, as they come from a server: whole, in pieces, broken, and
//! from a server that has none. That its fields are what a real server sends is shown there
//! (`e2e/tests/protobuf.rs`).
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::{
    net::IpAddr,
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::{
    Request, Response,
    header::{ACCEPT, CONTENT_LENGTH, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, StreamBody};
use ipgc::{
    core::pod::{ContainerState, wire::ANNOTATIONS},
    watch::{LeanPod, protobuf},
};
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
    client::{Body, ClientBuilder},
};
use proptest::prelude::*;
use serde_json::Value;
use tower::service_fn;

const WHOLE: &str = "application/vnd.kubernetes.protobuf";
const WATCH: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// A client whose server gives this answer to all, in pieces of so many bytes; and what the server
/// was asked to answer in.
fn answering(
    form: &'static str,
    answer: Vec<u8>,
    piece: usize,
) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let send = service_fn(move |request: Request<Body>| {
        let accept = request.headers().get(ACCEPT);
        let accept = accept.map_or("", |accept| accept.to_str().unwrap());
        seen.lock().unwrap().push(accept.to_owned());
        let pieces: Vec<_> = answer.chunks(piece).map(<[u8]>::to_vec).collect();
        let pieces = stream::iter(pieces).map(|piece| Ok(http_body::Frame::data(piece.into())));
        let body =
            StreamBody::new(pieces.map(|piece: Result<_, kube::Error>| piece)).boxed_unsync();
        let response = Response::builder()
            .header(CONTENT_TYPE, form)
            .header(CONTENT_LENGTH, answer.len())
            .body(body);
        std::future::ready(Ok::<_, kube::Error>(response.unwrap()))
    });
    (
        protobuf::speak(ClientBuilder::new(send, "default").build()),
        asked,
    )
}

/// A field that holds bytes.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut length = bytes.len();
    let mut field = vec![number << 3 | 2];
    while length >= 0x80 {
        field.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    field.push(u8::try_from(length).unwrap());
    field.extend(bytes);
    field
}

fn envelope(kind: &str, message: &[u8]) -> Vec<u8> {
    let types = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), field(1, &types), field(2, message)].concat()
}

fn pod(name: &str, node: &str) -> Vec<u8> {
    let annotation = [field(1, b"k8s.v1.cni.cncf.io/networks"), field(2, b"net-a")].concat();
    let metadata = [
        field(1, name.as_bytes()),
        field(3, b"d"),
        field(5, b"u1"),
        field(6, b"7"),
        field(12, &annotation),
        // Managed fields, of which nothing is read, not even whether they are what they should be.
        field(15, &[0xff; 150]),
    ];
    let ended = field(3, &field(5, &[1 << 3, 5]));
    let container = [field(1, b"main"), field(2, &ended)].concat();
    let condition = [field(1, b"PodReadyToStartContainers"), field(2, b"False")].concat();
    let status = [
        field(1, b"Running"),
        field(2, &condition),
        field(8, &container),
    ];
    [
        field(1, &metadata.concat()),
        field(2, &field(10, node.as_bytes())),
        field(3, &status.concat()),
    ]
    .concat()
}

fn list(pods: &[Vec<u8>]) -> Vec<u8> {
    let items = pods.iter().flat_map(|pod| field(2, pod));
    let metadata = [field(2, b"9"), field(3, b"more")].concat();
    let list: Vec<u8> = field(1, &metadata).into_iter().chain(items).collect();
    envelope("PodList", &list)
}

fn event(kind: &str, object: &[u8]) -> Vec<u8> {
    let event = [field(1, kind.as_bytes()), field(2, &field(1, object))].concat();
    let length = u32::try_from(event.len()).unwrap().to_be_bytes();
    [length.to_vec(), event].concat()
}

fn broken_event() -> Vec<u8> {
    let event = event("ADDED", &envelope("Pod", &pod("broken", "n")));
    [event[..8].to_vec(), vec![0xff; event.len() - 8]].concat()
}

async fn names(client: Client) -> Vec<Result<String, String>> {
    let api: Api<LeanPod> = Api::all(client);
    let watch = api.watch(&WatchParams::default(), "7").await.unwrap();
    let names = watch.map(|event| match event {
        Ok(WatchEvent::Added(pod)) => Ok(pod.into_state().unwrap().podref.name().to_owned()),
        Ok(WatchEvent::Bookmark(mark)) => Ok(mark.metadata.resource_version),
        Ok(WatchEvent::Error(status)) => Ok(status.code.to_string()),
        Ok(other) => Err(format!("{other:?}")),
        Err(error) => Err(error.to_string()),
    });
    names.collect().await
}

#[tokio::test]
async fn a_list_is_read() {
    let answer = list(&[pod("a", "n1"), pod("b", "")]);
    let (client, asked) = answering(WHOLE, answer, 100);
    let api: Api<LeanPod> = Api::all(client);
    let page = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(page.metadata.continue_.as_deref(), Some("more"));
    let states = page.items.into_iter().map(|pod| pod.into_state().unwrap());
    let states: Vec<_> = states.collect();
    assert_eq!(states.len(), 2);
    assert_eq!(states[0].podref.as_str(), "d/a");
    assert_eq!(states[0].node.as_deref(), Some("n1"));
    assert_eq!(&*states[0].request.networks()[0].network, "d/net-a");
    assert_eq!(states[1].node, None);
    assert_eq!(states[1].sandbox_ready, Some(false));
    assert!(matches!(
        states[1].containers[0].state,
        ContainerState::Terminated { started: true }
    ));
    assert_eq!(
        *asked.lock().unwrap(),
        [format!("{WHOLE},application/json")]
    );
}

/// A pod with these annotations and these conditions.
fn pod_that_says(annotations: &[(&str, &str)], conditions: &[(&str, &str)]) -> Vec<u8> {
    let pair = |number, (a, b): &(&str, &str)| {
        let pair = [field(1, a.as_bytes()), field(2, b.as_bytes())].concat();
        field(number, &pair)
    };
    let named = [field(1, b"a"), field(3, b"d"), field(5, b"u1")].concat();
    let annotations = annotations.iter().flat_map(|it| pair(12, it));
    let metadata: Vec<u8> = named.into_iter().chain(annotations).collect();
    let conditions: Vec<u8> = conditions.iter().flat_map(|it| pair(2, it)).collect();
    [field(1, &metadata), field(3, &conditions)].concat()
}

#[tokio::test]
async fn of_annotations_and_conditions_those_come_through_that_count() {
    let reported = "[{\n    \"name\": \"d/net-a\",\n    \"interface\": \"net1\",\n    \"ips\": [\"10.0.0.1\"]\n}]";
    let annotations = [
        ("prometheus.io/scrape", "true"),
        ("k8s.v1.cni.cncf.io/network-status", reported),
        ("k8s.v1.cni.cncf.io/networks", "net-a"),
        ("v1.multus-cni.io/default-network", "kube-system/default"),
        ("kubernetes.io/config.mirror", "0123"),
        ("a", "b"),
    ];
    let conditions = [
        ("Initialized", "True"),
        ("PodReadyToStartContainers", "False"),
        ("Ready", "True"),
    ];
    let said = pod_that_says(&annotations, &conditions);
    let (client, _) = answering(WHOLE, list(&[said, pod_that_says(&[], &[])]), 100);
    let all = Request::get("/api/v1/pods").body(Vec::new()).unwrap();
    let json: Value = client.request(all).await.unwrap();
    let first = &json["items"][0];
    let come_through = first["metadata"]["annotations"].as_object().unwrap();
    let mut wanted = ANNOTATIONS;
    wanted.sort_unstable();
    assert_eq!(come_through.keys().collect::<Vec<_>>(), wanted);
    assert_eq!(first["status"]["conditions"].as_array().unwrap().len(), 1);
    assert!(!json["items"].to_string().contains("null"), "{json}");
    let api: Api<LeanPod> = Api::all(client);
    let page = api.list(&ListParams::default()).await.unwrap();
    let states = page.items.into_iter().map(|pod| pod.into_state().unwrap());
    let [said, silent] = &states.collect::<Vec<_>>()[..] else {
        panic!("two pods");
    };
    let entries = said.status.entries();
    let address: IpAddr = "10.0.0.1".parse().unwrap();
    assert_eq!(*entries[0].addresses, [address]);
    assert_eq!(&*said.request.networks()[0].network, "d/net-a");
    assert_eq!(said.default_network.as_deref(), Some("kube-system/default"));
    assert!(said.mirror && !silent.mirror);
    assert_eq!(
        (said.sandbox_ready, silent.sandbox_ready),
        (Some(false), None)
    );
    assert!(silent.status.entries().is_empty());
    assert_eq!(silent.default_network, None);
}

#[tokio::test]
async fn a_list_is_read_however_it_is_cut_and_never_half() {
    let pods = [pod("a", "n"), pod(&"b".repeat(200), "n"), pod("c", "")];
    // Behind a list Kubernetes tells how it is coded.
    let answer = [list(&pods), field(3, b""), field(4, b"")].concat();
    let names_of = async |answer: &[u8], piece| {
        let (client, _) = answering(WHOLE, answer.to_vec(), piece);
        let api: Api<LeanPod> = Api::all(client);
        let page = api.list(&ListParams::default()).await.ok()?;
        assert_eq!(page.metadata.resource_version.as_deref(), Some("9"));
        let states = page.items.into_iter().map(|pod| pod.into_state().unwrap());
        Some(states.map(|state| state.podref.name().to_owned()).collect())
    };
    let expected: Vec<String> = vec!["a".into(), "b".repeat(200), "c".into()];
    for piece in (1..40).chain([answer.len() - 1, answer.len()]) {
        let names = names_of(&answer, piece).await;
        assert_eq!(names.as_ref(), Some(&expected), "pieces of {piece}");
    }
    let list_ends = answer.len() - 4;
    for end in (0..list_ends).chain([list_ends + 1, list_ends + 3]) {
        for piece in [1, 7, answer.len()] {
            assert_eq!(names_of(&answer[..end], piece).await, None, "{end} bytes");
        }
    }
}

#[tokio::test]
async fn a_watch_is_read_however_it_is_cut() {
    let bookmark = envelope("Pod", &field(1, &field(6, b"99")));
    let gone = [
        field(2, b"Failure"),
        field(3, b"too old"),
        field(4, b"Expired"),
        vec![6 << 3, 0x9a, 0x03],
    ]
    .concat();
    let answer = [
        event("ADDED", &envelope("Pod", &pod("a", "n"))),
        event("BOOKMARK", &bookmark),
        event("ADDED", &envelope("Pod", &pod("b", "n"))),
        event("ERROR", &envelope("Status", &gone)),
    ]
    .concat();
    let expected = ["a", "99", "b", "410"].map(|name| Ok(name.to_owned()));
    for piece in (1..40).chain([answer.len() - 1, answer.len()]) {
        let (client, _) = answering(WATCH, answer.clone(), piece);
        assert_eq!(names(client).await, expected, "pieces of {piece}");
    }
    // Somebody between dropped the parameter of the form.
    let (client, _) = answering(WHOLE, answer, 100);
    assert_eq!(names(client).await, expected);
}

#[tokio::test]
async fn what_cannot_be_read_fails_and_is_asked_for_as_json_from_then_on() {
    let broken = [
        (WHOLE, Vec::new()),
        (WHOLE, b"k8s\0".to_vec()),
        (WHOLE, b"{}".to_vec()),
        (WHOLE, envelope("Node", &[])),
        (WHOLE, list(&[vec![0xff; 20]])),
        (WHOLE, envelope("PodList", &field(3, b"no pod"))),
        (WHOLE, [list(&[]), vec![0xff]].concat()),
        (WHOLE, {
            let mut cut = list(&[pod("a", "n")]);
            cut.pop();
            cut
        }),
        (
            WHOLE,
            list(&[pod("\u{1f980}", "n")])
                .into_iter()
                .map(|byte| if byte == 0xf0 { 0xff } else { byte })
                .collect(),
        ),
    ];
    for (form, answer) in broken {
        let (client, asked) = answering(form, answer.clone(), 1000);
        let api: Api<LeanPod> = Api::all(client);
        for _ in 0..2 {
            let list = api.list(&ListParams::default()).await;
            assert!(list.is_err(), "{answer:?}");
        }
        assert_eq!(asked.lock().unwrap()[1], "", "{answer:?}");
    }
    let first = event("ADDED", &envelope("Pod", &pod("a", "n")));
    for wrong in [
        broken_event(),
        vec![0xff; 9],
        event("ADDED", b"{}"),
        event("ADDED", &list(&[])),
    ] {
        let answer = [first.clone(), wrong].concat();
        let (client, asked) = answering(WATCH, answer, 10);
        let told = names(client.clone()).await;
        assert_eq!(told[0], Ok("a".to_owned()));
        assert!(told[1..].iter().any(Result::is_err), "{told:?}");
        names(client).await;
        assert_eq!(asked.lock().unwrap()[1], "");
    }
}

#[tokio::test]
async fn a_server_without_protobuf_is_read_as_it_is() {
    let page = br#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[{"metadata":{"name":"a","namespace":"d","uid":"u"}}]}"#;
    let (client, _) = answering("application/json", page.to_vec(), 10);
    let api: Api<LeanPod> = Api::all(client);
    let page = api.list(&ListParams::default()).await.unwrap();
    assert_eq!(page.items.len(), 1);
    let line = b"{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"a\",\"namespace\":\"d\",\"uid\":\"u\"}}}\n";
    let (client, _) = answering("application/json;stream=watch", line.to_vec(), 10);
    assert_eq!(names(client).await, [Ok("a".to_owned())]);
}

proptest! {
    #[test]
    fn no_bytes_panic(noise: Vec<u8>, at: usize, changed: u8) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut bent = list(&[pod("a", "n1"), pod("b", "n2")]);
        let place = at % bent.len();
        bent[place] = changed;
        let mut bent_event = event("MODIFIED", &envelope("Pod", &pod("a", "n1")));
        let place = at % bent_event.len();
        bent_event[place] = changed;
        runtime.block_on(async {
            for answer in [noise.clone(), [b"k8s\0".to_vec(), noise.clone()].concat(), bent] {
                let (client, _) = answering(WHOLE, answer, 1000);
                let api: Api<LeanPod> = Api::all(client);
                for pod in api.list(&ListParams::default()).await.into_iter().flatten() {
                    let _ = pod.into_state();
                }
            }
            for answer in [noise, bent_event] {
                let (client, _) = answering(WATCH, answer, 100);
                let api: Api<LeanPod> = Api::all(client);
                let watch = api.watch(&WatchParams::default(), "7").await.unwrap();
                let _: Result<Vec<_>, _> = watch.try_collect().await;
            }
        });
    }
}
