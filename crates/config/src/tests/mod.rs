//! The meaning of files, the messages about wrong ones, and the agreement of the documentation with both.

mod documentation;
mod messages;
mod rules;
mod tunings;

use tcpilot_abi::TP_NO_ARM;

use super::*;

pub(super) fn config(text: &str) -> Config {
    Config::from_toml(text, "t.toml").unwrap_or_else(|error| panic!("{error}"))
}

fn names(arms: &[&str]) -> Vec<String> {
    arms.iter().map(|name| (*name).to_owned()).collect()
}

fn c_text(name: &[std::ffi::c_char]) -> String {
    name.iter()
        .take_while(|c| **c != 0)
        .map(|c| *c as u8 as char)
        .collect()
}

const EVERYTHING: &str = r#"
algorithms = ["bbr", "cubic"]
replace_defaults = ["reno"]
manage_loopback = true
dry_run = true
paths_max = 100
[learner]
kind = "epsilon-greedy"
epsilon = 10
min_instances = 0
learning_shift = 3
min_flow_bytes = 1
max_unpaid = 9
window_s = 60
[rescue]
algorithm = ""
loss_shift = 5
min_segments = 100
thin_linear_timeouts = false
[ssthresh]
window_s = 20
floor_packets = 11
[prefix]
ipv4_private = 31
ipv4_public = 23
ipv6_private = 127
ipv6_public = 47
[tuning]
objective = "latency"
network = "wifi"
features = ["rto", "quick-ack"]
never = ["rto"]
window_rule = "slides"
low_load_percent = 800
mid_load_percent = 1600
low_load_divisor = 2
mid_load_divisor = 3
high_load_divisor = 5
most_packets = 100
hold_out_shift = 3
rto_floor_ms = 30
ack_delay_ms = 10
link_mbit = 100
receive_bdp_eighths = 8
receive_least_kib = 16
receive_most_kib = 512
probe_s = 20
ack_priority = true
ack_priority_devices = ["eth0"]
[state]
save_interval_s = 61
max_age_days = 8
[leave_alone]
prefixes = ["192.0.2.0/24"]
local_ports = [22]
remote_ports = ["100-200"]
cgroups = ["/system.slice/sshd.service"]
namespaces = ["blue", 4026531840]
[fleet]
dir = "/srv/agent"
hear = "show"
say_every_s = 30
[[policy]]
name = "web"
algorithms = ["bbr"]
objective = "throughput"
network = "long-fat"
features = ["initial-window"]
prefixes = ["10.0.0.0/8", "2001:db8::/32"]
local_ports = [80, "8000-8100"]
prefix = { ipv4_private = 24 }
[[policy]]
name = "backup"
remote_ports = [873]
leave_alone = true
"#;

const THOMPSON: &str = r#"
[learner]
kind = "thompson"
window_s = 60
bonus_percent = 3
shared_bonus_percent = 50
default_floor_permille = 20
other_floor_permille = 6
budget_percent = 30
budget_most_percent = 400
budget_income_permille = 4
retransmission_weight_percent = 90
delay_weight_percent = 20
delay_dead_zone_us = 60
bytes_min = 20000
rescue_cost_percent = 11
path_half_life_s = 3600
group_half_life_s = 7200
site_half_life_s = 10800
steer_percent = 50
separate_by_namespace = "none"
separate_by_interface = "always"
sample_s = 20
sample_bytes = 2000000
move_long = true
move_gain_percent = 15
move_every_s = 400
"#;

#[test]
fn no_file_means_the_defaults() {
    assert_eq!(config(""), Config::default());
    assert!(Config::default().warnings().is_empty());
}

#[test]
fn the_effective_configuration_reads_back_as_itself() {
    for original in [Config::default(), config(EVERYTHING), config(THOMPSON)] {
        let written = original.to_toml();
        assert_eq!(config(&written), original, "{written}");
    }
}

