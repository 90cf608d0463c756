//! Who may see the page, and what a browser may do with it.
//!
//! The page shows remote addresses, and has no password. So only clients of this host get it unless the administrator
//! asks for more. A website in the browser of such a client must not read it either: such a site can give its own
//! name this host's address (DNS rebinding), so requests for an unknown name are refused.

use std::net::{Ipv4Addr, Ipv6Addr};

use tcpilot_show::metrics::HttpRequest;

use super::source::source_of;
use crate::args::PageReaders;

/// Fields of each answer. `no-store`: addresses stay out of caches on disk.
const FIELDS: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
                      Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\n\
                      Cross-Origin-Opener-Policy: same-origin\r\n";

/// The fields of an answer. A browser runs these scripts and uses these styles, and nothing else; texts cannot become
/// scripts (Trusted Types), and the page can only ask the daemon.
pub(super) fn fields(styles: &[&str], scripts: &[&str]) -> String {
    let sources = |texts: &[&str]| match texts {
        [] => "'none'".to_owned(),
        texts => texts
            .iter()
            .map(|text| source_of(text))
            .collect::<Vec<_>>()
            .join(" "),
    };
    format!(
        "{FIELDS}Content-Security-Policy: default-src 'none'; connect-src 'self'; style-src {}; script-src {}; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'\r\n",
        sources(styles),
        sources(scripts)
    )
}

/// Why this request is refused; `None` if it is not. `host` is this host's name.
pub(super) fn refusal(request: &HttpRequest, readers: PageReaders, host: &str) -> Option<String> {
    let is_here = request.from.to_canonical().is_loopback();
    if readers == PageReaders::Local && !is_here {
        return Some(
            "the page is for clients on this host: use ssh -L, or start tcpilot with --page=any"
                .to_owned(),
        );
    }
    let asked = request.host.as_deref().unwrap_or_default();
    (!is_own_name(asked, host)).then(|| {
        let host = match host {
            "" => String::new(),
            host => format!(", {host}"),
        };
        format!("ask for an address, localhost{host}: other names could belong to a website")
    })
}

/// Whether a field `Host` names an address, which no website can take over, or this host.
fn is_own_name(field: &str, host: &str) -> bool {
    let name = match field.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => name,
        _ => field,
    };
    let bracketed = name
        .strip_prefix('[')
        .and_then(|inner| inner.strip_suffix(']'));
    let is = |own: &str| !own.is_empty() && name.eq_ignore_ascii_case(own);
    bracketed.is_some_and(|inner| inner.parse::<Ipv6Addr>().is_ok())
        || name.parse::<Ipv4Addr>().is_ok()
        || is("localhost")
        || is(host)
}

/// A request for tests.
#[cfg(test)]
pub(super) fn request(target: &str, host: &str, from: std::net::IpAddr) -> HttpRequest {
    HttpRequest {
        is_head: false,
        target: target.to_owned(),
        host: Some(host.to_owned()),
        from,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_websites_are_refused() {
        for own in [
            "127.0.0.1",
            "127.0.0.1:9464",
            "[::1]:9464",
            "[::1]",
            "localhost:9464",
            "LOCALHOST",
            "web-1:80",
            "192.0.2.1:9464",
        ] {
            assert!(is_own_name(own, "web-1"), "{own}");
        }
        for other in [
            "",
            "attacker.example",
            "attacker.example:9464",
            "127.0.0.1.attacker.example",
            "[attacker]",
            "[::1",
            "localhost.attacker.example",
            "web-1.example",
            ":9464",
            "2130706433",
            "0x7f.1",
            "::1",
        ] {
            assert!(!is_own_name(other, "web-1"), "{other}");
        }
        assert!(!is_own_name("", ""), "a host without a name");
    }

    #[test]
    fn strangers_are_refused_unless_asked_for() {
        let of = |from: &str| request("/", "192.0.2.1:9464", from.parse().unwrap());
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(refusal(&of(here), PageReaders::Local, ""), None, "{here}");
        }
        for stranger in ["192.0.2.9", "::ffff:192.0.2.9", "fe80::1"] {
            assert!(
                refusal(&of(stranger), PageReaders::Local, "").is_some(),
                "{stranger}"
            );
            assert_eq!(
                refusal(&of(stranger), PageReaders::Any, ""),
                None,
                "{stranger}"
            );
        }
        let none = HttpRequest {
            host: None,
            ..of("127.0.0.1")
        };
        assert!(refusal(&none, PageReaders::Any, "").is_some());
    }

    #[test]
    fn policy_allows_this_script_alone() {
        let fields = fields(&["a{}"], &["let a"]);
        for part in [
            "default-src 'none'",
            "script-src 'sha256-",
            "trusted-types 'none'",
            "frame-ancestors 'none'",
        ] {
            assert!(fields.contains(part), "{fields}");
        }
        assert!(
            !fields.contains("unsafe") && fields.ends_with("\r\n"),
            "{fields}"
        );
        assert!(super::fields(&[], &[]).contains("script-src 'none'"));
    }
}
