//! The keys of a live list, and the parts of its screen: a head, scrolling rows, and a line of help. Pure: it
//! knows neither the terminal nor the source of the rows.

use super::{
    select::{ListQuery, Listed, Selection},
    wrap::wrapped,
};

/// The keys of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Press {
    /// A letter or a sign.
    Letter(char),
    /// Takes the last letter back.
    Backspace,
    /// Ends an input.
    Enter,
    /// Leaves an input, or the list.
    Escape,
    /// Goes a row up.
    Up,
    /// Goes a row down.
    Down,
    /// Goes a screen up.
    PageUp,
    /// Goes a screen down.
    PageDown,
    /// Goes to the first row.
    Home,
    /// Goes to the last row.
    End,
    /// Ends the program, even during an input.
    Quit,
}

/// The size of a screen, in lines and columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Signs in a line.
    pub columns: usize,
    /// Lines.
    pub rows: usize,
}

/// The step after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEffect {
    /// Draw.
    Draw,
    /// Other rows may be wanted.
    Ask,
    /// End.
    Quit,
}

/// The part of the query being typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Filter,
    Sort,
    Columns,
}

impl Field {
    fn prompt(self) -> &'static str {
        match self {
            Field::Filter => "filter (KEY=VALUE, KEY>VALUE, or a text; nothing: all)",
            Field::Sort => "sort by (KEY, or -KEY for the greatest first)",
            Field::Columns => "columns (KEY,KEY; nothing: the usual ones)",
        }
    }
}

/// The line at the bottom, before and after the key of processes.
const HELP: [&str; 2] = [
    "q quit · / filter · s sort · r reverse · c columns",
    " · ↑ ↓ PgUp PgDn Home End",
];

/// The state of a live list.
pub struct Browser<L: Listed> {
    query: ListQuery,
    selection: Selection<L>,
    /// Whether processes are wanted.
    pub processes: bool,
    input: Option<(Field, String)>,
    /// The error of the last input.
    problem: Option<String>,
    /// Rows above the screen.
    above: usize,
    /// Rows of the screen when it was last drawn.
    room: usize,
}

impl<L: Listed> Browser<L> {
    /// A browser with the query of the command line.
    ///
    /// # Errors
    /// Those of [`Selection::new`].
    pub fn new(query: ListQuery, processes: bool) -> Result<Browser<L>, crate::failure::Failure> {
        Ok(Browser {
            selection: Selection::new(&query)?,
            query,
            processes,
            input: None,
            problem: None,
            above: 0,
            room: 0,
        })
    }

    /// The query in force.
    pub fn selection(&self) -> &Selection<L> {
        &self.selection
    }

    /// Takes a key.
    pub fn press(&mut self, press: Press) -> KeyEffect {
        if press == Press::Quit {
            return KeyEffect::Quit;
        }
        self.problem = None;
        match self.input.take() {
            Some((field, text)) => self.type_in(field, text, press),
            None => self.command(press),
        }
    }

    fn type_in(&mut self, field: Field, mut text: String, press: Press) -> KeyEffect {
        match press {
            Press::Escape => return KeyEffect::Draw,
            Press::Enter => return self.enter(field, &text),
            Press::Letter(letter) => text.push(letter),
            Press::Backspace => {
                text.pop();
            }
            _ => {}
        }
        self.input = Some((field, text));
        KeyEffect::Draw
    }

    fn command(&mut self, press: Press) -> KeyEffect {
        let page = self.room.max(1);
        match press {
            Press::Letter('q') | Press::Escape | Press::Quit => return KeyEffect::Quit,
            Press::Letter('/') => self.open(Field::Filter),
            Press::Letter('s') => self.open(Field::Sort),
            Press::Letter('c') => self.open(Field::Columns),
            Press::Letter('r') => {
                let mut query = self.query.clone();
                query.sort.iter_mut().for_each(|key| *key = reversed(key));
                return self.set_query(query);
            }
            Press::Letter('p') if L::HAS_PROCESSES => {
                self.processes = !self.processes;
                return KeyEffect::Ask;
            }
            Press::Up | Press::Letter('k') => self.above = self.above.saturating_sub(1),
            Press::Down | Press::Letter('j') => self.above += 1,
            Press::PageUp => self.above = self.above.saturating_sub(page),
            Press::PageDown => self.above += page,
            Press::Home => self.above = 0,
            Press::End => self.above = usize::MAX - page,
            Press::Letter(_) | Press::Backspace | Press::Enter => {}
        }
        KeyEffect::Draw
    }