#[test]
fn a_host_is_in_a_fleet_only_by_its_section() {
    assert_eq!(config("").fleet, None);
    assert!(!Config::default().to_toml().contains("\n[fleet]"));
    let fleet = config("[fleet]").fleet.unwrap();
    assert_eq!(
        (fleet.dir.as_str(), fleet.hear),
        ("/var/lib/tcpilot-fleet", Hear::On)
    );
    assert_eq!(config(EVERYTHING).fleet.unwrap().hear, Hear::Show);
}

#[test]
fn the_effective_configuration_gives_each_reason() {
    let written = Config::default().to_toml();
    assert!(written.starts_with("# Congestion controls to choose among."));
    assert!(written.contains("default_floor_permille = 10\n"));
    assert!(
        written.contains(" 1 to 500.\ndefault_floor_permille"),
        "{written}"
    );
    assert!(written.lines().all(|line| line.len() <= 100));
}

#[test]
fn every_key_of_thompson_reaches_the_learner() {
    let (learner, default) = (config(THOMPSON).learner, Learner::default());
    let (keys, estimates) = (&learner.thompson, &learner.estimates);
    let mut all = Section::keys(keys);
    all.extend(Section::keys(estimates));
    assert!(
        all.iter().all(|key| !key.is_default),
        "each differs from its default"
    );
    assert_eq!(
        (estimates.rescue_cost_percent, keys.steer_percent),
        (11, 50)
    );
    let settings = learner.settings(Objective::None);
    let untouched = default.settings(Objective::None);
    let choice = (
        settings.choice.bonus,
        settings.choice.shared_bonus,
        settings.choice.floor_default,
        settings.choice.floor_other,
    );
    assert_eq!(choice, (0.03, 0.5, 0.02, 0.006));
    let ledger = &settings.choice;
    let ledger = (ledger.ledger_start, ledger.ledger_max, ledger.ledger_income);
    assert_eq!(ledger, (0.3, 4.0, 0.004));
    let reward = (
        settings.reward.gamma,
        settings.reward.beta,
        settings.reward.dead_zone_us,
    );
    assert_eq!(reward, (0.9, 0.2, 60.0));
    assert_eq!(settings.reward.bytes_min, 20000);
    let memory = (
        settings.memory.path_s,
        settings.memory.group_s,
        settings.memory.above_s,
    );
    assert_eq!(memory, (3600.0, 7200.0, 10800.0));
    assert_eq!(settings.model, untouched.model);
    let abi = config(THOMPSON).to_abi(&names(&["cubic", "bbr"]));
    assert_eq!(abi.learner.kind, tcpilot_abi::TP_LEARNER_THOMPSON);
    assert_eq!(abi.min_flow_bytes, 20000, "what is less is not told of");
    assert_eq!(
        (
            abi.choice_dists,
            config(EVERYTHING).to_abi(&[]).choice_dists
        ),
        (24576, 50)
    );
    assert_eq!((abi.sample_bytes, estimates.sample_s), (2_000_000, 20));
    assert_eq!((keys.move_gain_percent, keys.move_every_s), (15, 400));
}

#[test]
fn a_policys_objective_comes_before_that_of_all() {
    let config = config(
        "[tuning]\nobjective = \"latency\"\n[[policy]]\nname = \"bulk\"\nobjective = \"throughput\"",
    );
    assert_eq!(config.objective_of("bulk"), Objective::Throughput);
    assert_eq!(config.objective_of(DEFAULT_POLICY), Objective::Latency);
}

#[test]
fn a_named_file_must_exist_and_says_so() {
    let error = Config::load(Some(Path::new("/nonexistent/t.toml"))).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/nonexistent/t.toml: cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn a_file_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    std::fs::write(&file, EVERYTHING).unwrap();
    assert_eq!(Config::load(Some(&file)).unwrap(), config(EVERYTHING));
}

