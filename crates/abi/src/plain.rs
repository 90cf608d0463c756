//! Structures as bytes and back: maps hold bytes.

use std::mem::{MaybeUninit, size_of};

/// A structure of `bpf/abi/abi.h`: any bit pattern is a value, and it has no implicit padding.
///
/// # Safety
/// Implement it only for `repr(C)` structures made of integers, with padding spelled out.
pub unsafe trait Plain: Copy {}

macro_rules! plain {
    ($($t:ty),*) => {
        $(
            // SAFETY: abi.h builds it of integers only, pads explicitly, and asserts its size.
            unsafe impl Plain for $t {}
        )*
    };
}
plain!(
    u32,
    u64,
    crate::tp_path_key,
    crate::tp_path,
    crate::tp_slot,
    crate::tp_bucket,
    crate::tp_conn,
    crate::tp_flow,
    crate::tp_rule,
    crate::tp_config,
    crate::tp_clocks,
    crate::tp_tuned,
    crate::tp_order,
    crate::tp_counters,
    crate::tp_node_key,
    crate::tp_choice_dist,
    crate::tp_choice_dist_bucket,
    crate::tp_assignment,
    crate::tp_conn_start,
    crate::tp_conn_start_bucket,
    crate::tp_learner_status,
    crate::tp_record,
    crate::tp_move,
    crate::tp_costs,
    crate::tp_watch_key,
    crate::tp_watch_flow,
    crate::tp_watch_totals,
    crate::tp_watch_config,
    crate::tp_watch_link,
    crate::tp_model,
    crate::tp_round,
    crate::tp_interval,
    crate::tp_opened,
    crate::tp_fair_order,
    crate::tp_fair_state,
    crate::tp_fair_counts,
    crate::tp_fair_control,
    crate::tp_fair_turn,
    crate::tp_fair_queue,
    crate::tp_mark
);

/// Reads one structure from the start of `bytes`; `None` when they are too few.
pub fn from_bytes<T: Plain>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    let mut value = MaybeUninit::<T>::uninit();
    // SAFETY: the source has at least size_of::<T>() bytes, the regions are distinct, and by the
    // contract of Plain every bit pattern is a valid T.
    unsafe {
        std::ptr::copy_nonoverlapping(
            bytes.as_ptr(),
            value.as_mut_ptr().cast::<u8>(),
            size_of::<T>(),
        );
        Some(value.assume_init())
    }
}

/// The same in a box, and never on the stack: it is too small for some.
pub fn boxed<T: Plain>(bytes: &[u8]) -> Option<Box<T>> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    let mut value = Box::<T>::new_uninit();
    let to = value.as_mut_ptr().cast::<u8>();
    // SAFETY: as in from_bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, size_of::<T>());
        Some(value.assume_init())
    }
}

/// A structure of zeros, never on the stack.
pub fn zeroed<T: Plain>() -> Box<T> {
    let mut value = Box::<T>::new_uninit();
    // SAFETY: the pointer is to one T, and by the contract of Plain zeros are a valid one.
    unsafe {
        value.as_mut_ptr().write_bytes(0, 1);
        value.assume_init()
    }
}

/// The bytes of one structure.
pub fn to_bytes<T: Plain>(value: &T) -> &[u8] {
    // SAFETY: Plain has no implicit padding, so every byte is initialised; the lifetime is value's.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structure_survives_the_way_through_bytes() {
        let key = crate::tp_path_key {
            netns_cookie: 7,
            prefix: [1, 2, 3, 4],
            prefix_len: 120,
            ..Default::default()
        };
        assert_eq!(from_bytes::<crate::tp_path_key>(to_bytes(&key)), Some(key));
    }

    #[test]
    fn zeros_are_as_the_default() {
        assert_eq!(
            *zeroed::<crate::tp_path_key>(),
            crate::tp_path_key::default()
        );
    }

    #[test]
    fn too_few_bytes_give_none() {
        assert_eq!(from_bytes::<crate::tp_path_key>(&[0; 31]), None);
    }
}
