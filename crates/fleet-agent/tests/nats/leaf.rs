//! A region's own server, a leaf node: its hosts exchange knowledge with those of the hub, and have no other rights.

use tcpilot_fleet_agent::store::Store;

use crate::fleet::{Fleet, key, store};
use crate::server::{
    Authority, Server, free_port, is_missing, leaf_rights, rights, rights_at_leaf,
};
use crate::support::{
    Process, heard, know, knowledge, output, run, settings, state_dir, wait_until,
};

#[test]
fn hosts_of_a_leaf_node_hear_those_of_its_hub() {
    if is_missing() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let leaves = free_port();
    let server = Server::start_hub(root.path(), leaves, &[rights("a"), leaf_rights()]);
    let fleet = Fleet { root, server }.with_bucket();
    let authority: Authority = fleet.server.authority.clone();
    let users = ["reader", "b"].map(rights_at_leaf);
    let leaf = Server::start_leaf(fleet.root.path(), leaves, authority, &users);
    let near = |host: &str| settings(&state_dir(fleet.root.path(), host), &leaf.settings(host));

    wait_until("the leaf node is connected", || {
        output(&near("reader").0, "check").0
    });
    let (is_good, text) = output(&near("reader").0, "check");
    assert!(is_good && text.contains("was refused h.fra1"), "{text}");

    let (b, of_a) = (store(&near("b").1), key("a", 1));
    let refused = run(async { b.put(&of_a, b"not mine").await });
    assert!(refused.is_err(), "{refused:?}");

    let reader = fleet.folder("reader");
    know(&fleet.folder("a"), &knowledge((0..10).map(|i| i << 8), 0.3));
    know(&reader, &knowledge([], 0.0));
    let _agents = (
        Process::start(&fleet.host("a").0),
        Process::start(&near("reader").0),
    );
    wait_until("the reader at the leaf hears the hub", || {
        heard(&reader).len() == 10
    });
}
