//! Tables for people, from the columns that views declare. Pure: returns strings.

use comfy_table::{CellAlignment, Table, presets};

use super::figure::View;

/// A row for each view, with all columns that it has.
pub fn of<'a, V: View>(views: impl IntoIterator<Item = &'a V>) -> String {
    build(None, views.into_iter().map(|view| (None, view)), |_| true)
}

/// The same, with a name before each row.
pub fn named<'a, V: View>(
    heading: &str,
    views: impl IntoIterator<Item = (String, &'a V)>,
) -> String {
    named_of(heading, views, |_| true)
}

/// The same with those columns alone whose headings are wanted.
pub fn named_of<'a, V: View>(
    heading: &str,
    views: impl IntoIterator<Item = (String, &'a V)>,
    is_wanted: impl Fn(&str) -> bool,
) -> String {
    let rows = views.into_iter().map(|(name, view)| (Some(name), view));
    build(Some(heading), rows, is_wanted)
}

fn build<'a, V: View>(
    heading: Option<&str>,
    rows: impl Iterator<Item = (Option<String>, &'a V)>,
    is_wanted: impl Fn(&str) -> bool,
) -> String {
    let columns: Vec<_> = V::columns().filter(|c| is_wanted(c.heading)).collect();
    let mut table = Table::new();
    let headings = heading.into_iter().chain(columns.iter().map(|c| c.heading));
    table.load_preset(presets::NOTHING).set_header(headings);
    let words = heading.map(|_| true).into_iter();
    let words = words.chain(columns.iter().map(|c| c.is_word));
    for (column, is_word) in table.column_iter_mut().zip(words) {
        let alignment = if is_word {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        column.set_padding((0, 2)).set_cell_alignment(alignment);
    }
    for (name, view) in rows {
        let cells = columns.iter().map(|c| (c.text)(view));
        table.add_row(name.into_iter().chain(cells));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
