//! Debian 13 builds the workspace with its own compiler, 1.85. Newer compilers accept more, so nobody would
//! notice.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{fs, path::Path};

/// The chains with `&&` in `if let` and `while let`, new in 1.88.
fn let_chains(text: &str) -> Vec<String> {
    let is_code = |line: &&str| !line.trim_start().starts_with("//");
    let code = text.lines().filter(is_code).collect::<Vec<_>>().join(" ");
    let starts = ["if let ", "while let "].map(|start| code.match_indices(start));
    let conditions = starts.into_iter().flatten().filter_map(|(at, _)| {
        let (_, matched) = code[at..].split_once(" = ")?;
        let mut depth = 0;
        // A condition ends at the brace of its block.
        let end = matched.find(|c| {
            depth += i32::from(c == '(' || c == '[') - i32::from(c == ')' || c == ']');
            depth == 0 && c == '{'
        })?;
        Some(&matched[..end])
    });
    let is_chain = |condition: &&str| {
        let mut depth = 0;
        condition.char_indices().any(|(at, c)| {
            depth += i32::from(c == '(' || c == '[') - i32::from(c == ')' || c == ']');
            depth == 0 && condition[at..].starts_with("&& ")
        })
    };
    conditions.filter(is_chain).map(str::to_owned).collect()
}

fn look(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            look(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            let chains = let_chains(&fs::read_to_string(&path).unwrap());
            found.extend(
                chains
                    .iter()
                    .map(|chain| format!("{}: {chain}", path.display())),
            );
        }
    }
}

#[test]
fn no_condition_is_a_chain_of_let() {
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for folder in ["crates", "lab", "tests"] {
        look(&root.join(folder), &mut found);
    }
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn let_chain_is_found_parenthesised_condition_is_not() {
    // In parts, because this file is looked at, too.
    let chain = ["if let", " Some(x) = y\n    && x > 0\n{"].concat();
    assert_eq!(let_chains(&chain).len(), 1);
    assert_eq!(
        let_chains("if let Some(x) = y.find(|x| *x > 0 && *x < 3) { a && b }").len(),
        0
    );
    assert_eq!(let_chains("if let S { x } = y { a && b }").len(), 0);
}
