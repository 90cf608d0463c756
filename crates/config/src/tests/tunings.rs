//! The tunings of each objective and network type, and how policies change them.

use tcpilot_abi::{
    TP_NET_CELLULAR, TP_NET_DATA_CENTER, TP_NET_LONG_FAT, TP_NET_UNKNOWN, TP_NET_WIFI,
    TP_TUNE_ACK_PRIORITY, tp_tuning,
};

use super::super::tunings::chosen;
use super::*;

fn tuning(text: &str, policy: usize, net: u32) -> tp_tuning {
    config(text).to_abi(&names(&["cubic"])).tuning[policy][net as usize]
}

fn words(text: &str, policy: usize, net: u32) -> Vec<&'static str> {
    let features = tuning(text, policy, net).features;
    (0..8)
        .filter(|tune| features >> tune & 1 == 1)
        .map(tune_word)
        .collect()
}

#[test]
fn nothing_is_tuned_by_default() {
    let abi = config("").to_abi(&names(&["cubic"]));
    assert_eq!(abi.tunes, 0);
    assert!(abi.tuning.iter().flatten().all(|t| t.features == 0));
}

#[test]
fn each_objective_chooses_its_tunings() {
    let of = |objective| {
        words(
            &format!("[tuning]\nobjective = \"{objective}\""),
            0,
            TP_NET_UNKNOWN,
        )
    };
    assert_eq!(
        of("throughput"),
        ["initial-window", "receive-window", "rate-limit"]
    );
    assert_eq!(
        of("real-time"),
        ["rto", "quick-ack", "thin-linear-timeouts"]
    );
    assert_eq!(
        of("latency"),
        [
            "initial-window",
            "rto",
            "receive-window",
            "quick-ack",
            "rate-limit",
            "thin-linear-timeouts"
        ]
    );
}

#[test]
fn the_kind_of_network_changes_them() {
    let latency = "[tuning]\nobjective = \"latency\"";
    assert_eq!(
        words(latency, 0, TP_NET_DATA_CENTER),
        ["rto", "receive-window", "quick-ack", "thin-linear-timeouts"]
    );
    assert!(!words(latency, 0, TP_NET_CELLULAR).contains(&"rto"));
    let floor = |net| tuning(latency, 0, net).rto_floor_us;
    assert_eq!(floor(TP_NET_DATA_CENTER), 5_000);
    assert_eq!(floor(TP_NET_WIFI), 60_000);
    assert_eq!(floor(TP_NET_LONG_FAT), 40_000);
    let receive = |net| {
        let t = tuning(latency, 0, net);
        (t.rwnd_least_bytes, t.rwnd_most_bytes)
    };
    assert_eq!(receive(TP_NET_DATA_CENTER), (1024, 65_536));
    assert_eq!(receive(TP_NET_LONG_FAT), (65_536, 1 << 20));
}

#[test]
fn a_network_that_is_named_is_not_inferred() {
    let text = "[tuning]\nobjective = \"latency\"\nnetwork = \"data-center\"";
    for net in [TP_NET_UNKNOWN, TP_NET_WIFI, TP_NET_LONG_FAT] {
        assert_eq!(tuning(text, 0, net), tuning(text, 0, TP_NET_DATA_CENTER));
    }
}

#[test]
fn policy_precedes_section_but_not_both() {
    let text = r#"
        [tuning]
        objective = "throughput"
        never = ["rate-limit"]
        [[policy]]
        name = "games"
        local_ports = [3074]
        objective = "real-time"
        [[policy]]
        name = "one"
        local_ports = [1]
        features = ["quick-ack", "rate-limit"]
        [[policy]]
        name = "off"
        local_ports = [2]
        objective = "none"
    "#;
    assert_eq!(words(text, 0, 0), ["initial-window", "receive-window"]);
    assert_eq!(words(text, 1, 0), [""; 0]); // leave-alone
    assert_eq!(
        words(text, 2, 0),
        ["rto", "quick-ack", "thin-linear-timeouts"]
    );
    assert_eq!(words(text, 3, 0), ["quick-ack"]);
    assert_eq!(words(text, 4, 0), [""; 0]);
    assert_eq!(tuning(text, 2, 0).delack_us, 8_000);
    assert_eq!(tuning(text, 0, 0).delack_us, 20_000);
}

#[test]
fn ack_priority_needs_no_objective() {
    let abi = config("[tuning]\nack_priority = true").to_abi(&names(&["cubic"]));
    assert_eq!(u32::from(abi.tunes), 1 << TP_TUNE_ACK_PRIORITY);
}

#[test]
fn tunings_that_do_nothing_are_warned_of() {
    let text = "[[policy]]\nname = \"a\"\nlocal_ports = [1]\nfeatures = [\"rto\"]";
    assert_eq!(
        config(text).warnings(),
        ["policy a: its tunings have no effect with the objective \"none\""]
    );
    let text =
        "[[policy]]\nname = \"a\"\nlocal_ports = [1]\nleave_alone = true\nobjective = \"latency\"";
    assert_eq!(
        config(text).warnings(),
        ["policy a: its tunings have no effect with leave_alone"]
    );
}

#[test]
fn data_center_without_tunings_admits_ecn_arms() {
    let text = "[[policy]]\nname = \"a\"\nlocal_ports = [1]\nnetwork = ";
    assert!(
        config(&format!("{text}\"data-center\""))
            .warnings()
            .is_empty()
    );
    assert_eq!(config(&format!("{text}\"wifi\"")).warnings().len(), 1);
}

#[test]
fn unreachable_policy_is_reported_despite_tunings() {
    let text = r#"
        [tuning]
        objective = "throughput"
        [[policy]]
        name = "all"
        prefixes = ["10.0.0.0/8"]
        objective = "latency"
        [[policy]]
        name = "rack"
        prefixes = ["10.1.0.0/16"]
        network = "data-center"
    "#;
    assert_eq!(
        config(text).warnings(),
        ["policy rack is never reached: policy all covers it"]
    );
}

#[test]
fn an_objective_without_a_tuning_is_only_none() {
    for net in 0..5 {
        assert!(chosen(Objective::None, net).is_empty());
        for objective in [
            Objective::RealTime,
            Objective::Latency,
            Objective::Throughput,
        ] {
            assert!(!chosen(objective, net).is_empty(), "{objective:?} {net}");
        }
    }
}
