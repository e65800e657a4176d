//! Constants as kernels want them, packed chunk by chunk on their way to the device.

use crate::driver::DeviceBuffer;
use saltica_tensor::{DType, Tensor, by_dtype, f16};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// How a constant's numbers are laid out on the device.
#[derive(Clone)]
pub(crate) enum Recipe {
    /// As they are.
    Raw(Tensor),
    /// Bytes made by the host: a table, folded biases.
    Bytes(Vec<u8>),
    /// Convolution weights `[O,C,kh,kw]` as `[rows][kh*kw][channels]` with zeros where there are none, each row padded to
    /// `row` numbers; `minus` is taken off each (u8 weights with a zero point of 128).
    Ohwi { weights: Tensor, dtype: DType, rows: usize, channels: usize, row: usize, minus: i32 },
    /// Depthwise weights `[C,1,kh,kw]` as `[kh*kw][channels]`.
    Taps { weights: Tensor, dtype: DType, channels: usize, minus: i32 },
    /// One tap of transposed convolution weights `[C,O,kh,kw]`, as `[O][C]`.
    Tap { weights: Tensor, dtype: DType, tap: usize },
    /// Transposed convolution weights `[C,O/groups,kh,kw]` as `[O][kh*kw][C/groups]`.
    Turned { weights: Tensor, dtype: DType, groups: usize },
    /// Numbers in another dtype, padded with zeros to `len`.
    Numbers { numbers: Tensor, dtype: DType, len: usize },
}

fn same_tensor(a: &Tensor, b: &Tensor) -> bool {
    std::ptr::eq(a.bytes(), b.bytes()) && a.shape() == b.shape() && a.dtype() == b.dtype()
}

impl PartialEq for Recipe {
    fn eq(&self, other: &Recipe) -> bool {
        use Recipe::{Bytes, Numbers, Ohwi, Raw, Tap, Taps, Turned};
        match (self, other) {
            (Raw(a), Raw(b)) => same_tensor(a, b),
            (Bytes(a), Bytes(b)) => a == b,
            (
                Ohwi { weights: a, dtype, rows, channels, row, minus },
                Ohwi { weights: b, dtype: d, rows: r, channels: c, row: w, minus: m },
            ) => same_tensor(a, b) && (dtype, rows, channels, row, minus) == (d, r, c, w, m),
            (
                Taps { weights: a, dtype, channels, minus },
                Taps { weights: b, dtype: d, channels: c, minus: m },
            ) => same_tensor(a, b) && (dtype, channels, minus) == (d, c, m),
            (Tap { weights: a, dtype, tap }, Tap { weights: b, dtype: d, tap: t }) => {
                same_tensor(a, b) && (dtype, tap) == (d, t)
            }
            (Turned { weights: a, dtype, groups }, Turned { weights: b, dtype: d, groups: g }) => {
                same_tensor(a, b) && (dtype, groups) == (d, g)
            }
            (Numbers { numbers: a, dtype, len }, Numbers { numbers: b, dtype: d, len: l }) => {
                same_tensor(a, b) && (dtype, len) == (d, l)
            }
            _ => false,
        }
    }
}

/// A block of constants, on the device once a plan that reads it is loaded.
pub(crate) struct Weights {
    recipe: Recipe,
    /// The buffer it is in, and bytes from that buffer's start.
    place: OnceLock<(Arc<DeviceBuffer>, usize)>,
}

impl Weights {
    fn new(recipe: Recipe) -> Weights {
        Weights { recipe, place: OnceLock::new() }
    }

    /// Bytes on the device.
    pub(crate) fn len(&self) -> usize {
        let (rows, row) = self.rows();
        rows * row
    }

