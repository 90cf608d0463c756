//! Keys as a terminal sends them: characters, control characters and escape sequences (ECMA-48, section 5.4;
//! xterm's "Control Sequences", PC-style function keys).

use std::{collections::VecDeque, mem};

use vte::{Params, Parser, Perform};

use super::browse::Press;

const ESCAPE: u8 = 0x1b;

/// Decodes a terminal's input into keys. A sequence may come in parts.
#[derive(Default)]
pub struct Keys {
    parser: Box<Parser>,
    pressed: Pressed,
}

impl Keys {
    /// Takes the bytes of one read.
    pub fn take(&mut self, read: &[u8]) {
        self.parser.advance(&mut self.pressed, read);
        // A terminal sends a sequence in one piece: an Escape at the end is the key.
        if read.ends_with(&[ESCAPE]) {
            *self.parser = Parser::new();
            self.pressed.keys.push_back(Press::Escape);
        }
    }

    /// The earliest meaningful key not given yet.
    pub fn give(&mut self) -> Option<Press> {
        self.pressed.keys.pop_front()
    }
}

#[derive(Default)]
struct Pressed {
    keys: VecDeque<Press>,
    /// `ESC O` came: the next letter is a key's name (SS3).
    names_a_key: bool,
}

impl Perform for Pressed {
    fn print(&mut self, letter: char) {
        let key = if mem::take(&mut self.names_a_key) {
            named(letter)
        } else if letter == '\x7f' {
            Some(Press::Backspace)
        } else {
            Some(Press::Letter(letter))
        };
        self.keys.extend(key);
    }

    fn execute(&mut self, control: u8) {
        self.keys.extend(match control {
            0x03 => Some(Press::Quit), // Ctrl-C
            0x08 => Some(Press::Backspace),
            b'\r' | b'\n' => Some(Press::Enter),
            _ => None,
        });
    }

    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: char) {
        let number = params.iter().flatten().next().copied().unwrap_or(0);
        self.keys.extend(match (action, number) {
            ('~', 1 | 7) => Some(Press::Home),
            ('~', 4 | 8) => Some(Press::End),
            ('~', 5) => Some(Press::PageUp),
            ('~', 6) => Some(Press::PageDown),
            _ => named(action),
        });
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, byte: u8) {
        self.names_a_key = byte == b'O';
    }
}

/// The key of a sequence with this last letter.
fn named(letter: char) -> Option<Press> {
    Some(match letter {
        'A' => Press::Up,
        'B' => Press::Down,
        'F' => Press::End,
        'H' => Press::Home,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys of these reads.
    fn keys(reads: &[&[u8]]) -> Vec<Press> {
        let mut keys = Keys::default();
        reads.iter().for_each(|read| keys.take(read));
        std::iter::from_fn(|| keys.give()).collect()
    }

    #[test]
    fn characters_and_control_characters_are_keys() {
        assert_eq!(
            keys(&["/ä\x7f\x08\r".as_bytes(), b"\x03\x01\t"]),
            [
                Press::Letter('/'),
                Press::Letter('ä'),
                Press::Backspace,
                Press::Backspace,
                Press::Enter,
                Press::Quit,
            ]
        );
        assert_eq!(keys(&[b"\xc3", b"\xa4"]), [Press::Letter('ä')]);
    }

    #[test]
    fn moving_keys_are_known_in_all_forms() {
        for (key, forms) in [
            (Press::Up, &["\x1b[A", "\x1bOA", "\x1b[1;5A"][..]),
            (Press::Down, &["\x1b[B", "\x1bOB"]),
            (Press::Home, &["\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"]),
            (Press::End, &["\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"]),
            (Press::PageUp, &["\x1b[5~"]),
            (Press::PageDown, &["\x1b[6~", "\x1b[6;2~"]),
        ] {
            for form in forms {
                assert_eq!(keys(&[form.as_bytes()]), [key], "{form:?}");
            }
        }
    }

    #[test]
    fn escape_is_a_key_if_nothing_follows_it() {
        assert_eq!(keys(&[b"\x1b"]), [Press::Escape]);
        assert_eq!(keys(&[b"a\x1b", b"[A"])[1], Press::Escape);
        assert_eq!(keys(&[b"\x1b", b"q"])[1], Press::Letter('q'));
    }

    #[test]
    fn unknown_sequences_are_skipped() {
        // Insert, F5, F1, Alt-x, a report of the mouse, a pasted text's marks.
        for other in ["[2~", "[15~", "OP", "x", "[<0;3;4M", "[200~"] {
            let read = format!("\x1b{other}q");
            assert_eq!(keys(&[read.as_bytes()]), [Press::Letter('q')], "{other:?}");
        }
        // Alt-[ is the start of a sequence.
        assert_eq!(keys(&[b"\x1b["]), []);
        assert_eq!(keys(&[b"\x1b[", b"A"]), [Press::Up]);
        assert_eq!(keys(&[b"\x1b[", b"\x03"]), [Press::Quit]);
    }
}
