//! What the kernel's verifier objects to a program. Its answer is only an error number, which a security module may
//! give as well: the reason stands in a log that libbpf prints.

use std::cell::RefCell;

use libbpf_rs::{PrintCallback, PrintLevel};

/// An objection is one line for people: no longer than this.
const LONGEST: usize = 300;

thread_local! {
    /// What libbpf printed of the last rejected program of this thread.
    static OBJECTION: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Sends libbpf's own messages to `tracing` at debug level instead of standard error, and remembers the objections of
/// the verifier. Call it after `tracing` has its subscriber: if it wants nothing of libbpf, only warnings are
/// formatted, and not the thousands of other messages.
pub fn log_libbpf_by_tracing() {
    let level = if tracing::enabled!(target: "libbpf", tracing::Level::DEBUG) {
        PrintLevel::Debug
    } else {
        PrintLevel::Warn
    };
    let print: PrintCallback = |_, message| {
        if let Some(objection) = objection(&message) {
            OBJECTION.set(Some(objection));
        }
        tracing::debug!(target: "libbpf", "{}", message.trim_end());
    };
    libbpf_rs::set_print(Some((level, print)));
}

/// The objection to a program that this thread could not load; it is given once. `None` if the verifier said nothing,
/// or if libbpf's messages go elsewhere.
pub(crate) fn take_objection() -> Option<String> {
    OBJECTION.take()
}

/// The program, the reason, and the line of the source if the kernel knows it, of a message with a program's log.
fn objection(message: &str) -> Option<String> {
    let (head, log) = message.split_once("-- BEGIN PROG LOAD LOG --")?;
    let (log, _) = log.split_once("-- END PROG LOAD LOG --")?;
    let lines = || log.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_reason = |line: &&str| !line.starts_with("processed ") && !line.starts_with("; ");
    let reason = lines().rfind(is_reason)?;
    let program = head.split('\'').nth(1)?;
    let place = lines()
        .rfind(|line| line.starts_with("; "))
        .and_then(|line| line.rsplit_once(" @ "))
        .map_or_else(String::new, |(_, place)| format!(" ({place})"));
    let said = format!("{program}: {reason}{place}");
    Some(said.chars().take(LONGEST).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(log: &str) -> String {
        format!(
            "libbpf: prog 'mine_avoid': -- BEGIN PROG LOAD LOG --\n{log}-- END PROG LOAD LOG --\n"
        )
    }

    #[test]
    fn the_objection_is_the_last_line_before_the_sum() {
        let log = "0: R1=ctx() R10=fp0\n; tp->x = *p; @ mine.bpf.c:3\n4: (61) r1 = *(u32 *)(r1 +0)\n\
            R1 invalid mem access 'scalar'\nprocessed 5 insns (limit 1000000)\n";
        assert_eq!(
            objection(&message(log)).unwrap(),
            "mine_avoid: R1 invalid mem access 'scalar' (mine.bpf.c:3)"
        );
        // Older kernels do not say where.
        let log = "BPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns\n";
        assert_eq!(
            objection(&message(log)).unwrap(),
            "mine_avoid: BPF program is too large. Processed 1000001 insn"
        );
    }

    #[test]
    fn other_messages_are_no_objection() {
        for message in [
            "libbpf: prog 'a': failed to load: -EACCES\n",
            "",
            &message(""),
            &message("processed 5 insns\n"),
            "libbpf: prog 'a': -- BEGIN PROG LOAD LOG --\nx",
        ] {
            assert_eq!(objection(message), None, "{message}");
        }
        let long = message(&"ä".repeat(1000));
        assert_eq!(objection(&long).unwrap().chars().count(), LONGEST);
    }
}
