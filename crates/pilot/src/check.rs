//! `tcpilot check`: whether this host can run tcpilot, and which part of its traffic could be steered. It changes nothing,
//! and loads nothing.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use tcpilot_config::{Algorithm, Config};
use tcpilot_kernel::{PROGRAM, cc, host, sockops_programs};
use tcpilot_show::{
    document::Document,
    failure::{Failure, Kind},
    figure::{Shown as _, Unit},
    output::{self, printable},
};

use crate::{
    args::CheckArgs,
    daemon,
    figures::{CheckReport, CheckView, TrafficView},
};

/// The result of a check.
enum Found {
    Ok(String),
    /// It runs, with this limit.
    Note(String, String),
    /// It cannot run.
    Fails(Failure),
}

/// The oldest kernel that tcpilot is tested on.
const OLDEST: (u32, u32) = (6, 1);
/// Interval of looks at the sockets.
const EVERY: Duration = Duration::from_secs(1);

/// `tcpilot check`
///
/// # Errors
/// `tcpilot run` would not start: the kind of the first reason.
pub fn check(args: &CheckArgs) -> Result<(), Failure> {
    let mut config = daemon::load_config(args.config.as_deref())?;
    daemon::resolve_defaults(&mut config);
    let cgroup = args
        .cgroup
        .clone()
        .map_or_else(host::whole_cgroup2_root, Ok);
    let found = [
        ("kernel", kernel(&host::kernel_release())),
        ("BTF", btf()),
        ("rights", rights()),
        ("cgroup", of_cgroup(&cgroup)),
        ("algorithms", algorithms(&config)),
        ("default", default(&config)),
        ("programs", programs(cgroup.as_deref().ok())),
    ];
    let mut failure = None;
    let mut checks = Vec::new();
    for (name, found) in found {
        let (state, found, remedy) = match found {
            Found::Ok(found) => ("ok", found, String::new()),
            Found::Note(found, remedy) => ("note", found, remedy),
            Found::Fails(one) => {
                let parts = ("fails", one.message.clone(), one.remedy.clone());
                failure.get_or_insert(one.kind);
                parts
            }
        };
        checks.push(CheckView {
            name: name.to_owned(),
            state: state.to_owned(),
            found,
            remedy,
        });
    }
    if !args.json {
        checks
            .iter()
            .try_for_each(|check| output::print(&line(check)))?;
    }
    let traffic = traffic(&config, Duration::from_secs(args.seconds));
    let (view, word) = of_traffic(traffic.as_ref(), args.seconds);
    if !args.json {
        output::print(&line(&view))?;
    }
    checks.push(view);
    let report = CheckReport {
        ready: failure.is_none(),
        checks,
        traffic,
    };
    if args.json {
        output::write(&Document::new(&report).pretty()?)?;
    } else if failure.is_none() {
        output::print(&format!("tcpilot can run here{word}: tcpilot run\n"))?;
    }
    match failure {
        None => Ok(()),
        Some(kind) => Err(Failure::new(kind, "tcpilot cannot run here", "")),
    }
}

fn line(check: &CheckView) -> String {
    let remedy = match check.remedy.is_empty() {
        true => String::new(),
        false => format!("; {}", check.remedy),
    };
    let text = printable(&format!("{}{remedy}", check.found));
    format!("{:<6}{:<11} {text}\n", check.state, check.name)
}

/// The first two numbers of a release such as "6.12.9-amd64".
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(release: &str) -> Found {
    match version(release) {
        Some(found) if found >= OLDEST => Found::Ok(release.to_owned()),
        _ => Found::Note(
            format!(
                "{release}; tcpilot is tested from {}.{} on",
                OLDEST.0, OLDEST.1
            ),
            "it may run all the same".to_owned(),
        ),
    }
}

fn btf() -> Found {
    match Path::new("/sys/kernel/btf/vmlinux").exists() {
        true => Found::Ok("the kernel describes its types".to_owned()),
        false => Found::Fails(tcpilot_kernel::Error::NoBtf.into()),
    }
}

