//! Floats to 8-bit numbers and back, and functions of 8-bit numbers as tables; any strides.
//!
//! Invariants (the reason this file may use `unsafe`): as in `elementwise`.

use crate::copy::{address, address_mut};
use crate::elementwise::{CHUNK, gather, pieces, rows, scatter};
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::tiles::{ALONG, Tiles};
use crate::walk::Walk;
use crate::{Error, Result};
use saltica_models::graph::ops::{Lookup, Table};
use saltica_tensor::{DType, View, ViewMut};
use std::sync::atomic::{AtomicU32, Ordering};

/// One scale and zero point for a whole tensor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Real value of one step.
    pub scale: f32,
    /// The number that stands for 0.0.
    pub zero: i32,
}

/// y = x / scale (a true division), rounded half to even, plus zero, saturated: f32 to i8 or u8, as
/// [`saltica_models::graph::ops::quantize`] defines it. Errors if shapes or dtypes do not fit.
pub fn quantize(isa: Isa, pool: &Pool, by: Scale, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    let (lo, hi) = match y.dtype() {
        DType::I8 => (-128, 127),
        DType::U8 => (0, 255),
        other => return Err(Error::unsupported(format!("y is {other}, i8 or u8 expected"))),
    };
    check(x, DType::F32, y)?;
    let range = [(lo - by.zero) as f32, (hi - by.zero) as f32];
    let walk = Walk::new(y.shape(), [y.layout().strides(), x.layout().strides()]);
    let (from, to) = (Shared(x.as_ptr::<f32>().cast_mut()), address_mut(y));
    each::<f32, u8>(pool, &walk, from, to, &|x, y, n| dispatch(isa, ToBytes { by, range, x, y, n }))
}

/// y = (x - zero) * scale: i8 or u8 to f32. Errors if shapes or dtypes do not fit.
pub fn dequantize(isa: Isa, pool: &Pool, by: Scale, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    if y.dtype() != DType::F32 || !matches!(x.dtype(), DType::I8 | DType::U8) {
        return Err(Error::unsupported(format!(
            "x is {}, y {}, bytes and f32 expected",
            x.dtype(),
            y.dtype()
        )));
    }
    check(x, x.dtype(), y)?;
    // A signed byte with its sign bit flipped is its value plus 128.
    let signed = x.dtype() == DType::I8;
    let (flip, zero) = if signed { (0x80, by.zero + 128) } else { (0, by.zero) };
    let walk = Walk::new(y.shape(), [y.layout().strides(), x.layout().strides()]);
    let (from, to) = (address(x), Shared(y.as_mut_ptr::<f32>()));
    let by = Scale { zero, ..by };
    each::<u8, f32>(pool, &walk, from, to, &|x, y, n| dispatch(isa, FromBytes { by, flip, x, y, n }))
}