#[test]
#[allow(clippy::too_many_lines, reason = "a list of every key")]
fn every_key_reaches_the_kernel_side() {
    let abi = config(EVERYTHING).to_abi(&names(&["cubic", "dctcp", "bbr"]));
    assert_eq!(abi.abi_version, tcpilot_abi::TP_ABI_VERSION);
    assert_eq!(
        abi.learner,
        tcpilot_abi::tp_learner_config {
            kind: tcpilot_abi::TP_LEARNER_EPSILON_GREEDY,
            epsilon: 10,
            min_instances: 0,
            learning_shift: 3,
            max_unpaid: 9,
            min_flow_bytes: 1,
            arms: 3,
        }
    );
    assert_eq!(
        (abi.min_flow_bytes, abi.learner.max_unpaid, abi.window_ns),
        (1, 9, 60_000_000_000),
        "the least of what the estimates and the learner need"
    );
    assert_eq!(
        (abi.loss_shift, abi.loss_min_segments, abi.rescue_thin),
        (5, 100, 0)
    );
    assert_eq!(
        (abi.ssthresh_window_ns, abi.ssthresh_floor_packets),
        (20_000_000_000, 11)
    );
    assert_eq!((abi.dry_run, abi.manage_loopback), (1, 1));
    assert_eq!((abi.rules_use_netns, abi.tunes), (1, 0b100_1001));
    assert_eq!(
        abi.tuning[0][0],
        tcpilot_abi::tp_tuning {
            features: 0b1000,
            iw_careful: 0,
            hold_out_shift: 3,
            rwnd_beta_x8: 8,
            iw_low_percent: 800,
            iw_mid_percent: 1600,
            iw_low_divisor: 2,
            iw_mid_divisor: 3,
            iw_high_divisor: 5,
            iw_most_packets: 100,
            rto_floor_us: 30_000,
            syn_rto_floor_us: 100_000,
            delack_us: 10_000,
            link_mbit: 100,
            probe_s: 20,
            rwnd_least_bytes: 16_384,
            rwnd_most_bytes: 524_288,
        }
    );
    assert_eq!(abi.tuning[2][0].features, 1);
    assert_eq!(
        (abi.arms, abi.policies, abi.rules, abi.rules_use_cgroups),
        (3, 4, 11, 1)
    );
    assert_eq!(c_text(&abi.rescue_cc), "");
    assert_eq!(
        (abi.defaults, c_text(&abi.replace_defaults[0]).as_str()),
        (1, "reno")
    );
    assert_eq!(c_text(&abi.arm[1]), "dctcp");
    assert_eq!(abi.ecn_arms, 0b10);
    // The kernel has dctcp, but the configuration does not name it.
    assert_eq!(abi.policy[0].arms, 0b101);
    assert_eq!((abi.policy[1].arms, abi.policy[1].leave_alone), (0, 1));
    assert_eq!((abi.policy[2].arms, abi.policy[2].leave_alone), (0b100, 0));
    assert_eq!(
        (
            abi.policy[2].prefix_len_ipv4_private,
            abi.policy[2].prefix_len_ipv4_public
        ),
        (24, 23)
    );
    assert_eq!(
        (
            abi.policy[0].prefix_len_ipv4_private,
            abi.policy[0].prefix_len_ipv6_private
        ),
        (31, 127)
    );
    assert_eq!(
        (
            abi.policy[3].leave_alone,
            abi.policy[3].prefix_len_ipv6_public
        ),
        (1, 47)
    );
}

#[test]
fn learner_defaults_match_the_published_experiments() {
    let abi = Config::default().to_abi(&names(&["reno", "tp_bbr3", "tp_dctcp", "bbr"]));
    assert_eq!((abi.model_based, abi.ecn_arms), (0b1010, 0b0100));
    let abi = Config::default().to_abi(&names(&["cubic", "bbr"]));
    assert_eq!(
        (
            abi.learner.epsilon,
            abi.learner.min_instances,
            abi.learner.learning_shift,
            abi.loss_shift
        ),
        (20, 3, 2, 6)
    );
    assert_eq!(abi.policy[0].arms, 0b11);
    assert_eq!((abi.rules, abi.rules_use_cgroups, abi.policies), (0, 0, 2));
    assert_eq!(c_text(&abi.rescue_cc), "bbr");
}

