//! Who may write which keys, by certificate, and what `check` says of it.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use tcpilot_fleet_agent::agent::Agent;
use tcpilot_fleet_agent::clock::boot_s;
use tcpilot_fleet_agent::key::Key;
use tcpilot_fleet_agent::merge_agent::MergeAgent;
use tcpilot_fleet_agent::store::{Store, StoreError, VALUE_BYTES_MAX};

use crate::fleet::{Fleet, key};
use crate::server::{Authority, Server, is_missing, merger_rights, rights};
use crate::support::{
    arguments, heard, host, know, knowledge, name, output, round, run, settings, state_dir,
};

#[test]
fn newest_acknowledged_value_is_read_back() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (a, b) = (fleet.store("a"), fleet.store("b"));
    run(async {
        assert_eq!(b.get(&key("a", 1)).await, Ok(None));
        let before_s = tcpilot_fleet_agent::clock::unix_s();
        for value in [&b"old"[..], &[7; VALUE_BYTES_MAX]] {
            a.put(&key("a", 1), value).await.unwrap();
            let entry = b.get(&key("a", 1)).await.unwrap().unwrap();
            assert_eq!(entry.value, value);
            assert!(
                (entry.written_s - before_s).abs() < 10.0,
                "{}",
                entry.written_s
            );
        }
        let long = a
            .put(&key("a", 1), &[7; VALUE_BYTES_MAX + 1])
            .await
            .unwrap_err();
        assert_eq!(long.reason(), "too_large");
        assert!(a.hosts(&name("fra1")).await.unwrap().is_empty());
        for (store, host_name) in [(&b, "b"), (&a, "a")] {
            let manifest = Key::manifest(&host(host_name));
            store.put(&manifest, b"x").await.unwrap();
        }
        assert_eq!(
            a.hosts(&name("fra1")).await.unwrap(),
            [host("a"), host("b")]
        );
        assert!(a.hosts(&name("fra2")).await.unwrap().is_empty());
    });
}

#[test]
fn a_host_cannot_write_for_another() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let a = fleet.store("a");
    run(async {
        let start = Instant::now();
        let refused = a.put(&key("b", 1), b"x").await.unwrap_err();
        assert!(matches!(refused, StoreError::Denied(_)), "{refused}");
        assert!(
            start.elapsed() < Duration::from_millis(900),
            "without waiting for an answer"
        );
        a.put(&key("a", 1), b"x").await.unwrap();
        assert_eq!(a.get(&key("b", 1)).await, Ok(None));
    });
}

#[test]
fn check_proves_both_rights() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (path, _) = fleet.host("a");
    let (is_good, text) = output(&path, "check");
    assert!(is_good, "{text}");
    for line in [
        "ok    connected to nats://127.0.0.1",
        "ok    wrote and read h.fra1.a.check",
        "ok    was refused h.fra1.tcpilot-fleet-check.check",
        "ok    this host's clock differs from the engine's by",
        "ok    0 other hosts of fra1",
    ] {
        assert!(text.contains(line), "{line}:\n{text}");
    }
    // The administrator may write all keys, so it is no host of a fleet.
    let (path, _) = fleet.host("admin");
    let (is_good, text) = output(&path, "check");
    assert!(
        !is_good && text.contains("FAIL  may write h.fra1.tcpilot-fleet-check.check"),
        "{text}"
    );
}

