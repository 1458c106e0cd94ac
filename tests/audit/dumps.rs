//! A dump as text: however large it is, however it is indented, wherever it is cut or changed.

use ipgc::snapshot::read_objects;
use proptest::prelude::*;

use super::*;

/// Objects larger than what is read at a time, wherever the text is divided.
#[test]
fn an_object_may_be_larger_than_the_window() {
    let mut pool = fixtures::pool(NS, "10.0.0.0/8").build();
    pool["metadata"]["uid"] = "u".into();
    let rows: serde_json::Map<_, _> = (0..20_000_u64)
        .map(|at| {
            (
                at.to_string(),
                fixtures::row(&fixtures::sandbox(at), "default/gone", "net1"),
            )
        })
        .collect();
    pool["spec"]["allocations"] = rows.into();
    let mut dump = dump_of(&shop(), &Kind::ALL);
    dump["items"].as_array_mut().unwrap().insert(0, pool);
    let text = serde_json::to_string_pretty(&dump).unwrap();
    assert!(text.len() > 3 << 20);
    let report = File::new(text).judged();
    assert_eq!(report.totals.rows, 20_002);
    assert_eq!(report.pools.len(), 2);
}

/// Of a dump that is so large that it is read in pieces.
fn large() -> Value {
    let mut dump = dump_of(&shop(), &Kind::ALL);
    let items = dump["items"].as_array_mut().unwrap();
    for number in 0..600_u64 {
        let name = format!("many-{number}");
        let pod = fixtures::pod(NS, &name).uid(&name).node("n1").running();
        items.push(pod.annotation("long", &"x, y\n".repeat(1_000)).build());
        let address = format!("10.0.{}.{}", 1 + number / 250, number % 250);
        let owner = if number % 2 == 0 { &name } else { "gone" };
        let mut reservation = fixtures::reservation(NS, &address, &format!("{NS}/{owner}"), "net1");
        reservation["metadata"]["uid"] = format!("r{number}").into();
        reservation["metadata"]["resourceVersion"] = "1".into();
        // Pods last, or their absence proves nothing.
        items.insert(0, reservation);
    }
    dump
}

/// The text with this indentation.
fn indented(value: &Value, indent: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(indent);
    let mut serializer = serde_json::Serializer::with_formatter(&mut text, format);
    serde::Serialize::serialize(value, &mut serializer).unwrap();
    text
}

#[test]
fn however_a_dump_is_read_the_report_is_the_same_to_the_byte() {
    let dump = large();
    let report = |text: &[u8]| serde_json::to_string(&File::new(text).judged()).unwrap();
    // Read one after the other.
    let plain = report(dump.to_string().as_bytes());
    assert!(plain.contains("reservation-orphaned") && plain.contains("\"stale\""));
    for indent in ["  ", "    ", "\t"] {
        let text = indented(&dump, indent.as_bytes());
        assert!(text.len() > 3 << 20);
        assert_eq!(report(&text), plain, "{indent:?}");
    }
}

#[test]
fn what_is_wrong_far_into_a_dump_is_named_with_its_place() {
    let text = String::from_utf8(indented(&large(), b"    ")).unwrap();
    let wrong = text.find("\"many-500\"").unwrap();
    let begins = text[..wrong].rfind("\n        {").unwrap() + "\n        ".len();
    let says = |text: String| File::new(text).read().unwrap_err();
    let with = |other: &str| format!("{}{other}{}", &text[..wrong], &text[wrong + 10..]);
    let error = says(with("many"));
    assert_says(&error, &format!("at byte {begins}: "));
    let error = says(with("7"));
    let object = format!("object at byte {begins}: Pod ");
    assert_begins(&error, &object);
    let error = says(with("\"many-499\""));
    assert_says(&error, "Pod default/many-499 is in the input twice");
    assert_says(&says(text[..wrong].to_owned()), "it was cut off");
}

fn read(text: &[u8], at_a_time: usize) -> Result<usize, String> {
    /// Gives a few bytes at a time.
    struct Slow<'t>(&'t [u8], usize);
    impl std::io::Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(buffer.len()).min(self.0.len());
            let (now, later) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = later;
            Ok(count)
        }
    }
    let mut count = 0;
    read_objects(Slow(text, at_a_time), &mut |_| {
        count += 1;
        Ok(())
    })?;
    Ok(count)
}

#[test]
fn a_dump_that_was_cut_off_is_an_error_wherever_that_was() {
    let text = dump_of(&shop(), &Kind::ALL).to_string();
    assert_eq!(read(text.as_bytes(), 100).unwrap(), 8);
    // Of nothing at all the reader says that it is empty.
    for length in (1..text.len())
        .step_by(13)
        .chain(text.len() - 40..text.len())
    {
        assert_says(
            &read(&text.as_bytes()[..length], 4_096).unwrap_err(),
            "it was cut off",
        );
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), text in "\\PC{0,60}", like in r#"[\[\]{}":,a-z0-9 \\]{0,60}"#) {
        for bytes in [&*bytes, text.as_bytes(), like.as_bytes()] {
            let _ = read(bytes, 3);
            let _ = File::new(bytes).read();
        }
    }

    /// One byte of a dump is another: an error or another report, and never a panic.
    #[test]
    fn no_change_of_a_dump_panics(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut text = dump_of(&shop(), &Kind::ALL).to_string().into_bytes();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(snapshot) = File::new(text).read() {
            let report = judge(&snapshot);
            let _ = table(&report, true);
        }
    }

    #[test]
    fn whatever_stands_in_a_row_it_is_counted(key in "\\PC{0,12}", podref in "\\PC{0,20}", id in "[0-9a-f]{0,70}") {
        let mut pool = fixtures::pool(NS, RANGE).raw_row(&key, fixtures::row(&id, &podref, "net1")).build();
        pool["metadata"]["uid"] = "u".into();
        // With pods and nodes, so that what can be read may be stale.
        let others = dump_of(&server(), &[Kind::Pod, Kind::Node]);
        let report = File::new(format!("{pool}{others}")).judged();
        let ipgc::audit::report::Split { live, unreported, stale, unfenced, unknown } = report.totals.split;
        prop_assert_eq!((report.totals.rows, live + unreported + stale + unfenced + unknown), (1, 1));
        if id.len() != 64 || !podref.contains('/') {
            prop_assert_eq!(unknown, 1);
        }
    }
}
