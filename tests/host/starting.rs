//! Privileges and arms: when the daemon starts, and its messages when it cannot.

use std::{fs, os::unix::process::CommandExt, process::Command};

use tcpilot_kernel::cc::Variant;
use tcpilot_tests::{
    CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON, Capabilities, FAR, Lab, Place, Registrations, Sink, arm,
    attached, until, verified_instructions,
};

use crate::ALWAYS_BBR;

fn with(kept: &'static [u32]) -> Place<'static> {
    Place {
        capabilities: Capabilities::Only(kept),
        ..Place::here()
    }
}

#[test]
fn without_privileges_it_names_those_that_are_missing() {
    let lab = Lab::new();
    for (kept, named) in [
        (&[][..], "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON;"),
        (
            &[CAP_BPF, CAP_PERFMON],
            "missing privileges: CAP_NET_ADMIN;",
        ),
        (
            &[CAP_BPF, CAP_NET_ADMIN],
            "missing privileges: CAP_PERFMON;",
        ),
        (
            &[CAP_NET_ADMIN, CAP_PERFMON],
            "missing privileges: CAP_BPF;",
        ),
    ] {
        let ended = lab.spawn_pilot(with(kept), ALWAYS_BBR, &[]).ended();
        assert_eq!(ended.status, Some(3), "{}", ended.stderr);
        let [line] = ended.errors()[..] else {
            panic!("{}", ended.stderr)
        };
        assert!(line.contains(named), "{line}");
        assert_eq!(attached(lab.cgroup.path()), [""; 0]);
    }
}

/// Lets a command run as in a container whose seccomp filter denies bpf(2).
fn deny_bpf(command: &mut Command) {
    let step = |code: u32, jt, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf: u8::from(jt == 0 && code & 7 == libc::BPF_JMP),
        k,
    };
    let mut filter = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0), // the call's number
        step(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            libc::SYS_bpf as u32,
        ),
        step(
            libc::BPF_RET | libc::BPF_K,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        step(libc::BPF_RET | libc::BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let enter = move || {
        let program = libc::sock_fprog {
            len: filter.len() as u16,
            filter: filter.as_mut_ptr(),
        };
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: the program and its filter live until the call returns.
        let result = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
                | libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0)
        };
        match result {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(enter) };
}

#[test]
fn a_host_that_denies_bpf_is_named() {
    let lab = Lab::new();
    let dir = lab.dir.path().display();
    let cgroup = lab.cgroup.path().display();
    for words in [
        format!("run --cgroup {cgroup} --socket {dir}/s --state {dir}/state.db"),
        "watch lo --once".to_owned(),
        "cc load reno".to_owned(),
    ] {
        let mut command = Place::here().command("tcpilot");
        deny_bpf(command.args(words.split(' ')));
        let output = command.output().unwrap();
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{words}: {error}");
        let last = error.lines().last().unwrap_or_default();
        assert!(
            last.contains("this host denies BPF") && last.contains("dmesg"),
            "{words}: {error}"
        );
    }
}

#[test]
fn three_capabilities_are_enough() {
    let lab = Lab::new();
    let kept = &[CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON];
    let pilot = lab.spawn_pilot(with(kept), ALWAYS_BBR, &[]).ready();
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(1);
    assert_eq!(arm(&pilot.path("10.77.0.2"), "bbr")["samples"], 1);
    pilot.ask("flows");
    let ended = pilot.end(libc::SIGTERM);
    assert_eq!(
        (ended.status, ended.errors().len()),
        (Some(0), 0),
        "{}",
        ended.stderr
    );
}

