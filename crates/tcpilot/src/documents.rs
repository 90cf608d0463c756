//! The reference of `docs/use/commands.md`: each command with its options, from the command line, and with the
//! fields of its JSON, from the figures. `TCPILOT_RENEW=1 cargo test -p tcpilot documents` renews it.

use std::{collections::BTreeMap, fmt::Write as _, fs, path::Path};

use clap::{Arg, Command, CommandFactory};
use tcpilot_abi::Why;
use tcpilot_pilot::check::{CheckReport, CheckView};
use tcpilot_pilot::figures::{
    AddressView, AlgorithmView, ChangeView, ChoicesView, CohortView, DecisionView, DrawnAlgorithm,
    EffectReport, ExplainedPath, Explanation, FleetComparison, FleetReport, FleetStatus, FleetView,
    FlowView, GroupView, HistogramView, LearningStatus, MeasureView, PathView, PointView,
    PolicyEffect, PolicyStatus, RescueStatus, ShownView, StateSummary, Status, StopView,
    TrafficView, TuneView, TuningView, TuningsStatus, Upgrades,
};
use tcpilot_show::figure::{Unit, View};

use crate::{cc, cli::Cli};

const BEGIN: &str = "<!-- generated from the command line and the figures: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// A field of a document.
struct Field {
    /// The object with the field, as a prefix: `paths[].algorithms[].`.
    place: String,
    key: &'static str,
    unit: Unit,
    doc: &'static str,
}

/// The fields of a view; `place` is its prefix in the document.
fn fields<V: View>(place: &str) -> Vec<Field> {
    let field = |f: &tcpilot_show::figure::Figure<V>| Field {
        place: place.to_owned(),
        key: f.key,
        unit: f.unit,
        doc: f.doc.trim(),
    };
    V::FIGURES.iter().map(field).collect()
}

/// The unit, if neither the name nor the text has it.
fn unit(field: &Field) -> String {
    let name = field.unit.name();
    let suffix = match field.unit {
        Unit::Plain => return String::new(),
        Unit::Microseconds => "_us",
        Unit::Nanoseconds => "_ns",
        Unit::Seconds => "_s",
        Unit::Packets => "packets",
        Unit::Bytes => "bytes",
        Unit::BytesPerSecond | Unit::Share | Unit::Millionths => return format!(" ({name})"),
    };
    let words = format!("{} {}", field.key, field.doc.to_lowercase());
    let has_unit = field.key.ends_with(suffix)
        || words.contains(suffix)
        || (suffix == "packets" && words.contains("segments"));
    if has_unit {
        String::new()
    } else {
        format!(" ({name})")
    }
}

/// The fields of an object as a list, each with its own fields below. Neighbours with the same text share a line.
fn list(all: &[Field], place: &str, depth: usize) -> String {
    let mut out = String::new();
    let here: Vec<&Field> = all.iter().filter(|f| f.place == place).collect();
    for same in here.chunk_by(|a, b| a.doc == b.doc && a.unit == b.unit) {
        let below = |end: &str| {
            let mut places = same.iter().map(|f| format!("{place}{}{end}", f.key));
            places.find(|p| all.iter().any(|f| f.place == *p))
        };
        let (suffix, below) = match (below("[]."), below(".")) {
            (Some(place), _) => ("[]", Some(place)),
            (None, place) => ("", place),
        };
        let names: Vec<String> = same
            .iter()
            .map(|f| format!("`{}{suffix}`", f.key))
            .collect();
        let indent = "  ".repeat(depth);
        let _ = writeln!(
            out,
            "{indent}- {}{}: {}",
            names.join(", "),
            unit(same[0]),
            same[0].doc
        );
        if let Some(below) = below {
            out += &list(all, &below, depth + 1);
        }
    }
    out
}

/// The fields of a command's JSON; `root` is the object with most of them.
fn json(root: &str, all: Vec<Vec<Field>>) -> String {
    let all: Vec<Field> = all.into_iter().flatten().collect();
    let of = match root.strip_suffix('.') {
        Some(object) => format!(", of each entry of `{object}`"),
        None => String::new(),
    };
    format!("Fields of JSON{of}:\n\n{}\n", list(&all, root, 0))
}

