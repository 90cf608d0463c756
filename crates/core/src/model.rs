//! The classifier's models: files of integers, written by `python -m tcplab.studies.watch train`.
//!
//! tcpilot reads a user's models at start. Its own are read by the build and are bytes in the binary, so a
//! start costs no reading.

mod features;
mod written;

use std::io::Read;

pub use features::FEATURES;
use flate2::read::GzDecoder;
use tcpilot_abi::{
    TP_GROUP_ANT, TP_GROUP_MOUSE, TP_GROUP_UNKNOWN, TP_REASON_OUTSIDE, TP_REASON_RULE, boxed,
    tp_model, tp_node, tp_range, tp_verdict, zeroed,
};
use written::Written;
pub use written::{Calibration, Line};

/// The first bytes of a file of gzip (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes of a model's text. The largest model for the programs has 5 MB.
const TEXT_MOST: u64 = 64 << 20;
/// The highest probability on paths beyond those of its training.
const OUTSIDE_MOST: f64 = 0.5;

/// A checked model.
pub struct Model {
    /// The model in the form for the programs in the kernel.
    pub in_kernel: Box<tp_model>,
    /// Names of the classes.
    pub names: Vec<String>,
    /// From votes to probabilities.
    pub calibration: Calibration,
}

impl Model {
    /// A model without trees: it never judges.
    pub fn without_trees() -> Model {
        Model {
            in_kernel: zeroed(),
            names: vec![],
            calibration: Calibration::default(),
        }
    }

    /// Reads a model's file: JSON, also compressed by gzip.
    ///
    /// # Errors
    /// Says what is wrong with it, as [`Model::parse`] does.
    pub fn read(bytes: &[u8]) -> Result<Model, String> {
        let mut text = String::new();
        let read = if bytes.starts_with(&GZIP) {
            let mut file = GzDecoder::new(bytes).take(TEXT_MOST);
            file.read_to_string(&mut text)
        } else {
            let mut file = bytes;
            file.read_to_string(&mut text)
        };
        read.map_err(|e| format!("no model: {e}"))?;
        Model::parse(&text)
    }

    /// Reads the text of a model.
    ///
    /// # Errors
    /// Says what is wrong with it: it is no JSON of this format, has too much of something, or leads out of itself.
    pub fn parse(text: &str) -> Result<Model, String> {
        Ok(lay_out(Written::parse(text)?))
    }

    /// A model of the bytes of [`tp_model`], and of [`Model::about`]: as the build has written them.
    /// `None` if something is missing.
    pub fn of_bytes(bytes: &[u8], about: &str) -> Option<Model> {
        let mut lines = about.lines();
        let numbers = lines.next()?.split(' ').map(|word| word.parse().ok());
        let numbers: Option<Vec<f64>> = numbers.collect();
        let &[group_offset, group_slope, name_offset, name_slope, most] = numbers?.as_slice()
        else {
            return None;
        };
        Some(Model {
            in_kernel: boxed(bytes)?,
            names: lines.map(str::to_owned).collect(),
            calibration: Calibration {
                group: Line {
                    offset: group_offset,
                    slope: group_slope,
                },
                name: Line {
                    offset: name_offset,
                    slope: name_slope,
                },
                most,
            },
        })
    }

    /// The probability that a flow's group is right. Of a group without an algorithm it is the share of the votes,
    /// and of a certain sign 1.
    pub fn group_probability(&self, verdict: &tp_verdict) -> f64 {
        let of_none = [TP_GROUP_UNKNOWN, TP_GROUP_ANT, TP_GROUP_MOUSE];
        match of_none.contains(&u32::from(verdict.group)) {
            true => f64::from(verdict.group_confidence) / 255.0,
            false => self.shown(self.calibration.group, verdict.group_confidence, verdict),
        }
    }

    /// The probability that its name is right. If the group is certain, it is the share of the group's votes.
    pub fn name_probability(&self, verdict: &tp_verdict) -> f64 {
        self.shown(self.calibration.name, verdict.confidence, verdict)
    }

    fn shown(&self, line: Line, votes: u8, verdict: &tp_verdict) -> f64 {
        let most = self.calibration.most;
        match u32::from(verdict.reason) {
            TP_REASON_RULE => f64::from(votes) / 255.0,
            TP_REASON_OUTSIDE => line.probability(votes).min(most).min(OUTSIDE_MOST),
            _ => line.probability(votes).min(most),
        }
    }

