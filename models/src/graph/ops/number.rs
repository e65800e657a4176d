//! Exact arithmetic by dtype, for ops that must not go through f64 (an i64 would lose digits).

use saltica_tensor::{Bool, Element, f16};

/// A number on its way from one dtype to another.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wide {
    Int(i64),
    Float(f64),
}

/// What kernels do with elements beside copying them.
pub(super) trait Number: Element {
    /// Without loss.
    fn to_wide(self) -> Wide;

    /// To floats: rounded once to nearest even. To integers: integers wrap (the low bits stay), floats truncate toward
    /// zero and saturate, NaN is 0. To bool: whether it is not zero.
    fn from_wide(v: Wide) -> Self;

    /// A number that sorts as the value does; equal for both zeros, and below all others for NaN.
    fn sort_key(self) -> i64;

    /// Sum; integers wrap, bool is "or".
    fn plus(self, other: Self) -> Self;

    /// Product; integers wrap, bool is "and".
    fn times(self, other: Self) -> Self;

    /// The smaller; NaN if either is.
    fn least(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && self.sort_key() <= other.sort_key()) { self } else { other }
    }

    /// The larger; NaN if either is.
    fn greatest(self, other: Self) -> Self {
        if self.is_nan() || (!other.is_nan() && self.sort_key() >= other.sort_key()) { self } else { other }
    }

    /// Whether it is not a number.
    fn is_nan(self) -> bool {
        matches!(self.to_wide(), Wide::Float(v) if v.is_nan())
    }
}

macro_rules! integers {
    ($($t:ty),*) => {$(
        impl Number for $t {
            #[inline]
            fn to_wide(self) -> Wide {
                Wide::Int(self as i64)
            }
            #[inline]
            fn from_wide(v: Wide) -> Self {
                match v {
                    Wide::Int(v) => v as $t,
                    Wide::Float(v) => v as $t,
                }
            }
            #[inline]
            fn sort_key(self) -> i64 {
                self as i64
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}
integers!(i8, u8, i32, i64);

/// The order of f64 as that of an i64: bits of negative numbers count backwards.
#[inline]
fn float_key(v: f64) -> i64 {
    if v.is_nan() {
        return i64::MIN;
    }
    // Adding 0 turns -0 into 0.
    let bits = (v + 0.0).to_bits() as i64;
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

macro_rules! floats {
    ($($t:ty: $from_int:expr, $from_float:expr;)*) => {$(
        impl Number for $t {
            #[inline]
            fn to_wide(self) -> Wide {
                Wide::Float(self.to_f64())
            }
            #[inline]
            fn from_wide(v: Wide) -> Self {
                match v {
                    Wide::Int(v) => $from_int(v),
                    Wide::Float(v) => $from_float(v),
                }
            }
            #[inline]
            fn sort_key(self) -> i64 {
                float_key(self.to_f64())
            }
            #[inline]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline]
            fn times(self, other: Self) -> Self {
                self * other
            }
        }
    )*};
}
floats! {
    f32: |v: i64| v as f32, |v: f64| v as f32;
    f64: |v: i64| v as f64, |v: f64| v;
    // Integers that f64 cannot hold are far beyond the largest f16, so nothing is rounded twice.
    f16: |v: i64| f16::from_f64(v as f64), f16::from_f64;
}

impl Number for Bool {
    #[inline]
    fn to_wide(self) -> Wide {
        Wide::Int(self.get().into())
    }
    #[inline]
    fn from_wide(v: Wide) -> Self {
        Bool::from(match v {
            Wide::Int(v) => v != 0,
            Wide::Float(v) => v != 0.0,
        })
    }
    #[inline]
    fn sort_key(self) -> i64 {
        self.get().into()
    }
    #[inline]
    fn plus(self, other: Self) -> Self {
        Bool::from(self.get() || other.get())
    }
    #[inline]
    fn times(self, other: Self) -> Self {
        Bool::from(self.get() && other.get())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_the_values() {
        let values =
            [f32::NAN, f32::NEG_INFINITY, -1e30, -1.0, -1e-40, 0.0, f32::MIN_POSITIVE, 2.0, f32::INFINITY];
        assert!(values.is_sorted_by(|a, b| a.sort_key() < b.sort_key()));
        assert_eq!((-0.0f32).sort_key(), 0.0f32.sort_key());
        assert!([i64::MIN, -1, 0, i64::MAX].is_sorted_by_key(|v| v.sort_key()));
        assert!(1f32.least(f32::NAN).is_nan() && f32::NAN.greatest(1.0).is_nan());
        assert_eq!((2f32.least(1.0), 2f32.greatest(1.0)), (1.0, 2.0));
    }
}
