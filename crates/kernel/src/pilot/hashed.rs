//! How many TCP sockets a network namespace has, by its own count.

use std::fs;

/// The files with the counts of this thread's network namespace, proc_net(5). Without IPv6 the second is missing.
const COUNTS: [&str; 2] = [
    "/proc/thread-self/net/sockstat",
    "/proc/thread-self/net/sockstat6",
];

/// The hashed TCP sockets of this thread's namespace; `None` if it does not say.
pub(super) fn hashed() -> Option<u32> {
    let texts = COUNTS
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    texts.filter_map(|text| in_use(&text)).reduce(|a, b| a + b)
}

/// The sockets in use in a line such as `TCP: inuse 5 orphan 0` or `TCP6: inuse 2`.
fn in_use(text: &str) -> Option<u32> {
    let mut lines = text.lines();
    let numbers =
        lines.find_map(|line| line.strip_prefix("TCP: ").or(line.strip_prefix("TCP6: ")))?;
    let word = numbers.strip_prefix("inuse ")?.split(' ').next()?;
    word.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_in_use_are_read_from_both_files() {
        let v4 =
            "sockets: used 173\nTCP: inuse 15 orphan 1 tw 2 alloc 22 mem 4\nUDP: inuse 8 mem 2\n";
        assert_eq!(in_use(v4), Some(15));
        assert_eq!(in_use("TCP6: inuse 3\nUDP6: inuse 1\n"), Some(3));
        assert_eq!([in_use(""), in_use("TCP: none\n")], [None, None]);
    }
}
