//! Selects and orders the rows and columns of a list. All list commands, their JSON, and the keys of the live
//! view share this one vocabulary.
//!
//! A list has items, such as paths. An item may have parts, such as the algorithms of a path. A table then
//! has a row for each part, and the parts of an item stay together.

mod filter;
mod order;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::{
    document::RENAMED,
    figure::{self, Figure, NONE, Unit, View},
    table,
};
use crate::failure::{Failure, Kind};
use filter::Filter;
use order::Order;

/// An item of a list.
pub trait Listed: View {
    /// The figures of its parts.
    type Part: View;
    /// The key of the figure with the parts. Its singular is the word for a part's name. Empty if items have
    /// no parts.
    const PARTS: &'static str = "";
    /// Heading of the column with the item's name; empty if one of its figures names it.
    const NAME: &'static str = "";
    /// Whether the processes of its connections can be shown, too.
    const HAS_PROCESSES: bool = false;

    /// The item's name, as the column has it.
    fn name(&self) -> String {
        String::new()
    }

    /// Its parts.
    fn parts(&self) -> &[Self::Part] {
        &[]
    }

    /// Its parts, to be sorted and cut.
    fn parts_mut(&mut self) -> Option<&mut Vec<Self::Part>> {
        None
    }
}

/// The part of a list without parts: it has no values.
#[derive(Debug)]
pub enum NoPart {}

impl View for NoPart {
    const FIGURES: &'static [Figure<NoPart>] = &[];
}