#[test]
fn unavailable_arm_is_left_out_and_reported_once() {
    let lab = Lab::new();
    let config = ALWAYS_BBR.replace(r#"["bbr"]"#, r#"["copa", "bbr"]"#);
    let pilot = lab.pilot(&config);
    let status = pilot.status();
    assert_eq!(status["algorithms"], serde_json::json!(["bbr"]));
    let missing = status["algorithms_missing"].as_array().unwrap();
    assert_eq!(missing.len(), 1);
    assert!(missing[0].as_str().unwrap().contains("copa"));
    lab.upload(FAR, 2, 200_000);
    pilot.wait_closed(2);
    assert_eq!(
        pilot.log().lines().filter(|l| l.contains("copa")).count(),
        1
    );
    assert_eq!(arm(&pilot.path("10.77.0.2"), "bbr")["chosen"], 2);
}

#[test]
fn without_any_arm_it_says_which_there_are() {
    let lab = Lab::new();
    let config = ALWAYS_BBR.replace(r#"["bbr"]"#, r#"["copa"]"#);
    let ended = lab.spawn_pilot(Place::here(), &config, &[]).ended();
    assert_eq!(ended.status, Some(4));
    let [line] = ended.errors()[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(line.contains("copa") && line.contains("reno"), "{line}");
}

#[test]
fn misspelt_arm_is_a_configuration_error() {
    let lab = Lab::new();
    let config = ALWAYS_BBR.replace(r#"["bbr"]"#, r#"["bbbr", "cubic"]"#);
    let ended = lab.spawn_pilot(Place::here(), &config, &[]).ended();
    assert_eq!(ended.status, Some(2));
    let [line] = ended.errors()[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(line.contains("`bbbr`; did you mean `bbr`?"), "{line}");
}

#[test]
fn the_default_arms_lack_nothing() {
    let lab = Lab::new();
    // Whatever the default of this host is.
    let pilot = lab.pilot("replace_defaults = [\"reno\", \"cubic\", \"bbr\"]");
    let status = pilot.status();
    let expected = match has_links() {
        true => serde_json::json!(["cubic", "bbr", "tp_bbr3"]),
        false => serde_json::json!(["cubic", "bbr"]),
    };
    assert_eq!(status["algorithms"], expected);
    assert_eq!(status["algorithms_missing"], serde_json::json!([]));
    assert_eq!(status["degraded"], serde_json::json!([]));
    assert!(!pilot.log().contains("WARN"), "{}", pilot.log());
}

/// Whether a registration ends with its process: from Linux 6.4 on.
fn has_links() -> bool {
    Variant::detect().unwrap().links
}

fn is_registered(name: &str) -> bool {
    let all = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
    all.unwrap().split_whitespace().any(|other| other == name)
}

/// The holder of an algorithm ends: it stays for another daemon that uses it. If that one may not share it, it registers
/// it within seconds. After both nothing is left, also after a SIGKILL.
#[test]
fn own_algorithm_outlives_its_first_holder() {
    if !has_links() {
        return;
    }
    let _registrations = Registrations::lock();
    let config = ALWAYS_BBR.replace("[\"bbr\"]", "[\"tp_veno\"]");
    let (first_lab, lab) = (Lab::new(), Lab::new());
    let _sink = Sink::new(&lab.net.far, 5300);
    for may_share in [true, false] {
        let first = first_lab.pilot(&config);
        let kept = &[CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON];
        let second = match may_share {
            true => lab.pilot(&config),
            false => lab.spawn_pilot(with(kept), &config, &[]).ready(),
        };
        assert_eq!(first.end(libc::SIGKILL).status, None);
        if !may_share {
            until("it is registered again", || {
                second.log().contains("tp_veno was gone").then_some(())
            });
        }
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300"));
        assert_eq!(application.tell("cc"), "tp_veno", "{may_share}");
        assert_eq!(second.log().contains("was gone"), !may_share);
        drop(application);
        assert_eq!(second.end(libc::SIGKILL).status, None);
        until("it is gone", || (!is_registered("tp_veno")).then_some(()));
    }
}

#[test]
fn missing_cgroup_is_a_usage_error() {
    let lab = Lab::new();
    lab.cgroup.remove();
    let ended = lab.spawn_pilot(Place::here(), ALWAYS_BBR, &[]).ended();
    assert_eq!(ended.status, Some(2));
    let [line] = ended.errors()[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(line.contains(lab.cgroup.path().to_str().unwrap()), "{line}");
}

/// The programs in the kernel use the host's clock, and a daemon whose own is behind must not seem silent to them.
#[test]
fn a_time_namespace_does_not_stop_steering() {
    let uptime = std::fs::read_to_string("/proc/uptime").unwrap();
    let uptime_s: u32 = uptime.split('.').next().unwrap().parse().unwrap();
    let lab = Lab::new();
    let place = Place {
        clock_behind_s: uptime_s / 2,
        ..Place::here()
    };
    let pilot = lab.spawn_pilot(place, ALWAYS_BBR, &[]).ready();
    lab.upload(FAR, 3, 1_000_000);
    pilot.wait_closed(3);
    assert_eq!(pilot.opened("daemon-silent"), 0);
    assert_eq!(pilot.opened("drawn"), 3);
    assert!(pilot.path(FAR)["age_s"].as_f64().unwrap() < 60.0);
}

/// The kernel verifies the program that steers at each start: most of a start's time. Kernels before 6.12 look at more
/// instructions.
#[test]
fn steering_program_is_verified_soon() {
    const SOCKOPS: u32 = 13;
    let lab = Lab::new();
    let pilot = lab.pilot(ALWAYS_BBR);
    let of_all = verified_instructions(pilot.pid());
    let verified: Vec<_> = of_all.iter().filter(|(kind, _)| *kind == SOCKOPS).collect();
    assert!(
        matches!(verified[..], [(_, one)] if *one < 40_000),
        "{verified:?}"
    );
}
