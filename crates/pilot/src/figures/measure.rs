//! The BPF programs' measures for the tunings: how each is read, shown, kept in the state file, and put back.

use tcpilot_abi::{tp_window32, tp_window64};

/// A kind of measure. A window has two halves: the present epoch, and the epoch before. Older values do not
/// count.
pub trait Measure {
    /// Its type in the kernel's structure.
    type Kernel;
    /// Its type in a view.
    type Shown;
    /// Its type in the state file; 0 means no sample.
    type Kept;
    /// The value to show. `behind`: the number of epochs from the window to the present.
    fn shown(kernel: &Self::Kernel, behind: u32) -> Self::Shown;
    /// The value to keep, of any age: the state file has the time of the update.
    fn kept(kernel: &Self::Kernel) -> Self::Kept;
    /// Puts a kept value back. A window takes it only if it is `fresh`, as the half before the present one.
    fn put(kept: &Self::Kept, kernel: &mut Self::Kernel, fresh: bool);
}

/// The kernel's structures use 0 for "no sample"; here it is `None`.
pub fn some<T: Default + PartialEq>(value: T) -> Option<T> {
    (value != T::default()).then_some(value)
}

/// The valid halves of a window.
fn live_halves<T: Default>(current: T, previous: T, behind: u32) -> (T, T) {
    match behind {
        0 => (current, previous),
        1 => (T::default(), current),
        _ => (T::default(), T::default()),
    }
}

fn least(a: u32, b: u32) -> u32 {
    [a, b].into_iter().filter(|v| *v != 0).min().unwrap_or(0)
}

macro_rules! window {
    ($(#[$meta:meta])* $name:ident: $kernel:ident of $number:ident as $shown:ty, $both:expr, $show:expr) => {
        $(#[$meta])*
        pub struct $name;

        impl Measure for $name {
            type Kernel = $kernel;
            type Shown = $shown;
            type Kept = $number;
            fn shown(window: &$kernel, behind: u32) -> $shown {
                let (a, b) = live_halves(window.current, window.previous, behind);
                $show($both(a, b))
            }
            fn kept(window: &$kernel) -> $number {
                $both(window.current, window.previous)
            }
            fn put(kept: &$number, window: &mut $kernel, fresh: bool) {
                if fresh {
                    window.previous = *kept;
                }
            }
        }
    };
}
window!(
    /// The least of a window.
    Least: tp_window32 of u32 as Option<u32>, least, some
);
window!(
    /// The greatest of a window.
    Greatest: tp_window64 of u64 as Option<u64>, u64::max, some
);
window!(
    /// The greatest of a window, with 32 bits.
    Greatest32: tp_window32 of u32 as Option<u32>, u32::max, some
);
window!(
    /// A sum over a window.
    Sum: tp_window64 of u64 as u64, u64::saturating_add, std::convert::identity
);

macro_rules! number {
    ($(#[$meta:meta])* $name:ident: $number:ident as $shown:ty, $show:expr) => {
        $(#[$meta])*
        pub struct $name;

        impl Measure for $name {
            type Kernel = $number;
            type Shown = $shown;
            type Kept = $number;
            fn shown(number: &$number, _: u32) -> $shown {
                $show(*number)
            }
            fn kept(number: &$number) -> $number {
                *number
            }
            fn put(kept: &$number, number: &mut $number, _: bool) {
                *number = *kept;
            }
        }
    };
}
number!(
    /// A number without a window; 0 if there is no sample.
    Number: u32 as Option<u32>, some
);
number!(
    /// A count that may be large.
    Count64: u64 as u64, std::convert::identity
);
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_windows_measure_counts() {
        let window = tp_window64 {
            current: 5,
            previous: 9,
        };
        assert_eq!(Greatest::shown(&window, 0), Some(9));
        assert_eq!(Greatest::shown(&window, 1), Some(5));
        assert_eq!(Greatest::shown(&window, 2), None);
        assert_eq!((Sum::shown(&window, 0), Sum::shown(&window, 1)), (14, 5));
    }

    #[test]
    fn the_least_ignores_an_empty_half() {
        let window = tp_window32 {
            current: 0,
            previous: 40,
        };
        assert_eq!(Least::shown(&window, 0), Some(40));
        assert_eq!(Least::kept(&window), 40);
    }

    #[test]
    fn old_measures_leave_windows_empty_not_counts() {
        let mut window = tp_window32::default();
        Least::put(&7, &mut window, false);
        assert_eq!(Least::kept(&window), 0);
        Least::put(&7, &mut window, true);
        assert_eq!((window.current, window.previous), (0, 7));
        let mut count = 0;
        Count64::put(&7, &mut count, false);
        assert_eq!(count, 7);
    }
}
