//! docs/museum.md maps every exhibit to a test that there is, and every test of the museum to an exhibit. docs/security.md
//! names tests that there are.

use std::{collections::BTreeSet, fs, path::Path};

/// The names of all functions in the Rust files below a folder.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let named = text.lines().filter_map(|line| {
                let (_, rest) = line.split_once("fn ")?;
                rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
                    .next()
            });
            found.extend(named.map(str::to_owned));
        }
    }
}

/// The names of all functions that may be tests.
fn all_tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["tests", "core/tests", "e2e/tests", "src"] {
        functions(&root.join(folder), &mut tests);
    }
    tests
}

#[test]
fn tests_that_the_threat_model_names_are_there() {
    let tests = all_tests();
    let text = include_str!("../docs/security.md");
    let is_name = |word: &&str| {
        let letters = word
            .bytes()
            .all(|c| c == b'_' || c.is_ascii_lowercase() || c.is_ascii_digit());
        letters && word.matches('_').count() > 2
    };
    let named: Vec<_> = text.split('`').filter(is_name).collect();
    assert!(named.len() > 20, "{named:?}");
    for name in named {
        assert!(tests.contains(name), "{name} is no test");
    }
}

#[test]
fn the_table_of_exhibits_is_the_list_of_tests() {
    let exhibits = include_str!("../docs/museum.md");
    let tests = all_tests();
    let mut named = BTreeSet::new();
    for row in exhibits.lines().filter(|line| line.starts_with("| ")) {
        let column = row.split('|').nth(3).unwrap();
        let of_row: Vec<_> = column.split('`').skip(1).step_by(2).collect();
        let of_row = of_row.into_iter().filter(|name| !name.contains('/'));
        let mut is_tested = row.starts_with("| # ");
        for name in of_row {
            assert!(tests.contains(name), "{name} is no test\n{row}");
            named.insert(name.to_owned());
            is_tested = true;
        }
        assert!(is_tested, "no test\n{row}");
    }
    let is_exhibit = |name: &&String| ["m1_", "m2_"].iter().any(|room| name.starts_with(room));
    let exhibits: BTreeSet<_> = tests.iter().filter(is_exhibit).cloned().collect();
    assert_eq!(exhibits.difference(&named).count(), 0, "{named:?}");
    let found = include_str!("museum_found.rs").lines();
    let found = found.filter_map(|line| line.strip_prefix("async fn "));
    for name in found.filter_map(|line| line.split('(').next()) {
        assert!(!name.starts_with("m4_") || named.contains(name), "{name}");
    }
}
