//! The integer convolution that ConvInteger, QLinearConv and QuantConv share.

use super::pool::inside;
use super::window::Window;
use crate::{Error, Result};
use saltica_tensor::{DType, Element, MAX_RANK, Shape, View};

/// Output columns that are summed together.
const TILE: usize = 64;

/// Shape of the output, after checking that x `[N,C,H,W]` and w `[O,C/group,kh,kw]` are 8-bit numbers that fit each other.
pub(super) fn shape(
    x: (DType, &Shape),
    w: (DType, &Shape),
    window: &Window,
    group: usize,
) -> Result<(Window, Shape)> {
    let bytes = |d: DType| matches!(d, DType::I8 | DType::U8);
    let (&[n, c, h, width], &[o, in_c, kh, kw]) = (x.1.dims(), w.1.dims()) else {
        return Err(Error::shape(format!("x is {} and weights are {}, rank 4 expected", x.1, w.1)));
    };
    if !bytes(x.0) || !bytes(w.0) {
        return Err(Error::shape(format!("x is {} and weights are {}, i8 or u8 expected", x.0, w.0)));
    }
    if window.kernel != [0, 0] && window.kernel != [kh, kw] {
        return Err(Error::shape(format!("kernel_shape {:?} disagrees with weights {}", window.kernel, w.1)));
    }
    if group == 0 || in_c.checked_mul(group) != Some(c) || !o.is_multiple_of(group) {
        return Err(Error::shape(format!("{c} input channels and weights {} do not fit group {group}", w.1)));
    }
    let window = Window { kernel: [kh, kw], ..*window };
    let [oh, ow] = window.output([h, width])?;
    Ok((window, Shape::new(&[n, o, oh, ow])?))
}

/// For each output element: `put(index, sum of (x - x_zero) * (w - w_zero(o)))`. Padding is x_zero. Sums wrap at 32 bits,
/// which is the same in any order.
pub(super) fn accumulate(
    x: &View<'_>,
    w: &View<'_>,
    window: &Window,
    group: usize,
    x_zero: i32,
    w_zero: impl Fn(usize) -> i32,
    put: impl FnMut(&[usize; MAX_RANK], i32),
) -> Result<()> {
    let (window, out) = shape((x.dtype(), x.shape()), (w.dtype(), w.shape()), window, group)?;
    if x.dtype() == DType::I8 {
        typed::<i8>(x, w, &window, &out, group, x_zero, w_zero, put)
    } else {
        typed::<u8>(x, w, &window, &out, group, x_zero, w_zero, put)
    }
}

fn typed<T: Element + Into<i32>>(
    x: &View<'_>,
    w: &View<'_>,
    window: &Window,
    out: &Shape,
    group: usize,
    x_zero: i32,
    w_zero: impl Fn(usize) -> i32,
    mut put: impl FnMut(&[usize; MAX_RANK], i32),
) -> Result<()> {
    let (h, width) = (x.shape()[2], x.shape()[3]);
    let pads = window.pads_for([h, width]);
    let (in_c, per_group) = (w.shape()[1], (out[1] / group).max(1));
    let [sy, sx] = window.stride;
    let signed = w.dtype() == DType::I8;
    let weight = |at: &[usize]| if signed { w.get::<i8>(at) as i32 } else { w.get::<u8>(at) as i32 };
    for mut index in Shape::new(&out[..3])?.indices() {
        let [n, o, oy, ..] = index;
        let (first, zero) = (o / per_group * in_c, w_zero(o));
        for from in (0..out[3]).step_by(TILE) {
            let count = TILE.min(out[3] - from);
            let mut sums = [0i32; TILE];
            for ky in 0..window.kernel[0] {
                let iy = (oy * sy + ky * window.dilation[0]).wrapping_sub(pads[0]);
                if iy >= h {
                    continue;
                }
                for kx in 0..window.kernel[1] {
                    let shift = kx * window.dilation[1];
                    let range = inside(out[3], sx, shift, pads[1], width);
                    let (start, end) = (range.start.max(from), range.end.min(from + count));
                    if start >= end {
                        continue;
                    }
                    let ix = start * sx + shift - pads[1];
                    let sums = &mut sums[start - from..end - from];
                    for c in 0..in_c {
                        let k = weight(&[o, c, ky, kx]).wrapping_sub(zero);
                        let step = |s: &mut i32, v: T| {
                            *s = s.wrapping_add(v.into().wrapping_sub(x_zero).wrapping_mul(k));
                        };
                        match x.row::<T>(&[n, first + c, iy, 0]) {
                            Some(row) if sx == 1 => {
                                sums.iter_mut().zip(&row[ix..]).for_each(|(s, &v)| step(s, v));
                            }
                            Some(row) => {
                                let row = row[ix..].iter().step_by(sx);
                                sums.iter_mut().zip(row).for_each(|(s, &v)| step(s, v));
                            }
                            None => {
                                for (i, s) in sums.iter_mut().enumerate() {
                                    step(s, x.get(&[n, first + c, iy, ix + i * sx]));
                                }
                            }
                        }
                    }
                }
            }
            for (j, &sum) in sums[..count].iter().enumerate() {
                index[3] = from + j;
                put(&index, sum);
            }
        }
    }
    Ok(())
}
