//! The admin server over loopback: its answers, and that no client keeps it from answering others.

use std::{collections::HashMap, net::SocketAddr, time::Instant};

use crate::prelude::*;
use ipgc::{admin::Admin, run::Collector};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// An answer, taken apart.
struct Answer {
    code: u16,
    headers: HashMap<String, String>,
    body: String,
}

/// Sends bytes, and reads until the server closes.
async fn send(address: SocketAddr, bytes: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(30), stream.read_to_string(&mut answer))
        .await
        .expect("the server keeps the connection")
        .unwrap();
    answer
}

async fn ask(address: SocketAddr, method: &str, path: &str) -> Answer {
    let request = format!("{method} {path} HTTP/1.1\r\nHost: ipgc\r\n\r\n");
    let answer = send(address, &request).await;
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    let mut lines = head.lines();
    let code = lines.next().unwrap().split(' ').nth(1).unwrap();
    let headers = lines.map(|line| {
        let (name, value) = line.split_once(": ").unwrap();
        (name.to_lowercase(), value.to_owned())
    });
    Answer {
        code: code.parse().unwrap(),
        headers: headers.collect(),
        body: body.to_owned(),
    }
}

fn collector(server: &Server) -> Collector {
    let client = server.client();
    Collector::new(client.clone(), client, Config::default())
}

async fn admin(collector: &Collector) -> Admin {
    let started = Admin::start(ANY_PORT, collector.context.clone());
    started.await.unwrap()
}

/// The address of one beside a collector that does not run.
async fn idle() -> Admin {
    admin(&collector(&server())).await
}