/// x with a scale and zero point for its own range, [`saltica_models::graph::ops::DynamicQuantizeLinear`]: f32 to u8. Returns
/// the scale and zero point. Errors if shapes or dtypes do not fit.
pub fn dynamic(isa: Isa, pool: &Pool, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<Scale> {
    check(x, DType::F32, y)?;
    let walk = Walk::new(x.shape(), [x.layout().strides()]);
    // The range holds 0, so magnitudes are all there is to find; those of numbers that are not negative order as bits.
    let ends = [AtomicU32::new(0), AtomicU32::new(0)];
    let from = Shared(x.as_ptr::<f32>().cast_mut());
    rows(pool, &walk, &|at, range| {
        let [step] = walk.steps();
        let mut buffer = [0f32; CHUNK];
        // A single operand is handed out whole where it is a run.
        pieces(range, [step], |i, n| {
            // SAFETY: the walk's offsets are those of the view's elements.
            let x = unsafe { gather(from.at(at[0] + i * step), step, n, &mut buffer) };
            for (end, found) in ends.iter().zip(dispatch(isa, Range { x, n })) {
                end.fetch_max(found.abs().to_bits(), Ordering::Relaxed);
            }
        });
    })?;
    let [lo, hi] = ends.map(|e| f32::from_bits(e.into_inner()));
    let scale = if hi == -lo { 1.0 } else { (hi + lo) / 255.0 };
    let zero = (lo / scale).clamp(0.0, 255.0).round_ties_even() as i32;
    let by = Scale { scale, zero };
    quantize(isa, pool, by, x, y)?;
    Ok(by)
}

/// The smallest and the largest of n numbers and 0; NaN does not count.
struct Range {
    x: *const f32,
    n: usize,
}

impl Kernel for Range {
    type Out = [f32; 2];

    #[inline(always)]
    fn run<S: Simd>(self, s: S) -> [f32; 2] {
        let (mut lo, mut hi) = ([s.splat(0.0); 4], [s.splat(0.0); 4]);
        let mut i = 0;
        // SAFETY: x is readable for n numbers; lanes past them are 0.
        unsafe {
            while i + 4 * S::LANES <= self.n {
                for k in 0..4 {
                    let v = s.load(self.x.add(i + k * S::LANES));
                    (lo[k], hi[k]) = (s.min(v, lo[k]), s.max(v, hi[k]));
                }
                i += 4 * S::LANES;
            }
            while i < self.n {
                let v = s.load_n(self.x.add(i), (self.n - i).min(S::LANES));
                (lo[0], hi[0]) = (s.min(v, lo[0]), s.max(v, hi[0]));
                i += S::LANES;
            }
        }
        let zero = s.splat(0.0);
        let low = lo.into_iter().fold(zero, |a, b| s.max(s.sub(zero, b), a));
        let high = hi.into_iter().fold(zero, |a, b| s.max(b, a));
        [s.largest(low), s.largest(high)]
    }
}

/// y = x: i32 to f32, rounded to nearest even. Errors if shapes or dtypes do not fit.
pub fn from_i32(isa: Isa, pool: &Pool, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    if y.dtype() != DType::F32 {
        return Err(Error::unsupported(format!("y is {}, f32 expected", y.dtype())));
    }
    check(x, DType::I32, y)?;
    let walk = Walk::new(y.shape(), [y.layout().strides(), x.layout().strides()]);
    let (from, to) = (Shared(x.as_ptr::<i32>().cast_mut()), Shared(y.as_mut_ptr::<f32>()));
    each::<i32, f32>(pool, &walk, from, to, &|x, y, n| dispatch(isa, FromInts { x, y, n }))
}

struct FromInts {
    x: *const i32,
    y: *mut f32,
    n: usize,
}

impl Kernel for FromInts {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let whole = self.n / S::LANES * S::LANES;
        // SAFETY: x and y are valid for n elements.
        unsafe {
            for i in (0..whole).step_by(S::LANES) {
                s.store(self.y.add(i), s.load_i32(self.x.add(i)));
            }
            for i in whole..self.n {
                *self.y.add(i) = *self.x.add(i) as f32;
            }
        }
    }
}

/// y = table\[x\]. Errors if shapes or dtypes do not fit.
pub fn lookup(pool: &Pool, op: &Lookup, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    if !matches!(x.dtype(), DType::I8 | DType::U8) {
        return Err(Error::unsupported(format!("x is {}, i8 or u8 expected", x.dtype())));
    }
    let gives = match &op.table {
        Table::Bytes(t) => t.dtype(),
        Table::Floats(_) => DType::F32,
    };
    if y.dtype() != gives {
        return Err(Error::shape(format!("y is {}, {gives} expected", y.dtype())));
    }
    check(x, x.dtype(), y)?;
    let walk = Walk::new(y.shape(), [y.layout().strides(), x.layout().strides()]);
    let from = address(x);
    match &op.table {
        Table::Bytes(t) => each::<u8, u8>(pool, &walk, from, address_mut(y), &|x, y, n| {
            // SAFETY: `each` hands out runs of n elements.
            unsafe { (0..n).for_each(|i| *y.add(i) = t.bytes()[*x.add(i) as usize]) }
        }),
        Table::Floats(t) => {
            let to = Shared(y.as_mut_ptr::<f32>());
            each::<u8, f32>(pool, &walk, from, to, &|x, y, n| {
                // SAFETY: as above.
                unsafe { (0..n).for_each(|i| *y.add(i) = t[*x.add(i) as usize]) }
            })
        }
    }
}

fn check(x: &View<'_>, dtype: DType, y: &ViewMut<'_>) -> Result<()> {
    if x.dtype() != dtype {
        return Err(Error::unsupported(format!("x is {}, {dtype} expected", x.dtype())));
    }
    if x.shape() != y.shape() {
        return Err(Error::shape(format!("x is {}, y {}", x.shape(), y.shape())));
    }
    Ok(())
}

