//! Resolves the rules' cgroups and namespaces to numbers, for the BPF programs to compare.

use std::path::{Path, PathBuf};

use tcpilot_abi::{TP_OLDER_CGROUPS, tp_rule};
use tcpilot_config::RuleTemplate;
use tcpilot_kernel::host;

use super::netns::HOST;

/// The rules with the numbers of the present cgroups and namespaces. If a cgroup has never existed, or a
/// namespace does not exist, its rule matches nothing. `former`: the rules as they were resolved before, or
/// none.
///
/// A removed cgroup keeps its number: its open connections still end under it, and the kernel gives the
/// number to no other cgroup.
pub fn resolve(templates: &[RuleTemplate], cgroup_root: &Path, former: &[tp_rule]) -> Vec<tp_rule> {
    let former = former.iter().map(Some).chain(std::iter::repeat(None));
    templates
        .iter()
        .zip(former)
        .map(|(template, former)| resolve_one(template, cgroup_root, former))
        .collect()
}

/// The ids of a rule's cgroup so far, the newest first: the ids of [`tp_rule`] in one array.
pub type CgroupIds = [u64; 2 + TP_OLDER_CGROUPS as usize];

pub fn cgroup_ids(rule: &tp_rule) -> CgroupIds {
    let mut ids = CgroupIds::default();
    ids[0] = rule.cgroup_id;
    ids[1] = rule.former_cgroup_id;
    ids[2..].copy_from_slice(&rule.older_cgroup_ids);
    ids
}

/// The former rules for `resolve` after an upgrade: they have only the ids of each cgroup.
pub fn former(templates: &[RuleTemplate], cgroups: &[(String, CgroupIds)]) -> Vec<tp_rule> {
    let find = |template: &RuleTemplate| {
        let name = template.cgroup.as_ref()?;
        let (_, [cgroup_id, former_cgroup_id, older_cgroup_ids @ ..]) =
            cgroups.iter().find(|(known, _)| known == name)?;
        Some(tp_rule {
            cgroup_id: *cgroup_id,
            former_cgroup_id: *former_cgroup_id,
            older_cgroup_ids: *older_cgroup_ids,
            ..Default::default()
        })
    };
    templates
        .iter()
        .map(|template| find(template).unwrap_or_default())
        .collect()
}

/// The numbers for a rule whose cgroup is `found` now; `None` if there never was one.
fn with_cgroup(rule: tp_rule, found: Option<u64>, former: Option<&tp_rule>) -> Option<tp_rule> {
    let mut numbers = tp_rule {
        cgroup_id: former.map_or(0, |f| f.cgroup_id),
        former_cgroup_id: former.map_or(0, |f| f.former_cgroup_id),
        older_cgroup_ids: former.map_or_else(Default::default, |f| f.older_cgroup_ids),
        ..rule
    };
    if let Some(id) = found.filter(|id| *id != numbers.cgroup_id) {
        numbers.older_cgroup_ids.rotate_right(1); // the oldest id is overwritten
        numbers.older_cgroup_ids[0] = numbers.former_cgroup_id;
        numbers.former_cgroup_id = numbers.cgroup_id;
        numbers.cgroup_id = id;
    }
    (numbers.cgroup_id != 0).then_some(numbers)
}

/// A warning for each service whose sockets are in another cgroup: systemd makes those of a socket unit in the cgroup
/// of that unit, and connections to them stay there.
pub fn warnings(templates: &[RuleTemplate], cgroup_root: &Path) -> Vec<String> {
    let named = |template: &'_ RuleTemplate| Some(Path::new("/").join(template.cgroup.as_ref()?));
    let mut cgroups: Vec<PathBuf> = templates.iter().filter_map(named).collect();
    cgroups.sort();
    cgroups.dedup();
    let of_unit = |service: &PathBuf| {
        let is_service = service.extension()? == "service";
        let unit = service.with_extension("socket");
        let exists = cgroup_root.join(unit.strip_prefix("/").ok()?).is_dir();
        let is_named = cgroups.iter().any(|cgroup| unit.starts_with(cgroup));
        (is_service && exists && !is_named).then(|| {
            format!(
                "{}: connections to the sockets of its socket unit are in another cgroup, {}; name that, too",
                service.display(),
                unit.display()
            )
        })
    };
    cgroups.iter().filter_map(of_unit).collect()
}

