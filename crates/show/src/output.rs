//! Standard output, for people and for programs.
//!
//! Names come from outside: of processes, cgroups, pods, devices, namespaces. A terminal must not obey them, and a
//! name must not look like lines of ours. So a cell is made [`printable`] where it becomes text, and everything for
//! people passes [`lines`] on its way out.

use std::{
    fmt::Write as _,
    io::{self, Write as _, stdout},
};

/// Whether a terminal would obey the character, or show the others in another order: a control character, or one
/// of Unicode's marks of direction, of line ends, or without a width.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// The text on one line, without characters that a terminal would obey.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if is_obeyed(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// The same for a text of several lines: they stay lines.
pub fn lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(printable).collect();
    lines.join("\n")
}

/// JSON whose strings have no character that a terminal would obey. The library escapes only those below U+0020.
pub fn printable_json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\n' && is_obeyed(c) {
            let _ = write!(out, "\\u{:04x}", u32::from(c)); // all of them have four digits
        } else {
            out.push(c);
        }
    }
    out
}

/// Prints a text for people.
///
/// # Errors
/// Standard output cannot be written. If its reader is gone, that is no error.
pub fn print(text: &str) -> io::Result<()> {
    write(&lines(text)).map(|_| ())
}

/// Prints a document as it is; false if its reader is gone.
///
/// # Errors
/// Standard output cannot be written.
pub fn write(document: &str) -> io::Result<bool> {
    let mut out = stdout().lock();
    let written = out.write_all(document.as_bytes());
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
        Ok(()) => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_direction_are_shown_as_numbers() {
        assert_eq!(printable("a\u{202e}b\u{feff}é"), "a\\u{202e}b\\u{feff}é");
        assert_eq!(lines("a\u{7}\tb\nc\r\n"), "a\\u{7} b\nc \n");
    }

    #[test]
    fn json_has_no_character_that_terminals_obey() {
        let name = "\u{1b}]0;x\u{7}\u{9b}2J\u{7f}\u{202e}\u{2028}";
        let text = printable_json(&serde_json::to_string(name).unwrap());
        assert!(!text.chars().any(is_obeyed), "{text:?}");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), name);
    }
}
