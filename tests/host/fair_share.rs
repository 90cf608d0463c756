//! `tcpilot watch --fair`: who has what share of the link, and who goes first; `--share`: a host with many flows
//! has one.

use std::{fs, process::Stdio};

use tcpilot_tests::{FAR, Lab, Look, PORT, Place, Running, Watching, until};

const OTHER: &str = "10.77.0.4";

/// A link of 20 Mbit/s.
fn fair(lab: &Lab) -> Watching {
    let words = ["--fair", "--rate", "20"];
    Watching::start(near(lab), "eth0", &words)
}

fn near(lab: &Lab) -> Place<'_> {
    Place::outside(&lab.net.near)
}

/// The part of the link's rate taken by flows to this host.
fn part_of(look: &Look, host: &str) -> f64 {
    let rate = |f: &serde_json::Value| f["rate"].as_f64().unwrap_or(0.0);
    let all: f64 = look.flows.iter().map(rate).sum();
    let is_to = |f: &&serde_json::Value| {
        f["flow"]
            .as_str()
            .is_some_and(|name| name.contains(&format!("> {host}:")))
    };
    let own: f64 = look.flows.iter().filter(is_to).map(rate).sum();
    own / all.max(1.0)
}

/// Waits until the link is full, all flows are seen, and the single flow to the other host has the wanted
/// part of the link, in `looks` looks in a row.
fn until_part(
    watching: &Watching,
    looks: u32,
    what: &str,
    is_wanted: impl Fn(f64) -> bool,
) -> Look {
    let mut in_a_row = 0;
    watching.until(what, |look| {
        let is_busy = look.flows.len() == 13 && look.total("link_rate") > 700_000;
        in_a_row = match is_busy && is_wanted(part_of(look, OTHER)) {
            true => in_a_row + 1,
            false => 0,
        };
        (in_a_row == looks).then(|| look.clone())
    })
}

#[test]
fn a_host_can_have_one_share() {
    let lab = Lab::new();
    lab.net.far.ip(&format!("addr add {OTHER}/24 dev eth0"));
    let many = format!("bulk --to {FAR}:{PORT} --seconds 600 --parallel 12 --cc reno");
    let _many = lab.start(&many);
    let _one = lab.start(&format!("bulk --to {OTHER}:{PORT} --seconds 600 --cc reno"));
    let watch = |unit| {
        let words = ["--fair", "--rate", "8", "--queues", "4", "--share", unit];
        Watching::start(near(&lab), "eth0", &words)
    };
    let sharers = |look: &Look| look.totals["fair"]["sharers"].as_u64().unwrap();

    let each_host = watch("destination");
    let look = until_part(&each_host, 5, "half of the link for the one", |part| {
        (0.4..0.65).contains(&part)
    });
    assert_eq!(sharers(&look), 2);
    drop(each_host);

    let each_flow = watch("flow");
    let look = until_part(&each_flow, 5, "a thirteenth for each", |part| part < 0.2);
    assert!(sharers(&look) > 9, "{}", sharers(&look));
    drop(each_flow);

    // All of them are one sharer, in one queue. Who gets what there is decided by whose packets are dropped.
    let both_hosts = watch("destination/16");
    let look = until_part(&both_hosts, 1, "all flows under one share", |_| true);
    assert_eq!(sharers(&look), 1);
}

/// Max-min fairness: a flow with less than an equal share does not want more, and so has almost no queue. A BBR
/// flow may want no more because it keeps to the rate it once measured. In one queue for all, each flow
/// waits equally long.
fn is_max_min_fair(look: &Look) -> bool {
    let number = |flow: &serde_json::Value, key: &str| flow[key].as_f64().unwrap_or(0.0);
    let flows: Vec<(f64, f64)> = look
        .flows
        .iter()
        .map(|flow| (number(flow, "rate"), number(flow, "queue_us")))
        .collect();
    let all: f64 = flows.iter().map(|(rate, _)| rate).sum();
    let longest = flows.iter().map(|(_, queue)| *queue).fold(0.0, f64::max);
    let is_served = |rate: f64, queue: f64| rate > all / 6.0 * 0.75 || queue < longest / 3.0;
    flows.len() == 6 && all > 2.5e6 * 0.8 && flows.iter().all(|(r, q)| is_served(*r, *q))
}