    /// Its parts besides those for the programs: a line with the calibration, and the names, one a line.
    pub fn about(&self) -> String {
        let Calibration { group, name, most } = self.calibration;
        let numbers = [group.offset, group.slope, name.offset, name.slope, most];
        let first = numbers.map(|number| number.to_string()).join(" ");
        let names = self.names.iter().map(String::as_str);
        let lines: Vec<&str> = std::iter::once(first.as_str()).chain(names).collect();
        lines.join("\n")
    }
}

fn lay_out(written: Written) -> Model {
    let mut model = zeroed::<tp_model>();
    model.trees = u32::try_from(written.roots.len()).unwrap_or(0);
    model.classes = u32::try_from(written.classes.len()).unwrap_or(0);
    model.root[..written.roots.len()].copy_from_slice(&written.roots);
    for (to, class) in model.group.iter_mut().zip(&written.classes) {
        *to = class.group as u8;
    }
    for (to, &(feature, threshold, child)) in model.node.iter_mut().zip(&written.nodes) {
        *to = tp_node {
            threshold,
            child,
            feature: u8::try_from(feature).unwrap_or(0),
            is_leaf: u8::from(feature < 0),
        };
    }
    for (to, &(least, most)) in model.range.iter_mut().zip(&written.range) {
        *to = tp_range { least, most };
    }
    for (to, leaf) in model.leaf.iter_mut().zip(&written.leaves) {
        to[..leaf.len()].copy_from_slice(leaf);
    }
    Model {
        in_kernel: model,
        names: written.classes.into_iter().map(|c| c.name).collect(),
        calibration: written.calibration,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use tcpilot_abi::{TP_GROUP_MODEL, TP_REASON_MODEL, TP_REASON_UNSURE, to_bytes};

    use super::*;

    const SMALL: &str = r#"{"format": 1, "features": ["flat"],
        "classes": [{"name": "reno", "group": "loss"}, {"name": "bbr", "group": "model"}],
        "roots": [0], "nodes": [[0, 7, 1], [-1, 0, 0], [-1, 0, 1]], "leaves": [[255, 0], [0, 255]]}"#;

    #[test]
    fn a_model_is_read_as_it_was_written() {
        let model = Model::parse(SMALL).unwrap();
        assert_eq!(model.names, ["reno", "bbr"]);
        assert_eq!(model.in_kernel.node[0].threshold, 7);
        assert_eq!(model.in_kernel.node[2].is_leaf, 1);
        assert_eq!(u32::from(model.in_kernel.group[1]), TP_GROUP_MODEL);
    }

    const COLUMNS: &str = r#"{"format": 2, "features": ["flat"],
        "classes": [{"name": "reno", "group": "loss"}, {"name": "bbr", "group": "model"}],
        "roots": [0, 3], "columns": {"asked": [0, -1, -1, -1], "above": [7],
        "shares": [[255, 0, 1], [0, 255, 254]]}}"#;

    #[test]
    fn columns_are_the_model_of_their_rows() {
        let rows = SMALL
            .replace("[0], \"nodes\"", "[0, 3], \"nodes\"")
            .replace("[-1, 0, 1]]", "[-1, 0, 1], [-1, 0, 2]]")
            .replace("[0, 255]]", "[0, 255], [1, 254]]");
        let [one, other] = [&rows, COLUMNS].map(|text| Model::parse(text).unwrap().in_kernel);
        assert!(*one == *other);
        for (from, to) in [
            ("[7]", "[]"),
            (", 254]", "]"),
            ("[0, -1, -1,", "[0, -1, 0,"),
            ("[0, 3]", "[0, 4]"),
        ] {
            assert!(Model::parse(&COLUMNS.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn features_of_a_model_have_their_places_by_name() {
        let named = |names: &str| {
            let asked = SMALL.replace("[\"flat\"]", names);
            Model::parse(&asked.replace("[0, 7, 1]", "[1, 7, 1]"))
        };
        // Older models have names for features that are gone; no tree of theirs asks for these.
        let older = named(r#"["start_rounds", "flat"]"#).unwrap();
        let place = FEATURES.iter().position(|name| *name == "flat").unwrap();
        assert_eq!(usize::from(older.in_kernel.node[0].feature), place);
        let error = named(r#"["flat", "start_rounds"]"#).err().unwrap();
        assert!(error.contains("start_rounds"), "{error}");
    }

    #[test]
    fn a_compressed_model_is_read_as_the_plain_one() {
        let mut file = GzEncoder::new(Vec::new(), Compression::best());
        file.write_all(SMALL.as_bytes()).unwrap();
        let bytes = file.finish().unwrap();
        let [plain, packed] =
            [SMALL.as_bytes(), &bytes].map(|file| Model::read(file).unwrap().in_kernel);
        assert!(*plain == *packed);
        assert!(Model::read(&bytes[..bytes.len() / 2]).is_err());
        assert!(Model::read(&[0xff]).is_err());
    }

    #[test]
    fn a_model_that_leads_astray_is_refused() {
        for (from, to) in [
            ("[0, 7, 1]", "[0, 7, 0]"),
            ("[0, 7, 1]", "[0, 7, 2]"),
            ("[0, 7, 1]", "[1, 7, 1]"),
            ("[-1, 0, 1]", "[-1, 0, 2]"),
            ("[255, 0]", "[255]"),
            ("\"roots\": [0]", "\"roots\": [3]"),
            ("\"format\": 1", "\"format\": 3"),
            ("\"loss\"", "\"lost\""),
        ] {
            assert!(Model::parse(&SMALL.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn a_model_survives_the_way_through_bytes() {
        let model = Model::parse(&calibrated("[0.5, 1.25]")).unwrap();
        let bytes = to_bytes(&*model.in_kernel);
        let again = Model::of_bytes(bytes, &model.about()).unwrap();
        assert!(*again.in_kernel == *model.in_kernel);
        assert_eq!(again.names, model.names);
        assert_eq!(again.calibration, model.calibration);
        assert!(Model::of_bytes(&bytes[1..], &model.about()).is_none());
        assert!(Model::of_bytes(bytes, "0 1").is_none());
    }

    /// With this line for names, as offset and slope.
    fn calibrated(name: &str) -> String {
        let [offset, slope] =
            [0, 1].map(|i| name.trim_matches(['[', ']']).split(", ").nth(i).unwrap());
        let names = format!(r#"{{"offset": {offset}, "slope": {slope}}}"#);
        let group = r#"{"offset": -1.0, "slope": 2.0}"#;
        let calibration =
            format!(r#""calibration": {{"group": {group}, "name": {names}}}, "roots""#);
        SMALL.replace("\"roots\"", &calibration)
    }

    #[test]
    fn probability_follows_the_line_between_logits() {
        let plain = Model::parse(SMALL).unwrap().calibration;
        for votes in [1, 51, 204, 254] {
            let share = f64::from(votes) / 255.0;
            assert!((plain.group.probability(votes) - share).abs() < 1e-12);
        }
        // Twice the logit of 4 : 1 less 1 is ln 16 - 1.
        let group = Model::parse(&calibrated("[0.0, 1.0]"))
            .unwrap()
            .calibration
            .group;
        let expected = 16.0 / (16.0 + 1f64.exp());
        assert!((group.probability(204) - expected).abs() < 1e-12);
        assert!(group.probability(255) < 1.0);
    }

    #[test]
    fn signs_are_certain_and_unrecorded_paths_are_not() {
        let model = Model::parse(&calibrated("[0.0, 1.0]")).unwrap();
        let of = |group: u32, reason: u32| {
            let verdict = tp_verdict {
                group: group as u8,
                reason: reason as u8,
                group_confidence: 255,
                ..tp_verdict::default()
            };
            model.group_probability(&verdict)
        };
        assert_eq!(of(TP_GROUP_MODEL, TP_REASON_RULE), 1.0);
        assert_eq!(of(TP_GROUP_MODEL, TP_REASON_OUTSIDE), OUTSIDE_MOST);
        assert_eq!(of(TP_GROUP_UNKNOWN, TP_REASON_UNSURE), 1.0, "the votes");
        let voted = of(TP_GROUP_MODEL, TP_REASON_MODEL);
        assert!(OUTSIDE_MOST < voted && voted < 1.0);
        let text = calibrated("[0.0, 1.0]")
            .replace("\"calibration\": {", "\"calibration\": {\"most\": 0.25, ");
        let capped = Model::parse(&text).unwrap();
        let verdict = tp_verdict {
            group: TP_GROUP_MODEL as u8,
            reason: TP_REASON_MODEL as u8,
            group_confidence: 255,
            ..tp_verdict::default()
        };
        assert_eq!(capped.group_probability(&verdict), 0.25);
    }

    #[test]
    fn a_calibration_that_falls_is_refused() {
        for name in ["[0.0, -1.0]", "[0.0, 0.0]", "[1e999, 1.0]"] {
            assert!(Model::parse(&calibrated(name)).is_err(), "{name}");
        }
    }
}
