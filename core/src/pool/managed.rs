//! The managed fields of pools, cut out of a list before it is parsed.
//!
//! They have an entry for every row, a third of a pool's text, and no look at all pools needs them. Only what is
//! certain to be theirs is cut: whatever else stands in the list is left to whoever parses it.

use memchr::{memchr2, memmem};

/// As an API server writes it. In JSON that is valid, a quote behind a letter ends a text and one behind a comma begins
/// one: this is the name of a field.
const BEGIN: &[u8] = br#","managedFields":[{"#;
/// The field that comes next by the alphabet, in which API servers write those of a custom resource.
const NEXT: &[u8] = br#","name":""#;
/// Whoever wrote by server-side apply: see [`super::ObservedPool::has_applied_fields`].
const APPLIED: &[u8] = br#""Apply""#;

/// Cuts the managed fields of all objects in a list, where nobody owns any by server-side apply. What the list says
/// besides is what it said before.
pub fn cut_managed_fields(list: &mut Vec<u8>) {
    let finder = memmem::Finder::new(BEGIN);
    let (mut kept, mut read) = (0, 0);
    while let Some(begin) = finder.find(&list[read..]).map(|at| read + at) {
        let inside = begin + BEGIN.len();
        let length = length_to_end(&list[inside..]);
        let end = length.map_or(inside, |length| inside + length);
        let is_cut = length.is_some() && memmem::find(&list[inside..end], APPLIED).is_none();
        let keep_to = if is_cut { begin } else { end };
        list.copy_within(read..keep_to, kept);
        kept += keep_to - read;
        read = end;
    }
    list.copy_within(read.., kept);
    list.truncate(kept + list.len() - read);
}

/// How long a list of objects goes on, with its bracket, if it has no other brackets and the name of its owner follows:
/// then that one is in no text, and closes this list.
fn length_to_end(list: &[u8]) -> Option<usize> {
    let at = memchr2(b'[', b']', list)?;
    let closes = list[at] == b']' && list[..at].ends_with(b"}") && list[at + 1..].starts_with(NEXT);
    closes.then_some(at + 1)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use rstest::rstest;
    use serde_json::{Value, json};

    use super::*;

    fn cut(text: &str) -> String {
        let mut bytes = text.as_bytes().to_vec();
        cut_managed_fields(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn pool(name: &str, managers: &Value) -> Value {
        let metadata =
            json!({"generation": 1, "managedFields": managers, "name": name, "uid": "u"});
        json!({"metadata": metadata, "spec": {"allocations": {"1": {"podref": "d/p"}}}})
    }

    fn written() -> Value {
        let row = json!({".": {}, "f:id": {}, "k:{\"name\":\"x\"}": {}});
        let fields = json!({"f:spec": {"f:allocations": {"f:1": row}}});
        json!([
            {"fieldsV1": fields, "manager": "whereabouts", "operation": "Update"},
            {"fieldsV1": {}, "manager": "kubectl-edit", "operation": "Update"},
        ])
    }

    #[test]
    fn only_managed_fields_are_cut() {
        let list = |managers: &[Value]| {
            let pools: Vec<_> = managers.iter().map(|it| pool("p", it)).collect();
            json!({"items": pools, "metadata": {"continue": "c"}})
        };
        let before = list(&[written(), json!([{}]), written()]).to_string();
        let mut after = list(&[json!([]), json!([]), json!([])]);
        for pool in after["items"].as_array_mut().unwrap() {
            pool["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
        }
        assert_eq!(cut(&before), after.to_string());
        assert_eq!(cut(&after.to_string()), after.to_string());
    }

    #[rstest]
    #[case::applied(json!([{"manager": "kubectl", "operation": "Apply"}]))]
    #[case::a_bracket_within(json!([{"fieldsV1": {"v:[1]": {}}}]))]
    #[case::what_looks_like_its_end(json!([{"fieldsV1": {"}],": {}}}]))]
    #[case::none(json!([]))]
    #[case::a_list_within(json!([{"x": [{"y": 1}], "name": "n"}]))]
    #[case::no_list(json!({"a": 1}))]
    #[case::no_objects(json!([1]))]
    fn what_is_not_certain_is_left(#[case] managers: Value) {
        let left = pool("p", &managers).to_string();
        assert_eq!(cut(&left), left);
        let both = format!("[{left},{}]", pool("q", &written()));
        let both = cut(&both);
        assert!(both.starts_with(&format!("[{left},")), "{both}");
        assert!(!both.contains("kubectl-edit"), "{both}");
    }

    #[rstest]
    #[case::a_text_that_ends_so(json!({"a,\"managedFields\":[{": 1, "b": "}],\"name\":\""}))]
    #[case::a_text_that_is_so(json!({"a": ",\"managedFields\":[{}],\"name\":\""}))]
    #[case::indented(pool("p", &written()))]
    fn texts_are_left(#[case] value: Value) {
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(cut(&pretty), pretty);
        if value.get("metadata").is_none() {
            assert_eq!(cut(&value.to_string()), value.to_string());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in "(,\"managedFields\":\\[\\{|\\}\\],\"name\":\"|\\}|\\]|\"Apply\"|a){0,12}") {
            let after = cut(&bytes);
            prop_assert!(after.len() <= bytes.len());
        }

        #[test]
        fn values_say_the_same_but_for_them(texts in proptest::collection::vec("[\\[\\]{}\",:n]{0,6}", 3)) {
            let managers = json!([{"fieldsV1": {&texts[0]: {}}, "manager": &texts[1]}]);
            let before = pool(&texts[2], &managers);
            let mut after: Value = serde_json::from_str(&cut(&before.to_string())).unwrap();
            let metadata = after["metadata"].as_object_mut().unwrap();
            let left = metadata.remove("managedFields");
            prop_assert!(left.is_none_or(|left| left == managers));
            let mut before = before;
            before["metadata"].as_object_mut().unwrap().remove("managedFields");
            prop_assert_eq!(after, before);
        }
    }
}
