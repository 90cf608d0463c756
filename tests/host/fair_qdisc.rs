//! `tcpilot watch --fair --qdisc`: the BPF qdisc if the kernel has BPF qdiscs, and one line of error if not.
//! The tests of `fair` take the kernel's qdisc, and show that it shares, acts and goes away as the HTB does.

use std::{fs, process::Output};

use tcpilot_tests::{FAR, Lab, PORT, Place, Watching, sh, until};

/// Recognised by a function only in those kernels: tcpilot itself looks at something else.
fn kernel_has_bpf_qdiscs() -> bool {
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap();
    symbols.contains(" bpf_qdisc_init_prologue")
}

fn near(lab: &Lab) -> Place<'_> {
    Place::outside(&lab.net.near)
}

fn fair(lab: &Lab, qdisc: &str) -> Watching {
    let words = ["--fair", "--rate", "20", "--qdisc", qdisc];
    Watching::start(near(lab), "eth0", &words)
}

fn try_fair(lab: &Lab, device: &str) -> Output {
    let mut command = near(lab).command("tcpilot");
    let words = "--fair --rate 20 --qdisc bpf --once --for 1";
    let arguments = words.split(' ');
    command.args(["watch", device]).args(arguments);
    command.output().unwrap()
}

/// Kind of the root qdisc of a device at the near end.
fn root(lab: &Lab, device: &str) -> String {
    let netns = lab.net.near.name();
    let text = sh(&format!("tc -n {netns} qdisc show dev {device} root"));
    text.split(' ').nth(1).unwrap_or_default().to_owned()
}

fn kind(watching: &Watching) -> String {
    format!("tcpilot_{}", watching.child.0.id())
}

#[test]
fn auto_prefers_bpf_and_explains_htb() {
    let lab = Lab::new();
    let before = root(&lab, "eth0");
    if kernel_has_bpf_qdiscs() {
        let watching = fair(&lab, "bpf");
        assert_eq!(root(&lab, "eth0"), kind(&watching));
        assert_eq!(watching.look().totals["fair"]["qdisc"], "bpf");
    } else {
        let output = try_fair(&lab, "eth0");
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{error}");
        assert!(error.contains("has no BPF qdiscs"), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert_eq!(root(&lab, "eth0"), before);
    }
}

#[test]
fn htb_can_be_had_on_any_kernel() {
    let lab = Lab::new();
    let watching = fair(&lab, "htb");
    assert_eq!(root(&lab, "eth0"), "htb");
    assert_eq!(watching.look().totals["fair"]["qdisc"], "htb");
}

/// The qdisc of a killed watch goes on carrying data, and its kind cannot be used again: the kernel forgot it.
#[test]
fn data_flows_through_a_killed_watchs_qdisc() {
    let lab = Lab::new();
    let before = root(&lab, "eth0");
    let mut watching = fair(&lab, "auto");
    let left = root(&lab, "eth0");
    watching.child.kill_children(); // the guard
    watching.child.signal(libc::SIGKILL);
    watching.child.wait();
    lab.upload(FAR, 4, 200_000);
    assert_eq!(root(&lab, "eth0"), left);
    let output = near(&lab)
        .command("tcpilot")
        .args(["watch", "eth0", "--restore"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(root(&lab, "eth0"), before);
    if kernel_has_bpf_qdiscs() {
        let netns = lab.net.near.name();
        let again = std::process::Command::new("tc")
            .args(["-n", netns, "qdisc", "add", "dev", "lo", "root", &left])
            .output()
            .unwrap();
        assert!(!again.status.success(), "{again:?}");
    }
}

/// Its queues belong to one device: at another device it would share them.
#[test]
fn it_refuses_another_device_and_serves_its_own() {
    let lab = Lab::new();
    let watching = fair(&lab, "auto");
    let netns = lab.net.near.name();
    let kind = root(&lab, "eth0");
    let add = ["-n", netns, "qdisc", "add", "dev", "lo", "root", &kind];
    let output = std::process::Command::new("tc").args(add).output().unwrap();
    let is_ours = kind == self::kind(&watching);
    assert_eq!(is_ours, kernel_has_bpf_qdiscs());
    assert_eq!(output.status.success(), !is_ours, "{output:?}");
    lab.upload(FAR, 4, 200_000);
    assert_eq!(root(&lab, "eth0"), kind);
}

/// Its removal drops waiting packets, and later packets get through.
#[test]
fn it_goes_while_its_queues_are_full() {
    let lab = Lab::new();
    let before = root(&lab, "eth0");
    for _ in 0..3 {
        let mut watching = fair(&lab, "auto");
        let to = format!("{FAR}:{PORT}");
        let crowd = lab.start(&format!("bulk --to {to} --seconds 600 --parallel 16"));
        watching.until("packets wait", |look| {
            let groups = look.totals["fair"]["groups"].as_array()?;
            let waiting = groups.iter().filter_map(|g| g["backlog"].as_u64());
            (waiting.sum::<u64>() > 8).then_some(())
        });
        watching.child.signal(libc::SIGTERM);
        watching.child.wait();
        until("it is put back", || {
            (root(&lab, "eth0") == before).then_some(())
        });
        drop(crowd);
    }
    lab.upload(FAR, 4, 200_000);
}
