//! A running daemon reads its configuration again.

use serde_json::json;
use tcpilot_tests::{FAR, Lab, Sink, arm, attached, binary};

use crate::ALWAYS_BBR;

#[test]
fn a_signal_has_the_configuration_read_anew() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let before = format!("{ALWAYS_BBR}\n[[policy]]\nname = \"one\"\nprefixes = [\"192.0.2.1\"]");
    let pilot = lab.pilot(&before);
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(1);
    let connect = || {
        let mut application = lab.actor();
        application.tell(&format!("connect {FAR}:5300"));
        let cc = application.tell("cc");
        (application, cc)
    };
    let (_first, cc) = connect();
    assert_eq!(cc, "bbr");
    let flows = pilot.remembered();
    // The former policy goes, and the new one gets a number of its own.
    let after = format!(
        "{ALWAYS_BBR}\n[[policy]]\nname = \"two\"\nleave_alone = true\nremote_ports = [5300]"
    );
    pilot.configure(&after);
    pilot.signal(libc::SIGHUP);
    pilot.wait_for_take_overs(1, 0);
    let (_second, cc) = connect();
    assert_eq!(cc, "reno");
    assert_eq!(pilot.opened("excluded"), 1);
    for (name, flow) in flows {
        assert_eq!(pilot.remembered()[&name], flow);
    }
    let more = after
        .replace(
            "algorithms = [\"bbr\"]",
            "algorithms = [\"cubic\", \"bbr\"]",
        )
        .replace("true", "false");
    pilot.configure(&more);
    pilot.signal(libc::SIGHUP);
    pilot.wait_for_take_overs(2, 0);
    assert_eq!(pilot.status()["algorithms"], json!(["bbr", "cubic"]));
    lab.upload(FAR, 1, 1_000_000);
    pilot.wait_closed(2);
    // Other algorithms are compared now, so the knowledge about this policy starts from nothing.
    let log = pilot.log();
    assert!(log.contains("compares bbr, and now"), "{log}");
    let default = pilot
        .places()
        .into_iter()
        .find(|path| path["policy"] == "default")
        .unwrap();
    let chosen = |name| arm(&default, name)["chosen"].as_u64().unwrap();
    assert_eq!(chosen("bbr") + chosen("cubic"), 1, "{default}");
    pilot.configure(&before);
    pilot.signal(libc::SIGHUP);
    pilot.wait_for_take_overs(3, 0);
    assert_eq!(pilot.status()["algorithms"], json!(["bbr"]));
    assert_eq!(connect().1, "bbr");
}

#[test]
fn config_error_keeps_old_config_and_reports_line() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let pilot = lab.pilot(ALWAYS_BBR);
    let mistakes = [
        (
            "\n\nalgorithmss = [\"reno\"]\n[learner]\nepsilon = -1\n",
            ["tcpilot.toml:3: unknown key", "tcpilot.toml:5: "],
        ),
        ("algorithms = \n", ["tcpilot.toml:1: not TOML", ""]),
        (
            "\npaths_max = 64\n",
            ["tcpilot.toml:2: `paths_max` cannot change", ""],
        ),
    ];
    for (nth, (config, told)) in (1..).zip(mistakes) {
        pilot.configure(config);
        pilot.signal(libc::SIGHUP);
        pilot.wait_for_take_overs(0, 2 * nth - 1);
        let degraded = pilot.command("status")["degraded"].to_string();
        for line in told {
            assert!(degraded.contains(line), "{line}: {degraded}");
            assert!(pilot.log().contains(line), "{line}: {}", pilot.log());
        }
        let output = pilot.taken_over_by(&binary("tcpilot"));
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{message}");
        assert!(message.contains(told[0]), "{message}");
    }
    let mut application = lab.actor();
    application.tell(&format!("connect {FAR}:5300"));
    assert_eq!(application.tell("cc"), "bbr");
    assert_eq!(attached(lab.cgroup.path()), ["tcpilot"]);
    pilot.configure(ALWAYS_BBR);
    pilot.take_over();
    assert!(
        !pilot.status()["degraded"]
            .to_string()
            .contains("not upgraded")
    );
}
