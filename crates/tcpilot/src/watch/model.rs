//! The classifier's model: a file of integers, written by `python -m tcplab.studies.watch train`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use tcpilot_abi::{
    TP_FEATURES, TP_MODEL_CLASSES, TP_MODEL_LEAVES, TP_MODEL_NODES, TP_MODEL_TREES, TP_RANGE_COUNT,
    tp_model, tp_node, tp_range, zeroed,
};

use crate::{
    cli::WatchArgs,
    failure::{Failure, Kind},
    link::Group,
};

const BUILT_IN: &str = include_str!("../../../../bpf/watch/model.json");
const BUILT_IN_WIDE: &str = include_str!("../../../../bpf/watch/wide_model.json");
const BUILT_IN_QUIC: &str = include_str!("../../../../bpf/watch/quic_model.json");
const FORMAT: u32 = 1;

#[derive(Debug, Deserialize)]
struct Class {
    name: String,
    group: Group,
}

#[derive(Debug, Deserialize)]
struct Written {
    format: u32,
    features: Vec<String>,
    classes: Vec<Class>,
    /// Index of each tree's first node.
    roots: Vec<u32>,
    /// Feature, threshold, child. Values above the threshold lead to the node after the child. A leaf has
    /// feature -1, and its child is the index of its shares.
    nodes: Vec<(i16, i32, u16)>,
    /// For each leaf a share per class, of 255 in all.
    leaves: Vec<Vec<u8>>,
    /// The paths that it learned from: least and most of each measure. Empty: not known.
    #[serde(default)]
    range: Vec<(u32, u32)>,
}

/// A model that was checked.
pub struct Model {
    /// The model in the form that the programs in the kernel read.
    pub in_kernel: Box<tp_model>,
    /// Names of the classes.
    pub names: Vec<String>,
}

/// The models of both protocols.
pub struct Models {
    /// TCP's.
    pub tcp: Model,
    /// TCP's on paths beyond those that the first learned from, with the same classes; without trees there is none.
    pub wide: Model,
    /// QUIC's.
    pub quic: Model,
}

impl Models {
    /// The models that come with this binary, but for those that are given as files.
    ///
    /// The built-in one for paths beyond goes with the built-in one for TCP.
    ///
    /// # Errors
    /// A file cannot be read, or is no model.
    pub fn of(args: &WatchArgs) -> Result<Models, Failure> {
        let one = |file: &Option<PathBuf>, built_in| match file {
            Some(path) => Model::read(path),
            None => Model::built_in(built_in),
        };
        let tcp = one(&args.model, BUILT_IN)?;
        let wide = match (&args.wide_model, &args.model) {
            (None, Some(_)) => Model::without_trees(),
            (given, _) => one(given, BUILT_IN_WIDE)?,
        };
        if wide.in_kernel.trees > 0
            && (&wide.names, wide.in_kernel.group) != (&tcp.names, tcp.in_kernel.group)
        {
            return Err(refuse(
                "the wide model",
                "its classes are not those of the other model of TCP",
            ));
        }
        Ok(Models {
            tcp,
            wide,
            quic: one(&args.quic_model, BUILT_IN_QUIC)?,
        })
    }

    /// The form that the programs in the kernel read.
    pub fn in_kernel(&self) -> tcpilot_kernel::watch::Models<'_> {
        tcpilot_kernel::watch::Models {
            tcp: &self.tcp.in_kernel,
            wide: &self.wide.in_kernel,
            quic: &self.quic.in_kernel,
        }
    }
}

impl Model {
    fn without_trees() -> Model {
        Model {
            in_kernel: zeroed(),
            names: vec![],
        }
    }

    fn built_in(text: &str) -> Result<Model, Failure> {
        parse(text).map_err(|why| refuse("the built-in model", &why))
    }

    /// The model of a file.
    fn read(path: &Path) -> Result<Model, Failure> {
        let text = fs::read_to_string(path).map_err(|e| Failure::of_file(path, &e))?;
        parse(&text).map_err(|why| refuse(&path.display().to_string(), &why))
    }
}

