//! The classifier's models: files of integers, written by `python -m tcplab.studies.watch train`.
//!
//! tcpilot reads a user's models at start. Its own are read by the build and are bytes in the binary, so a
//! start costs no reading.

mod written;

use std::io::Read;

use flate2::read::GzDecoder;
use tcpilot_abi::{boxed, tp_model, tp_node, tp_range, zeroed};
use written::Written;

/// The first bytes of a file of gzip (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// Bytes of a model's text. The largest model for the programs has 5 MB.
const TEXT_MOST: u64 = 64 << 20;

/// A checked model.
pub struct Model {
    /// The model in the form for the programs in the kernel.
    pub in_kernel: Box<tp_model>,
    /// Names of the classes.
    pub names: Vec<String>,
}

impl Model {
    /// A model without trees: it never judges.
    pub fn without_trees() -> Model {
        Model {
            in_kernel: zeroed(),
            names: vec![],
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

    /// A model of the bytes of [`tp_model`], and its names, one a line: as the build has written them.
    /// `None` if there are too few bytes.
    pub fn of_bytes(bytes: &[u8], names: &str) -> Option<Model> {
        Some(Model {
            in_kernel: boxed(bytes)?,
            names: names.lines().map(str::to_owned).collect(),
        })
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
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};
    use tcpilot_abi::{TP_GROUP_MODEL, to_bytes};

    use super::*;

    const SMALL: &str = r#"{"format": 1, "features": ["a"],
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

    const COLUMNS: &str = r#"{"format": 2, "features": ["a"],
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
        let model = Model::parse(SMALL).unwrap();
        let bytes = to_bytes(&*model.in_kernel);
        let again = Model::of_bytes(bytes, &model.names.join("\n")).unwrap();
        assert!(*again.in_kernel == *model.in_kernel);
        assert_eq!(again.names, model.names);
        assert!(Model::of_bytes(&bytes[1..], "").is_none());
    }
}
