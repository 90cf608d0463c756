//! Measures that the BPF programs take: how each is read, shown, kept in the state file, and put back.
//!
//! [`measures!`] declares measures that are both shown and kept. The view, the stored form, and the
//! conversions between them and the kernel's structure follow from one row for each measure.

use tcpilot_abi::{tp_window32, tp_window64};

/// A kind of measure. A window has two halves: that of the present epoch, and that of the epoch before.
/// Older values do not count.
pub trait Measure {
    /// Its type in the kernel's structure.
    type Kernel;
    /// Its type in a view.
    type Shown;
    /// Its type in the state file; 0 means that there is no sample.
    type Kept;
    /// The value to show. `behind`: the epochs by which the window is behind the present one.
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

/// The halves of a window that still count.
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
    /// A count.
    Count: u32 as u32, std::convert::identity
);
number!(
    /// A count that may be large.
    Count64: u64 as u64, std::convert::identity
);
number!(
    /// A cost, which may be 0.
    Cost: u64 as Option<u64>, Some
);

/// Declares a view and its stored form. The caller sets the fields of `named` in both, those of `shown` in
/// the view, and those of `stored` in the stored form. A row of `measured`, for both forms, or of `kept`,
/// for the stored form, is `key: Kind = place in the kernel's structure`; [`Measure`] reads it. A row of
/// `measured` may also have its unit, its heading, and after `if` the condition under which the value means
/// something.
macro_rules! measures {
    (
        from ($($kernel:ident: $Kernel:ty),+);
        $(#[$view_meta:meta])* view $View:ident;
        $(#[$kept_meta:meta])* kept $Kept:ident;
        named { $( $(#[doc = $ndoc:literal])+ $nkey:ident: $ntype:ty $(, $nheading:literal)?; )* }
        measured { $(
            $(#[doc = $doc:literal])+
            $key:ident: $kind:ident = $place:expr $(, $unit:ident)? $(, $heading:literal)? $(, if $known:expr)?;
        )* }
        shown { $( $(#[doc = $sdoc:literal])+ $skey:ident: $stype:ty $(, $sunit:ident)? $(, $sheading:literal)?; )* }
        kept { $( $(#[doc = $kdoc:literal])+ $kkey:ident: $kkind:ident = $kplace:expr; )* }
        stored { $( $(#[doc = $tdoc:literal])+ $(#[serde $serde:tt])* $tkey:ident: $ttype:ty; )* }
    ) => {
        $crate::show::figure::figures! {
            $(#[$view_meta])*
            #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
            pub $View {
                $( $(#[doc = $ndoc])+ $nkey: $ntype $(, $nheading)?; )*
                $( $(#[doc = $doc])+ $key: <$kind as Measure>::Shown $(, $unit)? $(, $heading)?; )*
                $( $(#[doc = $sdoc])+ $skey: $stype $(, $sunit)? $(, $sheading)?; )*
            }
        }

        $(#[$kept_meta])*
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $Kept {
            $( $(#[doc = $ndoc])+ pub $nkey: $ntype, )*
            $( $(#[doc = $tdoc])+ $(#[serde $serde])* pub $tkey: $ttype, )*
            $( $(#[doc = $doc])+ #[serde(default)] pub $key: <$kind as Measure>::Kept, )*
            $( $(#[doc = $kdoc])+ #[serde(default)] pub $kkey: <$kkind as Measure>::Kept, )*
        }

        impl $View {
            /// The measures. `behind`: the epochs by which the windows are behind the present one.
            pub fn measured($($kernel: &$Kernel,)+ behind: u32) -> $View {
                $View {
                    $( $key: $crate::pilot::figures::measure::measures!(
                        @if $($known)?, <$kind as Measure>::shown(&$place, behind)
                    ), )*
                    ..$View::default()
                }
            }
        }

        impl $Kept {
            /// The measures to keep.
            pub fn measured($($kernel: &$Kernel),+) -> $Kept {
                $Kept {
                    $( $key: <$kind as Measure>::kept(&$place), )*
                    $( $kkey: <$kkind as Measure>::kept(&$kplace), )*
                    ..$Kept::default()
                }
            }

            /// Puts the kept measures back. Windows take theirs only if the measures are `fresh`.
            pub fn put(&self, $($kernel: &mut $Kernel,)+ fresh: bool) {
                $( <$kind as Measure>::put(&self.$key, &mut $place, fresh); )*
                $( <$kkind as Measure>::put(&self.$kkey, &mut $kplace, fresh); )*
            }
        }
    };
    (@if , $shown:expr) => { $shown };
    (@if $known:expr, $shown:expr) => { if $known { $shown } else { Default::default() } };
}
pub(crate) use measures;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_of_the_last_window_counts_and_an_older_one_does_not() {
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
    fn what_was_kept_for_too_long_leaves_a_window_empty_and_a_count_as_it_was() {
        let mut window = tp_window32::default();
        Least::put(&7, &mut window, false);
        assert_eq!(Least::kept(&window), 0);
        Least::put(&7, &mut window, true);
        assert_eq!((window.current, window.previous), (0, 7));
        let mut count = 0;
        Count::put(&7, &mut count, false);
        assert_eq!(count, 7);
    }
}
