//! `tcpilot cc`: the congestion controls of this kernel, and those of tcpilot. It needs no daemon.

use std::{collections::BTreeMap, path::Path, sync::atomic::AtomicBool};

use serde::Serialize;
use tcpilot_kernel::{
    cc::{self, Counting, Ecn, Held, Loaded, Variant},
    host, stop_flag,
};
use tcpilot_show::{
    document::Document,
    failure::{Failure, Kind},
    fields,
    figure::figures,
    output,
};

mod args;

pub use args::CcCommand;
use args::{LoadArgs, UnloadArgs};

/// The origin of an algorithm, and whether a socket may choose it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The kernel has it, its own or from somebody's BPF: it can be chosen.
    Registered,
    /// A loadable module.
    Module,
    /// One of tcpilot's, held by a process: the daemon or `cc load --foreground`.
    Held,
    /// One of tcpilot's, kept by a file.
    Pinned,
    /// One of tcpilot's, not loaded.
    Available,
}

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Registered => "registered",
            State::Module => "module",
            State::Held => "held",
            State::Pinned => "pinned",
            State::Available => "available",
        }
    }
}

figures! {
    /// A congestion control.
    #[derive(Debug, PartialEq, Serialize)]
    pub Algorithm {
        /// Its name for `TCP_CONGESTION`.
        name: String;
        /// `registered`: the kernel's own, or BPF of others. `module`: a module of the kernel. Of tcpilot's:
        /// `pinned` by a file, `held` by a process, or `available`.
        state: State;
        /// Whether it is this namespace's default.
        default: bool;
        /// TCP sockets with it, also listening ones, in all accessible namespaces.
        sockets: u64;
        /// ECN of one of tcpilot's on this kernel: `accurate` (RFC 9768, handshake with ECT(1)) or `classic` (RFC
        /// 3168); `null` if none.
        ecn: Option<Ecn>;
        /// Its use.
        good_for: Option<&'static str>;
        /// Its paper or RFC.
        source: Option<&'static str>;
    }
}

/// `tcpilot cc list`
#[derive(Debug, Serialize)]
struct Algorithms<'a> {
    algorithms: &'a [Algorithm],
}

/// `tcpilot cc …`
///
/// # Errors
/// The command failed.
pub fn run(command: &CcCommand) -> Result<(), Failure> {
    match command {
        CcCommand::List { json, bpffs } => list(*json, bpffs),
        CcCommand::Load(args) => load(args),
        CcCommand::Unload(args) => unload(args),
    }
}

/// The JSON of `cc list`, for its help.
fn json_fields() -> String {
    let of = "each entry of `algorithms` in --json";
    fields::json(of, "", vec![fields::fields::<Algorithm>("")])
}

fn list(json: bool, bpffs: &Path) -> Result<(), Failure> {
    let all = gather(bpffs)?;
    if json {
        output::write(&Document::new(Algorithms { algorithms: &all }).pretty()?)?;
    } else {
        output::print(&table(&all))?;
    }
    Ok(())
}

fn gather(bpffs: &Path) -> Result<Vec<Algorithm>, Failure> {
    let registered = host::registered_algorithms();
    let (ours, pinned) = (Vec::from_iter(cc::ours()), cc::pinned(bpffs));
    let state = |name: &String| match name {
        _ if pinned.contains(name) => State::Pinned,
        _ if name.starts_with(cc::PREFIX) => State::Held,
        _ => State::Registered,
    };
    let unless_registered = |names: Vec<String>, state: State| {
        let left = names.into_iter().filter(|n| !registered.contains(n));
        left.map(|name| (name, state)).collect::<Vec<_>>()
    };
    let mut all: Vec<_> = registered.iter().map(|n| (n.clone(), state(n))).collect();
    all.extend(unless_registered(
        host::loadable_algorithms(),
        State::Module,
    ));
    all.extend(unless_registered(ours, State::Available));
    let (sockets, default) = (cc::sockets_by_algorithm()?, host::default_algorithm());
    // Without BTF nothing of ours can be loaded.
    let variant = Variant::detect().ok();
    let ecn = |name: &str| {
        let ours = name.strip_prefix(cc::PREFIX)?;
        cc::ecn_of(ours, variant?)
    };
    Ok(describe(all, &sockets, default.as_deref(), ecn))
}

fn describe(
    all: Vec<(String, State)>,
    sockets: &BTreeMap<String, u64>,
    default: Option<&str>,
    ecn: impl Fn(&str) -> Option<Ecn>,
) -> Vec<Algorithm> {
    all.into_iter()
        .map(|(name, state)| {
            let about = cc::describe(&name);
            Algorithm {
                state,
                default: Some(name.as_str()) == default,
                sockets: sockets.get(&name).copied().unwrap_or(0),
                ecn: ecn(&name),
                good_for: about.map(|a| a.good_for),
                source: about.map(|a| a.source),
                name,
            }
        })
        .collect()
}

