//! `ipgc watch`: what there is, then what changes.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
    time::Duration,
};

use ipgc::{audit::table::Output, cli::watch::Watch};
use rstest::rstest;
use testkit::Verb;
use tokio::time::sleep;

use super::*;

/// Text that a test reads while it grows.
#[derive(Clone, Default)]
pub(super) struct Text(Arc<Mutex<Vec<u8>>>);

impl Text {
    /// All of it, once.
    pub(super) fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut self.0.lock().unwrap())).unwrap()
    }

    fn messages(&self) -> Vec<Value> {
        let text = self.take();
        let lines = text.lines();
        lines
            .map(|line| {
                schema::WATCH.check_text(line);
                serde_json::from_str(line).unwrap()
            })
            .collect()
    }
}

impl Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The output of a watch, and its complaints.
#[derive(Clone, Default)]
pub(super) struct Heard {
    pub(super) output: Text,
    pub(super) complaints: Text,
}

impl Heard {
    /// The messages of the next look, each as event, verdict before, verdict and address.
    pub(super) async fn next(&self) -> Vec<String> {
        sleep(LOOK).await;
        self.so_far()
    }

    pub(super) fn so_far(&self) -> Vec<String> {
        self.output.messages().iter().map(brief).collect()
    }
}

/// A little longer than the interval.
pub(super) const LOOK: Duration = Duration::from_millis(10_100);

fn brief(message: &Value) -> String {
    let text = |field: &str| {
        let value = message.pointer(field).and_then(Value::as_str);
        value.unwrap_or("-").to_owned()
    };
    if message["event"] == "synced" {
        return text("/event");
    }
    let pods = message["pods"].as_array().into_iter().flatten();
    let pods: Vec<_> = pods.filter_map(Value::as_str).collect();
    format!(
        "{} {}>{} {} {} {}",
        text("/event"),
        text("/was/verdict"),
        text("/verdict"),
        text("/address"),
        pods.join(","),
        text("/node")
    )
}

pub(super) fn watch() -> Watch {
    Watch {
        policy: Policy::default(),
        interval: Duration::from_secs(10),
        all: false,
        output: Output::Json,
        filter: Filter::default(),
    }
}

/// Watches a server while something happens there.
pub(super) async fn during(server: &Server, watch: &Watch, act: impl AsyncFnOnce(Heard)) {
    let heard = Heard::default();
    let scan = Scan {
        selector: watch.filter.selector.clone(),
        ..Scan::default()
    };
    let (mut output, mut complaints) = (heard.output.clone(), heard.complaints.clone());
    let client = ipgc::guard::read_only(server.client_named("ipgc"));
    tokio::select! {
        result = watch.run(client, scan, &mut output, &mut complaints) => panic!("{result:?}"),
        () = async {
            sleep(Duration::from_millis(100)).await;
            act(heard).await;
        } => {}
    }
    let requests = server.requests();
    let mut of_objects = requests.iter().filter(|r| is_of_objects(&r.path));
    assert!(
        of_objects.all(|r| r.verb == Verb::List && r.is_quorum_read()),
        "{requests}"
    );
}

/// Two pods that live with their rows, and the row of a pod that is gone.
pub(super) fn pair() -> Server {
    let server = server();
    put_pool(
        &server,
        &[
            (1, "default/web-1"),
            (2, "default/web-2"),
            (9, "default/gone"),
        ],
    );
    server.put(pod("web-1", 1).label("app", "web"));
    server.put(pod("web-2", 2).label("app", "db"));
    server
}

const GONE: &str = "present ->stale 10.0.0.9 default/gone -";

/// CNI DEL, as late as it may be.
pub(super) fn free(server: &Server, offset: u64) {
    server.edit("ippools", NS, POOL, |pool| {
        let rows = pool["spec"]["allocations"].as_object_mut().unwrap();
        rows.remove(&offset.to_string()).unwrap();
    });
    let address = format!("10.0.0.{offset}");
    let _ = server.delete("overlappingrangeipreservations", NS, &address);
}

fn give(server: &Server, offset: u64, podref: &str) {
    server.edit("ippools", NS, POOL, |pool| {
        pool["spec"]["allocations"][offset.to_string()] =
            fixtures::row(&fixtures::sandbox(offset + 100), podref, "net1");
    });
    let address = format!("10.0.0.{offset}");
    reserve(server, &address, podref);
}

