//! Dims and strides as generic kernels take them: up to six, those that lie in a row merged.

use super::int;
use crate::{Error, ErrorKind, Result};

/// As many dims as kernels walk.
pub(super) const MOST: usize = 6;

/// Dims with the strides of some operands over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Walk {
    /// Slowest first.
    pub(super) dims: Vec<usize>,
    /// One list an operand, in elements; may be negative.
    pub(super) strides: Vec<Vec<i64>>,
}

impl Walk {
    /// Over these dims; dims of size 1 go.
    pub(super) fn new(dims: &[usize], strides: &[Vec<i64>]) -> Walk {
        let kept: Vec<usize> = (0..dims.len()).filter(|&d| dims[d] != 1).collect();
        Walk {
            dims: kept.iter().map(|&d| dims[d]).collect(),
            strides: strides.iter().map(|s| kept.iter().map(|&d| s[d]).collect()).collect(),
        }
    }

    /// Sorted so that an operand is walked forwards, and merged where all operands allow it.
    pub(super) fn merged(mut self, lead: usize) -> Walk {
        let mut order: Vec<usize> = (0..self.dims.len()).collect();
        order.sort_by_key(|&d| std::cmp::Reverse(self.strides[lead][d].unsigned_abs()));
        self = Walk {
            dims: order.iter().map(|&d| self.dims[d]).collect(),
            strides: self.strides.iter().map(|s| order.iter().map(|&d| s[d]).collect()).collect(),
        };
        let mut d = 1;
        while d < self.dims.len() {
            let inner = self.dims[d] as i64;
            if self.strides.iter().all(|s| s[d - 1] == s[d] * inner) {
                self.dims[d - 1] *= self.dims[d];
                self.dims.remove(d);
                for s in &mut self.strides {
                    s.remove(d - 1);
                }
            } else {
                d += 1;
            }
        }
        self
    }

    /// Elements.
    pub(super) fn count(&self) -> usize {
        self.dims.iter().product()
    }

    /// The dims for a kernel, unused ones in front.
    pub(super) fn six(&self) -> Result<[i32; MOST]> {
        let mut out = [1; MOST];
        let lead = self.lead()?;
        for (o, &d) in out[lead..].iter_mut().zip(&self.dims) {
            *o = int(d)?;
        }
        Ok(out)
    }

    /// The strides of an operand for a kernel.
    pub(super) fn six_strides(&self, operand: usize) -> Result<[i32; MOST]> {
        let mut out = [0; MOST];
        let lead = self.lead()?;
        for (o, &s) in out[lead..].iter_mut().zip(&self.strides[operand]) {
            *o = i32::try_from(s).map_err(|_| {
                Error::new(ErrorKind::Unsupported, format!("a stride of {s}: kernels take 32 bits"))
            })?;
        }
        Ok(out)
    }

    fn lead(&self) -> Result<usize> {
        MOST.checked_sub(self.dims.len()).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("{} dims that do not merge: kernels walk {MOST}", self.dims.len()),
            )
        })
    }
}

/// A layout's strides.
pub(super) fn signed(strides: &[usize]) -> Vec<i64> {
    strides.iter().map(|&s| s as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_merge_and_broadcast_dims_do_not() {
        let y = vec![24, 12, 4, 1];
        let w = Walk::new(&[2, 2, 3, 4], &[vec![0, 12, 4, 1], y.clone()]).merged(1);
        assert_eq!((w.dims, w.strides), (vec![2, 24], vec![vec![0, 1], vec![24, 1]]));
        let w = Walk::new(&[2, 2, 3, 4], &[vec![0, 0, 4, 1], y]).merged(1);
        assert_eq!((w.dims.clone(), w.count()), (vec![4, 12], 48));
        assert_eq!(w.six().unwrap(), [1, 1, 1, 1, 4, 12]);
    }

    #[test]
    fn channels_last_is_walked_in_memory_order() {
        // NHWC of 1x3x2x2 against contiguous NCHW.
        let w = Walk::new(&[1, 3, 2, 2], &[vec![12, 4, 2, 1], vec![12, 1, 6, 3]]).merged(1);
        assert_eq!((w.dims.clone(), w.strides.clone()), (vec![4, 3], vec![vec![1, 4], vec![3, 1]]));
        assert_eq!(w.six_strides(0).unwrap(), [0, 0, 0, 0, 1, 4]);
    }
}
