//! Finds the arms in this kernel, loaded or loadable. The others are left out, and the daemon reports them.

use std::path::Path;

use tcpilot_abi::tp_config;
use tcpilot_config::{Algorithm, BUILT_IN, Config};
use tcpilot_kernel::{
    AlgorithmSource,
    cc::{self, Held, Kept, Loaded},
    host, load_algorithm,
};
use tcpilot_show::failure::{Failure, Kind};

/// Replaces default algorithms that this kernel neither has nor can load by tcpilot's own versions, and leaves out
/// a default of tcpilot's own that it cannot have. Returns what was registered for that.
///
/// # Errors
/// Not even a socket can be opened.
pub fn stand_in(config: &mut Config) -> Result<Vec<Held>, Failure> {
    let (mut lacking, mut held) = (Vec::new(), Vec::new());
    let own = config.own_defaults();
    for name in Config::default().wanted_algorithms() {
        if !name.starts_with(cc::PREFIX) && load_algorithm(name)? == AlgorithmSource::Missing {
            lacking.push(name.to_owned());
        }
    }
    for name in own.iter().map(Algorithm::as_str) {
        if let Err(reason) = make_default_usable(name, &mut held)? {
            tracing::info!("{reason}: not among the algorithms");
            lacking.push(name.to_owned());
        }
    }
    config.stand_in(|name| lacking.iter().any(|lacks| lacks == name));
    Ok(held)
}

/// As [`make_one_usable`], but only if nothing remains after a SIGKILL.
fn make_default_usable(name: &str, held: &mut Vec<Held>) -> Result<Result<(), String>, Failure> {
    if !cc::Variant::detect().is_ok_and(|kernel| kernel.links) && !cc::is_registered(name) {
        let reason = format!("{name} would stay registered after a SIGKILL on this kernel");
        return Ok(Err(reason));
    }
    make_one_usable(name, held)
}

/// Registers tcpilot's own algorithms among the arms again if they are gone: another tcpilot had registered
/// them, and has ended.
pub fn hold(arms: &[String], held: &mut Vec<Held>) {
    let own = || arms.iter().filter(|name| name.starts_with(cc::PREFIX));
    if own().next().is_none() {
        return;
    }
    let registered = host::registered_algorithms();
    for name in own().filter(|name| !registered.contains(name)) {
        match Loaded::new(name).and_then(Held::register) {
            Ok(one) => {
                tracing::info!("{name} was gone, and is registered again");
                held.push(one);
            }
            Err(error) => tracing::debug!("{name} is gone: {error}"),
        }
    }
}

/// The configured arms, usable or missing.
pub struct Arms {
    /// tcpilot's own algorithms registered now; each stays as long as its value here lives.
    pub held: Vec<Held>,
    /// Those that another process has registered.
    pub shared: Vec<Kept>,
    /// The usable arms, in the configured order.
    pub present: Vec<String>,
    /// A sentence for each unusable arm.
    pub missing: Vec<String>,
}

/// Loads or registers the arms still missing in the kernel; `held` are those registered before.
///
/// # Errors
/// None of the arms is usable.
pub fn make_usable(asked: &[Algorithm], held: Vec<Held>) -> Result<Arms, Failure> {
    let mut arms = Arms {
        held,
        shared: Vec::new(),
        present: Vec::new(),
        missing: Vec::new(),
    };
    for name in asked.iter().map(Algorithm::as_str) {
        match make_one_usable(name, &mut arms.held)? {
            Ok(()) => {
                let is_held = arms.held.iter().any(|held| held.name() == name);
                // A pin stays, and `cc unload` must be able to end it.
                let is_pinned = cc::is_pinned(Path::new(cc::DEFAULT_BPFFS), name);
                let is_shared = name.starts_with(cc::PREFIX) && !is_held && !is_pinned;
                arms.shared
                    .extend(is_shared.then(|| Kept::share(name)).flatten());
                arms.present.push(name.to_owned());
            }
            Err(reason) => arms.missing.push(reason + ": left out"),
        }
    }
    if arms.present.is_empty() {
        return Err(Failure::new(
            Kind::Unsupported,
            format!(
                "this kernel has none of the algorithms asked for: {}",
                arms.missing.join("; ")
            ),
            format!(
                "set algorithms to some of: {}",
                host::registered_algorithms().join(", ")
            ),
        ));
    }
    Ok(arms)
}

