//! Tcpilot's own congestion controls, and facts about the kernel's.

/// Prefix of every name we register, so it never clashes with one of the kernel's.
pub const PREFIX: &str = "tp_";

/// Compiled objects by their file's name, from bpf/cc.
static OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/cc_objects.rs"));

/// The use of an algorithm, and its publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// Without prefix.
    pub name: &'static str,
    /// One line.
    pub good_for: &'static str,
    /// The paper or RFC.
    pub source: &'static str,
}

const fn about(name: &'static str, good_for: &'static str, source: &'static str) -> About {
    About {
        name,
        good_for,
        source,
    }
}

/// Ours come first, in the order of their age; then those that only kernels have.
static ABOUT: &[About] = &[
    about(
        "reno",
        "the yardstick; short paths, little loss",
        "RFC 5681",
    ),
    about(
        "vegas",
        "least delay where nobody else competes",
        "Brakmo, Peterson 1995",
    ),
    about("hstcp", "fast long paths with little loss", "RFC 3649"),
    about(
        "veno",
        "wireless: tells random loss from congestion",
        "Fu, Liew 2003",
    ),
    about(
        "westwood",
        "wireless: after a loss the window fits the measured rate",
        "Grieco, Mascolo 2004",
    ),
    about(
        "bic",
        "fast long paths; aggressive on short ones",
        "Xu, Harfoush, Rhee 2004",
    ),
    about(
        "hybla",
        "long RTTs (satellite) beside short ones",
        "Caini, Firrincieli 2004",
    ),
    about(
        "htcp",
        "fast long paths, fair between RTTs",
        "draft-leith-tcp-htcp-06",
    ),
    about(
        "illinois",
        "fast long paths; growth by delay, decrease by loss",
        "Liu, Basar, Srikant 2006",
    ),
    about(
        "yeah",
        "fast long paths with small queues",
        "Baiocchi, Castellani, Vacirca 2007",
    ),
    about(
        "cubic",
        "the internet's default; fast paths",
        "RFC 9438, RFC 9406",
    ),
    about(
        "dctcp",
        "data centres whose switches mark ECN at a low threshold",
        "RFC 8257",
    ),
    about(
        "lia",
        "MPTCP: no more than one TCP on a shared bottleneck",
        "RFC 6356",
    ),
    about(
        "wvegas",
        "MPTCP by delay: moves traffic off congested paths early",
        "Cao, Xu, Fu 2012",
    ),
    about(
        "olia",
        "MPTCP: as lia, and uses the best paths",
        "Khalili et al. 2012",
    ),
    about(
        "balia",
        "MPTCP: between lia's friendliness and olia's response",
        "Peng et al. 2016",
    ),
    about(
        "bbr",
        "loss that is no congestion; bloated buffers",
        "Cardwell et al. 2016",
    ),
    about(
        "lola",
        "low delay with a fair share among its kind",
        "Hock et al., LCN 2017",
    ),
    about(
        "prague",
        "L4S: queues of a millisecond, where the network marks ECT(1)",
        "draft-briscoe-iccrg-prague-congestion-control",
    ),
    about(
        "bbr3",
        "as bbr, with a bound on loss and room for others",
        "draft-ietf-ccwg-bbr",
    ),
    about(
        "cdg",
        "delay gradients; gives way to others",
        "Hayes, Armitage 2011",
    ),
    about("lp", "background transfers", "Kuzmanovic, Knightly 2003"),
    about("nv", "data centres, by delay", "Brakmo 2010"),
    about("scalable", "very fast paths of one's own", "Kelly 2003"),
];

/// Our name for one of the kernel's algorithms; the same if they do not differ.
fn own_name(kernel_name: &str) -> &str {
    match kernel_name.strip_prefix(PREFIX).unwrap_or(kernel_name) {
        "highspeed" => "hstcp",
        other => other,
    }
}

/// The facts about a registered name, the kernel's or ours.
pub fn describe(registered: &str) -> Option<&'static About> {
    ABOUT.iter().find(|a| a.name == own_name(registered))
}

/// The registered names of our algorithms, in the order of the descriptions.
pub fn ours() -> impl Iterator<Item = String> {
    let is_built = |a: &&About| OBJECTS.iter().any(|(name, _)| *name == a.name);
    ABOUT
        .iter()
        .filter(is_built)
        .map(|a| format!("{PREFIX}{}", a.name))
}

/// The object of one of our algorithms, by its name with or without prefix.
pub fn object(name: &str) -> Option<&'static [u8]> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    OBJECTS
        .iter()
        .find(|(own, _)| *own == name)
        .map(|(_, bytes)| *bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_object_is_described() {
        for (name, _) in OBJECTS {
            assert!(describe(name).is_some(), "{name} is missing in ABOUT");
        }
        assert_eq!(ours().count(), OBJECTS.len());
    }

    #[test]
    fn names_fit_the_kernels_limit() {
        for name in ours() {
            assert!(name.len() <= 15, "{name}");
        }
    }

    #[test]
    fn a_name_is_found_with_and_without_prefix() {
        assert!(object("tp_reno").is_some() && object("tp_reno") == object("reno"));
        assert_eq!(describe("highspeed"), describe("tp_hstcp"));
        assert!(object("nonsense").is_none());
    }
}
