//! Opens a congestion control's object, fits it to this kernel, and loads it.

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::Path,
};

use libbpf_rs::{
    Link, MapCore, MapMut, MapType, Object, ObjectBuilder, OpenMapMut, ReferencesType,
    btf::{
        Btf,
        types::{Enum, FuncProto, Ptr, Struct},
    },
};
use serde::Serialize;

use super::catalog;
use crate::{Error, types::KernelTypes};

/// BPF_F_LINK of linux/bpf.h: the map is registered by a link.
const LINK_FLAG: u32 = 1 << 13;

/// Offsets of the first members of `struct tcp_congestion_ops` in bpf/kernel/types.h.
const TX_START: std::ops::Range<usize> = 0..8;
const CONTROL: std::ops::Range<usize> = 8..16;
const CONTROL_2: std::ops::Range<usize> = 16..24;
const NAME: std::ops::Range<usize> = 24..40;
const FLAGS: std::ops::Range<usize> = 44..48;

/// Section of tp_as_module in bpf/cc/lib/cc.h.
const COUNTING: &str = ".rodata.counting";

/// TCP_CONG_NEEDS_ECN of bpf/kernel/types.h.
const NEEDS_ECN: u32 = 1 << 1;
/// TCP_CONG_NEEDS_ACCECN.
const NEEDS_ACCURATE_ECN: u32 = 1 << 2;
/// With TCP_CONG_ECT_1_NEGOTIATION: older kernels refuse unknown flags.
const ACCURATE_ECN: u32 = NEEDS_ACCURATE_ECN | 1 << 3;

/// The form of ECN an algorithm asks its peer for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ecn {
    /// RFC 3168: the receiver reports marks once a round trip.
    Classic,
    /// RFC 9768: the receiver counts them. The handshake is sent with ECT(1).
    Accurate,
}

impl Ecn {
    fn of(flags: u32) -> Option<Ecn> {
        if flags & NEEDS_ACCURATE_ECN != 0 {
            Some(Ecn::Accurate)
        } else {
            (flags & NEEDS_ECN != 0).then_some(Ecn::Classic)
        }
    }
}

/// How an algorithm counts an acknowledgement of many packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counting {
    /// Its packets.
    Packets,
    /// What Linux's module of the same algorithm counts.
    AsModule,
}

/// The differences between kernels, read from their BTF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Registration is by a link (6.4); otherwise by writing the map.
    pub links: bool,
    /// `cong_control` takes four arguments (6.10); otherwise two.
    pub four_arguments: bool,
    /// The start of sending has a callback of its own (7.1); else it is an event.
    pub tx_start: bool,
    /// An algorithm may ask for accurate ECN (7.0).
    pub accurate_ecn: bool,
}

impl Variant {
    /// Reads the differences of the running kernel.
    ///
    /// # Errors
    /// [`Error::NoBtf`], [`Error::NoStructOps`].
    pub fn detect() -> Result<Variant, Error> {
        KernelTypes::get()?.congestion.ok_or(Error::NoStructOps)
    }

    /// The same from these types; `None` if a congestion control cannot be registered.
    pub(crate) fn read(btf: &Btf<'_>) -> Option<Variant> {
        let ops: Struct<'_> = btf.type_by_name("tcp_congestion_ops")?;
        btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops")?;
        let member = |name: &str| ops.iter().find(|m| m.name.is_some_and(|n| n == name));
        let arguments = member("cong_control").and_then(|m| {
            let pointer: Ptr<'_> = btf.type_by_id(m.ty)?;
            let function: FuncProto<'_> = pointer.referenced_type().try_into().ok()?;
            Some(function.len())
        });
        let socket: Option<Struct<'_>> = btf.type_by_name("tcp_sock");
        let attach_types: Option<Enum<'_>> = btf.type_by_name("bpf_attach_type");
        Some(Variant {
            links: attach_types.is_some_and(|e| {
                e.iter()
                    .any(|v| v.name.is_some_and(|n| n == "BPF_STRUCT_OPS"))
            }),
            four_arguments: arguments == Some(4),
            tx_start: member("cwnd_event_tx_start").is_some(),
            // Macros are not in BTF. This member came with the flags.
            accurate_ecn: socket.is_some_and(|s| {
                s.iter()
                    .any(|m| m.name.is_some_and(|n| n == "accecn_opt_sent_w_dsack"))
            }),
        })
    }

