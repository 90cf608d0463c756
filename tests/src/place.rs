//! The paths to a prefix as one: the default learner has a path for each class of handshakes, and handshakes of
//! one address differ by chance.

use serde_json::Value;

/// Figures to add up.
const SUMS: [&str; 9] = [
    "connections",
    "live_flows",
    "chosen",
    "greedy",
    "samples",
    "rescued",
    "undone",
    "moved",
    "experience",
];
/// Figures merged into their minimum.
const LEAST: [&str; 1] = ["min_rtt_us"];
/// Figures merged into their maximum.
const GREATEST: [&str; 3] = ["max_delivery_rate", "loss_ratio", "ssthresh"];

/// One entry for each namespace, prefix and policy. Other fields, neither added up nor compared, come from
/// the entry's first path, the one used last.
pub fn places(paths: Vec<Value>) -> Vec<Value> {
    let is_same = |a: &Value, b: &Value| {
        ["netns", "prefix", "policy"]
            .iter()
            .all(|field| a[field] == b[field])
    };
    let mut places: Vec<Value> = Vec::new();
    for path in paths {
        match places.iter_mut().find(|place| is_same(place, &path)) {
            Some(place) => add(place, &path),
            None => places.push(path),
        }
    }
    places
}

fn add(place: &mut Value, path: &Value) {
    for (name, figure) in place.as_object_mut().unwrap() {
        let (here, there) = (&*figure, &path[name]);
        match name.as_str() {
            "algorithms" => {
                let others = there.as_array().unwrap();
                let ours = figure.as_array_mut().unwrap();
                ours.iter_mut().zip(others).for_each(|(a, b)| add(a, b));
            }
            name if SUMS.contains(&name) => *figure = either(here, there, |a, b| a + b),
            name if LEAST.contains(&name) => *figure = either(here, there, f64::min),
            name if GREATEST.contains(&name) => *figure = either(here, there, f64::max),
            _ => {}
        }
    }
}

/// Both figures as one; the only one if the other is null.
fn either(a: &Value, b: &Value, both: impl Fn(f64, f64) -> f64) -> Value {
    let (Some(x), Some(y)) = (a.as_f64(), b.as_f64()) else {
        return if a.is_null() { b.clone() } else { a.clone() };
    };
    let is_whole = a.is_u64() && b.is_u64();
    match both(x, y) {
        value if is_whole => (value as u64).into(),
        value => value.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_one_prefix_are_one_place() {
        let path = |class: &str, connections: u64, rtt_us: Value, chosen: u64| {
            json!({"netns": "host", "prefix": "10.0.0.1", "policy": "default", "class": class,
                "connections": connections, "min_rtt_us": rtt_us, "loss_ratio": 0.5,
                "algorithms": [{"name": "bbr", "chosen": chosen, "max_delivery_rate": null}]})
        };
        let mut other = path("c", 7, 9.into(), 7);
        other["policy"] = "other".into();
        let paths = vec![
            path("a", 2, json!(null), 1),
            other.clone(),
            path("b", 3, 8.into(), 2),
        ];
        assert_eq!(places(paths), [path("a", 5, 8.into(), 3), other]);
    }
}
