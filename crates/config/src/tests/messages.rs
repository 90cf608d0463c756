//! Each message word for word, because the author of a wrong file gets no other help.

use super::*;

/// Texts with their messages. `docs/use/configuration.md` quotes some of them.
pub(super) const MESSAGES: &[(&str, &str)] = &[
    (
        "dry_run = true\n[learner]\nepsilonn = 20",
        "t.toml:3: unknown key `epsilonn` in [learner]; did you mean `epsilon`?",
    ),
    (
        "[lerner]",
        "t.toml:1: unknown key `lerner`; did you mean `learner`?",
    ),
    (
        "[tuning]\nobjective = \"latncy\"",
        "t.toml:2: `objective` in [tuning] cannot be \"latncy\", there is \"none\", \"real-time\", \"latency\", \"throughput\"; did you mean `latency`?",
    ),
    (
        "[fleet]\nhear = \"yes\"",
        "t.toml:2: `hear` in [fleet] cannot be \"yes\", only \"on\" or \"show\" or \"off\"",
    ),
    (
        "[fleet]\ndir = \"agent\"",
        "t.toml:2: `dir` in [fleet] must be a whole path, beginning with /",
    ),
    (
        "[fleet]\nstore = \"dir:/srv\"",
        "t.toml:2: unknown key `store` in [fleet]",
    ),
    (
        "hear = \"on\"",
        "t.toml:1: unknown key `hear`; it belongs in [fleet]",
    ),
    ("colour = 1", "t.toml:1: unknown key `colour`"),
    (
        "epsilon = 20",
        "t.toml:1: unknown key `epsilon`; it belongs in [learner]",
    ),
    (
        "[learner]\ndry_run = true",
        "t.toml:2: unknown key `dry_run` in [learner]; it belongs before the first [section]",
    ),
    (
        "[learner]\nwindow_s = \"20\"",
        "t.toml:2: `window_s` in [learner] must be a whole number from 1 to 86400, not a string",
    ),
    (
        "[learner]\nwindow_s = 0.5",
        "t.toml:2: `window_s` in [learner] must be a whole number from 1 to 86400, not a fraction",
    ),
    (
        "[learner]\nwindow_s = 500000",
        "t.toml:2: `window_s` in [learner] is 500000, it must be from 1 to 86400",
    ),
    (
        "[learner]\nkind = \"epsilon-greedy\"\nepsilon = -1",
        "t.toml:3: `epsilon` in [learner] is -1, it must be from 0 to 1000",
    ),
    (
        "[learner]\nkind = \"thompson\"\n[effect]\nblock_s = 10\nsettle_s = 5",
        "t.toml:5: `settle_s` in [effect] must be less than half of `block_s`, or no connection counts",
    ),
    (
        "[learner]\nwindow_s = 0",
        "t.toml:2: `window_s` in [learner] is 0, it must be from 1 to 86400",
    ),
    (
        "[learner]\nkind = \"epsilon-greedy\"\nepsilon = 99999999999999999999",
        "t.toml:3: `epsilon` in [learner] is 99999999999999999999, it must be from 0 to 1000",
    ),
    (
        "[learner]\nkind = \"tompson\"\nbonus_percent = 3",
        "t.toml:2: `kind` in [learner] cannot be \"tompson\", only \"epsilon-greedy\" or \"thompson\"; did you \
         mean `thompson`?",
    ),
    (
        "[learner]\nkind = \"thompson\"\nsample_s = 0\nmove_long = true",
        "t.toml:4: `move_long` in [learner] needs `sample_s`: only connections that are looked at are moved",
    ),
    (
        "[learner]\nwindow_s = 60\nepsilon = 20",
        "t.toml:3: `epsilon` in [learner] is a key of the learner epsilon-greedy: add the line `kind = \
         \"epsilon-greedy\"`, or remove `epsilon`",
    ),
    (
        "[learner]\nkind = \"epsilon-greedy\"\nbonus_percent = 3",
        "t.toml:3: `bonus_percent` in [learner] is a key of the learner thompson: set `kind = \
         \"thompson\"`, or remove `bonus_percent`",
    ),
    (
        "[learner]\nkind = \"thompson\"\nepsilon = 20",
        "t.toml:3: `epsilon` in [learner] is a key of the learner epsilon-greedy: set `kind = \
         \"epsilon-greedy\"`, or remove `epsilon`",
    ),
    (
        "bytes_min = 1",
        "t.toml:1: unknown key `bytes_min`; it belongs in [learner]",
    ),
    (
        "learner = 3",
        "t.toml:1: `learner` must be a table, not a whole number",
    ),
    (
        "dry_run = 1",
        "t.toml:1: `dry_run` must be true or false, not a whole number",
    ),
    (
        "algorithms = []",
        "t.toml:1: `algorithms` has 0 entries, it must have 1 to 8",
    ),
    (
        "algorithms = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\"]",
        "t.toml:1: `algorithms` has 9 entries, it must have 1 to 8",
    ),
    (
        "algorithms = \"bbr\"",
        "t.toml:1: `algorithms` must be a list, not a string",
    ),
    (
        "algorithms = [\n  \"bbr\",\n  \"bbr\",\n]",
        "t.toml:3: an entry of `algorithms` stands there twice: \"bbr\"",
    ),
    (
        "algorithms = [\"much_too_long_name\"]",
        "t.toml:1: an entry of `algorithms` cannot be \"much_too_long_name\": the kernel's names have 1 to 15 of a-z, \
         0-9, _ and -",
    ),
    (
        "algorithms = [7]",
        "t.toml:1: an entry of `algorithms` must be a congestion control's name, not a whole number",
    ),
    (
        "algorithms = [\n  \"cubic\",\n  \"bbbr\",\n]",
        "t.toml:3: no congestion control is known as `bbbr`; did you mean `bbr`? Load one of your own before \
         tcpilot starts (tcpilot cc load)",
    ),
    (
        "algorithms = [\"tp_htpc\"]",
        "t.toml:1: no congestion control is known as `tp_htpc`; did you mean `tp_htcp`? Load one of your own \
         before tcpilot starts (tcpilot cc load)",
    ),
    (
        "algorithms = [\"mine_alone\"]",
        "t.toml:1: no congestion control is known as `mine_alone`. Load one of your own before tcpilot starts \
         (tcpilot cc load)",
    ),
    (
        "[rescue]\nalgorithm = \"bbbr\"",
        "t.toml:2: no congestion control is known as `bbbr`; did you mean `bbr`? Load one of your own before \
         tcpilot starts (tcpilot cc load)",
    ),
    (
        "[rescue]\nalgorithm = \"dctcp\"",
        "t.toml:2: `algorithm` in [rescue] needs ECN, a rescue must not; try \"bbr\"",
    ),
    (
        "[prefix]\nipv4_public = 33",
        "t.toml:2: `ipv4_public` in [prefix] is 33, it must be from 0 to 32",
    ),
    (
        "[leave_alone]\nprefixes = [\"10.1.2.3/16\"]",
        "t.toml:2: an entry of `prefixes` in [leave_alone] cannot be used: `10.1.2.3/16` has bits set beyond its \
         length; did you mean 10.1.0.0/16?",
    ),
    (
        "[leave_alone]\nprefixes = [\"example.org\"]",
        "t.toml:2: an entry of `prefixes` in [leave_alone] cannot be used: `example.org` is not an address or \
         prefix; write 10.1.0.0/16, 2001:db8::/32 or an address",
    ),
    (
        "[leave_alone]\nlocal_ports = [\"8100-8000\"]",
        "t.toml:2: an entry of `local_ports` in [leave_alone] cannot be `8100-8000`: write a port from 1 to 65535 \
         or a range such as \"8000-8100\"",
    ),
    (
        "[leave_alone]\nlocal_ports = [0]",
        "t.toml:2: an entry of `local_ports` in [leave_alone] cannot be `0`: write a port from 1 to 65535 or a \
         range such as \"8000-8100\"",
    ),
    (
        "[leave_alone]\ncgroups = [\"/\"]",
        "t.toml:2: an entry of `cgroups` in [leave_alone] cannot be \"/\": write a path below the cgroup root, \
         such as \"system.slice/nginx.service\"",
    ),
    (
        "[leave_alone]\nnamespaces = [\"/run/netns/blue\"]",
        "t.toml:2: an entry of `namespaces` in [leave_alone] cannot be \"/run/netns/blue\": write a name under \
         /run/netns, \"host\" or an inode number",
    ),
    (
        "[policy]\nname = \"x\"",
        "t.toml:1: policies are written [[policy]], with two brackets",
    ),
    (
        "[[policy]]\nlocal_ports = [1]",
        "t.toml:1: a policy needs a `name` of letters, digits, `-`, `_` and `.`",
    ),
    (
        "[[policy]]\nname = \"a b\"",
        "t.toml:2: a policy needs a `name` of letters, digits, `-`, `_` and `.`",
    ),
    (
        "[[policy]]\nname = \"default\"",
        "t.toml:2: the name `default` is taken by tcpilot itself",
    ),
    (
        "[[policy]]\nname = \"a\"\n[[policy]]\nname = \"a\"",
        "t.toml:4: there is a policy `a` already",
    ),
    (
        "[[policy]]\nname = \"a\"\nlocal_port = [1]",
        "t.toml:3: unknown key `local_port` in [[policy]]; did you mean `local_ports`?",
    ),
    (
        "[[policy]]\nname = \"a\"\nprefix = { ipv4 = 24 }",
        "t.toml:3: unknown key `ipv4` in [policy.prefix]",
    ),
    (
        "[[policy]]\nname = \"a\"\narms = [\"vegas\"]",
        "t.toml:3: `vegas` of policy `a` is not among the top level's algorithms; add it there",
    ),
    (
        "[[policy]]\nname = \"a\"\narms = [\"cubik\"]",
        "t.toml:3: `cubik` of policy `a` is not among the top level's algorithms; did you mean `cubic`?",
    ),
    ("a = 1\na = 2", "t.toml:2: not TOML: duplicate key"),
    (
        "[learner\nepsilon = 1",
        "t.toml:1: not TOML: unclosed table, expected `]`",
    ),
    (
        "dry_run = yes",
        "t.toml:1: not TOML: string values must be quoted, expected literal string",
    ),
    (
        "dry_run = \"yes",
        "t.toml:1: not TOML: invalid basic string, expected `\"`",
    ),
];