    /// Opens an input with the query in force, for the user to change.
    fn open(&mut self, field: Field) {
        let text = match field {
            Field::Filter => self.query.filter.join(" & "),
            Field::Sort => self.query.sort.join(","),
            Field::Columns => self.query.columns.join(","),
        };
        self.input = Some((field, text));
    }

    fn enter(&mut self, field: Field, text: &str) -> KeyEffect {
        let split = |by: &str| -> Vec<String> {
            let parts = text.split(by).map(|part| part.trim().to_owned());
            parts.filter(|part| !part.is_empty()).collect()
        };
        let mut query = self.query.clone();
        match field {
            Field::Filter => query.filter = split("&"),
            Field::Sort => query.sort = split(","),
            Field::Columns => query.columns = split(","),
        }
        self.set_query(query)
    }

    fn set_query(&mut self, query: ListQuery) -> KeyEffect {
        match Selection::new(&query) {
            Ok(selection) => {
                (self.query, self.selection) = (query, selection);
                self.above = 0;
                KeyEffect::Ask
            }
            Err(failure) => {
                self.problem = Some(failure.to_string());
                KeyEffect::Draw
            }
        }
    }

    /// The lines of the screen: the head, wrapped, in at most half of the screen; the table, whose first line
    /// does not scroll; and a line of help, of input, or of a problem.
    pub fn frame(&mut self, head: &str, table: &str, size: Size) -> Vec<String> {
        let rows = size.rows.saturating_sub(1);
        let mut lines = wrapped(head, size.columns);
        let table: Vec<&str> = table.lines().collect();
        lines.truncate((rows / 2).max(rows.saturating_sub(table.len() + 1)));
        lines.push(String::new());
        let (heading, body) = table.split_at(table.len().min(1));
        lines.extend(heading.iter().map(|&line| line.to_owned()));
        self.room = rows.saturating_sub(lines.len());
        self.above = self.above.min(body.len().saturating_sub(self.room));
        let shown = body.iter().skip(self.above).take(self.room);
        lines.extend(shown.map(|&line| line.to_owned()));
        lines.truncate(rows);
        lines.resize(rows, String::new());
        lines.push(self.bottom(body.len()));
        lines
    }

    fn bottom(&self, body: usize) -> String {
        if let Some((field, text)) = &self.input {
            return format!("{}: {text}_", field.prompt());
        }
        if let Some(problem) = &self.problem {
            return problem.clone();
        }
        let processes = if L::HAS_PROCESSES {
            " · p processes"
        } else {
            ""
        };
        let help = HELP.join(processes);
        if body <= self.room {
            return help;
        }
        let last = (self.above + self.room).min(body);
        format!("{}-{last} of {body} · {help}", self.above + 1)
    }
}

