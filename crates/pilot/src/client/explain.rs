//! `tcpilot explain`: finds the paths in question, and prints the knowledge about them.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

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
    interface: Option<String>,
    policy: Option<String>,
    class: Option<String>,
}

impl Target {
    /// An address, a name, or whatever other commands show: the remote end of a connection, or a path such as
    /// `203.0.113.0/24 @blue by eth0 [backup] (20 ms)`, in one word or several.
    fn parse(words: &[String]) -> Result<Target, Failure> {
        let mut target = Target {
            remotes: Vec::new(),
            netns: None,
            interface: None,
            policy: None,
            class: None,
        };
        let text = words.join(" ");
        let (text, class) = match text
            .trim_end()
            .strip_suffix(')')
            .and_then(|t| t.split_once(" ("))
        {
            Some((text, class)) => (text, Some(class.to_owned())),
            None => (text.as_str(), None),
        };
        target.class = class;
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let policy = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
            if let Some(netns) = word.strip_prefix('@') {
                target.netns = Some(netns.to_owned());
            } else if let Some(policy) = policy.filter(|p| !p.contains(':')) {
                target.policy = Some(policy.to_owned());
            } else if target.remotes.is_empty() {
                target.remotes = find(word)?;
            } else if word == "by" && target.interface.is_none() {
                target.interface = words.next().map(str::to_owned);
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
        let is_of = |asked: &Option<String>, has: &Option<String>| asked.is_none() || asked == has;
        is(&self.netns, &path.netns)
            && is(&self.policy, &path.policy)
            && is_of(&self.interface, &path.interface)
            && is_of(&self.class, &path.class)
    }
}

/// An address as commands show it: alone, or with a port or the scope of a link, which paths do not have.
fn address(word: &str) -> Option<IpAddr> {
    let scope = word.split_once('%').map(|(_, rest)| rest.split(']').next());
    let scope = scope.flatten().map(|scope| format!("%{scope}"));
    let word = scope.map_or_else(|| word.to_owned(), |scope| word.replacen(&scope, "", 1));
    let in_brackets = word.strip_prefix('[').and_then(|w| w.strip_suffix(']'));
    let alone = in_brackets.unwrap_or(&word).parse().ok();
    let address = alone.or_else(|| Some(word.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// The name of a host, without the port that may follow.
fn host(word: &str) -> &str {
    match word.split_once(':') {
        Some((host, port)) if port.parse::<u16>().is_ok() => host,
        _ => word,
    }
}

/// Parses an address or a prefix, or resolves the name of a host to its addresses.
fn find(word: &str) -> Result<Vec<Prefix>, Failure> {
    let refuse = |why: String, remedy| Failure::new(Kind::Usage, why, remedy);
    if let Some(address) = address(word) {
        return Ok(vec![Prefix::around(address, 128)]);
    }
    if word.contains('/') {
        let prefix = word
            .parse::<Prefix>()
            .map_err(|e| refuse(e.to_string(), ""))?;
        return Ok(vec![prefix]);
    }
    let found = (host(word), 0).to_socket_addrs();
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
            ("10.90.0.2:5000", "10.90.0.2"),
            ("[fe80::1]:5000", "fe80::1"),
            ("[fe80::1%va]:5000", "fe80::1"),
            ("[fe80::1%va]", "fe80::1"),
            ("fe80::1%va", "fe80::1"),
            ("[::ffff:203.0.113.9]:443", "203.0.113.9"),
        ] {
            assert_eq!(parsed(&[word]).remotes, [prefix.parse().unwrap()], "{word}");
        }
        let local: Prefix = "127.0.0.1".parse().unwrap();
        assert!(parsed(&["localhost"]).remotes.contains(&local));
        assert!(parsed(&["localhost:443"]).remotes.contains(&local));
        for words in [
            &["2001:db8:7::/48 @blue [backup]"][..],
            &["2001:db8:7::/48", "@blue", "[backup]"],
        ] {
            let target = parsed(words);
            assert_eq!(target.remotes.len(), 1);
            let names = (target.netns.as_deref(), target.policy.as_deref());
            assert_eq!(names, (Some("blue"), Some("backup")));
        }
        let shown = "203.0.113.0/24 @blue by eth0 [backup] (20 ms, slow)";
        for words in [vec![shown], shown.split(' ').collect()] {
            let target = parsed(&words);
            let names = [target.netns, target.interface, target.policy, target.class];
            let expected = ["blue", "eth0", "backup", "20 ms, slow"];
            assert_eq!(
                names,
                expected.map(|name| Some(name.to_owned())),
                "{words:?}"
            );
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