    /// Rows and bytes a row: a chunk is some whole rows.
    pub(crate) fn rows(&self) -> (usize, usize) {
        match &self.recipe {
            Recipe::Raw(t) => (t.bytes().len(), 1),
            Recipe::Bytes(b) => (b.len(), 1),
            Recipe::Ohwi { dtype, rows, row, .. } => (*rows, row * dtype.size()),
            Recipe::Taps { weights, dtype, channels, .. } => {
                (weights.shape().iter().skip(2).product(), channels * dtype.size())
            }
            Recipe::Tap { weights, dtype, .. } => {
                let dims = weights.shape().dims();
                (dims[1], dims[0] * dtype.size())
            }
            Recipe::Turned { weights, dtype, groups } => {
                let &[c, o, kh, kw] = weights.shape().dims() else { return (0, 1) };
                (o * groups, kh * kw * (c / groups) * dtype.size())
            }
            Recipe::Numbers { dtype, len, .. } => (*len, dtype.size()),
        }
    }

    /// Writes whole rows from `first` on into `out`.
    pub(crate) fn write(&self, first: usize, out: &mut [u8]) {
        match &self.recipe {
            Recipe::Raw(t) => out.copy_from_slice(&t.bytes()[first..first + out.len()]),
            Recipe::Bytes(b) => out.copy_from_slice(&b[first..first + out.len()]),
            Recipe::Ohwi { weights, dtype, channels, row, minus, .. } => {
                let &[o, c, kh, kw] = weights.shape().dims() else { return };
                let taps = kh * kw;
                out.fill(0);
                let read = reader(weights, *minus);
                for (r, bytes) in
                    out.chunks_exact_mut(row * dtype.size()).enumerate().take(o.saturating_sub(first))
                {
                    for k in 0..taps {
                        for ch in 0..c {
                            put(bytes, k * channels + ch, *dtype, read(((first + r) * c + ch) * taps + k));
                        }
                    }
                }
            }
            Recipe::Taps { weights, dtype, channels, minus } => {
                let &[c, _, kh, kw] = weights.shape().dims() else { return };
                out.fill(0);
                let read = reader(weights, *minus);
                for (r, bytes) in out.chunks_exact_mut(channels * dtype.size()).enumerate() {
                    for ch in 0..c {
                        put(bytes, ch, *dtype, read(ch * kh * kw + first + r));
                    }
                }
            }
            Recipe::Tap { weights, dtype, tap } => {
                let &[c, o, kh, kw] = weights.shape().dims() else { return };
                let read = reader(weights, 0);
                for (r, bytes) in out.chunks_exact_mut(c * dtype.size()).enumerate() {
                    for ch in 0..c {
                        put(bytes, ch, *dtype, read((ch * o + first + r) * kh * kw + tap));
                    }
                }
            }
            Recipe::Turned { weights, dtype, groups } => {
                let &[c, per, kh, kw] = weights.shape().dims() else { return };
                let (taps, channels) = (kh * kw, c / groups);
                let read = reader(weights, 0);
                for (r, bytes) in out.chunks_exact_mut(taps * channels * dtype.size()).enumerate() {
                    let (group, o) = ((first + r) / per, (first + r) % per);
                    for (k, ch) in (0..taps).flat_map(|k| (0..channels).map(move |ch| (k, ch))) {
                        let from = ((group * channels + ch) * per + o) * taps + k;
                        put(bytes, k * channels + ch, *dtype, read(from));
                    }
                }
            }
            Recipe::Numbers { numbers, dtype, .. } => {
                out.fill(0);
                let read = reader(numbers, 0);
                let count = numbers.shape().elements();
                for i in 0..(out.len() / dtype.size()).min(count.saturating_sub(first)) {
                    put(out, i, *dtype, read(first + i));
                }
            }
        }
    }

    /// Address on the device, if it is there.
    pub(crate) fn address(&self) -> Option<u64> {
        // Of nothing no byte is read.
        if self.len() == 0 {
            return Some(0);
        }
        self.place.get().map(|(buffer, offset)| buffer.address() + *offset as u64)
    }

    /// Says where it is. A second place is ignored.
    pub(crate) fn put_at(&self, buffer: Arc<DeviceBuffer>, offset: usize) {
        let _ = self.place.set((buffer, offset));
    }
}

/// Element `i` (row-major) of a constant as a number.
fn reader(t: &Tensor, minus: i32) -> impl Fn(usize) -> f64 + '_ {
    let view = t.view();
    move |i| {
        let v: f64 = by_dtype!(view.dtype(), T => {
            view.as_slice::<T>().map_or_else(|| view.at_f64(i), |s| saltica_tensor::Element::to_f64(s[i]))
        });
        v - f64::from(minus)
    }
}