/// What `check` says with these settings.
fn check(root: &Path, text: &str) -> String {
    let folder = state_dir(root, "checked");
    let (path, _) = settings(&folder, text);
    let (is_good, text) = output(&path, "check");
    assert!(!is_good, "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

#[test]
fn wrong_certificates_are_named_with_a_remedy() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    let (server, root) = (&fleet.server, fleet.root.path());
    let (cert, key) = server.authority.issue("a", &[]);
    let foreign = Authority::new(&root.join("foreign"));
    let (foreign_cert, foreign_key) = foreign.issue("a", &[]);
    let ca = server.authority.ca();
    let (unknown_cert, unknown_key) = server.authority.issue("unknown", &[]);

    let text = check(root, &server.settings_with("a", &foreign.ca(), &cert, &key));
    assert!(
        text.contains("the server's certificate is not signed by ca_file"),
        "{text}"
    );
    let text = check(
        root,
        &server.settings_with("a", &ca, &foreign_cert, &foreign_key),
    );
    assert!(
        text.contains("the server refuses this host's certificate"),
        "{text}"
    );
    let text = check(
        root,
        &server.settings_with("a", &ca, &unknown_cert, &unknown_key),
    );
    assert!(text.contains("knows no user of this certificate"), "{text}");
    // The default of `host` is the host's name, and the certificate may have another.
    let text = check(root, &server.settings_with("vm", &ca, &cert, &key));
    assert!(
        text.contains("connecting as vm of fra1") && text.contains("set `host` and `place`"),
        "{text}"
    );
    let other_name = server.settings_with("a", &ca, &cert, &key);
    let text = check(root, &other_name.replace("127.0.0.1", "localhost"));
    assert!(text.contains("for another name"), "{text}");
    let text = check(
        root,
        &server.settings_with("a", &ca, &root.join("none"), &key),
    );
    assert!(
        text.contains("cert_file = ") && text.contains("No such file"),
        "{text}"
    );
    fs::set_permissions(&key, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    let text = check(root, &server.settings_with("a", &ca, &cert, &key));
    assert!(text.contains("everybody can read the key"), "{text}");
    let bare = "place = \"fra1\"\nhost = \"a\"\ninsecure = true\ntimeout_s = 1\n";
    let bare = format!("store = \"nats://127.0.0.1:{}\"\n{bare}", server.port);
    let text = check(root, &bare);
    assert!(text.contains("trust each other"), "{text}");
}

#[test]
fn a_server_without_its_bucket_is_named() {
    if is_missing() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let server = Server::start(root.path(), &["a"]);
    let text = check(root.path(), &server.settings("a"));
    assert!(text.contains("runs `tcpilot-fleet init`"), "{text}");
    let gone = server.settings("a").replace(&server.port.to_string(), "1");
    let text = check(root.path(), &gone);
    assert!(text.contains("cannot be reached"), "{text}");
}

#[test]
fn only_an_administrator_has_a_host_forgotten() {
    if is_missing() {
        return;
    }
    let fleet = Fleet::new();
    know(&fleet.folder("a"), &knowledge(0..10, 0.3));
    know(&fleet.folder("reader"), &knowledge([], 0.0));
    let forget = |by: &str, whom: &str| {
        let (path, _) = fleet.host(by);
        arguments(&path, &["forget", whom])
    };
    let (is_good, text) = forget("admin", "a");
    assert!(!is_good && text.contains("nothing of h.fra1.a"), "{text}");
    run(async {
        let (mut a, mut reader) = (fleet.agent("a"), fleet.agent("reader"));
        round(&mut a).await.unwrap();
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 10);

        let (is_good, text) = forget("b", "a");
        assert!(
            !is_good && text.contains("administrator's certificate"),
            "{text}"
        );
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 10, "b may not");

        let (is_good, text) = forget("admin", "a");
        assert!(is_good && text.starts_with("a is forgotten"), "{text}");
        round(&mut a).await.unwrap();
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 0);
        let (_, text) = output(&fleet.host("reader").0, "status");
        let refused = reader.status(boot_s()).heard.refused;
        assert_eq!(refused["forgotten"], 1, "{text}");

        drop(a);
        round(&mut fleet.agent("a")).await.unwrap();
        round(&mut reader).await.unwrap();
        assert_eq!(heard(&fleet.folder("reader")).len(), 10, "after a restart");
    });
}

#[test]
fn only_mergers_write_what_a_place_says() {
    if is_missing() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..5).map(|i| format!("h{i}")).collect();
    let users = names.iter().map(|name| rights(name));
    let users: Vec<String> = users.chain([merger_rights("merge-1")]).collect();
    let server = Server::start_with(root.path(), &users, None);
    let fleet = Fleet { root, server }.with_bucket();
    let reader = |name: &str| {
        let text = fleet.server.settings(name)
            + "hosts_max = 2
";
        Agent::new(settings(&fleet.folder(name), &text).1, fleet.store(name)).unwrap()
    };
    run(async {
        for name in &names {
            know(&fleet.folder(name), &knowledge(0..10, 0.3));
            fleet.agent(name).say(boot_s()).await.unwrap();
        }
        let merger = |name: &str| MergeAgent::new(fleet.host(name).1, fleet.store(name)).unwrap();
        let refused = merger("h4").round(boot_s()).await.unwrap_err();
        assert!(matches!(refused, StoreError::Denied(_)), "{refused}");
        merger("merge-1").round(boot_s()).await.unwrap();
        let mut agent = reader("h0");
        agent.hear(boot_s()).await.unwrap();
        assert!(agent.status(boot_s()).merged[0].by_mergers);
    });
    assert_eq!(heard(&fleet.folder("h0")).len(), 10);
    let (is_good, text) = output(&fleet.host("merge-1").0, "check");
    assert!(is_good, "{text}");
}
