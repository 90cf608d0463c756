//! Forgetting a host: an administrator's mark in the engine, which all readers honour.
//!
//! The mark names the boot of the host's present states. A host that is started again has another boot, so it is heard
//! again. Marks are no keys of hosts: only an administrator's certificate may write them.

use tcpilot_fleet::{Refusal, format, manifest};

use crate::key::{Host, Key};
use crate::store::{Store, StoreError};

/// Version of marks.
const VERSION: u8 = 1;

/// Bytes of a mark: version, boot, check sum of both.
const BYTES: usize = 1 + 8 + 8;

fn encode(boot: u64) -> Vec<u8> {
    let mut mark = vec![VERSION];
    mark.extend(boot.to_le_bytes());
    mark.extend(format::check_sum(&mark).to_le_bytes());
    mark
}

/// The forgotten boot.
///
/// # Errors
/// The bytes are no mark.
pub fn decode(bytes: &[u8]) -> Result<u64, Refusal> {
    match bytes.first() {
        None => return Err(Refusal::CutOff),
        Some(&VERSION) => {}
        Some(version) => return Err(Refusal::Version(*version)),
    }
    let bytes: &[u8; BYTES] = bytes.try_into().map_err(|_| Refusal::CutOff)?;
    let [_, boot @ .., _, _, _, _, _, _, _, _] = bytes;
    let boot = u64::from_le_bytes(*boot);
    (encode(boot) == bytes)
        .then_some(boot)
        .ok_or(Refusal::Damaged)
}

/// Why a host cannot be forgotten.
#[derive(Debug, thiserror::Error)]
pub enum Unforgotten {
    /// The engine's error.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The engine has nothing of it.
    #[error("the engine has nothing of {0}; `tcpilot-fleet status` lists the hosts of this place")]
    Unknown(Host),
    /// Its manifest cannot be read, so no reader hears it.
    #[error("the manifest of {0} is refused by all readers: {1}")]
    Refused(Host, Refusal),
}

/// Lets all readers refuse what a host says until it is started again.
///
/// # Errors
/// See [`Unforgotten`].
pub async fn forget(store: &impl Store, host: &Host) -> Result<(), Unforgotten> {
    let entry = store.get(&Key::manifest(host)).await?;
    let entry = entry.ok_or_else(|| Unforgotten::Unknown(host.clone()))?;
    let manifest = manifest::decode(&entry.value);
    let manifest = manifest.map_err(|refusal| Unforgotten::Refused(host.clone(), refusal))?;
    store
        .put(&Key::Forgotten(host.clone()), &encode(manifest.boot))
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_come_back_and_damage_is_refused() {
        let mark = encode(0x0102_0304_0506_0708);
        assert_eq!(decode(&mark), Ok(0x0102_0304_0506_0708));
        assert_eq!(decode(&[]), Err(Refusal::CutOff));
        assert_eq!(decode(&mark[..BYTES - 1]), Err(Refusal::CutOff));
        assert_eq!(decode(&[9; BYTES]), Err(Refusal::Version(9)));
        for byte in 1..BYTES {
            let mut damaged = mark.clone();
            damaged[byte] ^= 1;
            assert_eq!(decode(&damaged), Err(Refusal::Damaged));
        }
    }
}