fn put(out: &mut [u8], i: usize, dtype: DType, v: f64) {
    match dtype {
        DType::F16 => out[i * 2..i * 2 + 2].copy_from_slice(&f16::from_f64(v).to_le_bytes()),
        DType::F32 => out[i * 4..i * 4 + 4].copy_from_slice(&(v as f32).to_le_bytes()),
        DType::I32 => out[i * 4..i * 4 + 4].copy_from_slice(&(v as i32).to_le_bytes()),
        DType::I8 => out[i] = v as i8 as u8,
        DType::U8 => out[i] = v as u8,
        DType::Bool => out[i] = u8::from(v != 0.0),
        DType::F64 => out[i * 8..i * 8 + 8].copy_from_slice(&v.to_le_bytes()),
        DType::I64 => out[i * 8..i * 8 + 8].copy_from_slice(&(v as i64).to_le_bytes()),
    }
}

/// Blocks by recipe, so that the plans of one model for several shapes share them.
#[derive(Default)]
pub(crate) struct Cache {
    known: Mutex<Vec<Weak<Weights>>>,
}

impl Cache {
    /// The block made by this recipe.
    pub(crate) fn get(&self, recipe: Recipe) -> Arc<Weights> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.retain(|w| w.strong_count() > 0);
        if let Some(found) = known.iter().filter_map(Weak::upgrade).find(|w| w.recipe == recipe) {
            return found;
        }
        let made = Arc::new(Weights::new(recipe));
        known.push(Arc::downgrade(&made));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(recipe: Recipe) -> Vec<u8> {
        let w = Weights::new(recipe);
        let mut out = vec![0xAA; w.len()];
        w.write(0, &mut out);
        // In chunks of one row the same comes out.
        let (rows, row) = w.rows();
        let mut chunks = vec![0xAA; w.len()];
        for r in 0..rows {
            w.write(r, &mut chunks[r * row..(r + 1) * row]);
        }
        assert_eq!(out, chunks);
        out
    }

    #[test]
    fn convolution_weights_lie_by_row_tap_and_channel() {
        let numbers: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let weights = Tensor::from_slice(&[2, 3, 1, 2], &numbers).unwrap();
        let recipe = Recipe::Ohwi { weights, dtype: DType::F32, rows: 3, channels: 4, row: 8, minus: 0 };
        let got: Vec<f32> = all(recipe).as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
        let row = |from: f32| [from, from + 2., from + 4., 0., from + 1., from + 3., from + 5., 0.];
        assert_eq!(got, [row(0.), row(6.), [0.; 8]].concat());
    }

    #[test]
    fn depthwise_weights_lie_by_tap() {
        let weights = Tensor::from_slice(&[3, 1, 1, 2], &[1u8, 2, 3, 4, 5, 130]).unwrap();
        let recipe = Recipe::Taps { weights, dtype: DType::I8, channels: 4, minus: 128 };
        let got: Vec<i8> = all(recipe).into_iter().map(|b| b as i8).collect();
        assert_eq!(got, [-127, -125, -123, 0, -126, -124, 2, 0]);
    }

    #[test]
    fn numbers_are_cast_and_padded() {
        let numbers = Tensor::from_slice(&[2], &[0.5f32, -2.0]).unwrap();
        let got = all(Recipe::Numbers { numbers, dtype: DType::F16, len: 4 });
        let halves: Vec<f16> = got.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b)).collect();
        assert_eq!(halves.iter().map(|h| h.to_f32()).collect::<Vec<_>>(), [0.5, -2.0, 0.0, 0.0]);
    }

    #[test]
    fn one_constant_is_one_block() {
        let t = Tensor::from_slice(&[2], &[1.0f32, 2.0]).unwrap();
        let cache = Cache::default();
        let a = cache.get(Recipe::Raw(t.clone()));
        assert!(Arc::ptr_eq(&a, &cache.get(Recipe::Raw(t.clone()))));
        assert!(!Arc::ptr_eq(&a, &cache.get(Recipe::Numbers { numbers: t, dtype: DType::F16, len: 2 })));
    }
}
