//! The enumerations of `bpf/abi/abi.h` as Rust types, with their words for people.

/// The reason for a connection's congestion control (`enum tp_why`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "explained by sentence()")]
pub enum Why {
    Unseen = crate::TP_WHY_UNSEEN as u8,
    NoArm = crate::TP_WHY_NO_ARM as u8,
    Rescued = crate::TP_WHY_RESCUED as u8,
    SetFailed = crate::TP_WHY_SET_FAILED as u8,
    Kept = crate::TP_WHY_KEPT as u8,
    Application = crate::TP_WHY_APPLICATION as u8,
    Route = crate::TP_WHY_ROUTE as u8,
    Administrator = crate::TP_WHY_ADMINISTRATOR as u8,
    Loopback = crate::TP_WHY_LOOPBACK as u8,
    Excluded = crate::TP_WHY_EXCLUDED as u8,
    Drawn = crate::TP_WHY_DRAWN as u8,
    NoChoiceDist = crate::TP_WHY_NO_CHOICE_DIST as u8,
    Stale = crate::TP_WHY_STALE as u8,
    HeldOut = crate::TP_WHY_HELD_OUT as u8,
    Undone = crate::TP_WHY_UNDONE as u8,
    Moved = crate::TP_WHY_MOVED as u8,
}

impl Why {
    /// All of them, in the order of their numbers.
    pub const ALL: [Why; crate::TP_WHY_COUNT as usize] = [
        Why::Unseen,
        Why::NoArm,
        Why::Rescued,
        Why::SetFailed,
        Why::Kept,
        Why::Application,
        Why::Route,
        Why::Administrator,
        Why::Loopback,
        Why::Excluded,
        Why::Drawn,
        Why::NoChoiceDist,
        Why::Stale,
        Why::HeldOut,
        Why::Undone,
        Why::Moved,
    ];

    /// The reason with this number; an unknown number is [`Why::Unseen`].
    pub fn from_number(number: u8) -> Why {
        Why::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or(Why::Unseen)
    }

    /// One word, for tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Why::Unseen => "unseen",
            Why::NoArm => "no-algorithm",
            Why::Rescued => "rescued",
            Why::SetFailed => "set-failed",
            Why::Kept => "kept",
            Why::Application => "application",
            Why::Route => "route",
            Why::Administrator => "administrator",
            Why::Loopback => "loopback",
            Why::Excluded => "excluded",
            Why::Drawn => "drawn",
            Why::NoChoiceDist => "nothing-known",
            Why::Stale => "daemon-silent",
            Why::HeldOut => "held-out",
            Why::Undone => "rescue-undone",
            Why::Moved => "moved",
        }
    }

    /// A sentence, for `explain`.
    pub fn sentence(self) -> &'static str {
        match self {
            Why::Unseen => "opened before tcpilot started",
            Why::NoArm => "no algorithm may be used here (ECN, the kind of network, or the policy)",
            Why::Rescued => "its segments were lost, again and again: switched while it was open",
            Why::Undone => "a rescue did not help: it has its former algorithm again",
            Why::Moved => {
                "moved while it was open, because its path does better with this algorithm"
            }
            Why::SetFailed => "the kernel refused the algorithm: its default stays",
            Why::Kept => "the algorithm drawn was the kernel's default, or there was none to draw",
            Why::Application => "the application chose by TCP_CONGESTION: left alone",
            Why::Route => "the route has a congctl: left alone",
            Why::Administrator => "the namespace's default is not in replace_defaults: left alone",
            Why::Loopback => "loopback is left alone unless manage_loopback is set",
            Why::Excluded => "a policy says to leave it alone",
            Why::Drawn => "drawn by what is known of the path, or of its neighbours",
            Why::NoChoiceDist => {
                "nothing is known yet of the path or its neighbours: the kernel's default stays"
            }
            Why::HeldOut => {
                "held out, to compare the others with, or because steering did harm: the kernel's default stays"
            }
            Why::Stale => {
                "the daemon has not shown for ten seconds that it is alive: the kernel's default stays"
            }
        }
    }

    /// Whether the connection was left as it came.
    pub fn is_left_alone(self) -> bool {
        (Why::Application as u8..=Why::Excluded as u8).contains(&(self as u8))
    }
}

