//! Depthwise convolution of 8-bit numbers: sixteen channels at a time, exact in i32.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * only taps inside the image are read (padding is the zero point and adds nothing);
//! * tasks write disjoint output rows.

use super::Geometry;
use super::int_finish::{IntFinish, Requantize};
use super::kernel::BLOCK;
use crate::Result;
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};

const TASKS_PER_THREAD: usize = 6;

pub(super) struct IntDepthwise {
    pub(super) channels: usize,
    /// w - w_zero as `[blocks][taps][BLOCK]`.
    pub(super) weights: Vec<i32>,
    /// `[blocks][BLOCK]`.
    pub(super) bias: Vec<i32>,
    /// Zero point of x with its sign bit flipped, if it is signed.
    pub(super) zero: i32,
    /// 0x80 for signed inputs, else 0.
    pub(super) flip: u8,
}

impl IntDepthwise {
    /// # Safety
    /// The addresses are those of the elements that `g` describes.
    pub(super) unsafe fn run(
        &self,
        isa: Isa,
        pool: &Pool,
        g: &Geometry,
        x: Shared<u8>,
        y: Shared<u8>,
        how: &Requantize,
    ) -> Result<()> {
        let rows = g.n * g.oh;
        let chunks = if pool.threads() == 1 { 1 } else { (pool.threads() * TASKS_PER_THREAD).min(rows) };
        pool.run(chunks, &|task, _| {
            let rows = [task * rows / chunks, (task + 1) * rows / chunks];
            dispatch(isa, Rows { conv: self, g, x, y, how, rows });
        })
    }
}

struct Rows<'a> {
    conv: &'a IntDepthwise,
    g: &'a Geometry,
    x: Shared<u8>,
    y: Shared<u8>,
    how: &'a Requantize,
    rows: [usize; 2],
}

impl Kernel for Rows<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let (g, conv) = (self.g, self.conv);
        let taps = g.kernel[0] * g.kernel[1];
        let size = if self.how.gives_floats() { 4 } else { 1 };
        for row in self.rows[0]..self.rows[1] {
            let (n, oy) = (row / g.oh, row % g.oh);
            let iy = (oy * g.stride[0]) as isize - g.pads[0] as isize;
            for ox in 0..g.ow {
                let ix = (ox * g.stride[1]) as isize - g.pads[1] as isize;
                let y = [self.y.at((n * g.y[0] + oy * g.y[2] + ox * g.y[3]) * size)];
                for block in 0..conv.channels.div_ceil(BLOCK) {
                    let c = block * BLOCK;
                    let lanes = BLOCK.min(conv.channels - c);
                    let mut acc = [0i32; BLOCK];
                    acc.copy_from_slice(&conv.bias[c..c + BLOCK]);
                    for ky in 0..g.kernel[0] {
                        let iy = (iy + (ky * g.dilation[0]) as isize) as usize;
                        if iy >= g.h {
                            continue;
                        }
                        for kx in 0..g.kernel[1] {
                            let ix = (ix + (kx * g.dilation[1]) as isize) as usize;
                            if ix >= g.w {
                                continue;
                            }
                            let p = self.x.at(n * g.x[0] + iy * g.x[2] + ix * g.x[3] + c * g.x[1]);
                            let mut v = [0u8; BLOCK];
                            // SAFETY: `lanes` channels of a pixel inside the image.
                            unsafe {
                                if g.x[1] == 1 && lanes == BLOCK {
                                    v = p.cast::<[u8; BLOCK]>().read_unaligned();
                                } else {
                                    for i in 0..lanes {
                                        v[i] = *p.add(i * g.x[1]);
                                    }
                                }
                            }
                            let w = &conv.weights[(block * taps + ky * g.kernel[1] + kx) * BLOCK..][..BLOCK];
                            for i in 0..BLOCK {
                                let x = (v[i] ^ conv.flip) as i32 - conv.zero;
                                acc[i] = acc[i].wrapping_add(x.wrapping_mul(w[i]));
                            }
                        }
                    }
                    let finish = IntFinish {
                        how: self.how,
                        channel: c,
                        tile: &acc,
                        row: BLOCK,
                        channels: lanes,
                        y: &y,
                        y_first: c * g.y[1],
                        y_channel: g.y[1],
                    };
                    // SAFETY: the task's own row.
                    unsafe { finish.store(s) };
                }
            }
        }
    }
}
