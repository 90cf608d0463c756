//! What the kernel's own types (BTF) say of it. They stay the same until the next boot, and reading them takes long, so
//! a process reads them once, and keeps the answers only.

use std::{collections::BTreeMap, sync::OnceLock};

use libbpf_rs::btf::{
    Btf, TypeId,
    types::{Func, Struct},
};

use crate::{Error, cc::Variant};

/// The functions whose calls our programs see, if the kernel has them.
const TRACED: [&str; 2] = ["tcp_sk_exit", "sch_direct_xmit"];

/// The answers.
pub(crate) struct KernelTypes {
    /// `None`: no congestion control can be registered.
    pub congestion: Option<Variant>,
    /// Programs can be attached to a device directly (6.6).
    pub tcx: bool,
    functions: BTreeMap<&'static str, TypeId>,
}

impl KernelTypes {
    /// The running kernel's.
    ///
    /// # Errors
    /// [`Error::NoBtf`].
    pub fn get() -> Result<&'static KernelTypes, Error> {
        static READ: OnceLock<Option<KernelTypes>> = OnceLock::new();
        READ.get_or_init(|| Btf::from_vmlinux().ok().as_ref().map(KernelTypes::read))
            .as_ref()
            .ok_or(Error::NoBtf)
    }

    fn read(btf: &Btf<'_>) -> KernelTypes {
        let function = |name| {
            btf.type_by_name(name)
                .map(|f: Func<'_>| (name, f.type_id()))
        };
        KernelTypes {
            congestion: Variant::read(btf),
            tcx: btf.type_by_name::<Struct<'_>>("tcx_link").is_some(),
            functions: TRACED.into_iter().filter_map(function).collect(),
        }
    }

    /// A function of the kernel; one of [`TRACED`].
    pub fn function(&self, name: &str) -> Option<TypeId> {
        debug_assert!(TRACED.contains(&name));
        self.functions.get(name).copied()
    }
}
