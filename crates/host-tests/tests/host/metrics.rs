//! `run --listen` and `tcpilot metrics`, with a daemon that steers.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
};

use tcpilot_host_tests::{Daemon, FAR, Lab, Place, Sink, until};

use crate::ALWAYS_BBR;

/// The address that its log tells, the last one if it was told anew.
fn address(pilot: &Daemon) -> String {
    until("it listens", || {
        let log = pilot.log();
        let told = log.rsplit("metrics are at http://").next()?;
        let (address, _) = told.split_once("/metrics")?;
        Some(address.to_owned())
    })
}

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nhost: test\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_scrape_has_the_figures_of_the_status_also_after_a_take_over() {
    let lab = Lab::new();
    let _sink = Sink::new(&lab.net.far, 5300);
    let config = "algorithms = [\"bbr\"]\n[learner]\nkind = \"thompson\"";
    let pilot = lab
        .spawn_pilot(Place::here(), config, &["--listen", "0"])
        .ready();
    lab.upload(FAR, 1, 1000);
    let closed = |answer: &str| answer.contains("\ntcpilot_closed_total 1.0\n");
    let answer = until("its end is counted", || {
        let answer = get(&address(&pilot), "/metrics");
        closed(&answer).then_some(answer)
    });
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text"));
    for line in [
        "\ntcpilot_attached 1.0\n",
        "\ntcpilot_effect_pairs_total 0.0\n",
        "\n# EOF\n",
    ] {
        assert!(answer.contains(line), "{line} is not in {answer}");
    }
    assert!(get(&address(&pilot), "/readyz").ends_with("attached\n"));
    pilot.take_over();
    assert!(closed(&get(&address(&pilot), "/metrics")));
}

#[test]
fn a_text_file_is_replaced_and_an_address_that_is_taken_is_refused() {
    let lab = Lab::new();
    let pilot = lab
        .spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", "0"])
        .ready();
    let file = lab.dir.path().join("tcpilot.prom");
    fs::write(&file, "of before").unwrap();
    let mut command = Place::here().command("tcpilot");
    command.args(["metrics", "--textfile"]).arg(&file);
    assert!(
        command
            .arg("--socket")
            .arg(pilot.socket())
            .status()
            .unwrap()
            .success()
    );
    let text = fs::read_to_string(&file).unwrap();
    assert!(
        text.starts_with("# HELP") && text.contains("\ntcpilot_attached 1.0\n"),
        "{text}"
    );
    let other = Lab::new();
    let taken = address(&pilot);
    let second = other.spawn_pilot(Place::here(), ALWAYS_BBR, &["--listen", &taken]);
    until("it is refused", || {
        second.log().contains("give --listen another").then_some(())
    });
}