/// A failure, or abandoned work (`enum tp_trouble`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "explained by sentence()")]
pub enum Trouble {
    SetFailed = crate::TP_TROUBLE_SET_FAILED as u8,
    NoStorage = crate::TP_TROUBLE_NO_STORAGE as u8,
    NoPath = crate::TP_TROUBLE_NO_PATH as u8,
    Evicted = crate::TP_TROUBLE_EVICTED as u8,
    Contended = crate::TP_TROUBLE_CONTENDED as u8,
    Thin = crate::TP_TROUBLE_THIN as u8,
    CbFlags = crate::TP_TROUBLE_CB_FLAGS as u8,
    Full = crate::TP_TROUBLE_FULL as u8,
}

/// Why a rescue was not made after all (`enum tp_withheld`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "explained by sentence()")]
pub enum Withheld {
    Policy = crate::TP_WITHHELD_POLICY as u8,
    Already = crate::TP_WITHHELD_ALREADY as u8,
    ChoiceDist = crate::TP_WITHHELD_CHOICE_DIST as u8,
    Failed = crate::TP_WITHHELD_FAILED as u8,
    Stale = crate::TP_WITHHELD_STALE as u8,
}

impl Withheld {
    /// All of them, in the order of their numbers.
    pub const ALL: [Withheld; crate::TP_WITHHELD_COUNT as usize] = [
        Withheld::Policy,
        Withheld::Already,
        Withheld::ChoiceDist,
        Withheld::Failed,
        Withheld::Stale,
    ];

    /// One word, for JSON.
    pub fn word(self) -> &'static str {
        match self {
            Withheld::Policy => "policy",
            Withheld::Already => "already",
            Withheld::ChoiceDist => "known-to-be-worse",
            Withheld::Failed => "did-not-help-before",
            Withheld::Stale => "daemon-silent",
        }
    }

    /// Some words, for `status`.
    pub fn sentence(self) -> &'static str {
        match self {
            Withheld::Policy => "their policy or their application has chosen otherwise",
            Withheld::Already => "they have the rescue's algorithm",
            Withheld::ChoiceDist => "it is known to be worse there",
            Withheld::Failed => "the last rescue there did not help",
            Withheld::Stale => "the daemon was silent",
        }
    }
}

impl Trouble {
    /// All of them, in the order of their numbers.
    pub const ALL: [Trouble; crate::TP_TROUBLE_COUNT as usize] = [
        Trouble::SetFailed,
        Trouble::NoStorage,
        Trouble::NoPath,
        Trouble::Evicted,
        Trouble::Contended,
        Trouble::Thin,
        Trouble::CbFlags,
        Trouble::Full,
    ];

    /// One word, for JSON and logs.
    pub fn word(self) -> &'static str {
        match self {
            Trouble::SetFailed => "set-failed",
            Trouble::NoStorage => "no-storage",
            Trouble::NoPath => "no-path",
            Trouble::Evicted => "evicted",
            Trouble::Contended => "contended",
            Trouble::Thin => "thin-linear-timeouts",
            Trouble::CbFlags => "callback-flags",
            Trouble::Full => "full",
        }
    }

    /// Its meaning, for `status`.
    pub fn sentence(self) -> &'static str {
        match self {
            Trouble::SetFailed => "the kernel refused an algorithm; the connection kept its own",
            Trouble::NoStorage => "no memory to remember a connection; it was not learned from",
            Trouble::NoPath => "a path could not be stored; its connection kept the default",
            Trouble::Evicted => "paths were forgotten before their last connection ended",
            Trouble::Contended => "samples were given up because another CPU held the path",
            Trouble::Thin => "this kernel has no thin linear timeouts for BPF (6.1 has)",
            Trouble::CbFlags => "the end of a connection could not be asked for",
            Trouble::Full => {
                "a new path was not remembered, its connection kept the default: every path that \
                 shares its place in the table has live connections; raise paths_max"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_reasons_agree() {
        for (number, why) in Why::ALL.into_iter().enumerate() {
            assert_eq!(why as usize, number);
            assert_eq!(Why::from_number(number as u8), why);
        }
        for (number, trouble) in Trouble::ALL.into_iter().enumerate() {
            assert_eq!(trouble as usize, number);
        }
        for (number, withheld) in Withheld::ALL.into_iter().enumerate() {
            assert_eq!(withheld as usize, number);
        }
    }

    #[test]
    fn an_unknown_number_is_unseen() {
        assert_eq!(Why::from_number(200), Why::Unseen);
    }
}
