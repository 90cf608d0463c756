//! Long lines on a narrow screen. Pure: returns strings.

/// Separates the parts of a line.
const SEPARATOR: &str = " · ";

/// The lines of a text, at most as long as the screen is wide. A line is broken before a part or, if a part
/// is longer than the screen, before a word. The next lines are indented to the second word: the first is the
/// line's name.
pub fn wrapped(text: &str, columns: usize) -> Vec<String> {
    text.lines()
        .flat_map(|line| broken(line, columns))
        .collect()
}

fn broken(line: &str, columns: usize) -> Vec<String> {
    let name = line.len() - line.trim_start_matches(|c| c != ' ').trim_start().len();
    let indent = match name < columns / 2 {
        true => " ".repeat(line[..name].chars().count()),
        false => String::new(),
    };
    let columns = columns.max(1); // else no line would end
    let mut lines = Vec::new();
    let mut rest = line.to_owned();
    while rest.chars().count() > columns {
        let end = rest
            .char_indices()
            .nth(columns)
            .map_or(rest.len(), |(at, _)| at);
        let begins = if lines.is_empty() { name } else { indent.len() };
        let last = |gap| {
            let places = rest.match_indices(gap).map(|(at, _)| at);
            places.filter(|at| (begins + 1..=end).contains(at)).last()
        };
        let at = last(SEPARATOR).or_else(|| last(" ")).unwrap_or(end);
        let next = rest[at..].trim_start_matches(SEPARATOR).trim_start();
        let next = format!("{indent}{next}");
        rest.truncate(at);
        lines.push(std::mem::replace(&mut rest, next));
    }
    lines.push(rest);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEARNED: &str =
        "learned  from 850 of 940 records · 17 nodes above the paths · 138 rows of 32768";

    #[test]
    fn line_breaks_before_parts_with_indent() {
        assert_eq!(wrapped(LEARNED, 79), [LEARNED], "it fits");
        assert_eq!(
            wrapped(LEARNED, 60),
            [
                "learned  from 850 of 940 records · 17 nodes above the paths",
                "         138 rows of 32768"
            ]
        );
        assert_eq!(
            wrapped(LEARNED, 40),
            [
                "learned  from 850 of 940 records",
                "         17 nodes above the paths",
                "         138 rows of 32768"
            ]
        );
    }

    #[test]
    fn long_part_breaks_before_a_word() {
        assert_eq!(
            wrapped(
                "guard    203.0.113.0/24: rto switched off: too much is lost\nnext",
                30
            ),
            [
                "guard    203.0.113.0/24: rto",
                "         switched off: too",
                "         much is lost",
                "next"
            ]
        );
    }

    #[test]
    fn wrapping_loses_nothing_and_fits_the_screen() {
        let letters = |text: &str| {
            text.chars()
                .filter(|c| !" ·".contains(*c))
                .collect::<String>()
        };
        for columns in 1..100 {
            for line in [LEARNED, "wordwithoutaspace", "größe ·  · größer · ", ""] {
                let lines = wrapped(line, columns);
                let widest = lines.iter().map(|l| l.chars().count()).max();
                assert!(widest <= Some(columns), "{columns}: {lines:?}");
                assert_eq!(letters(&lines.concat()), letters(line), "{columns}");
            }
        }
    }
}
