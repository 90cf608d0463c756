//! Rules name cgroups and namespaces; the kernel side compares numbers.

use std::path::Path;

use tcpilot_abi::tp_rule;
use tcpilot_kernel::host;

use super::netns::HOST;
use crate::pilot::config::RuleTemplate;

/// The rules with the numbers of what is there now; one whose cgroup or namespace is not there
/// matches nothing until it is.
pub fn resolve(templates: &[RuleTemplate], cgroup_root: &Path) -> Vec<tp_rule> {
    templates
        .iter()
        .map(|t| resolve_one(t, cgroup_root))
        .collect()
}

fn resolve_one(template: &RuleTemplate, cgroup_root: &Path) -> tp_rule {
    let mut rule = template.rule;
    if let Some(cgroup) = &template.cgroup {
        let path = cgroup_root.join(cgroup.strip_prefix("/").unwrap_or(cgroup));
        match host::cgroup_id(&path) {
            Ok(id) => rule.cgroup_id = id,
            Err(_) => {
                return tp_rule {
                    disabled: 1,
                    ..rule
                };
            }
        }
    }
    if let Some(namespace) = &template.namespace {
        match inum_of(namespace) {
            Some(inum) => rule.netns_inum = inum,
            None => {
                return tp_rule {
                    disabled: 1,
                    ..rule
                };
            }
        }
    }
    tp_rule {
        disabled: 0,
        ..rule
    }
}

fn inum_of(namespace: &str) -> Option<u32> {
    if namespace == HOST {
        return host::own_netns_inum();
    }
    host::netns_inum(namespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_whose_cgroup_is_not_there_matches_nothing() {
        let template = RuleTemplate {
            rule: tp_rule::default(),
            cgroup: Some("no/such/cgroup".into()),
            namespace: None,
        };
        let rules = resolve(&[template], Path::new("/nonexistent"));
        assert_eq!(rules[0].disabled, 1);
    }

    #[test]
    fn a_namespace_may_be_given_by_its_number() {
        let template = RuleTemplate {
            rule: tp_rule::default(),
            cgroup: None,
            namespace: Some("4026531840".into()),
        };
        let rules = resolve(&[template], Path::new("/nonexistent"));
        assert_eq!((rules[0].disabled, rules[0].netns_inum), (0, 4_026_531_840));
    }
}
