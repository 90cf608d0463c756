//! Long connections while they live: reports them, and moves them to another algorithm.

use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::{MapCore, MapFlags, MapHandle};
use tcpilot_abi::{TP_MOVES, to_bytes, tp_move};

use super::iterate::run_here;
use crate::{Error, object::map_error};

/// Maximum number of connections moved at a time.
pub const MOVES: usize = TP_MOVES as usize;

/// A connection to be moved to another algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveRequest {
    /// The cookie of its socket, as in its records.
    pub cookie: u64,
    /// The number of its present algorithm. If it has another one by now, it is not moved.
    pub from: u8,
    /// The number of its new algorithm.
    pub to: u8,
}

/// Runs the iterator over long connections. It may wait for sockets held by applications, and makes the
/// calling thread enter all network namespaces. So it needs a thread of its own.
pub struct Sampler {
    /// The iterator's link.
    link: OwnedFd,
    moves: MapHandle,
}

impl Sampler {
    pub(super) fn new(link: OwnedFd, moves: MapHandle) -> Sampler {
        Sampler { link, moves }
    }

    /// Makes the program send records of long connections: those that have carried the configuration's
    /// `sample_bytes` and sent data recently, in all namespaces with a name or a process. The records
    /// follow at the next [`super::Records::poll`], with sums since the connection's beginning. It moves
    /// the connections of `moves`, at most [`MOVES`], if their policy and their application allow it;
    /// their records say so.
    ///
    /// # Errors
    /// [`Error::System`] if the connections cannot be listed, [`Error::Map`] if none can be moved.
    pub fn sample(&self, moves: &[MoveRequest]) -> Result<(), Error> {
        let moves = &moves[..moves.len().min(MOVES)];
        let asked = moves.iter().try_for_each(|wanted| self.ask(wanted));
        let listed = run_here(self.link.as_fd());
        for wanted in moves {
            // This fails if the move could not be put in.
            let _ = self.moves.delete(&wanted.cookie.to_ne_bytes());
        }
        asked.and(listed.map(drop))
    }

    fn ask(&self, wanted: &MoveRequest) -> Result<(), Error> {
        let value = tp_move {
            from: wanted.from,
            to: wanted.to,
            ..Default::default()
        };
        let key = wanted.cookie.to_ne_bytes();
        self.moves
            .update(&key, to_bytes(&value), MapFlags::ANY)
            .map_err(map_error("have a connection moved"))
    }
}