/// The source of a column's values.
enum Source<L: Listed> {
    Name,
    Item(&'static Figure<L>),
    Part(&'static Figure<L::Part>),
}

/// A column, to show, to sort by, or to filter by.
pub struct Key<L: Listed> {
    /// Its name in options.
    pub word: String,
    source: Source<L>,
}

impl<L: Listed> Key<L> {
    /// All columns, in the order of their declaration.
    pub fn all() -> Vec<Key<L>> {
        let name = (!L::NAME.is_empty()).then(|| Key {
            word: L::NAME.to_lowercase(),
            source: Source::Name,
        });
        let items = L::FIGURES.iter().filter(|figure| figure.key != L::PARTS);
        let items = items.map(|figure| Key {
            word: figure.key.to_owned(),
            source: Source::Item(figure),
        });
        let parts = L::Part::FIGURES.iter().map(|figure| Key {
            word: part_word::<L>(figure.key),
            source: Source::Part(figure),
        });
        name.into_iter().chain(items).chain(parts).collect()
    }

    /// The column of this name, or of this former name.
    ///
    /// # Errors
    /// There is none; the message lists the columns.
    fn named(word: &str) -> Result<Key<L>, Failure> {
        let renamed = RENAMED.iter().find(|(_, old)| *old == word);
        let all = Key::all();
        let words: Vec<String> = all.iter().map(|key| key.word.clone()).collect();
        let is_meant =
            |key: &Key<L>| key.word == word || renamed.is_some_and(|(new, _)| key.word == *new);
        all.into_iter().find(is_meant).ok_or_else(|| {
            let known = words.join(", ");
            Failure::new(
                Kind::Usage,
                format!("there is no column `{word}`"),
                format!("there are {known}"),
            )
        })
    }

    fn is_of_part(&self) -> bool {
        matches!(self.source, Source::Part(_))
    }

    fn value(&self, item: &L, part: Option<&L::Part>) -> Value {
        match (&self.source, part) {
            (Source::Name, _) => item.name().into(),
            (Source::Item(figure), _) => (figure.value)(item),
            (Source::Part(figure), Some(part)) => (figure.value)(part),
            (Source::Part(_), None) => Value::Null,
        }
    }

    /// The cell of a row, as people read it.
    fn text(&self, item: &L, part: Option<&L::Part>) -> String {
        match (&self.source, part) {
            (Source::Name, _) => item.name(),
            (Source::Item(figure), _) => figure.text(item),
            (Source::Part(figure), Some(part)) => figure.text(part),
            (Source::Part(_), None) => NONE.to_owned(),
        }
    }

    /// The heading of the column; its word if the figure declares no heading.
    fn heading(&self) -> &str {
        let usual = match &self.source {
            Source::Name => Some(L::NAME),
            Source::Item(figure) => figure.column.as_ref().map(|column| column.heading),
            Source::Part(figure) => figure.column.as_ref().map(|column| column.heading),
        };
        usual.unwrap_or(&self.word)
    }

    fn unit(&self) -> Unit {
        match &self.source {
            Source::Name => Unit::Plain,
            Source::Item(figure) => figure.unit,
            Source::Part(figure) => figure.unit,
        }
    }

    /// The meaning of the column.
    pub fn doc(&self) -> &'static str {
        match &self.source {
            Source::Name => "Its name, as `explain` takes it.",
            Source::Item(figure) => figure.doc,
            Source::Part(figure) => figure.doc,
        }
    }

    /// Whether tables show the column if the user names no columns.
    fn is_usual(&self) -> bool {
        match &self.source {
            Source::Name => true,
            // If items have parts, the usual columns are those of the parts.
            Source::Item(figure) => L::PARTS.is_empty() && figure.column.is_some(),
            Source::Part(figure) => figure.column.is_some(),
        }
    }

    /// True for a column of words, aligned left; false for numbers, aligned right. `None` if the figure
    /// declares no column.
    fn is_word(&self) -> Option<bool> {
        match &self.source {
            Source::Name => Some(true),
            Source::Item(figure) => figure.column.as_ref().map(|column| column.is_word),
            Source::Part(figure) => figure.column.as_ref().map(|column| column.is_word),
        }
    }
}

/// The column word of a part's figure. The part's word precedes it if the item has a figure of the same name.
fn part_word<L: Listed>(key: &str) -> String {
    let part = L::PARTS.trim_end_matches('s');
    match key {
        "name" => part.to_owned(),
        key if L::FIGURES.iter().any(|figure| figure.key == key) => format!("{part}.{key}"),
        key => key.to_owned(),
    }
}

/// Columns of the narrowest usual terminal.
const HELP_WIDTH: usize = 80;

/// Lines of at most so many characters, unless a word is longer.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The columns with their meaning, a line or more each, for `--help`.
pub fn help<L: Listed>() -> String {
    let keys = Key::<L>::all();
    let width = keys.iter().map(|key| key.word.len()).max().unwrap_or(0);
    let lines = keys.iter().map(|key| {
        let heading = match key.heading() {
            heading if heading == key.word || !key.is_usual() => String::new(),
            heading => format!("{heading}: "),
        };
        let text = format!("{heading}{}", figure::plain(key.doc()));
        let lines = wrapped(&text, HELP_WIDTH.saturating_sub(width + 4));
        let text = lines.join(&format!("\n{:1$}", "", width + 4));
        format!("  {:<width$}  {text}\n", key.word)
    });
    let lines: String = lines.collect();
    let parts = match L::PARTS {
        "" => String::new(),
        parts => {
            format!("\nA row of a list with {parts} stands where the first of them belongs.\n")
        }
    };
    format!("Columns, by the names that --columns, --sort and --filter take:\n{lines}{parts}")
}

/// A query about a list, as the user wrote it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListQuery {
    /// Rows to show, see [`Filter`]; a row must pass all filters.
    pub filter: Vec<String>,
    /// Columns to sort by, the most important first; a `-` in front reverses the order.
    pub sort: Vec<String>,
    /// The most items to show.
    pub limit: Option<usize>,
    /// Columns to show; empty: the usual ones.
    pub columns: Vec<String>,
}

/// The query, parsed.
pub struct Selection<L: Listed> {
    filters: Vec<Filter<L>>,
    orders: Vec<Order<L>>,
    limit: Option<usize>,
    /// Columns to show; empty: the usual ones.
    columns: Vec<Key<L>>,
}

impl<L: Listed> Default for Selection<L> {
    /// Selects everything, in its original order.
    fn default() -> Selection<L> {
        Selection {
            filters: Vec::new(),
            orders: Vec::new(),
            limit: None,
            columns: Vec::new(),
        }
    }
}

impl<L: Listed> Selection<L> {
    /// Parses the query.
    ///
    /// # Errors
    /// The query names an unknown column, or a filter is not understood.
    pub fn new(query: &ListQuery) -> Result<Selection<L>, Failure> {
        let columns = query.columns.iter().map(|word| Key::named(word.trim()));
        Ok(Selection {
            filters: all(query.filter.iter().map(|text| Filter::parse(text)))?,
            orders: all(query.sort.iter().map(|text| Order::parse(text)))?,
            limit: query.limit,
            columns: all(columns)?,
        })
    }

