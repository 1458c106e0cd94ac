//! Reservations whose names can be read as those of several networks (docs/museum.md, exhibit 4.24). Each with one
//! that goes meanwhile, so that nothing passes by doing nothing.

use crate::prelude::*;

/// A server with `node-1` at work and the definition `default/f1` of network `f1`.
fn room() -> (Server, Beat) {
    let server = server();
    put_network(&server, "f1", "f1", "fd00::/64");
    let beat = live_node(&server, "node-1");
    (server, beat)
}

/// A pod that runs and reports this address of a definition.
fn put_user(server: &Server, definition: &str, address: &str) {
    server.put(on_net(definition, "user", address).running());
}

/// Just these are left, and stay.
async fn stay(bench: &Bench, names: &[&str]) {
    seconds(W + 1_200).await;
    assert_eq!(bench.reservations(), names);
    seconds(3_600).await;
    assert_eq!(bench.reservations(), names);
}

fn pool(name: &str, range: &str) -> Value {
    fixtures::pool(NS, range).name(name).build()
}

/// `fd00::1` of network f1 is in use by a pod that has no row. Only the reservation, whose own pod is gone, keeps
/// it from being given away; read as `f1:fd00::1` without a network, it would be nobody's. That of `fd00::2` goes.
#[rstest]
#[case::whose_pool_is_gone(&[])]
#[case::beside_another_of_the_network(&[("f1-fd01---64", "fd01::/64")])]
#[case::beside_one_without_a_name(&[("10.9.0.0-24", "10.9.0.0/24")])]
#[tokio::test(start_paused = true)]
async fn a_name_that_begins_like_an_address(#[case] pools: &[(&str, &str)]) {
    let (server, _beat) = room();
    for (name, range) in pools {
        server.put(pool(name, range));
    }
    put_user(&server, "f1", "fd00::1");
    reserve(&server, "f1-fd00--1", "gone");
    reserve(&server, "f1-fd00--2", "gone");
    let bench = Bench::start(server).await;
    stay(&bench, &["f1-fd00--1"]).await;
}

/// The row of a pod that is gone is held for another one, which reports its address. The reservation goes with the
/// row, though a pool without a network has a place for `f1:fd00::1`, and comes first.
#[tokio::test(start_paused = true)]
async fn a_name_that_two_networks_may_have() {
    let (server, _beat) = room();
    server.put(pool("f1---16", "f1::/16"));
    let row = fixtures::pool(NS, "fd00::/64").network_name("f1");
    let row = row.row_of(1, "default/gone");
    server.put(row);
    put_user(&server, "f1", "fd00::1");
    run_pod(&server, "other", 7);
    for name in ["f1-fd00--1", "f1-fd00--2", "10.0.0.9"] {
        reserve(&server, name, "gone");
    }
    let bench = Bench::start(server).await;
    // That of fd00::2, or of f1:fd00::2, has no row: nobody knows which it is, and it is shown.
    stay(&bench, &["f1-fd00--1", "f1-fd00--2"]).await;
}

/// Its own pod reports `fd00::1`, by a definition that has another network by now, and nothing tells of network f1 any
/// more. For each way to read the name, the pod reports an address that the reservation may be for.
#[tokio::test(start_paused = true)]
async fn a_name_of_an_address_that_its_pod_reports() {
    let (server, _beat) = room();
    server.delete(NADS, NS, "f1");
    put_network(&server, "edited", "f2", "fd02::/64");
    // Its range is in a file on the nodes, and may be any.
    let network = json!({ "type": "whereabouts" });
    server.put(fixtures::nad_with_ipam(NS, "any", &network));
    put_user(&server, "edited", "fd00::1");
    reserve(&server, "f1-fd00--1", "user");
    reserve(&server, "f1-fd00--2", "gone");
    let bench = Bench::start(server).await;
    stay(&bench, &["f1-fd00--1"]).await;
}

/// The row of an earlier sandbox of the pod is freed. Its reservation would have the same name as that of the address
/// which the pod uses without a network.
#[tokio::test(start_paused = true)]
async fn a_row_that_goes_does_not_take_another_ones_reservation() {
    let (server, _beat) = room();
    server.put(fixtures::nad(NS, "net6", "f1:fd00::/112"));
    let row = |pool: fixtures::PoolBuilder, sandbox| {
        pool.row(1, &fixtures::sandbox(sandbox), "default/user", "net1")
    };
    let left = fixtures::pool(NS, "fd00::/64").network_name("f1");
    server.put(row(left, 1));
    let own = fixtures::pool(NS, "f1:fd00::/112");
    server.put(row(own, 2));
    put_user(&server, "net6", "f1:fd00::1");
    reserve(&server, "f1-fd00--1", "user");
    let bench = Bench::start(server).await;
    // The leftover grace.
    seconds(600).await;
    bench.wait_rows("f1-fd00---64", &[]).await;
    bench.wait_rows("f1-fd00---112", &["1"]).await;
    seconds(600).await;
    assert_eq!(
        podref(&bench, "f1-fd00--1"),
        "default/user",
        "claimed, and not given back"
    );
}
