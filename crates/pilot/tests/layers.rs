//! The modules of the pilot have an order, and so have the learner's in the daemon. A circle would tie two of them
//! into one. Cargo keeps the order of crates (crates/tcpilot/tests/arrows.rs).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

type Imports = BTreeMap<String, BTreeSet<String>>;

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// A file's code, without comments and tests.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.starts_with("//")).collect()
}

/// The paths of a tree of `use`: `a::{b, c::d}` for `a::b` and `a::c::d`. Ends at its `;`, or where its
/// braces end.
fn paths(tree: &str) -> Vec<String> {
    let is_part = |c: &char| c.is_alphanumeric() || *c == '_' || *c == ':';
    let stem: String = tree.chars().take_while(is_part).collect();
    let Some(list) = tree[stem.len()..].strip_prefix('{') else {
        return vec![stem];
    };
    let (mut depth, mut all, mut from) = (0, Vec::new(), 0);
    for (at, c) in list.char_indices() {
        if depth == 0 && matches!(c, ',' | '}') {
            let inner = paths(list[from..at].trim());
            let inner = inner.iter().filter(|path| !path.is_empty());
            all.extend(inner.map(|path| format!("{stem}{path}")));
            from = at + 1;
        }
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    all
}

/// The top-level module of a path.
fn room(path: &str) -> String {
    path.split("::").next().unwrap_or_default().to_owned()
}

fn imports() -> Imports {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    rust_files(&source, &mut files);
    let mut imports = Imports::new();
    for file in files {
        let name = file.strip_prefix(&source).unwrap().with_extension("");
        let name = name.to_str().unwrap().replace('/', "::");
        if name == "lib" || name.contains("tests") {
            continue;
        }
        let code = code(&fs::read_to_string(&file).unwrap());
        // Top-level modules name each other in full, so this test can see it.
        let is_top =
            !name.contains("::") || name.ends_with("::mod") && name.matches("::").count() == 1;
        let climbs = is_top && code.contains("super::");
        assert!(!climbs, "{name}: super::");
        let own = room(&name);
        let used = code.split("crate::").skip(1).flat_map(paths);
        let others = used.map(|path| room(&path)).filter(|other| *other != own);
        imports.entry(own.clone()).or_default().extend(others);
    }
    imports
}

/// The way back to `from`, if there is one.
fn circle(imports: &Imports, from: &str, way: &mut Vec<String>) -> bool {
    let here = way.last().cloned().unwrap_or_else(|| from.to_owned());
    for next in imports.get(&here).into_iter().flatten() {
        if next == from {
            return true;
        }
        if !way.contains(next) {
            way.push(next.clone());
            if circle(imports, from, way) {
                return true;
            }
        }
    }
    false
}

/// The files of the learner's folder in the daemon, each with its imports. A folder in there counts as one
/// file.
fn learning_imports() -> Imports {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/daemon/learning");
    let mut files = Vec::new();
    rust_files(&folder, &mut files);
    let mut imports = Imports::new();
    for file in files {
        let name = file.strip_prefix(&folder).unwrap().with_extension("");
        let name = name.to_str().unwrap().to_owned();
        if name == "mod" || name.contains("tests") {
            continue;
        }
        let (own, up) = match name.split_once('/') {
            None | Some((_, "mod")) => (name.trim_end_matches("/mod"), "super::"),
            Some((folder, _)) => (folder, "super::super::"),
        };
        let code = code(&fs::read_to_string(&file).unwrap());
        let used = code.split(up).skip(1).flat_map(paths);
        let others = used.map(|path| path.split("::").next().unwrap_or_default().to_owned());
        let others = others.filter(|other| *other != own);
        imports.entry(own.to_owned()).or_default().extend(others);
    }
    imports
}

#[test]
fn no_file_of_the_learner_imports_itself() {
    let imports = learning_imports();
    assert!(imports["counts"].contains("learners"), "{imports:?}");
    for name in imports.keys() {
        let mut way = Vec::new();
        assert!(!circle(&imports, name, &mut way), "{name} -> {way:?}");
    }
}

#[test]
fn no_folder_imports_itself_through_others() {
    let imports = imports();
    assert!(imports["read"].contains("figures"), "{imports:?}");
    for name in imports.keys() {
        let mut way = Vec::new();
        assert!(!circle(&imports, name, &mut way), "{name} -> {way:?}");
    }
}

#[test]
fn a_tree_of_use_is_read_whole() {
    let tree = "figures::{path::{A, B}, read::{self, Names}}, state};";
    let read = paths(&format!("{{{tree}"));
    let rooms: Vec<String> = read.iter().map(|path| room(path)).collect();
    assert_eq!(rooms, ["figures", "figures", "figures", "figures", "state"]);
}