/// Loads the kernel's module, or registers tcpilot's own algorithm. The inner error is a sentence.
fn make_one_usable(name: &str, held: &mut Vec<Held>) -> Result<Result<(), String>, Failure> {
    if load_algorithm(name)? != AlgorithmSource::Missing {
        return Ok(Ok(()));
    }
    if !name.starts_with(cc::PREFIX) {
        return Ok(Err(missing(name)));
    }
    Ok(match Loaded::new(name).and_then(Held::register) {
        Ok(one) => {
            held.push(one);
            Ok(())
        }
        // Another tcpilot registered it meanwhile.
        Err(_) if cc::is_registered(name) => Ok(()),
        Err(error) => Err(error.to_string()),
    })
}

/// Replaces `built-in` by the name of the kernel's own default. Removes the word if the default is unknown,
/// or is in the list already.
pub fn resolve_built_in(defaults: &mut Vec<Algorithm>, built_in: Option<Algorithm>) {
    let Some(at) = defaults.iter().position(|d| d.as_str() == BUILT_IN) else {
        return;
    };
    match built_in {
        Some(name) if !defaults.contains(&name) => defaults[at] = name,
        _ => {
            defaults.remove(at);
        }
    }
}

fn missing(name: &str) -> String {
    let hint = match cc::ours().find(|own| own.strip_prefix(cc::PREFIX) == Some(name)) {
        Some(own) => format!(" ({own} comes with tcpilot: name that instead)"),
        None => String::new(),
    };
    format!("{name} is neither registered nor a module that loads on this kernel{hint}")
}

/// Makes the rescue's algorithm usable, or clears it in `abi` and returns a sentence with the reason.
///
/// # Errors
/// Not even a socket can be opened.
pub fn check_rescue(
    config: &Config,
    abi: &mut tp_config,
    held: &mut Vec<Held>,
) -> Result<Option<String>, Failure> {
    let Some(name) = config.rescue.algorithm.as_ref().map(Algorithm::as_str) else {
        return Ok(None);
    };
    let Err(reason) = make_one_usable(name, held)? else {
        return Ok(None);
    };
    abi.rescue_cc = Default::default();
    Ok(Some(reason + ": heavy loss switches nothing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn algorithms(names: &[&str]) -> Vec<Algorithm> {
        names.iter().filter_map(|n| Algorithm::new(n)).collect()
    }

    #[test]
    fn missing_algorithms_are_left_out_and_reported() {
        let arms = make_usable(&algorithms(&["nonsense", "reno"]), Vec::new()).unwrap();
        assert_eq!(arms.present, ["reno"]);
        assert_eq!(
            arms.missing,
            ["nonsense is neither registered nor a module that loads on this kernel: left out"]
        );
    }

    #[test]
    fn own_replacement_of_missing_algorithm_is_named() {
        assert!(missing("htcp").ends_with("(tp_htcp comes with tcpilot: name that instead)"));
        assert!(missing("scalable").ends_with("on this kernel"));
    }

    #[test]
    fn built_in_stands_for_the_kernels_own_default() {
        let resolve = |built_in: Option<&str>| {
            let mut defaults = algorithms(&["cubic", BUILT_IN]);
            resolve_built_in(&mut defaults, built_in.and_then(Algorithm::new));
            defaults
        };
        assert_eq!(resolve(Some("bbr")), algorithms(&["cubic", "bbr"]));
        assert_eq!(resolve(Some("cubic")), algorithms(&["cubic"]));
        assert_eq!(resolve(None), algorithms(&["cubic"]));
    }

    #[test]
    fn without_any_arm_there_is_a_clear_error() {
        let failure = make_usable(&algorithms(&["nonsense"]), Vec::new())
            .err()
            .unwrap();
        assert_eq!(failure.kind, Kind::Unsupported);
        assert!(failure.remedy.contains("reno"), "{failure}");
    }
}
