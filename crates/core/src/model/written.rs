//! A model's file as it is written.

use super::features::FEATURES;

use serde::Deserialize;
use tcpilot_abi::{
    TP_FEATURES, TP_GROUP_DELAY, TP_GROUP_LOSS, TP_GROUP_LOSS_DELAY, TP_GROUP_MODEL,
    TP_GROUP_UNKNOWN, TP_MODEL_CLASSES, TP_MODEL_LEAVES, TP_MODEL_NODES, TP_MODEL_TREES,
    TP_RANGE_COUNT,
};

/// With a row for each node and each leaf.
const ROWS: u32 = 1;
/// With columns, as in this repository's models: they compress to half the size of rows.
const COLUMNS: u32 = 2;

/// The groups known to models (`enum tp_group`).
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u32)]
pub enum Group {
    /// The class of flows with another limit.
    Unknown = TP_GROUP_UNKNOWN,
    Loss = TP_GROUP_LOSS,
    Delay = TP_GROUP_DELAY,
    LossDelay = TP_GROUP_LOSS_DELAY,
    Model = TP_GROUP_MODEL,
}

#[derive(Debug, Deserialize)]
pub struct Class {
    pub name: String,
    pub group: Group,
}

/// From a share of the trees' votes to the probability that they are right: a straight line between the logits
/// (Platt 1999). The laboratory fits it to flows that no tree learned from.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Line {
    /// The logit at half of the votes.
    pub offset: f64,
    /// The logit's growth.
    pub slope: f64,
}

impl Default for Line {
    /// The votes as they are.
    fn default() -> Line {
        Line {
            offset: 0.0,
            slope: 1.0,
        }
    }
}

impl Line {
    /// The probability at so many votes of 255.
    pub fn probability(self, votes: u8) -> f64 {
        let share = (f64::from(votes) / 255.0).clamp(0.5 / 255.0, 254.5 / 255.0);
        let logit = self.offset + self.slope * (share / (1.0 - share)).ln();
        1.0 / (1.0 + (-logit).exp())
    }

    fn rises(self) -> bool {
        self.offset.is_finite() && self.slope.is_finite() && self.slope > 0.0
    }
}