#[test]
fn each_mistake_is_one_line_with_remedy() {
    for (text, message) in MESSAGES {
        let error = Config::from_toml(text, "t.toml")
            .expect_err(text)
            .to_string();
        assert_eq!(error, *message, "{text}");
    }
}

#[test]
fn mistakes_are_reported_in_line_order() {
    let text = "algorithms = [1]\ndry_runn = true\n[[policy]]\nname = \"x\"\nleave_alone = 3\n[learner]\nwindow_s = 500000";
    assert_eq!(
        Config::from_toml(text, "t.toml").unwrap_err().to_string(),
        "t.toml:1: an entry of `algorithms` must be a congestion control's name, not a whole number\n\
         t.toml:2: unknown key `dry_runn`; did you mean `dry_run`?\n\
         t.toml:5: `leave_alone` in [[policy]] must be true or false, not a whole number\n\
         t.toml:7: `window_s` in [learner] is 500000, it must be from 1 to 86400"
    );
}

#[test]
fn a_message_is_one_line_whatever_it_quotes() {
    let error = Config::from_toml("\"a\\nb\" = 1", "t.toml")
        .unwrap_err()
        .to_string();
    assert_eq!(error, "t.toml:1: unknown key `a b`");
}

#[test]
fn too_many_rules_are_refused_at_their_line() {
    let ports: Vec<String> = (1..=33).map(|port| port.to_string()).collect();
    let text = format!(
        "[leave_alone]\nlocal_ports = [22]\n[[policy]]\nname = \"few\"\nremote_ports = [1]\n[[policy]]\n\
         name = \"many\"\nprefixes = [\"10.0.0.0/8\", \"192.0.2.0/24\"]\nlocal_ports = [{}]",
        ports.join(", ")
    );
    assert_eq!(
        Config::from_toml(&text, "t.toml").unwrap_err().to_string(),
        "t.toml:6: policy `many` needs 66 rules, 68 with those before it; 64 are possible (lists multiply: one \
         rule for each combination of their entries)"
    );
}