/// Asks until this code comes.
async fn wait_for(address: SocketAddr, path: &str, code: u16) -> Answer {
    let begun = Instant::now();
    loop {
        let answer = ask(address, "GET", path).await;
        if answer.code == code {
            return answer;
        }
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{path}: {}",
            answer.body
        );
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn it_answers_from_the_start_and_is_ready_when_every_cache_is_complete() {
    let server = running(&[(1, "web-0")]);
    let collector = collector(&server);
    let admin = admin(&collector).await;
    let at = admin.address();
    assert_eq!(ask(at, "GET", "/livez").await.code, 200);
    let before = ask(at, "GET", "/readyz").await;
    assert_eq!(before.code, 503);
    assert!(before.body.starts_with("not started"), "{}", before.body);
    let blocked = server.on(Match::list(NADS)).fail(503);
    let running = collector.start();
    sleep(Duration::from_millis(500)).await;
    let starting = ask(at, "GET", "/readyz").await;
    assert_eq!(starting.code, 503);
    let missing = "no complete list or no watch of network-attachment-definitions\n";
    assert_eq!(starting.body, missing);
    blocked.remove();
    let ready = wait_for(at, "/readyz", 200).await;
    assert_eq!(ready.body, "ok\n");
    running.stop();
    running.done().await.unwrap();
    let ended = ask(at, "GET", "/readyz").await;
    assert_eq!((ended.code, &*ended.body), (503, "the run has ended\n"));
}

#[tokio::test]
async fn it_is_not_ready_while_writing_is_not_allowed() {
    let server = running(&[(1, "web-0")]);
    let denied = server.on(Match::patch("ippools"));
    let _denied = denied.fail(403);
    let collector = collector(&server);
    let admin = admin(&collector).await;
    let running = Alive(Some(collector.start()));
    wait_for(admin.address(), "/readyz", 200).await;
    // Once a row has been seen, so that its pod's end is settled.
    while running.context.counters.sweeps_ended.get() == 0 {
        sleep(Duration::from_millis(20)).await;
    }
    end_pod(&server, NS, "web-0");
    // A pod with its own end frees after the cooldown, but one from before the start waits for W: a list of
    // pools that is refused is told as well.
    let _pools = server.on(Match::list("ippools")).fail(403);
    server.on(Match::watch("pods")).once().fail(410);
    server.cut_watches("pods");
    let answer = wait_for(admin.address(), "/readyz", 503).await;
    let refused = "the API server does not allow us to list pools\n";
    assert_eq!(answer.body, refused);
    assert_eq!(ask(admin.address(), "GET", "/livez").await.code, 200);
}

#[tokio::test]
async fn metrics_are_openmetrics() {
    let server = running(&[(1, "web-0")]);
    let collector = collector(&server);
    let admin = admin(&collector).await;
    let running = Alive(Some(collector.start()));
    while running.context.sweeps.borrow().ended_at.is_none() {
        sleep(Duration::from_millis(20)).await;
    }
    let answer = ask(admin.address(), "GET", "/metrics").await;
    assert_eq!(answer.code, 200);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(answer.headers["content-type"], kind);
    let scrape = Scrape::parse(&answer.body);
    assert_eq!(scrape.rows("live"), Some(1.0));
}

#[rstest]
#[case("GET", "/livez", 200)]
#[case("HEAD", "/livez", 200)]
#[case("HEAD", "/metrics", 200)]
#[case("GET", "/livez?verbose", 200)]
#[case("POST", "/livez", 405)]
#[case("DELETE", "/metrics", 405)]
#[case("OPTIONS", "/readyz", 405)]
#[case("GET", "/", 404)]
#[case("GET", "/metrics/", 404)]
#[case("POST", "/debug", 404)]
#[case("GET", "/../metrics", 404)]
#[tokio::test]
async fn only_reads_of_three_pages(#[case] method: &str, #[case] path: &str, #[case] code: u16) {
    let admin = idle().await;
    let answer = ask(admin.address(), method, path).await;
    assert_eq!(answer.code, code);
    assert_eq!(
        answer.headers.get("allow").map(String::as_str),
        (code == 405).then_some("GET, HEAD")
    );
    assert_eq!(answer.headers["connection"], "close");
    assert_eq!(answer.body.is_empty(), method == "HEAD");
    if method == "HEAD" {
        assert!(answer.headers["content-length"].parse::<usize>().unwrap() > 0);
    }
}

#[rstest]
#[case::no_http("hello\r\n\r\n")]
#[case::endless_head(&format!("GET /livez HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000)))]
#[tokio::test]
async fn nonsense_is_refused_and_the_next_is_served(#[case] bytes: &str) {
    let admin = idle().await;
    let mut stream = TcpStream::connect(admin.address()).await.unwrap();
    // The server may close while we still write.
    let _ = stream.write_all(bytes.as_bytes()).await;
    let mut answer = Vec::new();
    let read = timeout(Duration::from_secs(5), stream.read_to_end(&mut answer));
    let _ = read.await.expect("the server keeps the connection");
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 4"),
        "{answer}"
    );
    assert_eq!(ask(admin.address(), "GET", "/livez").await.code, 200);
}

/// More clients than there are connections, none of which says what it wants: a probe is answered all the
/// same, within the time that a kubelet is allowed to fail.
#[tokio::test]
async fn clients_that_say_nothing_keep_nobody_waiting_for_long() {
    let admin = idle().await;
    let mut silent = Vec::new();
    for number in 0..40 {
        let mut stream = TcpStream::connect(admin.address()).await.unwrap();
        if number % 2 == 0 {
            stream
                .write_all(b"GET /livez HTTP/1.1\r\nHo")
                .await
                .unwrap();
        }
        silent.push(stream);
    }
    sleep(Duration::from_millis(200)).await;
    let begun = Instant::now();
    assert_eq!(ask(admin.address(), "GET", "/livez").await.code, 200);
    let waited = begun.elapsed();
    assert!(
        waited > Duration::from_secs(1),
        "there were connections left: {waited:?}"
    );
    assert!(waited < Duration::from_secs(9), "{waited:?}");
    for mut stream in silent {
        let mut answer = Vec::new();
        let end = timeout(Duration::from_secs(10), stream.read_to_end(&mut answer));
        let _ = end.await.expect("a silent client is kept");
    }
}

#[tokio::test]
async fn it_ends_with_its_owner() {
    let admin = idle().await;
    let at = admin.address();
    drop(admin);
    for _ in 0..100 {
        if TcpStream::connect(at).await.is_err() {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("it still listens");
}
