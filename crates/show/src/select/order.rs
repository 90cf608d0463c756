//! The order of a list.

use std::cmp::Ordering;

use serde_json::Value;

use super::{Key, Listed, filter::compare};
use crate::failure::Failure;

/// A column to sort by.
pub(super) struct Order<L: Listed> {
    pub(super) key: Key<L>,
    /// Whether the greatest comes first.
    is_reverse: bool,
}

impl<L: Listed> Order<L> {
    /// Parses `KEY`, or `-KEY` for the greatest first.
    ///
    /// # Errors
    /// There is no such column.
    pub(super) fn parse(text: &str) -> Result<Order<L>, Failure> {
        let text = text.trim();
        let reversed = text.strip_prefix('-');
        Ok(Order {
            key: Key::named(reversed.unwrap_or(text))?,
            is_reverse: reversed.is_some(),
        })
    }

    /// A row without a sample comes last, in either direction.
    fn compare(&self, a: &Value, b: &Value) -> Ordering {
        match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.is_reverse => compare(b, a),
            (false, false) => compare(a, b),
        }
    }
}

/// Sorts the parts of each item, and then the items, each by its first part. Equal ones keep their order.
pub(super) fn sort<L: Listed>(orders: &[Order<L>], items: &mut Vec<L>) {
    if orders.is_empty() {
        return;
    }
    if orders.iter().any(|order| order.key.is_of_part()) {
        items.iter_mut().for_each(|item| sort_parts(orders, item));
    }
    let values = |item: &L| -> Vec<Value> {
        let part = item.parts().first();
        orders
            .iter()
            .map(|order| order.key.value(item, part))
            .collect()
    };
    let mut decorated: Vec<_> = items.drain(..).map(|item| (values(&item), item)).collect();
    decorated.sort_by(|a, b| compare_all(orders, &a.0, &b.0));
    items.extend(decorated.into_iter().map(|(_, item)| item));
}

fn sort_parts<L: Listed>(orders: &[Order<L>], item: &mut L) {
    let of_part = |part: &L::Part| -> Vec<Value> {
        orders
            .iter()
            .map(|order| order.key.value(item, Some(part)))
            .collect()
    };
    let values: Vec<Vec<Value>> = item.parts().iter().map(of_part).collect();
    let Some(parts) = item.parts_mut() else {
        return;
    };
    let mut decorated: Vec<_> = values.into_iter().zip(parts.drain(..)).collect();
    decorated.sort_by(|a, b| compare_all(orders, &a.0, &b.0));
    parts.extend(decorated.into_iter().map(|(_, part)| part));
}

fn compare_all<L: Listed>(orders: &[Order<L>], a: &[Value], b: &[Value]) -> Ordering {
    let each = orders.iter().zip(a.iter().zip(b));
    each.map(|(order, (a, b))| order.compare(a, b))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}
