//! The models that the watch judges by: those that come with this binary, and those that a user gives.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tcpilot_model::Model;

use crate::{
    cli::WatchArgs,
    failure::{Failure, Kind},
};

/// A model that was turned into bytes when this was built, and its names.
struct BuiltIn(&'static [u8], &'static str);

macro_rules! built_in {
    ($name:literal) => {
        BuiltIn(
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            include_str!(concat!(env!("OUT_DIR"), "/", $name, ".names")),
        )
    };
}

const TCP: BuiltIn = built_in!("model");
const WIDE: BuiltIn = built_in!("wide_model");
const QUIC: BuiltIn = built_in!("quic_model");

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
        let one = |file: &Option<PathBuf>, built_in: &BuiltIn| match file {
            Some(path) => read(path),
            None => built_in.model(),
        };
        let tcp = one(&args.model, &TCP)?;
        let wide = match (&args.wide_model, &args.model) {
            (None, Some(_)) => Model::without_trees(),
            (given, _) => one(given, &WIDE)?,
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
            quic: one(&args.quic_model, &QUIC)?,
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

impl BuiltIn {
    fn model(&self) -> Result<Model, Failure> {
        Model::of_bytes(self.0, self.1).ok_or_else(|| refuse("the built-in model", "it is cut"))
    }
}

/// The model of a file.
fn read(path: &Path) -> Result<Model, Failure> {
    let bytes = fs::read(path).map_err(|e| Failure::of_file(path, &e))?;
    Model::read(&bytes).map_err(|why| refuse(&path.display().to_string(), &why))
}

fn refuse(what: &str, why: &str) -> Failure {
    Failure::new(
        Kind::Usage,
        format!("{what}: {why}"),
        "`python -m tcplab.studies.watch train` writes one",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Group;

    #[test]
    fn the_built_in_models_of_tcp_have_the_same_classes_and_recorded_paths() {
        let [one, wide] = [TCP, WIDE].map(|built_in| built_in.model().unwrap());
        assert_eq!(one.names, wide.names);
        assert_eq!(one.in_kernel.group, wide.in_kernel.group);
        let paths = |model: &Model| model.in_kernel.range.map(|range| (range.least, range.most));
        assert_eq!(paths(&one), paths(&wide));
    }

    #[test]
    fn each_algorithm_of_the_built_in_models_has_a_group() {
        for built_in in [TCP, WIDE, QUIC] {
            let model = built_in.model().unwrap();
            assert!(model.in_kernel.trees > 0);
            assert_eq!(model.names.len(), model.in_kernel.classes as usize);
            for (name, group) in model.names.iter().zip(model.in_kernel.group) {
                let is_in_none = Group::from_number(group) == Group::Unknown;
                assert_eq!(is_in_none, name == "limited", "{name}");
            }
        }
    }
}