fn reversed(key: &str) -> String {
    match key.strip_prefix('-') {
        Some(key) => key.to_owned(),
        None => format!("-{key}"),
    }
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use super::*;
    use crate::{figure::figures, select::NoPart};

    figures! {
        /// An item.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        Row {
            /// A number.
            number: u32, "Number";
        }
    }

    impl Listed for Row {
        type Part = NoPart;
        const HAS_PROCESSES: bool = true;
    }

    fn size(rows: usize) -> Size {
        Size { columns: 80, rows }
    }

    /// A browser of the numbers from 0 on, on a screen of eight lines.
    struct Screen {
        browser: Browser<Row>,
        rows: u32,
    }

    impl Screen {
        fn new(rows: u32) -> Screen {
            let browser = Browser::new(ListQuery::default(), false).unwrap();
            let mut screen = Screen { browser, rows };
            screen.lines();
            screen
        }

        fn lines(&mut self) -> Vec<String> {
            let mut rows: Vec<Row> = (0..self.rows).map(|number| Row { number }).collect();
            self.browser.selection().apply(&mut rows);
            let table = self.browser.selection().table(&rows, |_| true, &[]);
            self.browser.frame("one\ntwo", &table, size(8))
        }

        fn body(&mut self) -> Vec<String> {
            let lines = self.lines();
            let body = lines[4..7].iter().map(|line| line.trim().to_owned());
            body.filter(|line| !line.is_empty()).collect()
        }

        fn type_in(&mut self, text: &str) {
            text.chars().for_each(|letter| {
                self.browser.press(Press::Letter(letter));
            });
        }

        fn clear_and_type(&mut self, key: char, text: &str) -> KeyEffect {
            self.browser.press(Press::Letter(key));
            for _ in 0..50 {
                self.browser.press(Press::Backspace);
            }
            self.type_in(text);
            self.browser.press(Press::Enter)
        }
    }

    #[test]
    fn rows_scroll_below_heading_and_stop_at_end() {
        let mut screen = Screen::new(10);
        assert_eq!(screen.lines()[..4], ["one", "two", "", "Number"]);
        assert!(
            screen.lines()[7].starts_with("1-3 of 10 · q quit"),
            "{:?}",
            screen.lines()
        );
        for (press, first) in [
            (Press::Down, "1"),
            (Press::PageDown, "4"),
            (Press::End, "7"),
            (Press::Down, "7"),
            (Press::Up, "6"),
            (Press::PageUp, "3"),
            (Press::Home, "0"),
            (Press::Up, "0"),
        ] {
            assert_eq!(screen.browser.press(press), KeyEffect::Draw);
            assert_eq!(screen.body()[0], first, "{press:?}");
            assert_eq!(screen.body().len(), 3);
        }
        assert!(Screen::new(3).lines()[7].starts_with("q quit"));
    }

    #[test]
    fn filter_is_typed_corrected_and_removed() {
        let mut screen = Screen::new(10);
        screen.browser.press(Press::Letter('/'));
        screen.type_in("number>77");
        screen.browser.press(Press::Backspace);
        assert!(
            screen.lines()[7].ends_with(": number>7_"),
            "{:?}",
            screen.lines()
        );
        assert_eq!(screen.body().len(), 3, "not before Enter");
        assert_eq!(screen.browser.press(Press::Enter), KeyEffect::Ask);
        assert_eq!(screen.body(), ["8", "9"]);
        assert_eq!(
            screen.clear_and_type('/', "number>7 & number<9"),
            KeyEffect::Ask
        );
        assert_eq!(screen.body(), ["8"]);
        screen.browser.press(Press::Letter('/'));
        screen.type_in("garbage");
        assert_eq!(
            screen.browser.press(Press::Escape),
            KeyEffect::Draw,
            "it leaves the input alone"
        );
        assert_eq!(screen.body(), ["8"]);
        screen.clear_and_type('/', "");
        assert_eq!(screen.body(), ["0", "1", "2"]);
    }

    #[test]
    fn the_order_is_typed_and_reversed() {
        let mut screen = Screen::new(10);
        screen.clear_and_type('s', "-number");
        assert_eq!(screen.body(), ["9", "8", "7"]);
        assert_eq!(screen.browser.press(Press::Letter('r')), KeyEffect::Ask);
        assert_eq!(screen.body(), ["0", "1", "2"]);
    }

    #[test]
    fn mistake_is_shown_and_changes_nothing() {
        let mut screen = Screen::new(10);
        screen.clear_and_type('s', "-number");
        assert_eq!(screen.clear_and_type('s', "colour"), KeyEffect::Draw);
        let told = &screen.lines()[7];
        assert_eq!(told, "there is no column `colour`; there are number");
        assert_eq!(screen.body(), ["9", "8", "7"]);
        screen.browser.press(Press::Down);
        assert!(
            screen.lines()[7].starts_with("2-4 of 10"),
            "the next key takes it away"
        );
    }

    #[test]
    fn q_and_escape_quit_outside_an_input() {
        for press in [Press::Letter('q'), Press::Escape, Press::Quit] {
            assert_eq!(Screen::new(1).browser.press(press), KeyEffect::Quit);
        }
        let mut screen = Screen::new(1);
        screen.browser.press(Press::Letter('/'));
        assert_eq!(screen.browser.press(Press::Letter('q')), KeyEffect::Draw);
        assert_eq!(screen.browser.press(Press::Quit), KeyEffect::Quit);
    }

    #[test]
    fn wide_head_continues_on_the_next_line() {
        let mut browser = Browser::<Row>::new(ListQuery::default(), false).unwrap();
        let head = "learned  from 850 of 940 records · 138 rows of 32768";
        let size = Size {
            columns: 40,
            rows: 8,
        };
        assert_eq!(
            browser.frame(head, "Number\n7\n", size)[..4],
            [
                "learned  from 850 of 940 records",
                "         138 rows of 32768",
                "",
                "Number"
            ]
        );
    }

    #[test]
    fn a_long_head_leaves_room_for_rows() {
        let mut browser = Browser::<Row>::new(ListQuery::default(), false).unwrap();
        let head = "line\n".repeat(30);
        let table = "Number\n".to_owned() + &"7\n".repeat(30);
        let lines = browser.frame(&head, &table, size(24));
        assert_eq!(lines.len(), 24);
        assert_eq!(lines.iter().filter(|line| *line == "7").count(), 10);
        assert_eq!(
            browser.frame(&head, "none\n", size(24))[20],
            "line",
            "it has what the rows do not need"
        );
    }
}