fn refuse(what: &str, why: &str) -> Failure {
    Failure::new(
        Kind::Usage,
        format!("{what}: {why}"),
        "`python -m tcplab.studies.watch train` writes one",
    )
}

fn parse(text: &str) -> Result<Model, String> {
    let written: Written = serde_json::from_str(text).map_err(|e| format!("no model: {e}"))?;
    check(&written)?;
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
    Ok(Model {
        in_kernel: model,
        names: written.classes.into_iter().map(|c| c.name).collect(),
    })
}

/// Refuses indices that lead out of the model. The programs mask indices, so a wrong one makes them give
/// nonsense instead of a fault.
fn check(written: &Written) -> Result<(), String> {
    let fits = |count: usize, most: u32, what: &str| {
        if count > most as usize {
            return Err(format!("{count} {what}, at most {most} fit"));
        }
        Ok(())
    };
    if written.format != FORMAT {
        return Err(format!("format {} is not {FORMAT}", written.format));
    }
    fits(written.features.len(), TP_FEATURES, "features")?;
    fits(written.classes.len(), TP_MODEL_CLASSES, "classes")?;
    fits(written.roots.len(), TP_MODEL_TREES, "trees")?;
    fits(written.nodes.len(), TP_MODEL_NODES, "nodes")?;
    fits(written.leaves.len(), TP_MODEL_LEAVES, "leaves")?;
    fits(written.range.len(), TP_RANGE_COUNT, "ranges")?;
    let (nodes, leaves) = (written.nodes.len(), written.leaves.len());
    if written.roots.iter().any(|root| *root as usize >= nodes) {
        return Err("a tree begins outside of the nodes".into());
    }
    for (at, &(feature, _, child)) in written.nodes.iter().enumerate() {
        let child = usize::from(child);
        let good = match usize::try_from(feature) {
            Err(_) => child < leaves,
            // Children lie behind their parent, so each walk ends.
            Ok(feature) => feature < written.features.len() && child > at && child + 1 < nodes,
        };
        if !good {
            return Err(format!("node {at} leads astray"));
        }
    }
    let classes = written.classes.len();
    match written.leaves.iter().all(|leaf| leaf.len() == classes) {
        true => Ok(()),
        false => Err("a leaf has not a share for each class".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = r#"{"format": 1, "features": ["a"],
        "classes": [{"name": "reno", "group": "loss"}, {"name": "bbr", "group": "model"}],
        "roots": [0], "nodes": [[0, 7, 1], [-1, 0, 0], [-1, 0, 1]], "leaves": [[255, 0], [0, 255]]}"#;

    #[test]
    fn a_model_is_read_as_it_was_written() {
        let model = parse(SMALL).unwrap();
        assert_eq!(model.names, ["reno", "bbr"]);
        assert_eq!(model.in_kernel.node[0].threshold, 7);
        assert_eq!(model.in_kernel.node[2].is_leaf, 1);
        assert_eq!(model.in_kernel.group[1], Group::Model as u8);
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
            ("\"format\": 1", "\"format\": 2"),
        ] {
            assert!(parse(&SMALL.replace(from, to)).is_err(), "{to}");
        }
    }

    #[test]
    fn the_built_in_models_are_sound() {
        for text in [BUILT_IN, BUILT_IN_WIDE, BUILT_IN_QUIC] {
            Model::built_in(text).unwrap();
        }
    }

    #[test]
    fn the_built_in_models_of_tcp_have_the_same_classes_and_recorded_paths() {
        let [one, wide] = [BUILT_IN, BUILT_IN_WIDE].map(|text| Model::built_in(text).unwrap());
        assert_eq!(one.names, wide.names);
        assert_eq!(one.in_kernel.group, wide.in_kernel.group);
        let paths = |model: &Model| model.in_kernel.range.map(|range| (range.least, range.most));
        assert_eq!(paths(&one), paths(&wide));
    }
}
