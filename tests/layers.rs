//! Imports between modules go down only. Each module has a layer, and uses modules of lower layers alone.
//!
//! Between the modules of `collect` the same holds.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use rstest::rstest;

/// The modules of `src/`, from the lowest layer to the highest.
const PROGRAM: &[&[&str]] = &[
    &["api", "calls", "chance", "clock", "lock"],
    &["backoff"],
    &["access", "history", "leader", "pulse"],
    &["config", "guard", "report", "watch"],
    &["collect"],
    &["snapshot", "vitals"],
    &["audit", "metrics"],
    &["empty_pools"],
    &["admin", "run"],
    &["byhand", "once"],
    &["cli"],
];

/// The modules of `src/collect/`, from the lowest layer to the highest.
const COLLECT: &[&[&str]] = &[
    &["gate", "groups"],
    &["released", "roll"],
    &["context"],
    &["pool_api", "prover", "reservation_api"],
    &["nodes", "rows_again"],
    &["release", "sweep"],
    &["intake", "turn"],
    &["planner"],
];

/// The modules of `core/src/`, from the lowest layer to the highest.
const CORE: &[&[&str]] = &[
    &["text"],
    &["address", "history", "id", "operation", "podref", "time"],
    &["breaker", "election", "ipam", "networks", "refusal", "wait"],
    &["node"],
    &["pod", "pool"],
    &[
        "definitions",
        "evidence",
        "proof",
        "reservation",
        "sighting",
    ],
    &["clearance", "names"],
    &["judge"],
    &["fact", "patch", "pods"],
    &["work"],
    &["cases", "routes"],
    &["known", "lanes"],
    &["batch"],
    &["plan"],
];

#[rstest]
#[case::program("src", PROGRAM)]
#[case::collect("src/collect", COLLECT)]
#[case::core("core/src", CORE)]
fn imports_go_down(#[case] folder: &str, #[case] layers: &[&[&str]]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut height = BTreeMap::new();
    for (layer, modules) in layers.iter().enumerate() {
        for module in *modules {
            assert!(
                height.insert(*module, layer).is_none(),
                "{module} has two layers"
            );
        }
    }
    let arrows = arrows(&folder);
    let modules: BTreeSet<_> = arrows.keys().map(String::as_str).collect();
    let known: BTreeSet<_> = height.keys().copied().collect();
    assert_eq!(
        modules, known,
        "each module has a layer, and each layer has modules that exist"
    );
    let mut up = BTreeSet::new();
    for (module, used) in &arrows {
        for used in used
            .iter()
            .filter(|used| height.contains_key(used.as_str()))
        {
            if height[used.as_str()] >= height[module.as_str()] {
                up.insert((module.as_str(), used.as_str()));
            }
        }
    }
    assert_eq!(up, BTreeSet::new(), "the arrows that go up");
}

/// The modules that each module uses, by the names of their files or folders.
fn arrows(folder: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut arrows = BTreeMap::<String, BTreeSet<String>>::new();
    // A module of a folder names its neighbours by the folder, or as those of its parent.
    let of_folder = format!("{}::", folder.file_name().unwrap().display());
    let prefixes = if of_folder == "src::" {
        vec!["crate::"]
    } else {
        vec![&*of_folder, "super::"]
    };
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["lib", "main", "mod"].contains(&module.as_str()) {
            continue;
        }
        let used = arrows.entry(module.clone()).or_default();
        for text in texts(&path) {
            used.extend(uses(&text, &prefixes));
        }
        used.remove(&module);
    }
    arrows
}

/// The texts of a file, or of all files in a folder, but for modules of tests.
fn texts(path: &Path) -> Vec<String> {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        let inner = entries.flat_map(|entry| texts(&entry.unwrap().path()));
        return inner.collect();
    }
    if path.file_name().is_some_and(|name| name == "tests.rs") {
        return Vec::new();
    }
    let text = fs::read_to_string(path).unwrap();
    let (code, _) = text
        .split_once("#[cfg(test)]\nmod tests {")
        .unwrap_or((&text, ""));
    let lines = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    vec![lines.collect::<Vec<_>>().join("\n")]
}

/// The modules that stand behind one of these prefixes, alone or in braces.
fn uses(code: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    let places = prefixes
        .iter()
        .flat_map(|prefix| code.match_indices(prefix).map(|(at, _)| at + prefix.len()));
    for at in places {
        let rest = &code[at..];
        match rest.strip_prefix('{') {
            None => used.extend(first_name(rest)),
            Some(list) => used.extend(members(list).into_iter().filter_map(first_name)),
        }
    }
    used
}

fn first_name(text: &str) -> Option<String> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let name = &text[..end.unwrap_or(text.len())];
    (!name.is_empty()).then(|| name.to_owned())
}

/// The members of a list in braces, whose opening brace is gone.
fn members(list: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let (mut depth, mut begin) = (0_usize, 0);
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => {
                members.push(&list[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    members
}

#[test]
fn modules_in_braces_are_read() {
    let code = "use crate::{\n    a::{b, c},\n    d,\n};\nlet e = crate::f::g();";
    let used: Vec<_> = uses(code, &["crate::"]).into_iter().collect();
    assert_eq!(used, ["a", "d", "f"]);
}