#[test]
fn surplus_arms_are_skipped() {
    let many: Vec<String> = (0..20).map(|i| format!("cc{i}")).collect();
    assert_eq!(Config::default().to_abi(&many).arms, 8);
    assert_eq!(Config::default().to_abi(&[]).policy[0].arms, 0);
}

#[test]
fn the_rescue_is_wanted_once() {
    assert_eq!(
        Config::default().wanted_algorithms(),
        ["cubic", "bbr", "tp_bbr3"]
    );
    assert_eq!(
        config("algorithms = [\"cubic\"]").wanted_algorithms(),
        ["cubic", "bbr"]
    );
    assert_eq!(config(EVERYTHING).wanted_algorithms(), ["bbr", "cubic"]);
}

#[test]
fn policy_may_admit_arms_that_need_ecn() {
    let text = |policy: &str| {
        format!(
            "algorithms = [\"cubic\", \"dctcp\", \"tp_prague\"]\n[tuning]\nobjective = \"latency\"\n\
             [[policy]]\nname = \"a\"\n{policy}"
        )
    };
    let vouched = |policy: &str| {
        let abi = config(&text(policy)).to_abi(&names(&["cubic", "dctcp", "tp_prague"]));
        assert_eq!((abi.ecn_arms, abi.policy[0].ecn_vouched), (0b110, 0));
        abi.policy[2].ecn_vouched
    };
    assert_eq!(vouched(""), 0);
    assert_eq!(vouched("network = \"wifi\""), 0);
    assert_eq!(vouched("algorithms = [\"cubic\", \"dctcp\"]"), 0b010);
    assert_eq!(vouched("network = \"data-center\""), 0b110);
}

#[test]
fn policy_is_rescued_only_to_its_own_arms() {
    let rescued = |policy: &str| {
        let text = format!(
            "algorithms = [\"cubic\", \"reno\", \"bbr\"]\n[[policy]]\nname = \"a\"\n{policy}"
        );
        let abi = config(&text).to_abi(&names(&["cubic", "reno", "bbr"]));
        assert_eq!(abi.policy[0].rescue, 1);
        abi.policy[2].rescue
    };
    assert_eq!(rescued(""), 1);
    assert_eq!(rescued("algorithms = [\"reno\"]"), 0);
    assert_eq!(rescued("algorithms = [\"reno\", \"bbr\"]"), 1);
    assert_eq!(rescued("algorithms = [\"reno\"]\nrescue = true"), 1);
    assert_eq!(rescued("rescue = false"), 0);
}

#[test]
fn rescue_is_one_of_the_arms() {
    let rescue = |text: &str| {
        let abi = config(text).to_abi(&names(&["cubic", "reno", "bbr"]));
        (u32::from(abi.rescue_arm), abi.rescue_retry_s)
    };
    assert_eq!(rescue(""), (2, 600));
    assert_eq!(
        rescue("[rescue]\nalgorithm = \"reno\"\nretry_s = 7"),
        (1, 7)
    );
    for none in ["tp_bbr3", ""] {
        let text = format!("[rescue]\nalgorithm = \"{none}\"");
        assert_eq!(rescue(&text).0, TP_NO_ARM);
    }
}

