//! `tcpilot explain`: finds the paths in question, and prints the knowledge about them.

use std::net::{IpAddr, ToSocketAddrs};

use tcpilot_core::Prefix;
use tcpilot_show::failure::{Failure, Kind};

use super::show;
use crate::{
    args::ExplainArgs,
    figures::{Explanation, PathView},
    protocol::{self, Request},
    table,
};

/// `tcpilot explain`
///
/// # Errors
/// The target is not understood or cannot be resolved, or the daemon does not answer.
pub fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let target = Target::parse(&args.target)?;
    let mut all = Vec::new();
    for remote in &target.remotes {
        let request = Request::Explain(*remote);
        let mut explanation: Explanation = protocol::ask(&args.ask.socket.socket, &request)?;
        explanation.paths.retain(|p| target.takes(&p.path));
        all.push(explanation);
    }
    // A name may have several addresses; scripts get an object for each.
    for explanation in &all {
        show(explanation, args.ask.json, table::explanation)?;
    }
    Ok(())
}

/// The object of the question.
struct Target {
    remotes: Vec<Prefix>,
    netns: Option<String>,
    policy: Option<String>,
}

impl Target {
    /// An address, a name, or a path as [`table::paths`] shows it: `203.0.113.0/24 @blue [backup]`, in one
    /// word or three.
    fn parse(words: &[String]) -> Result<Target, Failure> {
        let mut target = Target {
            remotes: Vec::new(),
            netns: None,
            policy: None,
        };
        for word in words.iter().flat_map(|words| words.split_whitespace()) {
            let policy = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
            if let Some(netns) = word.strip_prefix('@') {
                target.netns = Some(netns.to_owned());
            } else if let Some(policy) = policy.filter(|p| !p.contains(':')) {
                target.policy = Some(policy.to_owned());
            } else if target.remotes.is_empty() {
                target.remotes = find(word)?;
            } else {
                let remedy = "give one address, name or path";
                return Err(Failure::new(
                    Kind::Usage,
                    format!("`{word}` is one too many"),
                    remedy,
                ));
            }
        }
        Ok(target)
    }

    fn takes(&self, path: &PathView) -> bool {
        let is = |asked: &Option<String>, has: &str| asked.as_ref().is_none_or(|a| a == has);
        is(&self.netns, &path.netns) && is(&self.policy, &path.policy)
    }
}

/// Parses an address or a prefix, or resolves the name of a host to its addresses.
fn find(word: &str) -> Result<Vec<Prefix>, Failure> {
    let refuse = |why: String, remedy| Failure::new(Kind::Usage, why, remedy);
    if let Ok(address) = word.parse::<IpAddr>() {
        return Ok(vec![Prefix::around(address.to_canonical(), 128)]);
    }
    if word.contains('/') {
        let prefix = word
            .parse::<Prefix>()
            .map_err(|e| refuse(e.to_string(), ""))?;
        return Ok(vec![prefix]);
    }
    let found = (word, 0).to_socket_addrs();
    let found = found.map_err(|e| {
        refuse(
            format!("no address of {word} was found: {e}"),
            "give an address",
        )
    })?;
    let mut remotes: Vec<Prefix> = found
        .map(|a| Prefix::around(a.ip().to_canonical(), 128))
        .collect();
    remotes.sort();
    remotes.dedup();
    Ok(remotes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Target {
        let words: Vec<String> = words.iter().map(|&w| w.to_owned()).collect();
        Target::parse(&words).unwrap()
    }

    #[test]
    fn explain_takes_addresses_names_and_paths() {
        for (word, prefix) in [
            ("203.0.113.9", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("2001:db8:7::/48", "2001:db8:7::/48"),
            ("203.0.113.0/24", "203.0.113.0/24"),
        ] {
            assert_eq!(parsed(&[word]).remotes, [prefix.parse().unwrap()], "{word}");
        }
        let local: Prefix = "127.0.0.1".parse().unwrap();
        assert!(parsed(&["localhost"]).remotes.contains(&local));
        for words in [
            &["2001:db8:7::/48 @blue [backup]"][..],
            &["2001:db8:7::/48", "@blue", "[backup]"],
        ] {
            let target = parsed(words);
            assert_eq!(target.remotes.len(), 1);
            let names = (target.netns.as_deref(), target.policy.as_deref());
            assert_eq!(names, (Some("blue"), Some("backup")));
        }
        for words in [
            &["203.0.113.9/24"][..],
            &["10.0.0.1", "10.0.0.2"],
            &["no such host"],
        ] {
            let words: Vec<String> = words.iter().map(|&w| w.to_owned()).collect();
            let failure = Target::parse(&words).err().unwrap();
            assert_eq!(failure.kind, Kind::Usage, "{words:?}");
        }
    }
}