/// Calls `f(x, y, n)` for runs of elements that cover the tensors.
fn each<A: Copy + Default, B: Copy + Default>(
    pool: &Pool,
    walk: &Walk<2>,
    from: Shared<A>,
    to: Shared<B>,
    f: &(dyn Fn(*const A, *mut B, usize) + Sync),
) -> Result<()> {
    let walk = &walk.lengthened();
    if let Some(tiles) = Tiles::of(walk) {
        return tiles.each(pool, size_of::<A>(), &|at, [across, n]| {
            let mut xs = [A::default(); ALONG];
            for j in 0..across {
                let x = from.at(at[1] + j * tiles.across[1]).cast_const();
                // SAFETY: the tile's offsets are those of the views' elements; the tile is this task's own.
                (0..n).for_each(|k| xs[k] = unsafe { *x.add(k * tiles.along[1]) });
                f(xs.as_ptr(), to.at(at[0] + j * tiles.across[0]), n);
            }
        });
    }
    rows(pool, walk, &|at, range| {
        let steps = walk.steps();
        let (mut xs, mut ys) = ([A::default(); CHUNK], [B::default(); CHUNK]);
        // Only two runs are handed out whole.
        let like = if steps == [1, 1] { steps } else { [2; 2] };
        // SAFETY: the walk's offsets are those of the views' elements; the row's part is this task's own.
        pieces(range, like, |i, n| unsafe {
            let x = from.at(at[1] + i * steps[1]).cast_const();
            let y = to.at(at[0] + i * steps[0]);
            let source = if steps[1] == 1 {
                x
            } else {
                (0..n).for_each(|k| xs[k] = *x.add(k * steps[1]));
                xs.as_ptr()
            };
            let out = if steps[0] == 1 { y } else { ys.as_mut_ptr() };
            f(source, out, n);
            scatter(out, y, steps[0], n);
        });
    })
}

struct ToBytes {
    by: Scale,
    range: [f32; 2],
    x: *const f32,
    y: *mut u8,
    n: usize,
}

impl Kernel for ToBytes {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let one = |v: S::F| {
            let q = s.div(v, s.splat(self.by.scale));
            let q = s.min(s.max(q, s.splat(self.range[0])), s.splat(self.range[1]));
            s.add(s.round(q), s.splat(self.by.zero as f32))
        };
        let mut i = 0;
        // SAFETY: x and y are valid for n elements.
        unsafe {
            while i + S::LANES <= self.n {
                s.store_u8(self.y.add(i), one(s.load(self.x.add(i))));
                i += S::LANES;
            }
            let rest = self.n - i;
            if rest > 0 {
                let mut last = [0u8; 16];
                s.store_u8(last.as_mut_ptr(), one(s.load_n(self.x.add(i), rest)));
                std::ptr::copy_nonoverlapping(last.as_ptr(), self.y.add(i), rest);
            }
        }
    }
}

struct FromBytes {
    by: Scale,
    flip: u8,
    x: *const u8,
    y: *mut f32,
    n: usize,
}

