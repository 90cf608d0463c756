//! What the daemon reads.

use std::cell::RefCell;

use tcpilot_config::Config;
use tcpilot_netlink::{attributes, messages, text, u16_at, u32_at, u64_at};
use tcpilot_pilot::{
    protocol::Request,
    state::{Store, parse},
};
use tempfile::TempDir;

/// A configuration file. `config show` must print what reads back as the same configuration.
pub fn config(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(read) = Config::from_toml(text, "a file") {
        let shown = read.to_toml();
        let again = Config::from_toml(&shown, "shown").map_err(|e| format!("{e}\n{shown}"));
        assert_eq!(again, Ok(read), "{shown}");
    }
}

/// A line at the control socket.
pub fn protocol(data: &[u8]) {
    if let Ok(request) = serde_json::from_slice::<Request>(data) {
        let line = serde_json::to_vec(&request).expect("each question can be written");
        let again = serde_json::from_slice::<Request>(&line).expect("and read again");
        assert_eq!(request.changes(), again.changes());
    }
}

/// A datagram of netlink: its messages, and their attributes, three deep.
pub fn netlink(data: &[u8]) {
    let Some((sequence, datagram)) = data.split_first() else {
        return;
    };
    let _ = messages(datagram, u32::from(*sequence), &mut |body| {
        for fixed in [0, 16, 20] {
            walk(body.get(fixed..).unwrap_or_default(), 3);
        }
    });
}

fn walk(bytes: &[u8], depth: u32) {
    let mut sum = 0;
    for (_, value) in attributes(bytes) {
        sum += value.len() + 4;
        let _ = (
            text(value),
            u16_at(value, 0),
            u32_at(value, 1),
            u64_at(value, 3),
        );
        if depth > 0 {
            walk(value, depth - 1);
        }
    }
    assert!(
        sum <= bytes.len(),
        "attributes are longer than their message"
    );
}

thread_local! {
    // The folder goes with the thread.
    static STORE: RefCell<(Store, TempDir)> = RefCell::new({
        let folder = TempDir::new().expect("a folder for a while");
        let store = Store::open(&folder.path().join("state.db")).expect("a new file").0;
        (store, folder)
    });
}

/// A document of `state import`. An accepted one must be stored, exported, and accepted again as the same.
pub fn state(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(document) = parse(text) else {
        return;
    };
    STORE.with_borrow_mut(|(store, _)| {
        store.reset().expect("an empty store");
        store.import_all(&document).expect("an accepted document");
        let mut exported = Vec::new();
        store.export_json(&mut exported).expect("memory holds it");
        let exported = String::from_utf8(exported).expect("JSON is text");
        parse(&exported).expect("an export can be imported");
    });
}