fn resolve_one(template: &RuleTemplate, cgroup_root: &Path, former: Option<&tp_rule>) -> tp_rule {
    let mut rule = template.rule;
    if let Some(cgroup) = &template.cgroup {
        let path = cgroup_root.join(cgroup.strip_prefix("/").unwrap_or(cgroup));
        match with_cgroup(rule, host::cgroup_id(&path).ok(), former) {
            Some(resolved) => rule = resolved,
            None => {
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
    fn rule_without_its_cgroup_matches_nothing() {
        let template = RuleTemplate {
            rule: tp_rule::default(),
            cgroup: Some("no/such/cgroup".into()),
            namespace: None,
        };
        let rules = resolve(&[template], Path::new("/nonexistent"), &[]);
        assert_eq!(rules[0].disabled, 1);
    }

    #[test]
    fn a_service_with_a_socket_unit_is_warned_about() {
        let root = tempfile::tempdir().unwrap();
        for unit in [
            "web.service",
            "web.socket",
            "mail.service",
            "mail.socket",
            "db.service",
        ] {
            std::fs::create_dir_all(root.path().join("system.slice").join(unit)).unwrap();
        }
        let warned = |cgroups: &[&str]| {
            let template = |cgroup: &&str| RuleTemplate {
                rule: tp_rule::default(),
                cgroup: Some((*cgroup).to_owned()),
                namespace: None,
            };
            let templates: Vec<_> = cgroups.iter().map(template).collect();
            warnings(&templates, root.path())
        };
        let web = "/system.slice/web.service: connections to the sockets of its socket unit are in another \
                   cgroup, /system.slice/web.socket; name that, too";
        assert_eq!(
            warned(&["system.slice/web.service", "/system.slice/web.service"]),
            [web]
        );
        assert_eq!(
            warned(&["/system.slice/web.service", "system.slice/web.socket"]),
            [""; 0]
        );
        assert_eq!(
            warned(&["system.slice", "/system.slice/mail.service"]),
            [""; 0]
        );
        assert_eq!(warned(&["/system.slice/db.service"]), [""; 0]);
    }

    #[test]
    fn recreated_cgroup_keeps_its_former_ids() {
        let numbers = |found, former: Option<&tp_rule>| {
            with_cgroup(tp_rule::default(), found, former)
                .map(|rule| (rule.cgroup_id, rule.former_cgroup_id))
        };
        let rule = |cgroup_id, former_cgroup_id| tp_rule {
            cgroup_id,
            former_cgroup_id,
            ..Default::default()
        };
        assert_eq!(numbers(None, None), None);
        assert_eq!(numbers(None, Some(&rule(0, 0))), None);
        assert_eq!(numbers(Some(7), None), Some((7, 0)));
        assert_eq!(numbers(Some(7), Some(&rule(7, 0))), Some((7, 0)));
        assert_eq!(numbers(None, Some(&rule(7, 0))), Some((7, 0)));
        assert_eq!(numbers(Some(9), Some(&rule(7, 0))), Some((9, 7)));
        assert_eq!(numbers(None, Some(&rule(9, 7))), Some((9, 7)));
        assert_eq!(numbers(Some(9), Some(&rule(9, 7))), Some((9, 7)));
        assert_eq!(numbers(Some(11), Some(&rule(9, 7))), Some((11, 9)));
    }

    #[test]
    fn next_program_gets_all_cgroup_ids() {
        let template = RuleTemplate {
            rule: tp_rule::default(),
            cgroup: Some("a.slice".into()),
            namespace: None,
        };
        let rule = tp_rule {
            cgroup_id: 9,
            former_cgroup_id: 8,
            older_cgroup_ids: [7, 6, 5],
            ..Default::default()
        };
        let told = [("a.slice".to_owned(), cgroup_ids(&rule))];
        assert_eq!(cgroup_ids(&former(&[template], &told)[0]), [9, 8, 7, 6, 5]);
    }

    #[test]
    fn only_the_last_cgroup_ids_are_kept() {
        let mut rule = tp_rule::default();
        for id in 1..=9 {
            rule = with_cgroup(tp_rule::default(), Some(id), Some(&rule)).unwrap();
        }
        assert_eq!((rule.cgroup_id, rule.former_cgroup_id), (9, 8));
        assert_eq!(rule.older_cgroup_ids, [7, 6, 5]);
    }

    #[test]
    fn a_rule_outlives_its_cgroup() {
        let template = RuleTemplate {
            rule: tp_rule::default(),
            cgroup: Some("no/such/cgroup".into()),
            namespace: None,
        };
        let former = tp_rule {
            cgroup_id: 7,
            ..Default::default()
        };
        let rules = resolve(&[template], Path::new("/nonexistent"), &[former]);
        assert_eq!((rules[0].cgroup_id, rules[0].disabled), (7, 0));
    }

    #[test]
    fn a_namespace_may_be_given_by_its_number() {
        let template = RuleTemplate {
            rule: tp_rule::default(),
            cgroup: None,
            namespace: Some("4026531840".into()),
        };
        let rules = resolve(&[template], Path::new("/nonexistent"), &[]);
        assert_eq!((rules[0].disabled, rules[0].netns_inum), (0, 4_026_531_840));
    }
}