#[test]
fn too_many_entries_to_leave_alone_are_refused() {
    let ports: Vec<String> = (1..=65).map(|port| port.to_string()).collect();
    assert_eq!(
        Config::from_toml(
            &format!("[leave_alone]\nlocal_ports = [{}]", ports.join(",")),
            "t.toml"
        )
        .unwrap_err()
        .to_string(),
        "t.toml:1: [leave_alone] has 65 entries, 64 are possible"
    );
}

#[test]
fn too_many_policies_are_refused() {
    let policy = |i: usize| format!("[[policy]]\nname = \"p{i}\"\nlocal_ports = [{i}]\n");
    let text: String = (1..=14).map(policy).collect();
    config(&text);
    assert_eq!(
        Config::from_toml(&(text + &policy(15)), "t.toml")
            .unwrap_err()
            .to_string(),
        "t.toml:44: policy `p15` is one too many: 14 are possible"
    );
}

proptest::proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in "(\\PC|[\\[\\]\"=\n.])*") {
        let _ = Config::from_toml(&text, "t.toml");
    }

    #[test]
    fn no_damage_to_a_file_makes_reading_panic(at in 0..EVERYTHING.len(), with in "[\\[\\]\"=\n.,{}a0-]{0,3}") {
        let mut text = EVERYTHING.to_owned();
        text.replace_range(at..=at, &with);
        if let Err(ConfigError::Invalid(problems)) = Config::from_toml(&text, "t.toml") {
            assert!(!problems.is_empty() && problems.iter().all(|p| p.line <= text.lines().count() + 1));
        }
    }
}
