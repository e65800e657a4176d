//! The epilogue of 8-bit convolutions: i32 sums to floats or back to 8-bit numbers, as [`QuantConv`] defines it, bit for
//! bit: one rounding for each operation, no fused multiply-add, a true division, halves to even.
//!
//! Invariants (the reason this file may use `unsafe`): the caller vouches that the addresses are those of the tile's own
//! output elements; parameters are padded to whole blocks.

use super::Floats;
use super::kernel::BLOCK;
use crate::Result;
use crate::act::{Pointwise, with_activation};
use crate::simd::{Kernel, Simd};
use saltica_models::graph::Activation;
use saltica_models::graph::ops::{ByteTable, QuantConv, QuantOutput};
use saltica_tensor::DType;

/// Numbers in the largest row this epilogue handles.
const MAX_ROW: usize = 64;

/// What a sum goes through, with parameters for each output channel in the order of packed blocks.
pub(super) struct Requantize {
    /// `[blocks][BLOCK]`.
    multiplier: Floats,
    /// `[blocks][BLOCK]`, if there is a float bias.
    bias: Option<Floats>,
    activation: Activation,
    bytes: Option<ToBytes>,
}

struct ToBytes {
    scale: f32,
    zero: f32,
    /// Smallest and largest number before the zero point is added.
    range: [f32; 2],
    table: Option<ByteTable>,
}

impl Requantize {
    /// Parameters of an op with `group` groups of `oc` output channels each.
    pub(super) fn new(op: &QuantConv, group: usize, oc: usize) -> Result<Self> {
        let blocks = oc.div_ceil(BLOCK);
        let packed = |of: &dyn Fn(usize) -> f32| -> Result<Floats> {
            let mut out = Floats::zeroed(group * blocks * BLOCK)?;
            for o in 0..group * oc {
                out.get_mut()[o / oc * blocks * BLOCK + o % oc] = of(o);
            }
            Ok(out)
        };
        let multiplier = packed(&|o| op.multiplier(o))?;
        let bias = match op.float_bias() {
            [] => None,
            b => Some(packed(&|o| b.get(o).copied().unwrap_or(0.0))?),
        };
        let (activation, bytes) = match op.output() {
            QuantOutput::Float { activation } => (*activation, None),
            QuantOutput::Quantized { dtype, scale, zero, activation, table } => {
                let (lo, hi) = if *dtype == DType::I8 { (-128, 127) } else { (0, 255) };
                let bytes = ToBytes {
                    scale: *scale,
                    zero: *zero as f32,
                    range: [(lo - zero) as f32, (hi - zero) as f32],
                    table: table.clone(),
                };
                (*activation, Some(bytes))
            }
        };
        Ok(Requantize { multiplier, bias, activation, bytes })
    }

    pub(super) fn bytes(&self) -> usize {
        self.multiplier.bytes() + self.bias.as_ref().map_or(0, Floats::bytes)
    }

    /// Whether the output is f32 rather than 8-bit.
    pub(super) fn gives_floats(&self) -> bool {
        self.bytes.is_none()
    }

    /// Type of the output.
    pub(super) fn gives(&self, op: &QuantConv) -> DType {
        match op.output() {
            QuantOutput::Float { .. } => DType::F32,
            QuantOutput::Quantized { table: Some(table), .. } => table.dtype(),
            QuantOutput::Quantized { dtype, .. } => *dtype,
        }
    }
}

/// A tile's sums on their way out.
pub(super) struct IntFinish<'a> {
    pub(super) how: &'a Requantize,
    /// Position of the tile's first channel among the packed parameters.
    pub(super) channel: usize,
    /// Sums, a row of `row` numbers for each pixel; `row` is a multiple of `BLOCK`.
    pub(super) tile: &'a [i32],
    pub(super) row: usize,
    /// Channels that count in each row.
    pub(super) channels: usize,
    /// Where each pixel's outputs are (bytes: the address of the output's first byte).
    pub(super) y: &'a [*mut u8],
    /// Elements from there to the tile's first channel.
    pub(super) y_first: usize,
    /// Elements from one channel of the output to the next.
    pub(super) y_channel: usize,
}

struct Store<'a>(&'a IntFinish<'a>);

impl Kernel for Store<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        with_activation!(self.0.how.activation, f => self.0.rows(s, f));
    }
}

impl IntFinish<'_> {
    /// Writes the rows out.
    ///
    /// # Safety
    /// The addresses are as the module says.
    #[inline(never)]
    pub(super) unsafe fn store<S: Simd>(&self, s: S) {
        s.vectorize(Store(self));
    }

    #[inline(always)]
    fn rows<S: Simd, P: Pointwise>(&self, s: S, f: P) {
        let multiplier = &self.how.multiplier.get()[self.channel..][..self.row];
        let bias = self.how.bias.as_ref().map(|b| &b.get()[self.channel..][..self.row]);
        for (m, &y) in self.y.iter().enumerate() {
            let sums = &self.tile[m * self.row..][..self.row];
            let real = |c: usize| {
                // SAFETY: c + LANES is inside the row, whose length is a multiple of LANES.
                unsafe {
                    let r = s.mul(s.load_i32(sums.as_ptr().add(c)), s.load(multiplier.as_ptr().add(c)));
                    let r = match bias {
                        Some(b) => s.add(r, s.load(b.as_ptr().add(c))),
                        None => r,
                    };
                    f.eval(s, r)
                }
            };
            match &self.how.bytes {
                None => {
                    let mut out = [0f32; MAX_ROW];
                    for c in (0..self.row).step_by(S::LANES) {
                        // SAFETY: `out` holds the row.
                        unsafe { s.store(out.as_mut_ptr().add(c), real(c)) };
                    }
                    // SAFETY: the pixel's own outputs.
                    unsafe { self.put(&out[..self.channels], y.cast::<f32>()) };
                }
                Some(to) => {
                    let mut out = [0u8; MAX_ROW];
                    for c in (0..self.row).step_by(S::LANES) {
                        let q = s.div(real(c), s.splat(to.scale));
                        let q = s.min(s.max(q, s.splat(to.range[0])), s.splat(to.range[1]));
                        let q = s.add(s.round(q), s.splat(to.zero));
                        // SAFETY: `out` holds the row; q is a whole number of the dtype's range.
                        unsafe { s.store_u8(out.as_mut_ptr().add(c), q) };
                    }
                    if let Some(table) = &to.table {
                        for b in &mut out[..self.channels] {
                            *b = table.bytes()[*b as usize];
                        }
                    }
                    // SAFETY: the pixel's own outputs.
                    unsafe { self.put(&out[..self.channels], y) };
                }
            }
        }
    }

    /// # Safety
    /// The elements from `y_first` on are the tile's own.
    #[inline(always)]
    unsafe fn put<T: Copy>(&self, row: &[T], y: *mut T) {
        // SAFETY: the caller vouches for the elements.
        unsafe {
            let y = y.add(self.y_first);
            if self.y_channel == 1 {
                std::ptr::copy_nonoverlapping(row.as_ptr(), y, row.len());
            } else {
                for (c, &v) in row.iter().enumerate() {
                    *y.add(c * self.y_channel) = v;
                }
            }
        }
    }
}