fn rights() -> Found {
    match host::check_requirements() {
        Err(tcpilot_kernel::Error::NoBtf) | Ok(()) if host::may_enter_netns() => {
            Found::Ok("all".to_owned())
        }
        Err(tcpilot_kernel::Error::NoBtf) | Ok(()) => Found::Note(
            "enough to steer; open connections in other network namespaces are not listed"
                .to_owned(),
            "grant CAP_SYS_ADMIN if there are such".to_owned(),
        ),
        Err(error) => Found::Fails(error.into()),
    }
}

fn of_cgroup(cgroup: &Result<PathBuf, tcpilot_kernel::Error>) -> Found {
    let path = match cgroup {
        Ok(path) => path,
        Err(error) => {
            let remedy = error.remedy();
            return Found::Fails(Failure::new(Kind::Unsupported, error.to_string(), remedy));
        }
    };
    match host::cgroup_id(path) {
        Ok(_) => Found::Ok(format!("the sockets below {}", path.display())),
        Err(error) => Found::Fails(error.into()),
    }
}

/// Where the kernel has an algorithm.
fn place(name: &str, registered: &[String], can_register: bool) -> Option<&'static str> {
    let is_module = || host::has_module(&format!("tcp_{name}"));
    let own = |name: &str| can_register && cc::ours().any(|ours| ours == name);
    if registered.iter().any(|one| one == name) {
        Some("")
    } else if is_module() {
        Some(" (a module)")
    } else if own(name) || own(&format!("{}{name}", cc::PREFIX)) {
        Some(" (tcpilot's own)")
    } else {
        None
    }
}

fn algorithms(config: &Config) -> Found {
    let registered = host::registered_algorithms();
    let can_register = cc::Variant::detect().is_ok();
    let wanted = config.algorithms.iter().map(Algorithm::as_str);
    let (mut there, mut missing) = (Vec::new(), Vec::new());
    for name in wanted {
        match place(name, &registered, can_register) {
            Some(place) => there.push(format!("{name}{place}")),
            None => missing.push(name.to_owned()),
        }
    }
    let there_text = there.join(", ");
    match (there.len(), missing.is_empty()) {
        (0, _) => Found::Fails(Failure::new(
            Kind::Unsupported,
            format!("none of {} is there", missing.join(", ")),
            format!("set algorithms to some of: {}", registered.join(", ")),
        )),
        (1, _) => Found::Note(
            format!("only {there_text}: there is nothing to choose from"),
            "set algorithms in the configuration to two or more of `tcpilot cc list`".to_owned(),
        ),
        (_, true) => Found::Ok(there_text),
        (_, false) => Found::Note(
            format!("{there_text}; not {}", missing.join(", ")),
            "`tcpilot cc list` shows the reason".to_owned(),
        ),
    }
}

/// Whether tcpilot may replace this host's default.
fn default(config: &Config) -> Found {
    let Some(name) = host::default_algorithm() else {
        return Found::Note("the default cannot be read".to_owned(), String::new());
    };
    match replaces(config, &name) {
        true => Found::Ok(format!("{name}, which tcpilot may replace")),
        false => Found::Note(
            format!("{name}, which an administrator chose: its connections are left alone"),
            "add it to replace_defaults to let tcpilot choose".to_owned(),
        ),
    }
}

fn replaces(config: &Config, name: &str) -> bool {
    config
        .replace_defaults
        .iter()
        .any(|one| one.as_str() == name)
}

/// Other programs on the same callbacks.
fn programs(cgroup: Option<&Path>) -> Found {
    let all = cgroup.map(sockops_programs).unwrap_or_default();
    let (ours, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|n| n.starts_with(PROGRAM));
    if !ours.is_empty() {
        return Found::Fails(Failure::new(
            Kind::Running,
            "a tcpilot steers these sockets already",
            "see `tcpilot status`",
        ));
    }
    match others.is_empty() {
        true => Found::Ok("no other sockops program".to_owned()),
        false => Found::Note(
            format!("other sockops programs: {}", others.join(", ")),
            "they run beside tcpilot's; if one sets algorithms, too, the last one wins".to_owned(),
        ),
    }
}

