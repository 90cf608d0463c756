//! A Content-Security-Policy names the page's own script and style by their hashes, so a browser runs nothing else.

use data_encoding::BASE64;
use sha2::{Digest, Sha256};

/// The source of a policy that allows this text alone.
pub(super) fn source_of(text: &str) -> String {
    format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::source_of;

    /// The hash is that of an example of FIPS 180-4.
    #[test]
    fn a_source_is_a_hash_in_base64() {
        assert_eq!(
            source_of("abc"),
            "'sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0='"
        );
    }
}