    /// Keeps those of an algorithm's flags known to this kernel.
    fn known(self, flags: u32) -> u32 {
        if self.accurate_ecn {
            flags
        } else {
            flags & !ACCURATE_ECN
        }
    }
}

/// A congestion control, verified by the kernel but not registered yet.
pub struct Loaded {
    object: Object,
    name: String,
    ecn: Option<Ecn>,
    variant: Variant,
}

impl Loaded {
    /// Loads one of our algorithms by its name, or the object in a file by its path.
    ///
    /// # Errors
    /// [`Error::NoSuchCc`], [`Error::CcFile`], [`Error::CcNoObject`], [`Error::CcObject`],
    /// [`Error::CcName`], [`Error::Rejected`], [`Error::CcLoad`].
    pub fn new(name_or_path: &str) -> Result<Loaded, Error> {
        Self::counting(name_or_path, Counting::Packets)
    }

    /// The same with another way to count acknowledgements.
    ///
    /// # Errors
    /// As [`Loaded::new`], and [`Error::CcCounting`].
    pub fn counting(name_or_path: &str, counting: Counting) -> Result<Loaded, Error> {
        if is_path(name_or_path) {
            let bytes = fs::read(Path::new(name_or_path)).map_err(|source| Error::CcFile {
                path: name_or_path.into(),
                source,
            })?;
            return Self::from_bytes(&bytes, name_or_path, counting);
        }
        let bytes =
            catalog::object(name_or_path).ok_or_else(|| Error::NoSuchCc(name_or_path.into()))?;
        Self::from_bytes(bytes, name_or_path, counting)
    }

    fn from_bytes(bytes: &[u8], what: &str, counting: Counting) -> Result<Loaded, Error> {
        let variant = Variant::detect()?;
        let mut open = ObjectBuilder::default()
            .open_memory(bytes)
            .map_err(|_| Error::CcNoObject(what.to_owned()))?;
        let mut fitted = None;
        let mut counted = counting == Counting::Packets;
        for mut map in open.maps_mut() {
            if map.map_type() == MapType::StructOps {
                fitted = Some(fit(&mut map, variant, what)?);
            } else if counting == Counting::AsModule && map.name() == COUNTING {
                let value = map.initial_value_mut().and_then(|bytes| bytes.first_mut());
                *value.ok_or_else(|| Error::CcObject(what.to_owned()))? = 1;
                counted = true;
            }
        }
        if !counted {
            return Err(Error::CcCounting(what.to_owned()));
        }
        let (name, ecn) = fitted.ok_or_else(|| Error::CcObject(what.to_owned()))?;
        super::check_name(&name)?;
        let refuse = |source| Error::CcLoad {
            name: what.to_owned(),
            source,
        };
        let load = open.load();
        let object = load.map_err(|source| Error::of_refused(what, source, refuse))?;
        Ok(Loaded {
            object,
            name,
            ecn,
            variant,
        })
    }

    /// Its name once it is registered.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it works as intended only on connections with negotiated ECN.
    pub fn needs_ecn(&self) -> bool {
        self.ecn.is_some()
    }

    /// Instructions checked by the verifier for each program: a measure of its complexity.
    pub fn verified_instructions(&self) -> Vec<(String, u32)> {
        self.object
            .progs()
            .filter_map(|program| {
                let info = crate::object::program_info(program.as_fd().as_raw_fd())?;
                Some((
                    program.name().to_string_lossy().into_owned(),
                    info.verified_insns,
                ))
            })
            .collect()
    }

