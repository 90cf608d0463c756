//! The models of the watch: built-in ones, and a user's.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tcpilot_core::model::Model;
use tcpilot_show::failure::{Failure, Kind};

use crate::args::WatchArgs;

/// A model turned into bytes by the build, and its other parts.
struct BuiltIn(&'static [u8], &'static str);

macro_rules! built_in {
    ($name:literal) => {
        BuiltIn(
            include_bytes!(concat!(env!("OUT_DIR"), "/", $name)),
            include_str!(concat!(env!("OUT_DIR"), "/", $name, ".about")),
        )
    };
}

const TCP: BuiltIn = built_in!("model");
const EXTRAPOLATION: BuiltIn = built_in!("wide_model");
const QUIC: BuiltIn = built_in!("quic_model");

/// The models of both protocols.
pub struct Models {
    /// TCP's.
    pub tcp: Model,
    /// TCP's on paths beyond the range of the first, with the same classes; without trees none is used.
    pub extrapolation: Model,
    /// QUIC's.
    pub quic: Model,
}

impl Models {
    /// The built-in models, or the files given instead.
    ///
    /// The built-in extrapolation model goes with the built-in model of TCP.
    ///
    /// # Errors
    /// A file cannot be read, or is no model.
    pub fn of(args: &WatchArgs) -> Result<Models, Failure> {
        let one = |file: &Option<PathBuf>, built_in: &BuiltIn| match file {
            Some(path) => read(path),
            None => built_in.model(),
        };
        let tcp = one(&args.model, &TCP)?;
        let extrapolation = match (&args.extrapolation_model, &args.model) {
            (None, Some(_)) => Model::without_trees(),
            (given, _) => one(given, &EXTRAPOLATION)?,
        };
        if extrapolation.in_kernel.trees > 0
            && (&extrapolation.names, extrapolation.in_kernel.group)
                != (&tcp.names, tcp.in_kernel.group)
        {
            return Err(refuse(
                "the extrapolation model",
                "its classes are not those of the other model of TCP",
            ));
        }
        Ok(Models {
            tcp,
            extrapolation,
            quic: one(&args.quic_model, &QUIC)?,
        })
    }

    /// The form for the programs in the kernel.
    pub fn in_kernel(&self) -> tcpilot_kernel::watch::Models<'_> {
        tcpilot_kernel::watch::Models {
            tcp: &self.tcp.in_kernel,
            extrapolation: &self.extrapolation.in_kernel,
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
    fn tcp_models_share_classes_and_range() {
        let [one, other] = [TCP, EXTRAPOLATION].map(|built_in| built_in.model().unwrap());
        assert_eq!(one.names, other.names);
        assert_eq!(one.in_kernel.group, other.in_kernel.group);
        let paths = |model: &Model| model.in_kernel.range.map(|range| (range.least, range.most));
        assert_eq!(paths(&one), paths(&other));
    }

    #[test]
    fn algorithms_of_built_in_models_have_groups() {
        for built_in in [TCP, EXTRAPOLATION, QUIC] {
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