    /// Whether the query names one of these columns.
    pub fn names(&self, words: &[&str]) -> bool {
        let filters = self.filters.iter().filter_map(Filter::key);
        let orders = self.orders.iter().map(|order| &order.key);
        let mut keys = filters.chain(orders).chain(&self.columns);
        keys.any(|key| words.contains(&key.word.as_str()))
    }

    /// Keeps the wanted items and parts, in the wanted order.
    pub fn apply(&self, items: &mut Vec<L>) {
        items.retain_mut(|item| self.keep(item));
        order::sort(&self.orders, items);
        items.truncate(self.limit());
    }

    /// Keeps the wanted items with all of their parts, in the wanted order, whatever the limit.
    pub fn apply_whole(&self, items: &mut Vec<L>)
    where
        L: Clone,
    {
        items.retain(|item| self.keep(&mut item.clone()));
        order::sort(&self.orders, items);
    }

    /// The most items to show.
    pub fn limit(&self) -> usize {
        self.limit.unwrap_or(usize::MAX)
    }

    /// Whether the user named the columns to show.
    pub fn has_columns(&self) -> bool {
        !self.columns.is_empty()
    }

    /// Removes the unwanted parts; true if the item is wanted.
    fn keep(&self, item: &mut L) -> bool {
        let matches = |part| self.filters.iter().all(|filter| filter.matches(item, part));
        if item.parts().is_empty() {
            return matches(None);
        }
        let wanted: Vec<bool> = item
            .parts()
            .iter()
            .map(|part| matches(Some(part)))
            .collect();
        let mut each = wanted.iter();
        if let Some(parts) = item.parts_mut() {
            parts.retain(|_| each.next() == Some(&true));
        }
        wanted.contains(&true)
    }

    /// Whether the filters or the limit may leave rows out.
    pub fn is_partial(&self) -> bool {
        !self.filters.is_empty() || self.limit.is_some()
    }

    /// A table with a row for each part, or for each item if items have no parts. If the user named no
    /// columns, it has the usual columns with a wanted heading, and `more`.
    pub fn table(&self, items: &[L], is_wanted: impl Fn(&str) -> bool, more: &[&str]) -> String {
        let usual;
        let columns = match self.columns.is_empty() {
            true => {
                usual = usual_columns(is_wanted, more);
                &usual
            }
            false => &self.columns,
        };
        let rows = items.iter().flat_map(|item| {
            let parts = item.parts().iter().map(Some);
            // If items have parts, an item without any has no row.
            let alone = L::PARTS.is_empty().then_some(None);
            parts.chain(alone).map(move |part| (item, part))
        });
        let rows: Vec<Vec<String>> = rows
            .map(|(item, part)| columns.iter().map(|key| key.text(item, part)).collect())
            .collect();
        let is_number = |cell: &String| cell == NONE || cell.parse::<f64>().is_ok();
        let headings = columns.iter().enumerate().map(|(number, key)| {
            let mut cells = rows.iter().filter_map(|row| row.get(number));
            let by_cells = || key.unit() == Unit::Plain && !cells.all(is_number);
            (key.heading(), key.is_word().unwrap_or_else(by_cells))
        });
        let headings: Vec<_> = headings.collect();
        table::build(&headings, rows)
    }
}

/// Words before numbers, as in [`View::columns`]; `more` are words.
fn usual_columns<L: Listed>(is_wanted: impl Fn(&str) -> bool, more: &[&str]) -> Vec<Key<L>> {
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let mut others = Vec::new();
    for key in Key::all() {
        match key.is_word() {
            _ if more.contains(&key.word.as_str()) => others.push(key),
            _ if !key.is_usual() || !is_wanted(key.heading()) => {}
            Some(true) => words.push(key),
            _ => numbers.push(key),
        }
    }
    words.into_iter().chain(others).chain(numbers).collect()
}

fn all<T>(parsed: impl Iterator<Item = Result<T, Failure>>) -> Result<Vec<T>, Failure> {
    parsed.collect()
}