    fn ops(&mut self) -> Result<MapMut<'_>, Error> {
        let missing = Error::CcObject(self.name.clone());
        self.object
            .maps_mut()
            .find(|map| map.map_type() == MapType::StructOps)
            .ok_or(missing)
    }

    /// Registers it as long as the link lives.
    ///
    /// # Errors
    /// [`Error::CcRegister`], most likely because the name is taken.
    pub(super) fn attach(&mut self) -> Result<Link, Error> {
        let name = self.name.clone();
        self.ops()?
            .attach_struct_ops()
            .map_err(|source| Error::CcRegister { name, source })
    }

    /// Replaces a link's registration by it; open connections keep theirs.
    ///
    /// # Errors
    /// [`Error::System`].
    pub(super) fn replace(&mut self, link: BorrowedFd<'_>) -> Result<(), Error> {
        // libbpf prepares a map only while it attaches it. This attach fails, since the link to update has
        // registered the name.
        drop(self.attach());
        let map = self.ops()?;
        // SAFETY: a plain system call with two open descriptors and no options.
        let result = unsafe {
            libbpf_rs::libbpf_sys::bpf_link_update(
                link.as_raw_fd(),
                map.as_fd().as_raw_fd(),
                std::ptr::null(),
            )
        };
        if result != 0 {
            return Err(Error::System {
                action: "put the new version in the old one's place",
                source: io::Error::from_raw_os_error(-result),
            });
        }
        Ok(())
    }

    /// Whether this kernel registers by links.
    pub fn has_links(&self) -> bool {
        self.variant.links
    }
}

/// Clears callbacks and flags unknown to the kernel, and chooses between two forms of one callback.
/// Returns the name and the requested form of ECN.
fn fit(
    map: &mut OpenMapMut<'_>,
    variant: Variant,
    what: &str,
) -> Result<(String, Option<Ecn>), Error> {
    let unfit = || Error::CcObject(what.to_owned());
    if !variant.links {
        let flags = map.map_flags() & !LINK_FLAG;
        map.set_map_flags(flags).map_err(|_| unfit())?;
    }
    let ops = map.initial_value_mut().ok_or_else(unfit)?;
    if ops.len() < FLAGS.end {
        return Err(unfit());
    }
    if !variant.tx_start {
        ops[TX_START].fill(0);
    }
    if !variant.four_arguments {
        ops.copy_within(CONTROL_2, CONTROL.start);
    }
    ops[CONTROL_2].fill(0);
    let flags = variant.known(flags_of(ops).ok_or_else(unfit)?);
    ops[FLAGS].copy_from_slice(&flags.to_ne_bytes());
    let name = name_of(ops).ok_or_else(unfit)?;
    Ok((name, Ecn::of(flags)))
}

fn flags_of(ops: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(ops.get(FLAGS)?.try_into().ok()?))
}

/// The name in the first bytes of a `struct tcp_congestion_ops`.
fn name_of(ops: &[u8]) -> Option<String> {
    let name = ops.get(NAME)?;
    let end = name.iter().position(|b| *b == 0).unwrap_or(name.len());
    let name = String::from_utf8(name[..end].to_vec()).ok()?;
    (!name.is_empty()).then_some(name)
}

/// Whether an argument means a file, and not one of our algorithms.
pub fn is_path(name_or_path: &str) -> bool {
    name_or_path.contains('/') || name_or_path.ends_with(".o")
}

/// The name in the object file, used when it registers; loads nothing.
pub fn name_in(path: &Path) -> Option<String> {
    // Reading a device may never end.
    fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
    in_ops(&fs::read(path).ok()?, name_of)
}

/// The form of ECN requested by one of our algorithms on such a kernel, by its name; loads nothing.
/// None if it requests none, or is not ours.
pub fn ecn_of(name: &str, variant: Variant) -> Option<Ecn> {
    let flags = in_ops(catalog::object(name)?, flags_of)?;
    Ecn::of(variant.known(flags))
}

/// Reads from an object's `struct tcp_congestion_ops`.
fn in_ops<T>(object: &[u8], read: impl FnOnce(&[u8]) -> Option<T>) -> Option<T> {
    let mut open = ObjectBuilder::default().open_memory(object).ok()?;
    let mut ops = open
        .maps_mut()
        .find(|map| map.map_type() == MapType::StructOps)?;
    read(ops.initial_value_mut()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prague_requests_accurate_ecn_if_available() {
        let old = Variant {
            links: true,
            four_arguments: true,
            tx_start: true,
            accurate_ecn: false,
        };
        let new = Variant {
            accurate_ecn: true,
            ..old
        };
        for (name, on_old, on_new) in [
            ("tp_prague", Some(Ecn::Classic), Some(Ecn::Accurate)),
            ("tp_dctcp", Some(Ecn::Classic), Some(Ecn::Classic)),
            ("tp_reno", None, None),
            ("nonsense", None, None),
        ] {
            assert_eq!(
                (ecn_of(name, old), ecn_of(name, new)),
                (on_old, on_new),
                "{name}"
            );
        }
    }
}