#[tokio::test(start_paused = true)]
async fn first_comes_what_there_is_and_then_what_changes() {
    let server = pair();
    during(&server, &watch(), async |heard| {
        assert_eq!(heard.so_far(), [GONE, "synced"]);
        assert_eq!(heard.next().await, [""; 0]);
        server.delete("pods", NS, "web-1").unwrap();
        let stale = "changed live>stale 10.0.0.1 default/web-1 n1";
        assert_eq!(heard.next().await, [stale]);
        assert_eq!(heard.next().await, [""; 0]);
        // The message about a row that is gone names its pod and its node, though no object names them any more.
        free(&server, 1);
        let gone = "gone stale>- 10.0.0.1 default/web-1 n1";
        assert_eq!(heard.next().await, [gone]);
        // A row that comes and goes with its pod is no news.
        give(&server, 3, "default/web-3");
        server.put(pod("web-3", 3));
        assert_eq!(heard.next().await, [""; 0]);
        server.delete("pods", NS, "web-3").unwrap();
        free(&server, 3);
        assert_eq!(heard.next().await, [""; 0]);
        assert_eq!(heard.complaints.take(), "");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_rows_are_told_of_if_wanted() {
    let server = pair();
    let watch = Watch {
        all: true,
        ..watch()
    };
    during(&server, &watch, async |heard| {
        let live = |n| format!("present ->live 10.0.0.{n} default/web-{n} n1");
        assert_eq!(heard.so_far(), [GONE, &live(1), &live(2), "synced"]);
        give(&server, 3, "default/web-3");
        server.put(pod("web-3", 3));
        assert_eq!(
            heard.next().await,
            ["appeared ->live 10.0.0.3 default/web-3 n1"]
        );
        server.delete("pods", NS, "web-3").unwrap();
        free(&server, 3);
        assert_eq!(
            heard.next().await,
            ["gone live>- 10.0.0.3 default/web-3 n1"]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_changed_is_told_with_the_former_one() {
    let server = pair();
    during(
        &server,
        &Watch {
            all: true,
            ..watch()
        },
        async |heard| {
            heard.so_far();
            server.delete("pods", NS, "web-1").unwrap();
            free(&server, 1);
            give(&server, 1, "default/web-3");
            server.put(pod("web-3", 1).node("n1"));
            sleep(LOOK).await;
            let messages = heard.output.messages();
            assert_eq!(messages.len(), 1, "{messages:?}");
            let was = &messages[0]["was"];
            assert_eq!(
                brief(&messages[0]),
                "changed live>live 10.0.0.1 default/web-3 n1"
            );
            assert_eq!(
                (&was["pods"], &was["node"]),
                (&json!(["default/web-1"]), &json!("n1"))
            );
        },
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_was_gone_and_is_back_is_new() {
    let server = pair();
    let watch = Watch {
        all: true,
        ..watch()
    };
    during(&server, &watch, async |heard| {
        heard.so_far();
        server.delete("pods", NS, "web-1").unwrap();
        assert_eq!(heard.next().await.len(), 1);
        free(&server, 1);
        assert_eq!(heard.next().await.len(), 1);
        // An ADD that was under way all the time.
        give(&server, 1, "default/web-1");
        sleep(LOOK).await;
        let messages = heard.output.messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert_eq!(messages[0]["event"], "appeared");
        assert!(messages[0].get("was").is_none(), "{messages:?}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn labels_are_known_of_who_is_gone() {
    let server = pair();
    let selector = ipgc::snapshot::labels::parse("app=web").unwrap();
    let mut watch = watch();
    watch.filter.selector = Some(selector);
    during(&server, &watch, async |heard| {
        // The row of one that has been gone from the start is of nobody who is asked for.
        assert_eq!(heard.so_far(), ["synced"]);
        server.delete("pods", NS, "web-1").unwrap();
        server.delete("pods", NS, "web-2").unwrap();
        assert_eq!(
            heard.next().await,
            ["changed live>stale 10.0.0.1 default/web-1 n1"]
        );
        sleep(Duration::from_mins(20)).await;
        assert_eq!(heard.so_far(), [""; 0]);
        free(&server, 1);
        free(&server, 2);
        assert_eq!(
            heard.next().await,
            ["gone stale>- 10.0.0.1 default/web-1 n1"]
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_a_selector_no_longer_chooses_is_not_gone() {
    let server = pair();
    let mut watch = Watch {
        all: true,
        ..watch()
    };
    watch.filter.selector = Some(ipgc::snapshot::labels::parse("app=web").unwrap());
    during(&server, &watch, async |heard| {
        let present = "present ->live 10.0.0.1 default/web-1 n1";
        assert_eq!(heard.so_far(), [present, "synced"]);
        server.edit("pods", NS, "web-1", |pod| {
            pod["metadata"]["labels"]["app"] = json!("db");
        });
        let changed = "changed live>live 10.0.0.1 default/web-1 n1";
        assert_eq!(heard.next().await, [changed]);
        server.delete("pods", NS, "web-1").unwrap();
        assert_eq!(heard.next().await, [""; 0]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_a_silent_node_holds_is_told_with_the_node_of_its_pod() {
    let server = pair();
    server.put(fixtures::node("n2", true));
    server.put(pod("web-4", 4).node("n2"));
    give(&server, 4, "default/web-4");
    during(&server, &watch(), async |heard| {
        assert_eq!(heard.so_far(), [GONE, "synced"]);
        server.put(fixtures::node("n1", false));
        let held = "changed stale>held-unfenced 10.0.0.9 default/gone -";
        assert_eq!(heard.next().await, [held]);
        server.delete("pods", NS, "web-4").unwrap();
        sleep(LOOK).await;
        let messages = heard.output.messages();
        assert_eq!(messages.len(), 1, "{messages:?}");
        // Nobody saw it end, so any silent node may run it; n2 is where it was.
        let line = &messages[0];
        assert_eq!(
            (&line["event"], &line["node"]),
            (&json!("changed"), &json!("n2"))
        );
        assert_eq!(
            (&line["problem"], &line["nodes"]),
            (&json!("held-unfenced"), &json!(["n1"]))
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_was_is_the_whole_line_before() {
    let server = pair();
    during(&server, &watch(), async |heard| {
        let first = heard.output.messages();
        server.put(fixtures::node("n2", false));
        sleep(LOOK).await;
        let mut was = heard.output.messages()[0]["was"].take();
        assert_eq!(
            (&was["verdict"], &was["grade"], &was["cause"], &was["pods"]),
            (
                &json!("stale"),
                &json!("unwitnessed"),
                &json!("deleted"),
                &json!(["default/gone"])
            )
        );
        was["event"] = json!("present");
        assert_eq!(was, first[0]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_successor_has_a_node_of_its_own() {
    let server = pair();
    let all = Watch {
        all: true,
        ..watch()
    };
    during(&server, &all, async |heard| {
        heard.so_far();
        server.delete("pods", NS, "web-1").unwrap();
        assert_eq!(heard.next().await.len(), 1);
        server.put(fixtures::pod(NS, "web-1").networks("default/net"));
        let young = "changed stale>unreported 10.0.0.1 default/web-1 -";
        assert_eq!(heard.next().await, [young]);
    })
    .await;
}

#[rstest]
#[case::node(Filter { node: Some("n1".to_owned()), ..Filter::default() }, &["changed live>stale 10.0.0.1 default/web-1 n1"])]
#[case::other_node(Filter { node: Some("n2".to_owned()), ..Filter::default() }, &[])]
#[case::pool(Filter { pool: Some(POOL.to_owned()), ..Filter::default() }, &["changed live>stale 10.0.0.1 default/web-1 n1"])]
#[case::other_pool(Filter { pool: Some("10.1.0.0-24".to_owned()), ..Filter::default() }, &[])]
#[case::namespace(Filter { namespace: Some(NS.to_owned()), ..Filter::default() }, &["changed live>stale 10.0.0.1 default/web-1 n1"])]
#[case::other_namespace(Filter { namespace: Some("kube-system".to_owned()), ..Filter::default() }, &[])]
#[tokio::test(start_paused = true)]
async fn what_is_asked_for_is_told(#[case] filter: Filter, #[case] expected: &[&str]) {
    let server = pair();
    server.put(fixtures::node("n2", true));
    server.put(fixtures::pool(NS, "10.1.0.0/24"));
    during(&server, &Watch { filter, ..watch() }, async |heard| {
        heard.so_far();
        server.delete("pods", NS, "web-1").unwrap();
        assert_eq!(heard.next().await, expected);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_selector_may_choose_nobody_yet() {
    let server = pair();
    let selector = ipgc::snapshot::labels::parse("app=new").unwrap();
    let mut watch = watch();
    watch.filter.selector = Some(selector);
    during(&server, &watch, async |heard| {
        assert_eq!(
            heard.complaints.take(),
            "ipgc: the selector chooses no pod yet\n"
        );
        server.put(pod("new", 4).label("app", "new"));
        heard.so_far();
        let appeared = "appeared ->in-use-unallocated 10.0.0.4 default/new n1";
        assert_eq!(heard.next().await, [appeared]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_table_has_one_header_and_columns_that_line_up() {
    let server = pair();
    let watch = Watch {
        output: Output::Table,
        ..watch()
    };
    during(&server, &watch, async |heard| {
        server.delete("pods", NS, "web-1").unwrap();
        sleep(LOOK).await;
        free(&server, 1);
        sleep(LOOK).await;
        let text = heard.output.take();
        let lines: Vec<_> = text.lines().map(str::trim_end).collect();
        // Without the times.
        let cells = |line: &str| {
            let (before, _) = line.split_once("   its pod").unwrap_or((line, ""));
            before.split_once("   ").unwrap().1.trim_end().to_owned()
        };
        assert!(
            lines[0].starts_with("TIME                   EVENT"),
            "{text}"
        );
        assert_eq!(
            cells(lines[0]).trim_start(),
            "EVENT      WAS     FINDING   ADDRESS           POOL                   POD                    NODE         DETAIL"
        );
        assert_eq!(
            cells(lines[1]),
            "present    -       stale     10.0.0.9          default/10.0.0.0-24    default/gone           -"
        );
        assert_eq!(
            lines[2],
            "synced, 1 finding: 3 rows in 1 pool (2 live, 0 unreported, 1 stale, 0 unfenced, 0 unknown), \
             3 reservations, 4 pods, 1 node"
        );
        assert_eq!(
            cells(lines[3]),
            "changed    live    stale     10.0.0.1          default/10.0.0.0-24    default/web-1          n1"
        );
        assert_eq!(
            cells(lines[4]),
            "gone       stale   -         10.0.0.1          default/10.0.0.0-24    default/web-1          n1           the row is gone"
        );
        assert_eq!(lines.len(), 5);
    })
    .await;
}