#[test]
fn flows_in_own_queues_have_equal_shares() {
    let lab = Lab::new();
    let watching = fair(&lab);
    let to = format!("{FAR}:{PORT}");
    let _flows = ["reno", "bbr"].map(|cc| {
        let words = format!("bulk --to {to} --seconds 600 --parallel 3 --cc {cc}");
        lab.start(&words)
    });
    // In one queue a single look may be fair by chance.
    let mut in_a_row = 0;
    watching.until("five looks in a row are fair", |look| {
        in_a_row = if is_max_min_fair(look) {
            in_a_row + 1
        } else {
            0
        };
        (in_a_row == 5).then_some(())
    });
}

/// Without pauses it is no ant, and its packets wait no turn of the others all the same.
#[test]
fn flows_below_half_their_share_go_first() {
    let lab = Lab::new();
    let watching = fair(&lab);
    let to = format!("{FAR}:{PORT}");
    let _bulk = lab.start(&format!("bulk --to {to} --seconds 600 --parallel 6"));
    // 500 bytes every 10 ms.
    let plan = lab.dir.path().join("plan.json");
    let trickle = serde_json::json!({
        "duration_s": 600.0, "sample_ms": 1000, "drain_s": 1.0,
        "flows": [{"name": "trickle", "to": to, "start_s": 0.0, "end_s": 600.0, "streams": 1, "sample": false,
                   "work": {"kind": "timed"}, "source": {"rate_mbit": 0.4}}],
    });
    fs::write(&plan, trickle.to_string()).unwrap();
    let out = lab.dir.path().join("played");
    fs::create_dir(&out).unwrap();
    let _trickle = lab.start(&format!("play --out {} {}", out.display(), plan.display()));
    let mut before = (0, 0);
    watching.until("its bytes are among the ants'", |look| {
        let rate = |flow: &&serde_json::Value| flow["rate"].as_f64();
        let slowest = look
            .flows
            .iter()
            .min_by(|a, b| rate(a).partial_cmp(&rate(b)).unwrap())?;
        let groups = look.totals["fair"]["groups"].as_array()?;
        let ants = groups.iter().find(|g| g["group"] == "ant")?;
        let now = (ants["bytes"].as_u64()?, slowest["bytes"].as_u64()?);
        let (first, sent) = (now.0 - before.0, now.1.saturating_sub(before.1));
        before = now;
        let is_settled = !["ant", "mouse"].map(Into::into).contains(&slowest["group"]);
        let is_it = look.flows.len() == 7 && is_settled;
        (is_it && (20_000..100_000).contains(&sent) && first * 10 > sent * 8).then_some(())
    });
}

/// UDP sends three times the link's rate, whatever is lost, together with three yielding flows.
#[test]
fn unresponsive_udp_leaves_others_their_share() {
    let lab = Lab::new();
    let to = format!("{FAR}:5202");
    let mut reflect = Place::outside(&lab.net.far).command("flowgen");
    reflect.args(["reflect", "--listen", &to]);
    let _reflect = Running::from(reflect.stdout(Stdio::null()).spawn().unwrap());
    let watching = fair(&lab);
    let words = format!("bulk --to {FAR}:{PORT} --seconds 600 --parallel 3 --cc reno");
    let _reno = lab.start(&words);
    // It fails as long as nobody listens.
    let words = format!("calibrate --to {to} --rate-mbit 60 --rate-seconds 1");
    until("it is answered", || {
        let output = lab.try_run(near(&lab), &words);
        output.status.success().then_some(())
    });
    let words = format!("calibrate --to {to} --rate-mbit 60 --rate-seconds 60");
    let _udp = Running::from(
        near(&lab)
            .command("flowgen")
            .args(words.split(' '))
            .stdout(Stdio::null())
            .spawn()
            .unwrap(),
    );
    watching.until("it has a quarter", |look| {
        let rate = |f: &serde_json::Value| f["rate"].as_f64().unwrap_or(0.0);
        let udp: f64 = look
            .flows
            .iter()
            .filter(|f| f["protocol"] == "udp")
            .map(rate)
            .sum();
        let all: f64 = look.flows.iter().map(rate).sum();
        (all > 2.5e6 * 0.8 && udp > 0.15 * all && udp < 0.32 * all).then_some(())
    });
}