/// Measures the traffic for a while. `None` if the kernel lists no sockets, or if nothing is to be measured.
fn traffic(config: &Config, time: Duration) -> Option<TrafficView> {
    if time.is_zero() {
        return None;
    }
    let mut watch = cc::SocketWatch::begin().ok()?;
    let before = daemon::device_bytes();
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::thread::sleep(EVERY.min(end.saturating_duration_since(Instant::now())));
        watch.look().ok()?;
    }
    let after = daemon::device_bytes();
    // A socket that lived between two looks is known only by its end, without its algorithm: most have the default.
    let default = host::default_algorithm().unwrap_or_default();
    let steerable = watch
        .bytes()
        .into_iter()
        .filter(|(name, _)| match name.as_str() {
            "" => replaces(config, &default),
            name => replaces(config, name),
        });
    let steered = steerable.map(|(_, bytes)| bytes).sum();
    let sent = after.0.saturating_sub(before.0);
    let received = after.1.saturating_sub(before.1);
    Some(daemon::traffic_view(steered, sent, received, after.2))
}

/// The line about the traffic, and the words for the last line.
fn of_traffic(traffic: Option<&TrafficView>, seconds: u64) -> (CheckView, String) {
    let mega = |bytes: u64| format!("{:.1} MB", bytes as f64 / 1e6);
    let view = |state: &str, found: String, remedy: &str| CheckView {
        name: "traffic".to_owned(),
        state: state.to_owned(),
        found,
        remedy: remedy.to_owned(),
    };
    let Some(t) = traffic else {
        return (view("ok", "not measured".to_owned(), ""), String::new());
    };
    let sums = format!(
        "{} of {} sent and {} received in {seconds} s",
        mega(t.steered_bytes),
        mega(t.sent_bytes),
        mega(t.received_bytes)
    );
    if t.steered_bytes > t.sent_bytes {
        let found = format!(
            "{} of TCP data in {seconds} s, more than the {} that this host's devices sent: some of it stays on this host",
            mega(t.steered_bytes),
            mega(t.sent_bytes)
        );
        return (view("ok", found, ""), String::new());
    }
    let Some(share) = t.share.filter(|_| t.steered_bytes > 0) else {
        let remedy = "run it for longer (--seconds), while the host has traffic";
        return (
            view("note", format!("no figure: {sums}"), remedy),
            String::new(),
        );
    };
    let shown = share.shown(Unit::Share);
    let found = format!("{shown} of this host's bytes could be steered: {sums}");
    (
        view("ok", found, ""),
        format!(", and steer {shown} of the traffic"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_read_from_release() {
        let all = ["6.12.9-amd64", "6.1", "7.2.0-rc1", "x"].map(version);
        assert_eq!(all, [Some((6, 12)), Some((6, 1)), Some((7, 2)), None]);
        assert!(matches!(kernel("5.15.0"), Found::Note(..)));
        assert!(matches!(kernel("6.1.0-18"), Found::Ok(_)));
    }

    #[test]
    fn share_of_idle_host_is_no_figure() {
        let idle = TrafficView::default();
        let (view, word) = of_traffic(Some(&idle), 10);
        assert_eq!((view.state.as_str(), word.as_str()), ("note", ""));
        let busy = TrafficView {
            share: Some(0.6),
            steered_bytes: 12_300_000,
            sent_bytes: 15_200_000,
            received_bytes: 4_900_000,
            devices: Vec::new(),
        };
        let (view, word) = of_traffic(Some(&busy), 10);
        assert_eq!(word, ", and steer 60.0% of the traffic");
        assert_eq!(
            line(&view),
            "ok    traffic     60.0% of this host's bytes could be steered: 12.3 MB of 15.2 MB sent and 4.9 MB received in 10 s\n"
        );
    }

    #[test]
    fn traffic_that_stays_on_the_host_is_no_share() {
        let inside = TrafficView {
            share: Some(1.0),
            steered_bytes: 8_200_000,
            ..TrafficView::default()
        };
        let (view, word) = of_traffic(Some(&inside), 10);
        assert_eq!(
            (view.found.as_str(), word.as_str()),
            (
                "8.2 MB of TCP data in 10 s, more than the 0.0 MB that this host's devices sent: some of it stays on this host",
                ""
            )
        );
    }

    #[test]
    fn remedy_follows_the_finding() {
        let check = CheckView {
            name: "BTF".to_owned(),
            state: "fails".to_owned(),
            found: "there is none".to_owned(),
            remedy: "boot another kernel".to_owned(),
        };
        assert_eq!(
            line(&check),
            "fails BTF         there is none; boot another kernel\n"
        );
    }
}
