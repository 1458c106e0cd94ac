//! Configurations of CNI plugins, and the pools that they name.

#![allow(clippy::unwrap_used)]

use rstest::rstest;

use super::*;
use crate::address::Offset;

fn names(config: &str) -> Vec<String> {
    parse(config, "net")
        .unwrap()
        .iter()
        .flat_map(|ipam| ipam.pool_names().collect::<Vec<_>>())
        .collect()
}

#[rstest]
#[case::single(r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"192.168.2.225/28"}}"#, &["192.168.2.224-28"])]
#[case::start_and_end(r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"192.168.2.10-192.168.2.20/24"}}"#, &["192.168.2.0-24"])]
#[case::network_name(r#"{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/8","network_name":"test"}}"#, &["test-10.0.0.0-8"])]
#[case::dual_stack(r#"{"type":"x","ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24"},{"range":"fd00::/64","range_start":"fd00::5"}]}}"#, &["10.0.0.0-24", "fd00---64"])]
#[case::both(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.1.0.0/24","ipRanges":[{"range":"10.1.0.0/24"},{"range":"10.2.0.0/24"}]}}"#, &["10.1.0.0-24", "10.2.0.0-24"])]
#[case::conflist(r#"{"name":"l","plugins":[{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}},{"type":"tuning"}]}"#, &["10.0.0.0-24"])]
#[case::second_plugin(r#"{"name":"l","plugins":[{"type":"tuning"},{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}]}"#, &["10.0.0.0-24"])]
#[case::other_ipam(r#"{"type":"bridge","ipam":{"type":"host-local","ranges":[[{"subnet":"10.0.0.0/24"}]],"range":7}}"#, &[])]
#[case::no_ipam(r#"{"type":"tuning"}"#, &[])]
#[case::null_ipam(r#"{"type":"tuning","ipam":null}"#, &[])]
#[case::empty_ipam(r#"{"type":"tuning","ipam":{}}"#, &[])]
#[case::flat_file(r#"{"type":"macvlan","ipam":{"type":"whereabouts"}}"#, &[])]
#[case::in_other_cases(r#"{"Type":"macvlan","IPAM":{"TYPE":"whereabouts","Range":"10.0.0.0/8","Network_Name":"test"}}"#, &["test-10.0.0.0-8"])]
#[case::beyond_ascii("{\"type\":\"macvlan\",\"ipam\":{\"type\":\"whereabouts\",\"range\":\"10.0.0.0/8\",\"networ\u{212a}_name\":\"test\"}}", &["test-10.0.0.0-8"])]
#[case::two_networks(r#"{"plugins":[{"type":"x","ipam":{"type":"whereabouts","network_name":"a","range":"10.0.0.0/24"}},{"type":"y","ipam":{"type":"whereabouts","network_name":"b","range":"10.0.0.0/24"}}]}"#, &["a-10.0.0.0-24", "b-10.0.0.0-24"])]
#[case::mapped(r#"{"type":"x","ipam":{"type":"whereabouts","ipRanges":[{"range":"::ffff:10.7.0.0/120"},{"range":"::ffff:0:0/90"}]}}"#, &["10.7.0.0-24", "--ffc0-0-0-90"])]
#[case::spaces_are_no_part_of_it(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.5 - 10.0.0.9/24"}}"#, &[])]
#[case::the_first_outside(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.1.0.5-10.0.0.9/24"}}"#, &[])]
fn configurations_name_pools(#[case] config: &str, #[case] pools: &[&str]) {
    assert_eq!(names(config), pools);
}

