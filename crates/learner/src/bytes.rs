//! Numbers to bytes and back, for saved rows: little-endian, with a version before and a check sum behind.

/// Raise it when a row's layout changes; rows of another version are not read.
const VERSION: u8 = 1;

/// A row being written.
#[derive(Clone, Debug)]
pub struct Writer(Vec<u8>);

/// A row being read. Past its end, reading gives nothing.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

/// FNV-1a (Fowler, Noll and Vo): it finds damage, but does not keep an attacker out.
fn check_sum(bytes: &[u8]) -> u32 {
    let step = |h: u32, byte: &u8| (h ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    bytes.iter().fold(0x811c_9dc5, step)
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty row.
    #[must_use]
    pub fn new() -> Self {
        Self(vec![VERSION])
    }

    /// Writes a number.
    pub fn u16(&mut self, x: u16) -> &mut Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    /// Writes a number.
    pub fn u32(&mut self, x: u32) -> &mut Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    /// Writes a number.
    pub fn u64(&mut self, x: u64) -> &mut Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    /// Writes a number.
    pub fn f32(&mut self, x: f32) -> &mut Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    /// Writes a number.
    pub fn f64(&mut self, x: f64) -> &mut Self {
        self.0.extend(x.to_le_bytes());
        self
    }

    /// Writes numbers.
    pub fn f32s<'a>(&mut self, all: impl IntoIterator<Item = &'a f32>) -> &mut Self {
        for x in all {
            self.f32(*x);
        }
        self
    }

    /// Writes numbers.
    pub fn f64s<'a>(&mut self, all: impl IntoIterator<Item = &'a f64>) -> &mut Self {
        for x in all {
            self.f64(*x);
        }
        self
    }

    /// The row, with its check sum.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        let sum = check_sum(&self.0);
        self.0.extend(sum.to_le_bytes());
        self.0
    }
}

impl<'a> Reader<'a> {
    /// Reads a row if it is whole and of this version.
    #[must_use]
    pub fn new(row: &'a [u8]) -> Option<Self> {
        let (body, sum) = row.split_last_chunk::<4>()?;
        let whole = check_sum(body) == u32::from_le_bytes(*sum);
        match body.split_first() {
            Some((&VERSION, rest)) if whole => Some(Self(rest)),
            _ => None,
        }
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a number.
    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    /// Reads a number.
    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// Reads a number.
    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Reads a number, `None` if it is not finite: an infinity would spoil all sums.
    pub fn f32(&mut self) -> Option<f32> {
        self.take()
            .map(f32::from_le_bytes)
            .filter(|x| x.is_finite())
    }

    /// The same with 64 bits.
    pub fn f64(&mut self) -> Option<f64> {
        self.take()
            .map(f64::from_le_bytes)
            .filter(|x| x.is_finite())
    }

    /// Fills a slice; `None` as soon as a number is not finite.
    pub fn f32s(&mut self, out: &mut [f32]) -> Option<()> {
        out.iter_mut().try_for_each(|x| self.f32().map(|y| *x = y))
    }

    /// The same with 64 bits.
    pub fn f64s(&mut self, out: &mut [f64]) -> Option<()> {
        out.iter_mut().try_for_each(|x| self.f64().map(|y| *x = y))
    }

    /// `Some` if all bytes were read.
    #[must_use]
    pub fn done(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_with_a_flipped_bit_is_refused() {
        let mut writer = Writer::new();
        writer.u16(7).f64(0.25).f32(-1.5).u64(9);
        let row = writer.finish();
        let mut reader = Reader::new(&row).unwrap();
        assert_eq!(reader.u16(), Some(7));
        assert_eq!(reader.f64(), Some(0.25));
        assert_eq!(reader.f32(), Some(-1.5));
        assert_eq!(reader.done(), None);
        assert_eq!((reader.u64(), reader.done()), (Some(9), Some(())));
        for bit in 0..8 * row.len() {
            let mut damaged = row.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(Reader::new(&damaged).is_none(), "{bit}");
        }
        assert!(Reader::new(&row[..row.len() - 1]).is_none());
        assert!(Reader::new(&[]).is_none());
    }
}
