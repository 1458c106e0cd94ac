//! Texts that are taken for a report, and the faults of texts that are not.

use ipgc::byhand::report::parse;
use rstest::rstest;

use super::{
    report::{HOUR, all_of},
    *,
};

#[rstest]
#[case("{", "no report, since no JSON: ")]
#[case(
    r#"{"kind": "List", "items": []}"#,
    "no report, but objects of Kubernetes: "
)]
#[case(r#"{"a": 1}"#, "no report of ipgc audit: it has no version")]
#[case(
    r#"{"version": 99}"#,
    "a report of version 99, and this ipgc reads version 2"
)]
#[case(r#"{"version": 2}"#, "no report of ipgc audit: missing field `made`")]
#[case("[]", "no report of ipgc audit: it has no version")]
fn what_is_no_report_is_said(#[case] text: &str, #[case] says: &str) {
    let error = parse(text).unwrap_err();
    assert!(
        error.starts_with(says) && error.lines().count() == 1,
        "{error}"
    );
}

#[rstest]
#[case("/findings/0/address", json!("x"), "\"x\" is no address")]
#[case("/findings/0/pods", json!([]), "it names not one pod")]
#[case("/findings/0/pods", json!(["a"]), "\"a\" is no namespace/name")]
#[case("/findings/0/namespace", json!(""), "it has no namespace")]
#[case("/findings/0/pool", Value::Null, "it has no pool")]
#[case("/findings/0/row/stored/podref", json!("default/other"), "its row is not of default/gone")]
#[case("/findings/0/row", Value::Null, "it has neither row nor reservation")]
#[tokio::test]
async fn a_finding_that_lacks_something_is_named(
    #[case] at: &str,
    #[case] value: Value,
    #[case] says: &str,
) {
    let (server, _beat) = room(&[(1, "gone")]);
    let mut report = serde_json::to_value(reported(&server, HOUR).await).unwrap();
    *report.pointer_mut(at).unwrap() = value;
    let report = parse(&report.to_string()).unwrap();
    let error = picks(&report, false, Timestamp::now()).err().unwrap();
    assert!(
        error.starts_with("its finding stale about ") && error.ends_with(says),
        "{error}"
    );
}

#[tokio::test]
async fn a_time_that_is_none_is_said() {
    let (server, _beat) = room(&[(1, "gone")]);
    let mut report = reported(&server, HOUR).await;
    "yesterday".clone_into(&mut report.made);
    let error = picks(&report, false, Timestamp::now()).err().unwrap();
    assert!(
        error.starts_with("its time \"yesterday\" is none"),
        "{error}"
    );
}

/// It is read as it is printed.
#[tokio::test]
async fn a_report_is_read_as_it_was_written() {
    let (server, _beat) = room(&[(1, "gone"), (2, "other")]);
    let report = reported(&server, HOUR).await;
    let text = serde_json::to_string_pretty(&report).unwrap();
    assert_eq!(parse(&text).unwrap(), report);
    let all = all_of(&report);
    let addresses: Vec<_> = all
        .picks()
        .iter()
        .map(|it| it.address.to_string())
        .collect();
    assert_eq!(addresses, ["10.0.0.1", "10.0.0.2"]);
    assert!(all.picks().iter().all(|pick| !pick.forced));
    assert_eq!(all.picks()[0].pool.to_string(), format!("{NS}/{POOL}"));
}
