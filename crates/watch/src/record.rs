//! `--record`: a file of the BPF programs' rounds and intervals, for training and replay.
//!
//! A file begins with `TPWATCH1`. The structures `tp_opened`, `tp_round` and `tp_interval` of
//! `bpf/abi/watch.h` follow in the order of the events; each begins with its kind.

use std::{
    cell::RefCell,
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use tcpilot_kernel::{file, watch::Watch};
use tcpilot_show::failure::Failure;

const MAGIC: &[u8] = b"TPWATCH1";

/// A file being written.
pub struct Recorder {
    path: PathBuf,
    out: BufWriter<File>,
}

impl Recorder {
    /// Creates the file, or begins another one in the place of it.
    pub fn create(path: &Path) -> Result<Recorder, Failure> {
        let file = file::begin(path, file::PRIVATE).map_err(|e| Failure::of_file(path, &e))?;
        let mut out = BufWriter::new(file);
        out.write_all(MAGIC)
            .map_err(|e| Failure::of_file(path, &e))?;
        Ok(Recorder {
            path: path.into(),
            out,
        })
    }

    /// Writes the new events.
    pub fn take(&mut self, watch: &Watch) -> Result<(), Failure> {
        let failed = RefCell::new(None);
        let out = RefCell::new(&mut self.out);
        let records = watch.records(|bytes| {
            if let Err(error) = out.borrow_mut().write_all(bytes) {
                failed.borrow_mut().get_or_insert(error);
            }
        })?;
        records.poll()?;
        drop(records);
        match failed.into_inner() {
            Some(error) => Err(Failure::of_file(&self.path, &error)),
            None => Ok(()),
        }
    }

    /// Writes the rest of the buffer.
    pub fn finish(mut self) -> Result<(), Failure> {
        self.out
            .flush()
            .map_err(|e| Failure::of_file(&self.path, &e))
    }
}