fn table(all: &[Algorithm]) -> String {
    let mut text = format!(
        "{:<16}{:<12}{:>7}  {:<10}{}\n",
        "name", "state", "sockets", "ECN", "good for (source)"
    );
    for a in all {
        let default = if a.default { "the default; " } else { "" };
        let about = match (a.good_for, a.source) {
            (Some(good_for), Some(source)) => format!("{good_for} ({source})"),
            _ => "unknown".to_owned(),
        };
        let ecn = match a.ecn {
            Some(Ecn::Accurate) => "accurate",
            Some(Ecn::Classic) => "classic",
            None => "-",
        };
        text += &format!(
            "{:<16}{:<12}{:>7}  {ecn:<10}{default}{about}\n",
            a.name,
            a.state.word(),
            a.sockets
        );
    }
    text
}

fn load(args: &LoadArgs) -> Result<(), Failure> {
    host::check_requirements()?;
    let stop = args.foreground.then(stop_flag).transpose()?;
    let mut held = Vec::new();
    let counting = if args.as_module {
        Counting::AsModule
    } else {
        Counting::Packets
    };
    let names = if args.names == ["all"] {
        cc::ours().collect()
    } else {
        args.names.clone()
    };
    for name in &names {
        let loaded = Loaded::counting(name, counting)?;
        let verified: u32 = loaded.verified_instructions().iter().map(|(_, n)| n).sum();
        let (name, needs_ecn) = (loaded.name().to_owned(), loaded.needs_ecn());
        cc::check_free(&args.bpffs, &name)?;
        if args.update {
            cc::update_pinned(&args.bpffs, loaded)?;
        } else {
            held.push(Held::register(loaded)?);
        }
        cc::verify(&name)?;
        output::print(&format!(
            "{name}: {verified} instructions verified, carried data over loopback\n"
        ))?;
        if needs_ecn {
            output::print(&format!(
                "{name}: leaves a connection without ECN to reno; `ecn` in `ss -ti` shows that the \
                 peer agreed\n"
            ))?;
        }
    }
    if let Some(stop) = stop {
        return hold(&held, &stop);
    }
    for one in held {
        one.pin(&args.bpffs)?;
    }
    let bpffs = args.bpffs.join("tcpilot");
    let text = format!(
        "pinned in {}: until unloaded, or a reboot\n",
        bpffs.display()
    );
    Ok(output::print(&text)?)
}

fn hold(held: &[Held], stop: &AtomicBool) -> Result<(), Failure> {
    output::print("held by this process: until Ctrl-C; connections keep theirs until they end\n")?;
    if held.iter().any(|h| !h.loaded().has_links()) {
        tracing::warn!("this kernel has no links: if this process is killed, they stay registered");
    }
    while !stop.load(std::sync::atomic::Ordering::Relaxed) {
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    Ok(())
}

fn unload(args: &UnloadArgs) -> Result<(), Failure> {
    host::check_requirements()?;
    for name in &args.names {
        refuse_path(name)?;
    }
    for name in &args.names {
        let name = if name.starts_with(cc::PREFIX) || cc::is_pinned(&args.bpffs, name) {
            name.clone()
        } else {
            format!("{}{name}", cc::PREFIX)
        };
        if !args.force && cc::is_pinned(&args.bpffs, &name) {
            refuse_in_use(&name)?;
        }
        cc::remove_pinned(&args.bpffs, &name)?;
        output::print(&format!("{name}: unloaded\n"))?;
    }
    Ok(())
}

/// Users may give a file here, because `cc load` takes files. The error names the algorithm to give instead.
fn refuse_path(name: &str) -> Result<(), Failure> {
    if !cc::is_path(name) {
        return cc::check_name(name).map_err(Failure::from);
    }
    let remedy = match cc::name_in(Path::new(name)) {
        Some(inside) => format!("give its name: tcpilot cc unload {inside}"),
        None => "`tcpilot cc list` shows the names of what is loaded".to_owned(),
    };
    let message = format!("{name} is a path, and unload takes names");
    Err(Failure::new(Kind::Usage, message, remedy))
}

fn refuse_in_use(name: &str) -> Result<(), Failure> {
    let sockets = cc::sockets_by_algorithm()?.get(name).copied().unwrap_or(0);
    if sockets == 0 {
        return Ok(());
    }
    Err(Failure::new(
        Kind::Failed,
        format!("{sockets} sockets use {name}"),
        "wait until they have closed, or use --force: they keep it then until they close",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_marks_default_and_describes_each_algorithm() {
        let all = vec![
            ("reno".to_owned(), State::Registered),
            ("tp_reno".to_owned(), State::Available),
            ("tp_prague".to_owned(), State::Pinned),
            ("mine".to_owned(), State::Registered),
        ];
        let sockets = BTreeMap::from([("reno".to_owned(), 12)]);
        let ecn = |name: &str| (name == "tp_prague").then_some(Ecn::Accurate);
        let table = table(&describe(all, &sockets, Some("reno"), ecn));
        let expected = "\
name            state       sockets  ECN       good for (source)
reno            registered       12  -         the default; the yardstick; short paths, little loss (RFC 5681)
tp_reno         available         0  -         the yardstick; short paths, little loss (RFC 5681)
tp_prague       pinned            0  accurate  L4S: queues of a millisecond, where the network marks ECT(1) \
(draft-briscoe-iccrg-prague-congestion-control)
mine            registered        0  -         unknown
";
        assert_eq!(table, expected);
    }
}
