use std::{fs, os::unix::fs::symlink};

use tcpilot_fleet::{Group, Message};

use super::*;

fn policy() -> FleetPolicy {
    FleetPolicy {
        name: "web".to_owned(),
        algorithms: ["cubic", "bbr"].map(str::to_owned).to_vec(),
        reward: 7,
        updates: 1,
        can_hear: true,
        period: 0,
    }
}

fn row(group: u128, precision: f32) -> Row {
    Row {
        group: Group::new(0xffff_0800_0000 + (group << 8), 14).unwrap(),
        paths_log2: 2,
        doubt: 0,
        age_quarters: 0,
        losses: Default::default(),
        said: Message::new(&[precision, 1.0]).unwrap(),
    }
}

#[test]
fn a_state_has_its_rows_in_order_and_once() {
    let state = state_of(&policy(), vec![row(5, 9.0), row(2, 9.0), row(5, 8.0)]).unwrap();
    let groups: Vec<Group> = state.rows().iter().map(|row| row.group).collect();
    assert_eq!(groups, [row(2, 9.0).group, row(5, 9.0).group]);
    let many = (0..ROWS_MAX + 10)
        .map(|i| row(i.into(), 9.0 + i as f32))
        .collect();
    let state = state_of(&policy(), many).unwrap();
    assert_eq!(state.rows().len(), ROWS_MAX as usize);
    assert_eq!(
        state.rows()[0].group,
        row(10, 9.0).group,
        "those that say least are left out"
    );
    let mut other = policy();
    other.name = "My policy".to_owned();
    assert!(
        state_of(&other, Vec::new())
            .unwrap_err()
            .contains("rename it")
    );
}

#[test]
fn heard_files_are_refused_by_reason() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Folder::open(dir.path()).unwrap();
    let reason = |content: &[u8], policy: &FleetPolicy| {
        fs::write(dir.path().join("web.state"), content).unwrap();
        read(&folder, "web.state", policy)
            .map(|_| ())
            .map_err(|e| e.0)
    };
    let good = format::encode(&state_of(&policy(), vec![row(1, 9.0)]).unwrap());
    assert_eq!(reason(&good, &policy()), Ok(()));
    let refused = |content: &[u8], policy: &FleetPolicy| reason(content, policy).unwrap_err();
    let mut damaged = good.clone();
    damaged[40] ^= 1;
    assert_eq!(refused(&damaged, &policy()), "damaged");
    assert_eq!(refused(&[9], &policy()), "version");
    assert_eq!(refused(&[], &policy()), "cut_off");
    let mut other = policy();
    other.reward = 8;
    assert_eq!(refused(&good, &other), "reward");
    other = policy();
    other.algorithms.reverse();
    assert_eq!(refused(&good, &other), "algorithms");
    assert_eq!(refused(&vec![1; BYTES_MAX + 1], &policy()), "unreadable");
    fs::rename(dir.path().join("web.state"), dir.path().join("secret")).unwrap();
    symlink(dir.path().join("secret"), dir.path().join("web.state")).unwrap();
    let link = read(&folder, "web.state", &policy()).unwrap_err();
    assert_eq!(link.0, "unreadable");
}

#[test]
fn hosts_with_one_secret_hold_out_alike() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let secrets = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        shared_secrets(Some(&tcpilot_config::Fleet {
            secret_file: path.display().to_string(),
            ..Default::default()
        }))
    };
    let secret = "8c1f0a1f5c2e4d7b";
    let one = secrets("a", secret, 0o640).unwrap().unwrap();
    let other = secrets("b", &format!("{secret}\n"), 0o600)
        .unwrap()
        .unwrap();
    assert_eq!(one, other);
    let changed = secrets("c", "8c1f0a1f5c2e4d7c", 0o600).unwrap().unwrap();
    assert!((0..7).all(|i| one[i] != changed[i] && one[i] != one[(i + 1) % 7]));
    // A version of the future has to find the same.
    assert_eq!(one[0], 0xee86a74d7bb4c014);
    let schedule = |of: AssignmentSecrets| tcpilot_proof::Schedule::by_time(0.5, [of[4], of[6]]);
    let held = |of| {
        (0..4000)
            .map(|at| schedule(of).steers(9, 600 * at))
            .collect::<Vec<_>>()
    };
    assert_eq!(held(one), held(other));
    assert_ne!(held(one), held(changed));
    assert!(
        secrets("d", secret, 0o644)
            .unwrap_err()
            .contains("others can read")
    );
    assert!(
        secrets("e", "short", 0o600)
            .unwrap_err()
            .contains("shorter than 16")
    );
    assert_eq!(
        shared_secrets(Some(&tcpilot_config::Fleet::default())),
        Ok(None)
    );
    assert_eq!(shared_secrets(None), Ok(None));
}

#[test]
fn only_the_present_policies_go_on_being_said() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["web.state", "former.state", ".tcpilot-half", "README"] {
        fs::write(dir.path().join(name), "").unwrap();
    }
    let folder = Folder::open(dir.path()).unwrap();
    tidy(&folder, &[policy()]).unwrap();
    let mut names = folder.names().unwrap();
    names.sort();
    assert_eq!(names, ["README", "web.state"]);
}
