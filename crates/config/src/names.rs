//! "Did you mean": the name probably meant.

/// Longest word to find suggestions for, in bytes. The time to compare grows with the product of the lengths.
const LONGEST: usize = 100;

/// The candidate nearest to `word`, if it is near enough to be a slip of the keyboard: at most one edit
/// (insertion, deletion, substitution, transposition) per three letters of the word, and at least one.
/// If several are equally near, the first one.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > LONGEST {
        return None;
    }
    let most = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != word)
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(edits, _)| *edits <= most)
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// The end of an error message: `; did you mean `x`?`, or nothing.
pub fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    suggest(word, candidates).map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised() {
        let names = ["epsilon", "min_instances", "window_s"];
        assert_eq!(suggest("epsilonn", names), Some("epsilon"));
        assert_eq!(suggest("mininstances", names), Some("min_instances"));
        assert_eq!(suggest("windwo_s", names), Some("window_s"));
    }

    #[test]
    fn another_word_is_no_slip() {
        assert_eq!(suggest("colour", ["epsilon", "kind"]), None);
        assert_eq!(suggest("", ["epsilon"]), None);
    }

    #[test]
    fn the_hint_is_empty_where_nothing_is_near() {
        assert_eq!(hint("cubik", ["bbr", "cubic"]), "; did you mean `cubic`?");
        assert_eq!(hint("xyz", ["bbr", "cubic"]), "");
    }
}