/// The probabilities of a model's verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Calibration {
    /// That a flow's group is right.
    pub group: Line,
    /// That its name is.
    pub name: Line,
    /// The highest of either.
    pub most: f64,
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration {
            group: Line::default(),
            name: Line::default(),
            most: 1.0,
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct Written {
    format: u32,
    features: Vec<String>,
    pub classes: Vec<Class>,
    /// Index of each tree's first node.
    pub roots: Vec<u32>,
    /// Feature, threshold, child. Values above the threshold lead to the node after the child. A leaf has
    /// feature -1, and its child is the index of its shares.
    #[serde(default)]
    pub nodes: Vec<(i16, i32, u16)>,
    /// For each leaf a share per class, of 255 in all.
    #[serde(default)]
    pub leaves: Vec<Vec<u8>>,
    /// The paths of its training: least and most of each measure. Empty: not known.
    #[serde(default)]
    pub range: Vec<(u32, u32)>,
    /// Without it confidence is the share of the votes.
    #[serde(default)]
    pub calibration: Calibration,
    /// Nodes and leaves in the other format.
    columns: Option<Columns>,
}

/// Nodes and leaves by column. The nodes of a tree are in breadth-first order, so their children need no index.
#[derive(Debug, Deserialize)]
struct Columns {
    /// The feature of each node, -1 for a leaf.
    asked: Vec<i16>,
    /// The threshold of each node with a feature.
    above: Vec<i32>,
    /// For each class a share per leaf.
    shares: Vec<Vec<u8>>,
}

impl Columns {
    fn nodes(&self, roots: &[u32]) -> Option<Vec<(i16, i32, u16)>> {
        let mut above = self.above.iter();
        let mut leaves = 0..;
        let mut children = 0;
        let row = |(at, &feature): (usize, &i16)| {
            if roots.iter().any(|root| *root as usize == at) {
                children = at + 1;
            }
            if feature < 0 {
                return Some((-1, 0, leaves.next()?));
            }
            let child = u16::try_from(children).ok()?;
            children += 2;
            Some((feature, *above.next()?, child))
        };
        self.asked.iter().enumerate().map(row).collect()
    }

    fn leaves(&self) -> Option<Vec<Vec<u8>>> {
        let count = self.shares.first().map_or(0, Vec::len);
        let leaf = |at| {
            self.shares
                .iter()
                .map(|class| class.get(at).copied())
                .collect()
        };
        (0..count).map(leaf).collect()
    }
}

impl Written {
    /// Reads and checks it.
    pub fn parse(text: &str) -> Result<Written, String> {
        let mut written: Written =
            serde_json::from_str(text).map_err(|e| format!("no model: {e}"))?;
        if let Some(columns) = written.columns.take() {
            let short = "a column of the model is too short";
            written.nodes = columns.nodes(&written.roots).ok_or(short)?;
            written.leaves = columns.leaves().ok_or(short)?;
        }
        written.check()?;
        written.place_features()?;
        Ok(written)
    }

    /// The nodes' features are the file's own numbers, and become places in the programs.
    fn place_features(&mut self) -> Result<(), String> {
        let place = |name: &String| FEATURES.iter().position(|known| known == name);
        let places: Vec<_> = self.features.iter().map(place).collect();
        for (feature, _, _) in &mut self.nodes {
            let Ok(asked) = usize::try_from(*feature) else {
                continue;
            };
            let name = &self.features[asked];
            let place = places[asked].and_then(|place| i16::try_from(place).ok());
            *feature = place.ok_or_else(|| format!("feature {name} is not known"))?;
        }
        Ok(())
    }

    /// Refuses indices beyond the model's ends. The programs mask indices, so a wrong one makes them give
    /// nonsense instead of a fault.
    fn check(&self) -> Result<(), String> {
        if ![ROWS, COLUMNS].contains(&self.format) {
            return Err(format!("format {} is not known", self.format));
        }
        fits(self.features.len(), TP_FEATURES, "features")?;
        fits(self.classes.len(), TP_MODEL_CLASSES, "classes")?;
        fits(self.roots.len(), TP_MODEL_TREES, "trees")?;
        fits(self.nodes.len(), TP_MODEL_NODES, "nodes")?;
        fits(self.leaves.len(), TP_MODEL_LEAVES, "leaves")?;
        fits(self.range.len(), TP_RANGE_COUNT, "ranges")?;
        if ![self.calibration.group, self.calibration.name]
            .iter()
            .all(|line| line.rises())
        {
            return Err("confidence does not rise with the votes".into());
        }
        if !(0.0..=1.0).contains(&self.calibration.most) {
            return Err("the highest confidence is no probability".into());
        }
        let (nodes, leaves) = (self.nodes.len(), self.leaves.len());
        if self.roots.iter().any(|root| *root as usize >= nodes) {
            return Err("a tree begins outside of the nodes".into());
        }
        for (at, &(feature, _, child)) in self.nodes.iter().enumerate() {
            let child = usize::from(child);
            let good = match usize::try_from(feature) {
                Err(_) => child < leaves,
                // Children lie behind their parent, so each walk ends.
                Ok(feature) => feature < self.features.len() && child > at && child + 1 < nodes,
            };
            if !good {
                return Err(format!("node {at} leads astray"));
            }
        }
        let classes = self.classes.len();
        match self.leaves.iter().all(|leaf| leaf.len() == classes) {
            true => Ok(()),
            false => Err("a leaf has not a share for each class".into()),
        }
    }
}

fn fits(count: usize, most: u32, what: &str) -> Result<(), String> {
    if count > most as usize {
        return Err(format!("{count} {what}, at most {most} fit"));
    }
    Ok(())
}