impl Kernel for FromBytes {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let one = |v: S::F| s.mul(s.sub(v, s.splat(self.by.zero as f32)), s.splat(self.by.scale));
        let mut i = 0;
        while i < self.n {
            let n = (self.n - i).min(S::LANES);
            let mut bytes = [0u8; 16];
            // SAFETY: x and y are valid for n elements from i on.
            unsafe {
                std::ptr::copy_nonoverlapping(self.x.add(i), bytes.as_mut_ptr(), n);
                bytes.iter_mut().for_each(|b| *b ^= self.flip);
                let v = one(s.load_u8(bytes.as_ptr()));
                if n == S::LANES { s.store(self.y.add(i), v) } else { s.store_n(self.y.add(i), v, n) }
            }
            i += n;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_models::graph::ops::{ByteTable, DequantizeLinear, Operator, QuantizeLinear};
    use saltica_tensor::{Layout, Shape, Tensor};

    proptest! {
        #[test]
        fn bytes_are_exact_both_ways(
            dims in proptest::collection::vec(1usize..12, 1..5), seeds in any::<[u64; 3]>(), big in any::<bool>(),
            signed in any::<bool>(), zero in 0i32..256, scale in prop_oneof![Just(0.02f32), Just(0.0039), Just(0.5)],
        ) {
            let mut dims = dims;
            if big { dims[0] *= 60; }
            let shape = Shape::new(&dims).unwrap();
            prop_assume!(shape.elements() < 200_000);
            let zero = if signed { zero - 128 } else { zero };
            let (la, lb, lc) = (layouts(shape, seeds[0]), layouts(shape, seeds[1]), layouts(shape, seeds[2]));
            // Halves of a step are among them, and what no byte can hold.
            let values: Vec<f32> =
                noise(7, shape.elements()).into_iter().map(|v| (v * 700.0).round() * 0.5 * scale).collect();
            let mut xs = spread(&values, &la);
            xs[0] = f32::NAN;
            let x = View::of_slice(&xs, la).unwrap();
            let scale_t = Tensor::scalar(scale).unwrap();
            let zero_t = if signed { Tensor::scalar(zero as i8) } else { Tensor::scalar(zero as u8) }.unwrap();
            let (mut got, mut want) = (vec![0u8; lb.span()], vec![0u8; lb.span()]);
            fn as_view(signed: bool, bytes: &mut [u8], l: Layout) -> ViewMut<'_> {
                if signed {
                    ViewMut::of_slice::<i8>(bytemuck::cast_slice_mut(bytes), l).unwrap()
                } else {
                    ViewMut::of_slice(bytes, l).unwrap()
                }
            }
            let op = saltica_models::graph::Op::QuantizeLinear(QuantizeLinear { axis: 1, dtype: DType::U8 });
            let inputs = [Some(x), Some(scale_t.view()), Some(zero_t.view())];
            op.run(&inputs, &mut [as_view(signed, &mut want, lb)]).unwrap();
            let by = Scale { scale, zero };
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    got.fill(0);
                    quantize(isa, &pool, by, &x, &mut as_view(signed, &mut got, lb)).unwrap();
                    prop_assert!(got == want, "{} quantize", isa);
                    let bytes = as_view(signed, &mut got, lb);
                    let (mut back, mut same) = (vec![0f32; lc.span()], vec![0f32; lc.span()]);
                    dequantize(isa, &pool, by, &bytes.as_view(), &mut ViewMut::of_slice(&mut back, lc).unwrap()).unwrap();
                    let inputs = [Some(bytes.as_view()), Some(scale_t.view()), Some(zero_t.view())];
                    DequantizeLinear { axis: 1 }.run(&inputs, &mut [ViewMut::of_slice(&mut same, lc).unwrap()]).unwrap();
                    prop_assert!(back == same, "{} dequantize", isa);
                    let table = Table::Bytes(ByteTable::new(DType::U8, std::array::from_fn(|i| i as u8 ^ 0x55)).unwrap());
                    let op = Lookup { table };
                    let (mut a, mut b) = (vec![0u8; lc.span()], vec![0u8; lc.span()]);
                    lookup(&pool, &op, &bytes.as_view(), &mut ViewMut::of_slice(&mut a, lc).unwrap()).unwrap();
                    op.run(&[Some(bytes.as_view())], &mut [ViewMut::of_slice(&mut b, lc).unwrap()]).unwrap();
                    prop_assert_eq!(&a, &b);
                }
            }
        }

        #[test]
        fn a_range_is_found_and_integers_are_converted(
            dims in proptest::collection::vec(1usize..12, 1..5), seeds in any::<[u64; 2]>(), big in any::<bool>(),
            gain in prop_oneof![Just(0.0f32), Just(1.0), Just(1e-6), Just(300.0)],
            offset in prop_oneof![Just(0.0f32), Just(1.0), Just(-1.0)], nan in any::<bool>(),
        ) {
            let mut dims = dims;
            if big { dims[0] *= 60; }
            let shape = Shape::new(&dims).unwrap();
            prop_assume!(shape.elements() < 200_000);
            let (lx, ly) = (layouts(shape, seeds[0]), layouts(shape, seeds[1]));
            let values: Vec<f32> =
                noise(7, shape.elements()).into_iter().map(|v| (v + offset) * gain).collect();
            let mut xs = spread(&values, &lx);
            if nan { xs[0] = f32::NAN; }
            let x = View::of_slice(&xs, lx).unwrap();
            let mut want = vec![0u8; ly.span()];
            let (mut scale, mut zero) = ([0f32], [0u8]);
            let one = Layout::contiguous(Shape::scalar());
            let mut outputs = [ViewMut::of_slice(&mut want, ly).unwrap(), ViewMut::of_slice(&mut scale, one).unwrap(),
                ViewMut::of_slice(&mut zero, one).unwrap()];
            saltica_models::graph::ops::DynamicQuantizeLinear.run(&[Some(x)], &mut outputs).unwrap();
            let ints: Vec<i32> = xs.iter().map(|v| (v * 2e9) as i32).collect();
            let floats: Vec<f32> = ints.iter().map(|&v| v as f32).collect();
            let mut moved = vec![0f32; ly.span()];
            ViewMut::of_slice(&mut moved, ly).unwrap().copy_from(&View::of_slice(&floats, lx).unwrap());
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let mut got = vec![0u8; ly.span()];
                    let by = dynamic(isa, &pool, &x, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                    prop_assert_eq!((by.scale, by.zero), (scale[0], zero[0] as i32));
                    prop_assert!(got == want, "{}", isa);
                    let mut got = vec![0f32; ly.span()];
                    let ints = View::of_slice(&ints, lx).unwrap();
                    from_i32(isa, &pool, &ints, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                    prop_assert!(got == moved, "{}", isa);
                }
            }
        }
    }
}