/// Others are in e2e/tests/definitions.
#[rstest]
#[case::outside(
    r#""range":"10.0.0.0/24","range_start":"10.1.0.5","range_end":"10.0.0.9""#,
    None,
    Some("10.0.0.9")
)]
#[case::the_last_before_the_first_in_the_text(
    r#""range":"10.0.0.50-10.0.0.20/24""#,
    Some("10.0.0.50"),
    None
)]
#[case::never_given_out(
    r#""range":"10.0.0.0/24","range_start":"10.0.0.0","range_end":"10.0.0.255""#,
    None,
    None
)]
#[case::of_equal_keys_the_last(
    r#""range":"10.1.0.0/24","range":"10.0.0.0/24","range_start":"10.0.0.5","Range_End":"10.0.0.9""#,
    Some("10.0.0.5"),
    Some("10.0.0.9")
)]
fn a_range_may_hand_out_a_part_of_it(
    #[case] keys: &str,
    #[case] first: Option<&str>,
    #[case] last: Option<&str>,
) {
    let config = format!(r#"{{"type":"x","ipam":{{"type":"whereabouts",{keys}}}}}"#);
    let address = |text: Option<&str>| text.map(|text| text.parse().unwrap());
    let span = Span {
        range: Range::parse("10.0.0.0/24").unwrap(),
        first: address(first),
        last: address(last),
        excluded: [].into(),
    };
    assert_eq!(*parse(&config, "net").unwrap()[0].spans, [span]);
}

/// Only of the range beside which they stand. Where one cannot be read, the plugin gives out nothing of it.
#[test]
fn a_range_may_leave_parts_of_it_out() {
    let config = r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24",
        "exclude":["10.0.0.8/29","10.0.0.1"],
        "ipRanges":[{"range":"10.1.0.0/24"},{"range":"10.2.0.0/24","exclude":["10.2.0.1","nonsense"]}]}}"#;
    let ipam = &parse(config, "net").unwrap()[0];
    let excluded = ipam.spans.iter().map(|span| &*span.excluded);
    let range = |text| Range::parse(text).unwrap();
    let own = [range("10.0.0.8/29"), range("10.0.0.1/32")];
    let all = [range("10.2.0.0/24")];
    assert_eq!(excluded.collect::<Vec<_>>(), [&own[..], &[], &all]);
    assert_eq!(handed_out(all[0], &ipam.spans[2..]), Some(0));
}

/// Each part as a text of the range, and what it excludes.
#[rstest]
#[case::all("10.0.0.0/24", &[], Some(254))]
#[case::a_block("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0/25")], Some(127))]
#[case::an_address("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.9")], Some(253))]
#[case::the_edges("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0 10.0.0.255")], Some(254))]
#[case::one_within_the_other("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.16/30 10.0.0.16/28")], Some(238))]
#[case::all_of_it("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0/8")], Some(0))]
#[case::of_a_part("10.0.0.0/24", &[("10.0.0.10-10.0.0.19/24", "10.0.0.12 10.0.0.18/31 10.0.0.200")], Some(7))]
#[case::another_gives_it("10.0.0.0/24", &[("10.0.0.0/24", "10.0.0.0/25"), ("10.0.0.100-10.0.0.130/24", "")], Some(155))]
#[case::of_the_other_family("10.0.0.0/24", &[("10.0.0.0/24", "::a00:0/104")], Some(254))]
#[case::of_ipv6("fd00::/120", &[("fd00::/120", "fd00::/121 10.0.0.0/8")], Some(127))]
#[case::endless("::/0", &[("::/0", "ffff::/16")], Some((1 << 112) * 0xffff - 1))]
#[case::all_of_ipv4("0.0.0.0/0", &[], Some((1 << 32) - 2))]
#[case::all_of_ipv6("::/0", &[], Some(u128::MAX - 1))]
#[case::two("10.0.0.0/31", &[("10.0.0.0/31", "")], None)]
fn what_is_handed_out_is_counted_once(
    #[case] text: &str,
    #[case] parts: &[(&str, &str)],
    #[case] count: Option<u128>,
) {
    let entries = parts.iter().map(|(range, excluded)| {
        let excluded: Vec<_> = excluded.split_whitespace().collect();
        serde_json::json!({ "range": range, "exclude": excluded })
    });
    let entries: Vec<_> = entries.collect();
    let config =
        serde_json::json!({ "type": "x", "ipam": { "type": "whereabouts", "ipRanges": entries } });
    let ipam = &parse(&config.to_string(), "net").unwrap()[0];
    let range = Range::parse(text).unwrap();
    assert_eq!(handed_out(range, &ipam.spans), count);
    // A large range is counted only.
    if !text.ends_with("/0") {
        let all = (0..256).filter_map(|at| range.address_at(Offset(at)));
        let handed = all.filter(|address| hands_out(range, &ipam.spans, *address));
        assert_eq!(handed.count() as u128, count.unwrap_or(0));
    }
}

#[test]
fn one_bad_range_does_not_hide_the_others() {
    let config = r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0","ipRanges":[{"range":"10.2.0.0/24"},{},{"range":"hunter2"}]}}"#;
    let ipam = &parse(config, "net").unwrap()[0];
    assert_eq!(ipam.pool_names().collect::<Vec<_>>(), ["10.2.0.0-24"]);
    let problems = [
        "`range` is no range of addresses",
        "`ipRanges[1].range` is no range of addresses",
        "`ipRanges[2].range` is no range of addresses",
    ];
    assert_eq!(&*ipam.problems, problems);
}