#[test]
fn own_algorithms_replace_missing_defaults() {
    let without_bbr = |text: &str| {
        let mut config = config(text);
        config.stand_in(|name| name == "bbr");
        config
    };
    let policy = "[[policy]]\nname = \"a\"\narms = [\"bbr\"]";
    let stood_in = without_bbr(policy);
    assert_eq!(stood_in.wanted_algorithms(), ["cubic", "tp_bbr", "tp_bbr3"]);
    assert_eq!(stood_in.rescue.algorithm, Algorithm::new("tp_bbr"));
    assert_eq!(stood_in.policies[0].algorithms, known(&["tp_bbr"]));
    let abi = stood_in.to_abi(&names(&["cubic", "tp_bbr"]));
    assert_eq!((abi.policy[0].arms, abi.policy[2].arms), (0b11, 0b10));

    // A user who names bbr gets bbr, or a message that it is missing.
    let named = without_bbr("algorithms = [\"reno\", \"bbr\"]");
    assert_eq!(named.algorithms, known(&["reno", "bbr"]));
    // A default of tcpilot's own goes if it cannot be registered, unless the user names it.
    let without_bbr3 = |text: &str| {
        let mut config = config(text);
        config.stand_in(|name| name == "tp_bbr3");
        config.algorithms
    };
    assert_eq!(without_bbr3(""), known(&["cubic", "bbr"]));
    let all = known(&["cubic", "bbr", "tp_bbr3"]);
    let named = "[[policy]]\nname = \"a\"\nalgorithms = [\"tp_bbr3\"]";
    assert_eq!(without_bbr3(named), all);
    assert_eq!(
        without_bbr3("algorithms = [\"bbr\", \"tp_bbr3\"]"),
        known(&["bbr", "tp_bbr3"])
    );
    let mut all_there = Config::default();
    all_there.stand_in(|_| false);
    assert_eq!(all_there, Config::default());
}

#[test]
fn host_algorithm_is_known_by_any_name() {
    let text = "algorithms = [\"bbbr\"]";
    assert!(Config::from_toml(text, "t.toml").is_err());
    let config = Config::read_text(text, "t.toml", &names(&["reno", "bbbr"])).unwrap();
    assert_eq!(config.algorithms, known(&["bbbr"]));
}

#[test]
fn policies_have_numbers_and_names() {
    let config = config(EVERYTHING);
    for (id, name) in [
        (0, "default"),
        (1, "leave-alone"),
        (2, "web"),
        (3, "backup"),
    ] {
        assert_eq!(config.policy_name(id), Some(name));
        assert_eq!(config.policy_id(name), Some(id));
    }
    assert_eq!(config.policy_name(4), None);
    assert_eq!(config.policy_id("mail"), None);
}

#[test]
fn reading_takes_time_in_proportion_to_the_length() {
    let keys: String = (0..60_000).map(|i| format!("key{i} = 1\n")).collect();
    let policies: String = (0..30_000)
        .map(|i| format!("[[policy]]\nname = \"p{i}\"\n"))
        .collect();
    let list: Vec<String> = (0..60_000)
        .map(|i| format!("\"10.{}.{}.{}\"", i >> 16, i >> 8 & 255, i & 255))
        .collect();
    let list = format!("[leave_alone]\nprefixes = [{}]", list.join(", "));
    let long = format!("{} = 1\n", "k".repeat(900_000));
    for text in [keys, policies, list, long] {
        let start = std::time::Instant::now();
        let Err(ConfigError::Invalid(problems)) = Config::from_toml(&text, "t.toml") else {
            panic!("it is wrong");
        };
        assert!(problems.len() <= 100, "{}", problems.len());
        // Linear time is a second or less here; quadratic time is ten times as long.
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }
}

#[test]
fn former_key_and_its_mistakes_are_read() {
    let text = "arms = [\"reno\"]\n[[policy]]\nname = \"a\"\narms = [\"reno\"]";
    let former = config(text);
    assert_eq!(former, config(&text.replace("arms", "algorithms")));
    assert_eq!(former.algorithms, known(&["reno"]));
    let error = |text: &str| Config::from_toml(text, "t.toml").unwrap_err().to_string();
    assert_eq!(
        error("dry_run = true\narms = [7]"),
        "t.toml:2: an entry of `algorithms` must be a congestion control's name, not a whole number"
    );
    let both = error("algorithms = [\"reno\"]\narms = [\"bbr\"]");
    assert!(both.starts_with("t.toml:2: unknown key `arms`"), "{both}");
}
