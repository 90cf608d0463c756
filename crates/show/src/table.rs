//! Tables for people, from the columns of views. Pure: returns strings.

use comfy_table::{CellAlignment, Table, presets};

use super::{figure::View, output::printable};

/// A table with a row for each view, and all columns of the view.
pub fn of<'a, V: View>(views: impl IntoIterator<Item = &'a V>) -> String {
    with(views, |_| true)
}

/// The same with only the columns of wanted headings.
pub fn with<'a, V: View>(
    views: impl IntoIterator<Item = &'a V>,
    is_wanted: impl Fn(&str) -> bool,
) -> String {
    let columns: Vec<_> = V::columns().filter(|c| is_wanted(c.heading)).collect();
    let headings: Vec<_> = columns.iter().map(|c| (c.heading, c.is_word)).collect();
    let rows = views.into_iter();
    let rows = rows.map(|view| columns.iter().map(|c| (c.text)(view)).collect());
    build(&headings, rows)
}

/// A table of headings and rows of cells. The flag of a heading is true if its column has words.
pub fn build(headings: &[(&str, bool)], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    let words = headings.iter().map(|(_, is_word)| *is_word);
    table
        .load_preset(presets::NOTHING)
        .set_header(headings.iter().map(|(heading, _)| *heading));
    for (column, is_word) in table.column_iter_mut().zip(words) {
        let alignment = if is_word {
            CellAlignment::Left
        } else {
            CellAlignment::Right
        };
        column.set_padding((0, 2)).set_cell_alignment(alignment);
    }
    // Before the widths are taken: what is escaped is longer.
    table.add_rows(
        rows.into_iter()
            .map(|row| row.iter().map(|cell| printable(cell)).collect::<Vec<_>>()),
    );
    table
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}
