//! The list of live connections.
//!
//! Until Linux 6.17 the kernel's iterator over TCP sockets leaves out one bucket of the hash table of established
//! sockets, the first one if the namespace has no listening socket: between the listening and the established
//! sockets its offset falls below zero, and then every socket of that bucket is skipped. So each walk is compared with
//! the namespace's own count of sockets. If sockets are missing, the open files of all processes show them.

use std::{collections::HashSet, os::fd::AsFd};

use libbpf_rs::Link;
use tcpilot_abi::{from_bytes, tp_flow};

use super::{
    Pilot,
    hashed::hashed,
    iterate::{attach, each_netns, read_iterator},
};
use crate::{Error, host};

const ACTION: &str = "list the connections";

impl Pilot {
    /// The live connections of the steered cgroup, in every network namespace with a name or a process,
    /// as far as [`host::may_enter_netns`] allows.
    ///
    /// # Errors
    /// [`Error::Map`], [`Error::System`].
    pub fn flows(&self) -> Result<Vec<tp_flow>, Error> {
        let link = attach(&self.skel.progs.flows, ACTION)?;
        let mut flows = Vec::new();
        let mut short = HashSet::new();
        each_netns(|| {
            if walk(&link, &mut flows)? {
                short.extend(host::thread_netns_inum());
            }
            Ok(())
        })?;
        if self.needs.flows_of_files && !short.is_empty() {
            let link = attach(&self.skel.progs.flows_of_files, ACTION)?;
            let seen = records(&read_iterator(link.as_fd())?);
            add_missing(&mut flows, seen, &short);
        }
        Ok(flows)
    }
}

/// Adds the connections of this thread's namespace. Returns whether the namespace has counted more sockets than the
/// iterator gave, both before and after the walk. On a busy host this may also be chance.
fn walk(link: &Link, flows: &mut Vec<tp_flow>) -> Result<bool, Error> {
    let before = hashed();
    if before == Some(0) {
        return Ok(false);
    }
    let bytes = read_iterator(link.as_fd())?;
    let after = hashed();
    let (listed, walked) = split(&bytes);
    flows.extend(records(listed));
    Ok(before.min(after).is_some_and(|least| least > walked))
}

/// The records, and the number of sockets at their end.
fn split(bytes: &[u8]) -> (&[u8], u32) {
    let (listed, end) = bytes.split_at(bytes.len() - bytes.len() % size_of::<tp_flow>());
    (listed, from_bytes(end).unwrap_or(0))
}

fn records(bytes: &[u8]) -> Vec<tp_flow> {
    let records = bytes.chunks_exact(size_of::<tp_flow>());
    records.filter_map(from_bytes).collect()
}

/// Adds the connections of these namespaces that are not listed yet. A socket of several processes is seen several times.
fn add_missing(flows: &mut Vec<tp_flow>, seen: Vec<tp_flow>, namespaces: &HashSet<u32>) {
    let ends = |f: &tp_flow| {
        (
            f.netns_cookie,
            f.local,
            f.local_port,
            f.remote,
            f.remote_port,
        )
    };
    let mut listed: HashSet<_> = flows.iter().map(ends).collect();
    let of_these = seen
        .into_iter()
        .filter(|f| namespaces.contains(&f.netns_inum));
    flows.extend(of_these.filter(|f| listed.insert(ends(f))));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(netns_inum: u32, local_port: u16) -> tp_flow {
        tp_flow {
            netns_cookie: netns_inum.into(),
            netns_inum,
            local_port,
            ..Default::default()
        }
    }

    #[test]
    fn number_of_sockets_follows_the_records() {
        let mut bytes = vec![0; 2 * size_of::<tp_flow>()];
        assert_eq!(split(&bytes), (&bytes[..], 0));
        bytes.extend(7u32.to_ne_bytes());
        let (listed, walked) = split(&bytes);
        assert_eq!((records(listed).len(), walked), (2, 7));
    }

    #[test]
    fn missing_connections_are_added_once() {
        let mut flows = vec![flow(1, 10), flow(2, 20)];
        let seen = vec![flow(1, 10), flow(1, 11), flow(1, 11), flow(2, 21)];
        add_missing(&mut flows, seen, &HashSet::from([1]));
        let ports: Vec<u16> = flows.iter().map(|f| f.local_port).collect();
        assert_eq!(ports, [10, 20, 11], "namespace 2 was complete");
    }
}
