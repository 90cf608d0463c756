//! Which rows and columns of a list are shown, and in which order: one vocabulary for all commands that print
//! lists, for their JSON, and for the keys of the live view.
//!
//! A list has items, such as paths. An item may have parts, such as the algorithms of a path: a table has a row
//! for each part then, and the parts of an item stay together.

mod filter;
mod order;
#[cfg(test)]
mod tests;

use serde_json::Value;

use super::{
    figure::{Figure, NONE, Unit, View},
    table,
};
use crate::failure::{Failure, Kind};
use filter::Filter;
use order::Order;

/// An item of a list.
pub trait Listed: View {
    /// The figures of its parts.
    type Part: View;
    /// The figure that has its parts. Its singular is the word for their names; empty if there are none.
    const PARTS: &'static str = "";
    /// Heading of the column that names the item; empty if its figures do.
    const NAME: &'static str = "";

    /// The item's name, as the column has it.
    fn name(&self) -> String {
        String::new()
    }

    /// Its parts.
    fn parts(&self) -> &[Self::Part] {
        &[]
    }

    /// The same, to be sorted and cut.
    fn parts_mut(&mut self) -> Option<&mut Vec<Self::Part>> {
        None
    }
}

/// Parts of an item that has none.
#[derive(Debug)]
pub enum NoPart {}

impl View for NoPart {
    const FIGURES: &'static [Figure<NoPart>] = &[];
}

/// Where a column has its values.
enum Source<L: Listed> {
    Name,
    Item(&'static Figure<L>),
    Part(&'static Figure<L::Part>),
}

/// A column: to be shown, to be sorted and to be filtered by.
pub struct Key<L: Listed> {
    /// How options call it.
    pub word: String,
    source: Source<L>,
}

impl<L: Listed> Key<L> {
    /// All that there are, in the order of their declaration.
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

    /// # Errors
    /// There is none of this name; the message has those that there are.
    fn named(word: &str) -> Result<Key<L>, Failure> {
        let all = Key::all();
        let words: Vec<String> = all.iter().map(|key| key.word.clone()).collect();
        all.into_iter().find(|key| key.word == word).ok_or_else(|| {
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

    /// As people read it.
    fn text(&self, item: &L, part: Option<&L::Part>) -> String {
        match (&self.source, part) {
            (Source::Name, _) => item.name(),
            (Source::Item(figure), _) => figure.text(item),
            (Source::Part(figure), Some(part)) => figure.text(part),
            (Source::Part(_), None) => NONE.to_owned(),
        }
    }

    /// Above its column: what tables do not usually show is called by its word.
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

    /// What it means; the name explains itself.
    pub fn doc(&self) -> &'static str {
        match &self.source {
            Source::Name => "Its name, as `explain` takes it.",
            Source::Item(figure) => figure.doc,
            Source::Part(figure) => figure.doc,
        }
    }

    /// Whether tables show it unless columns are named.
    fn is_usual(&self) -> bool {
        match &self.source {
            Source::Name => true,
            // The columns of an item with parts are those of its parts.
            Source::Item(figure) => L::PARTS.is_empty() && figure.column.is_some(),
            Source::Part(figure) => figure.column.is_some(),
        }
    }

    /// Words stand on the left of their column, numbers on the right.
    fn is_word(&self) -> Option<bool> {
        match &self.source {
            Source::Name => Some(true),
            Source::Item(figure) => figure.column.as_ref().map(|column| column.is_word),
            Source::Part(figure) => figure.column.as_ref().map(|column| column.is_word),
        }
    }
}

/// A figure of a part that the item has too is told apart by the part's word.
fn part_word<L: Listed>(key: &str) -> String {
    let part = L::PARTS.trim_end_matches('s');
    match key {
        "name" => part.to_owned(),
        key if L::FIGURES.iter().any(|figure| figure.key == key) => format!("{part}.{key}"),
        key => key.to_owned(),
    }
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
        let doc = key.doc().trim();
        format!("  {:<width$}  {heading}{doc}\n", key.word)
    });
    let lines: String = lines.collect();
    format!("Columns, by the names that --columns, --sort and --filter take:\n{lines}")
}

/// The wishes, as they were written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wishes {
    /// Rows to show, see [`Filter`]; all must hold.
    pub filter: Vec<String>,
    /// Columns to sort by, the first first; `-` before one reverses it.
    pub sort: Vec<String>,
    /// The most items.
    pub limit: Option<usize>,
    /// Columns to show; none: the usual ones.
    pub columns: Vec<String>,
}

/// The wishes, understood.
pub struct Selection<L: Listed> {
    filters: Vec<Filter<L>>,
    orders: Vec<Order<L>>,
    limit: Option<usize>,
    /// Those to show; none: the usual ones.
    columns: Vec<Key<L>>,
}

impl<L: Listed> Default for Selection<L> {
    /// Everything, as it comes.
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
    /// Understands them.
    ///
    /// # Errors
    /// There is no such column, or a filter is not understood.
    pub fn new(wishes: &Wishes) -> Result<Selection<L>, Failure> {
        let columns = wishes.columns.iter().map(|word| Key::named(word.trim()));
        Ok(Selection {
            filters: all(wishes.filter.iter().map(|text| Filter::parse(text)))?,
            orders: all(wishes.sort.iter().map(|text| Order::parse(text)))?,
            limit: wishes.limit,
            columns: all(columns)?,
        })
    }

    /// Whether a wish names one of these columns.
    pub fn names(&self, words: &[&str]) -> bool {
        let filters = self.filters.iter().filter_map(Filter::key);
        let orders = self.orders.iter().map(|order| &order.key);
        let mut keys = filters.chain(orders).chain(&self.columns);
        keys.any(|key| words.contains(&key.word.as_str()))
    }

    /// Leaves the items and parts that are wanted, in the wanted order.
    pub fn apply(&self, items: &mut Vec<L>) {
        items.retain_mut(|item| self.keep(item));
        order::sort(&self.orders, items);
        items.truncate(self.limit.unwrap_or(usize::MAX));
    }

    /// Takes away the parts that are not wanted; whether the item is.
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

    /// Whether rows may be missing.
    pub fn is_partial(&self) -> bool {
        !self.filters.is_empty() || self.limit.is_some()
    }

    /// A row for each part, or for each item that has none. Unless columns were named, it has the usual ones, as
    /// far as their headings are wanted, and `more`.
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
            // A list of parts shows no item without any.
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

/// Words before numbers, as [`View::columns`]; `more` are words.
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