/// The reasons of an algorithm, by their words.
fn reasons() -> String {
    let rows = Why::ALL.map(|why| format!("- `{}`: {}\n", why.word(), why.sentence()));
    format!("`why` is one of:\n\n{}\n", rows.concat())
}

fn json_of_explain() -> String {
    let (tuning, tune) = ("paths[].tuning.", "paths[].tuning.tunings[].");
    json(
        "",
        vec![
            fields::<Explanation>(""),
            fields::<ExplainedPath>("paths[]."),
            fields::<DecisionView>("paths[].decisions[]."),
            fields::<TuningView>(tuning),
            fields::<TuneView>(tune),
            fields::<CohortView>(&format!("{tune}with.")),
        ],
    )
}

fn json_of_report() -> String {
    json(
        "",
        vec![
            fields::<EffectReport>(""),
            fields::<MeasureView>("measures[]."),
            fields::<PolicyEffect>("policies[]."),
            fields::<GroupView>("worst[]."),
            fields::<StopView>("stops[]."),
            fields::<PointView>("history[]."),
            fields::<ChoicesView>("choices[]."),
        ],
    ) + &json_of_fleet_report()
}

fn json_of_fleet_report() -> String {
    let all = [
        fields::<FleetReport>(""),
        fields::<FleetComparison>("first."),
    ];
    let all: Vec<Field> = all.into_iter().flatten().collect();
    format!("Fields of JSON with `--fleet`:\n\n{}\n", list(&all, "", 0))
}

fn json_of_status() -> String {
    json(
        "",
        vec![
            fields::<Status>(""),
            fields::<AddressView>("gains[]."),
            fields::<TrafficView>("traffic."),
            fields::<RescueStatus>("rescued."),
            fields::<LearningStatus>("learning."),
            fields::<PolicyStatus>("learning.policies[]."),
            fields::<DrawnAlgorithm>("learning.policies[].algorithms[]."),
            fields::<ShownView>("learning.policies[].algorithms[].shown[]."),
            fields::<HistogramView>("learning.policies[].algorithms[].shown[].goodput."),
            fields::<ChangeView>("learning.changes[]."),
            fields::<FleetStatus>("fleet."),
            fields::<TuningsStatus>("tunings."),
            fields::<Upgrades>("take_overs."),
        ],
    )
}

fn json_of(command: &str) -> String {
    match command {
        "paths" => json(
            "paths[].",
            vec![
                fields::<PathView>("paths[]."),
                fields::<AlgorithmView>("paths[].algorithms[]."),
                fields::<FleetView>("paths[].fleet."),
            ],
        ),
        "flows" => json("flows[].", vec![fields::<FlowView>("flows[].")]) + &reasons(),
        "explain" => json_of_explain(),
        "report" => json_of_report(),
        "status" => json_of_status(),
        "check" => json(
            "",
            vec![fields::<CheckReport>(""), fields::<CheckView>("checks[].")],
        ),
        "cc list" => json(
            "algorithms[].",
            vec![fields::<cc::Algorithm>("algorithms[].")],
        ),
        "state show" => json("", vec![fields::<StateSummary>("")]),
        _ => String::new(),
    }
}

/// The commands without subcommands, by their names without `tcpilot`.
fn commands(of: &Command) -> Vec<(String, Command)> {
    let shown = of
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help");
    shown
        .flat_map(|sub| {
            if sub.has_subcommands() {
                return commands(sub);
            }
            let name = sub.get_bin_name().unwrap_or_default();
            vec![(name.trim_start_matches("tcpilot ").to_owned(), sub.clone())]
        })
        .collect()
}

fn name(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    match arg.get_long() {
        Some(long) if arg.get_action().takes_values() => format!("--{long} {}", values.join(" ")),
        Some(long) => format!("--{long}"),
        None => values.join(" "),
    }
}

/// Its name without its value.
fn short_name(arg: &Arg) -> String {
    arg.get_long()
        .map_or_else(|| name(arg), |long| format!("--{long}"))
}