#[rstest]
#[case::of_another_type(r#"{"type":"x","ipam":"hunter2"}"#)]
#[case::within_it(r#"{"type":"x","ipam":{"type":"whereabouts","ipRanges":"hunter2"}}"#)]
#[case::of_the_range(r#"{"type":"x","ipam":{"type":"whereabouts","range":["hunter2"]}}"#)]
#[case::of_the_network(
    r#"{"type":"x","ipam":{"type":"whereabouts","network_name":{"hunter2":1}}}"#
)]
#[case::of_the_plugins(r#"{"plugins":"hunter2"}"#)]
#[case::no_json(r#"{"type":"x","password":hunter2}"#)]
#[case::after_it(r#"{"type":"x"} hunter2"#)]
#[case::no_object(r#""hunter2""#)]
#[case::cut(r#"{"type":"x","password":"hunter2"#)]
fn what_is_wrong_is_said_without_any_value(#[case] config: &str) {
    let said = parse(config, "net").unwrap_err().to_string();
    assert!(!said.contains("hunter"), "{said}");
    let says_where = said.contains("at line 1 column ") || said.contains(": `");
    assert!(says_where, "{said}");
}

#[rstest]
#[case("")]
#[case("   ")]
#[case("{")]
#[case("[]")]
#[case("{}")]
#[case(r#"{"plugins":[]}"#)]
#[case(r#"{"plugins":[7]}"#)]
#[case(r#"{"type":"x","ipam":7}"#)]
#[case(r#"{"type":"x","ipam":{"type":"whereabouts","range":7}}"#)]
#[case(r#"{"type":"x","Type":"x"}"#)]
#[case(r#"{"type":"x","type":"x"}"#)]
#[case(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24"},"IPAM":null}"#)]
#[case(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24","Range":"10.0.0.0/24"}}"#)]
#[case(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24","range_start":7}}"#)]
#[case(r#"{"type":"x","ipam":{"type":"whereabouts","ipRanges":[{"range":"10.0.0.0/24","range_start":"10.0.0.05"}]}}"#)]
#[case(r#"{"type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24","exclude":7}}"#)]
#[case(r#"{"type":"x","ipam":{"type":"whereabouts","enable_overlapping_ranges":"no"}}"#)]
#[case(r#"{"name":7,"type":"x"}"#)]
#[case(r#"{"name":null,"plugins":[{"type":"x"}]}"#)]
#[case(r#"{"Plugins":[{"type":"x"}]}"#)]
#[case(r#"{"plugins":[{"ipam":{}}]}"#)]
#[case("null")]
fn what_tells_nothing_is_an_error(#[case] config: &str) {
    assert!(parse(config, "net").is_err(), "{config}");
}

#[test]
fn a_megabyte_of_ranges_is_read_in_no_time() {
    let ranges: Vec<_> = (0..40_000_u32)
        .map(|n| format!(r#"{{"range":"{}/32"}}"#, std::net::Ipv4Addr::from(n)))
        .collect();
    let config = format!(
        r#"{{"type":"x","ipam":{{"type":"whereabouts","ipRanges":[{}]}}}}"#,
        ranges.join(",")
    );
    assert!(config.len() > 1_000_000);
    let begun = std::time::Instant::now();
    assert_eq!(parse(&config, "net").unwrap()[0].ranges.len(), 40_000);
    assert!(begun.elapsed().as_secs() < 2, "{:?}", begun.elapsed());
}

/// multus writes no entry for the result of an older version.
#[rstest]
#[case::none("", false)]
#[case::empty(r#""cniVersion":"","#, false)]
#[case::first(r#""cniVersion":"0.1.0","#, false)]
#[case::second(r#""cniVersion":"0.2.0","#, false)]
#[case::third(r#""cniVersion":"0.3.0","#, true)]
#[case::present(r#""cniVersion":"1.1.0","#, true)]
#[case::no_text(r#""cniVersion":1,"#, false)]
#[case::no_number(r#""cniVersion":"one","#, false)]
fn interfaces_are_reported_since_a_version(#[case] version: &str, #[case] reported: bool) {
    let plugin = |version| format!(r#"{{{version}"type":"x","ipam":{{"type":"whereabouts"}}}}"#);
    let is_reported = |config: &str| parse(config, "net").unwrap()[0].reported;
    assert_eq!(is_reported(&plugin(version)), reported);
    // That of a list counts, and not that of its plugin.
    let list = |of_list, of_plugin| {
        let plugin = plugin(of_plugin);
        format!(r#"{{{of_list}"name":"l","plugins":[{plugin}]}}"#)
    };
    assert_eq!(is_reported(&list(version, "")), reported);
    assert!(!is_reported(&list("", version)));
}
