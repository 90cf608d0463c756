//! The reasons for refusing a state. Each has a word for counters and for people.

/// Why a state is not heard. One bad row makes its whole state void: half a state would be worse than an old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It ends too early.
    #[error("the state is cut off")]
    CutOff,
    /// Bytes follow its last row.
    #[error("bytes follow the last row")]
    TooLong,
    /// Its check sum is wrong.
    #[error("the check sum is wrong")]
    Damaged,
    /// Its format is of another version.
    #[error("format version {0} is unknown")]
    Version(u8),
    /// Fewer than two algorithms, too many, a bad name, or one name twice.
    #[error("the list of algorithms is not valid")]
    Algorithms,
    /// It has more rows than the reader allows.
    #[error("{0} rows are too many")]
    Rows(u32),
    /// Its rows are not in the order of their groups, or a group comes twice.
    #[error("the rows are not in order")]
    Unordered,
    /// A group has bits beyond its length, or an unknown family.
    #[error("a group is not valid")]
    Group,
    /// A group is private, or belongs to no network of the internet.
    #[error("a group is private or reserved")]
    Private,
    /// A number is not finite.
    #[error("a number is not finite")]
    NotFinite,
    /// A precision is not positive semidefinite: no samples can say this.
    #[error("a precision is not positive semidefinite")]
    NotKnowledge,
    /// A mean or precision is beyond what connections can show.
    #[error("a number is implausible")]
    Implausible,
    /// A name of a host, a place, a policy or a version is not valid.
    #[error("a name is not valid")]
    Name,
    /// A row belongs to another shard, or the number of shards is not valid.
    #[error("a row belongs to another shard")]
    Misplaced,
    /// Its rewards have another meaning: other weights or another version of their code.
    #[error("the reward has another meaning")]
    Reward,
    /// It has fewer than two algorithms in common with the reader.
    #[error("fewer than two algorithms in common")]
    NothingInCommon,
}

impl Refusal {
    /// One word, as the value of a metric's label.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::CutOff => "cut_off",
            Self::TooLong => "too_long",
            Self::Damaged => "damaged",
            Self::Version(_) => "version",
            Self::Algorithms => "algorithms",
            Self::Rows(_) => "rows",
            Self::Unordered => "unordered",
            Self::Group => "group",
            Self::Private => "private",
            Self::NotFinite => "not_finite",
            Self::NotKnowledge => "not_knowledge",
            Self::Implausible => "implausible",
            Self::Name => "name",
            Self::Misplaced => "misplaced",
            Self::Reward => "reward",
            Self::NothingInCommon => "nothing_in_common",
        }
    }
}