/// An option or argument, a line: its name, its short help, its values, its default.
fn option(arg: &Arg) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let help = match help.split_once(" [default: ") {
        Some((help, default)) => format!("{help}; default: {}", default.trim_end_matches(']')),
        None => help,
    };
    let mut line = format!("- `{}`: {help}", name(arg));
    let values = arg.get_possible_values();
    let explained = values
        .iter()
        .filter_map(|v| Some((v.get_name(), v.get_help()?)));
    let explained: Vec<_> = explained
        .map(|(value, help)| format!("`{value}` ({help})"))
        .collect();
    if arg.get_action().takes_values() && !explained.is_empty() {
        let _ = write!(line, ": {}", explained.join(", "));
    }
    let default = arg.get_default_values();
    if arg.get_action().takes_values() && !default.is_empty() && !arg.is_hide_default_value_set() {
        let default: Vec<_> = default
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        let _ = write!(line, "; default `{}`", default.join(" "));
    }
    if let Some(variable) = arg.get_env() {
        let _ = write!(line, "; environment `{}`", variable.to_string_lossy());
    }
    line + ".\n"
}

fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    let args = command.get_arguments();
    args.filter(|arg| !arg.is_hide_set() && !["help", "version"].contains(&arg.get_id().as_str()))
}

/// A command: its purpose, its options, its JSON. Options of `shared` are only named.
fn section(name_of: &str, command: &Command, shared: &BTreeMap<String, usize>) -> String {
    let text = |styled: Option<&clap::builder::StyledStr>| {
        styled.map(ToString::to_string).unwrap_or_default()
    };
    // The pages about the watch explain it.
    let about = match name_of {
        "watch" => {
            text(command.get_about())
                + ": [the watch](watch.md), [fair shares](fair.md). `--schema` prints the fields of its JSON"
        }
        _ => match text(command.get_long_about()) {
            long if long.is_empty() => text(command.get_about()),
            long => long
                .replacen("\n\n", ". ", 1)
                .trim_end_matches('.')
                .to_owned(),
        },
    };
    let about = about.replace("docs/use/report.md", "[report](report.md)");
    let mut out = format!("### {name_of}\n\n{about}.\n\n");
    let is_shared = |arg: &&Arg| shared.get(&option(arg)).is_some_and(|count| *count > 1);
    let own: String = options(command)
        .filter(|arg| !is_shared(arg))
        .map(option)
        .collect();
    let others: Vec<_> = options(command)
        .filter(is_shared)
        .map(|arg| format!("`{}`", short_name(arg)))
        .collect();
    out += &own;
    if !others.is_empty() {
        let also = if own.is_empty() { "Options" } else { "\nAlso" };
        let _ = writeln!(out, "{also}: {}.", others.join(", "));
    }
    out + "\n" + &json_of(name_of)
}

fn reference() -> String {
    let mut tree = Cli::command();
    tree.build();
    let commands = commands(&tree);
    let mut shared: BTreeMap<String, usize> = BTreeMap::new();
    for arg in commands.iter().flat_map(|(_, command)| options(command)) {
        *shared.entry(option(arg)).or_default() += 1;
    }
    let several: String = shared
        .iter()
        .filter(|(_, count)| **count > 1)
        .map(|(line, _)| line.as_str())
        .collect();
    let sections = commands
        .iter()
        .map(|(name, command)| section(name, command, &shared));
    format!(
        "\n### Options of several commands\n\n{several}\n{}",
        sections.collect::<String>()
    )
}

#[test]
fn the_manual_has_every_option_and_every_field() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/use/commands.md");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let renewed = format!("{before}{BEGIN}{}{END}{after}", reference());
    if std::env::var_os("TCPILOT_RENEW").is_some() {
        fs::write(&file, &renewed).unwrap();
    }
    let stored = fs::read_to_string(&file).unwrap();
    let mut lines = stored.lines().zip(renewed.lines());
    let differs = lines.position(|(a, b)| a != b).map(|at| at + 1);
    assert!(
        stored == renewed,
        "docs/use/commands.md differs from line {differs:?} on; TCPILOT_RENEW=1 renews it"
    );
}
