//! The rules for the kernel, and the warnings.

use super::*;
use tcpilot_core::Prefix;

fn warnings(text: &str) -> Vec<String> {
    config(text).warnings()
}

#[test]
fn lists_multiply_into_rules() {
    let rules = config(
        "[[policy]]\nname = \"a\"\nprefixes = [\"10.0.0.0/8\", \"::/0\"]\nlocal_ports = [80, \"90-99\"]\n\
         remote_ports = [7]",
    )
    .rules();
    let seen: Vec<(String, u16, u16, u16)> = rules
        .iter()
        .map(|rule| {
            let bits: u32 = rule.rule.mask.iter().map(|word| word.count_ones()).sum();
            let prefix = Prefix::from_words(rule.rule.prefix, bits as u8).unwrap();
            (
                prefix.to_string(),
                rule.rule.local_port_first,
                rule.rule.local_port_last,
                rule.rule.remote_port_last,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("10.0.0.0/8".to_owned(), 80, 80, 7),
            ("10.0.0.0/8".to_owned(), 90, 99, 7),
            ("::/0".to_owned(), 80, 80, 7),
            ("::/0".to_owned(), 90, 99, 7),
        ]
    );
    assert!(
        rules
            .iter()
            .all(|rule| rule.rule.policy == 2 && rule.rule.disabled == 0)
    );
}

#[test]
fn leave_alone_entries_come_first_one_by_one() {
    let rules = config(
        "[leave_alone]\nprefixes = [\"10.0.0.0/8\"]\nlocal_ports = [22]\nnamespaces = [7]\n\
         [[policy]]\nname = \"a\"\nlocal_ports = [1]",
    )
    .rules();
    let policies: Vec<u8> = rules.iter().map(|rule| rule.rule.policy).collect();
    assert_eq!(policies, [1, 1, 1, 2]);
    assert_eq!(rules[0].rule.local_port_first, 0);
    assert_eq!(rules[1].rule.mask, [0; 4]);
    assert_eq!((rules[2].rule.netns_inum, rules[2].rule.disabled), (7, 0));
}

#[test]
fn unresolved_rule_matches_nothing() {
    let rules = config(
        "[[policy]]\nname = \"a\"\ncgroups = [\"/a/b/\"]\nnamespaces = [\"blue\", \"host\", 9]",
    )
    .rules();
    assert!(rules.iter().all(|rule| rule.rule.disabled == 1));
    assert_eq!(rules[0].cgroup.as_deref(), Some("a/b"));
    let namespaces: Vec<Option<&str>> =
        rules.iter().map(|rule| rule.namespace.as_deref()).collect();
    assert_eq!(namespaces, [Some("blue"), Some("host"), None]);
    assert_eq!(rules[2].rule.netns_inum, 9);
}

#[test]
fn a_policy_without_conditions_matches_everything() {
    let rules = config("[[policy]]\nname = \"rest\"\nleave_alone = true").rules();
    assert_eq!(rules.len(), 1);
    assert_eq!(
        rules[0].rule,
        tcpilot_abi::tp_rule {
            policy: 2,
            ..Default::default()
        }
    );
}

#[test]
fn policy_behind_a_wider_one_is_warned() {
    assert_eq!(
        warnings(
            "[[policy]]\nname = \"wide\"\nprefixes = [\"10.0.0.0/8\"]\n\
             [[policy]]\nname = \"narrow\"\nprefixes = [\"10.1.0.0/16\", \"10.2.0.0/16\"]\nlocal_ports = [80]"
        ),
        ["policy narrow is never reached: policy wide covers it"]
    );
    assert_eq!(
        warnings(
            "[leave_alone]\nlocal_ports = [\"1-100\"]\n[[policy]]\nname = \"web\"\nlocal_ports = [80]"
        ),
        ["policy web is never reached: [leave_alone] covers it"]
    );
    assert_eq!(
        warnings(
            "[[policy]]\nname = \"a\"\ncgroups = [\"x\"]\n[[policy]]\nname = \"b\"\nnamespaces = [\"n\"]\n\
             [[policy]]\nname = \"c\"\ncgroups = [\"x/y\"]\nnamespaces = [\"n\"]\n\
             [[policy]]\nname = \"d\"\ncgroups = [\"xy\"]\nnamespaces = [\"m\"]"
        ),
        ["policy c is never reached: policy a covers it"]
    );
}

#[test]
fn policy_covered_by_two_others_is_warned() {
    assert_eq!(
        warnings(
            "[[policy]]\nname = \"a\"\nremote_ports = [1]\n[[policy]]\nname = \"b\"\nremote_ports = [2]\n\
             [[policy]]\nname = \"c\"\nremote_ports = [1, 2]"
        ),
        ["policy c is never reached: policy a and policy b cover it"]
    );
}

#[test]
fn unreachable_part_of_a_policy_is_named() {
    assert_eq!(
        warnings(
            "[[policy]]\nname = \"a\"\nremote_ports = [\"1-9\"]\n\
             [[policy]]\nname = \"b\"\nremote_ports = [5, 10]\nprefixes = [\"192.0.2.0/24\"]"
        ),
        ["policy b: prefix 192.0.2.0/24, remote port 5 is never reached: policy a covers it"]
    );
}

#[test]
fn policies_side_by_side_are_not_warned_of() {
    let none: [&str; 0] = [];
    assert_eq!(
        warnings(
            "[[policy]]\nname = \"a\"\nprefixes = [\"10.1.0.0/16\"]\n\
             [[policy]]\nname = \"b\"\nprefixes = [\"10.0.0.0/8\"]\n\
             [[policy]]\nname = \"c\"\nlocal_ports = [80]\nnamespaces = [1]\n\
             [[policy]]\nname = \"d\"\nlocal_ports = [\"80-81\"]\nnamespaces = [\"n\"]"
        ),
        none
    );
}

#[test]
fn misspelt_default_is_warned_new_algorithm_is_not() {
    assert_eq!(
        warnings("replace_defaults = [\"cubik\", \"bpf_mine\"]"),
        ["no congestion control is known as `cubik`; did you mean `cubic`?"]
    );
}

#[test]
fn arms_of_a_leave_alone_policy_are_warned() {
    assert_eq!(
        warnings(
            "[[policy]]\nname = \"a\"\nlocal_ports = [1]\nleave_alone = true\narms = [\"bbr\"]"
        ),
        ["policy a: `algorithms` and `prefix` have no effect with leave_alone"]
    );
}

#[test]
fn rescue_outside_the_policys_arms_is_warned() {
    let of = |policy: &str| {
        warnings(&format!(
            "[[policy]]\nname = \"a\"\nlocal_ports = [1]\n{policy}"
        ))
    };
    let lacking = "algorithms = [\"cubic\"]\nrescue = true";
    let warning = "policy a: `rescue` has no effect: `bbr` must be one of its `algorithms`";
    assert_eq!(of(lacking), [warning]);
    for fine in [
        "rescue = true",
        "algorithms = [\"cubic\", \"bbr\"]\nrescue = true",
        "algorithms = [\"cubic\"]",
        "algorithms = [\"cubic\"]\nrescue = false",
    ] {
        assert_eq!(of(fine), Vec::<String>::new(), "{fine}");
    }
}
