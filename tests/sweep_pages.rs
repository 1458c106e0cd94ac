//! How the sweep reads the pools: a few to a page, whatever their number and size, and all of them.

use std::ops::Range;

use crate::prelude::*;

/// At most this many bytes are in a page of pools, apart from one more pool.
const PAGE: usize = 2_000_000;

/// Empty pools of about this many bytes, one for each of these numbers.
fn put_pools(server: &Server, thirds: Range<u64>, bytes: usize) {
    for third in thirds {
        let pool = fixtures::pool(NS, &format!("10.{third}.0.0/24"));
        let pool = pool.annotation("example.org/filler", &"x".repeat(bytes));
        server.put(pool);
    }
}

/// Lists of pools with their contents.
fn pages(bench: &Bench) -> Requests {
    bench
        .sent(Match::list("ippools"))
        .filter(|r| !r.metadata_only)
}

/// The sizes of the pages of the sweeps in bytes, from the limits that were asked for and the pools
/// in their order.
fn sizes(bench: &Bench) -> Vec<usize> {
    let pools = bench.list("ippools");
    let pools: Vec<_> = pools.iter().map(|pool| pool.to_string().len()).collect();
    let mut next = 0;
    let mut sizes = Vec::new();
    for page in &pages(bench) {
        if page.continue_token.is_none() {
            next = 0;
        }
        let limit = page.limit.expect("a list without a limit");
        let end = pools.len().min(next + limit);
        sizes.push(pools[next..end].iter().sum());
        next = end;
    }
    sizes
}

/// A collector whose sweeps found all of these pools, and what leaked in the last one.
async fn sweep(server: Server) -> Bench {
    put_leak(&server, "192.168.0.0/24");
    let bench = Bench::start(server).await;
    goes_after(&bench, "192.168.0.0-24", "1", W + 60).await;
    seconds(600).await;
    let report = bench.running.context.sweeps.borrow().clone();
    assert_eq!(report.pools, bench.count("ippools"));
    bench
}

/// Pools of a megabyte come two to a page, and others not one by one: two, twice as many, and so on. Small pools before
/// large ones make no huge page.
#[rstest]
#[case::large(&[(100..160, 100_000)], Some(7))]
#[case::of_a_megabyte(&[(100..112, 1_000_000)], None)]
#[case::small(&[(0..250, 10)], Some(8))]
#[case::small_before_large(&[(100..105, 10), (110..170, 100_000)], None)]
#[tokio::test(start_paused = true)]
async fn pools_come_a_few_to_a_page(
    #[case] pools: &[(Range<u64>, usize)],
    #[case] most_pages: Option<u64>,
) {
    let server = server();
    let mut bytes = 0;
    for (thirds, size) in pools {
        put_pools(&server, thirds.clone(), *size);
        bytes = bytes.max(*size);
    }
    let bench = sweep(server).await;
    let sizes = sizes(&bench);
    let largest = sizes.iter().max().unwrap();
    assert!(*largest <= PAGE + bytes + 1_000, "{sizes:?}");
    let (sweeps, pages) = (bench.counted("sweeps_ended"), sizes.len() as u64);
    let is_few = |most| pages <= most * (sweeps + 1);
    assert!(most_pages.is_none_or(is_few), "{pages} in {sweeps}");
}
