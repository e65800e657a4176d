//! Functions of one or two numbers, element by element: any strides, numpy's broadcasting, f32.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * offsets come from a `Walk` over the views' own shape and strides, so they are those of the views' elements;
//! * tasks write disjoint rows, or disjoint parts of a row.

use crate::act::{self, Pointwise, with_activation};
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::tiles::Tiles;
use crate::walk::{Walk, split};
use crate::{Error, Result};
use saltica_models::graph::ops::{BinaryKind, Unary};
use saltica_tensor::{DType, View, ViewMut};

/// Elements that are gathered at a time where an operand's row is no run.
pub(crate) const CHUNK: usize = 256;

/// Whether [`unary`] has this function.
pub fn has_unary(f: &Unary) -> bool {
    f.as_activation().is_some()
        || matches!(
            f,
            Unary::Exp
                | Unary::Sqrt
                | Unary::Floor
                | Unary::Round
                | Unary::Neg
                | Unary::Abs
                | Unary::Reciprocal
        )
}

/// Whether [`binary`] has this function.
pub fn has_binary(f: BinaryKind) -> bool {
    matches!(f, BinaryKind::Add | BinaryKind::Sub | BinaryKind::Mul | BinaryKind::Div | BinaryKind::PRelu)
}

/// y = f(x) for f32 of one shape. Errors if shapes or dtypes do not fit or the function is not here ([`has_unary`]).
pub fn unary(isa: Isa, pool: &Pool, f: &Unary, x: &View<'_>, y: &mut ViewMut<'_>) -> Result<()> {
    if !has_unary(f) {
        return Err(Error::unsupported(format!("{f:?} has no fast kernel")));
    }
    all_f32(&[x.dtype(), y.dtype()])?;
    if x.shape() != y.shape() {
        return Err(Error::shape(format!("x is {}, y {}", x.shape(), y.shape())));
    }
    let walk = Walk::new(y.shape(), [y.layout().strides(), x.layout().strides()]).lengthened();
    let (from, to) = (Shared(x.as_ptr::<f32>().cast_mut()), Shared(y.as_mut_ptr::<f32>()));
    if let Some(tiles) = Tiles::of(&walk) {
        return tiles.each(pool, size_of::<f32>(), &|at, [across, n]| {
            let mut buffer = [0f32; CHUNK];
            for j in 0..across {
                // SAFETY: the tile's offsets are those of the views' elements; the tile is this task's own.
                unsafe {
                    let x = gather(from.at(at[1] + j * tiles.across[1]), tiles.along[1], n, &mut buffer);
                    let y = to.at(at[0] + j * tiles.across[0]);
                    dispatch(isa, UnaryRow { f, x, one: false, y, n });
                }
            }
        });
    }
    rows(pool, &walk, &|at, range| {
        let steps = walk.steps();
        let mut buffer = [[0f32; CHUNK]; 2];
        // SAFETY: the walk's offsets are those of the views' elements; the row's part is this task's own.
        unsafe {
            pieces(range, steps, |i, n| {
                let [b0, b1] = &mut buffer;
                let x = gather(from.at(at[1] + i * steps[1]), steps[1], n, b1);
                let y = to.at(at[0] + i * steps[0]);
                let out = if steps[0] == 1 { y } else { b0.as_mut_ptr() };
                dispatch(isa, UnaryRow { f, x, one: steps[1] == 0, y: out, n });
                scatter(out, y, steps[0], n);
            });
        }
    })
}

/// y = f(a, b) for f32; a and b broadcast to y's shape. Errors if shapes or dtypes do not fit or the function is not here
/// ([`has_binary`]).
pub fn binary(
    isa: Isa,
    pool: &Pool,
    f: BinaryKind,
    a: &View<'_>,
    b: &View<'_>,
    y: &mut ViewMut<'_>,
) -> Result<()> {
    if !has_binary(f) {
        return Err(Error::unsupported(format!("{f:?} has no fast kernel")));
    }
    all_f32(&[a.dtype(), b.dtype(), y.dtype()])?;
    let la = a.layout().broadcast_to(y.shape())?;
    let lb = b.layout().broadcast_to(y.shape())?;
    let walk = Walk::new(y.shape(), [y.layout().strides(), la.strides(), lb.strides()]).lengthened();
    let (pa, pb) = (Shared(a.as_ptr::<f32>().cast_mut()), Shared(b.as_ptr::<f32>().cast_mut()));
    let to = Shared(y.as_mut_ptr::<f32>());
    if let Some(tiles) = Tiles::of(&walk) {
        return tiles.each(pool, size_of::<f32>(), &|at, [across, n]| {
            let mut buffer = [[0f32; CHUNK]; 2];
            let [b1, b2] = &mut buffer;
            let Tiles { across: columns, along, .. } = &tiles;
            for j in 0..across {
                // SAFETY: as in `unary`.
                unsafe {
                    let a = gather(pa.at(at[1] + j * columns[1]), along[1], n, b1);
                    let b = gather(pb.at(at[2] + j * columns[2]), along[2], n, b2);
                    let y = to.at(at[0] + j * columns[0]);
                    dispatch(isa, BinaryRow { f, a, b, one: [along[1] == 0, along[2] == 0], y, n });
                }
            }
        });
    }
    rows(pool, &walk, &|at, range| {
        let steps = walk.steps();
        let mut buffer = [[0f32; CHUNK]; 3];
        // SAFETY: as in `unary`.
        unsafe {
            pieces(range, steps, |i, n| {
                let [b0, b1, b2] = &mut buffer;
                let a = gather(pa.at(at[1] + i * steps[1]), steps[1], n, b1);
                let b = gather(pb.at(at[2] + i * steps[2]), steps[2], n, b2);
                let y = to.at(at[0] + i * steps[0]);
                let out = if steps[0] == 1 { y } else { b0.as_mut_ptr() };
                dispatch(isa, BinaryRow { f, a, b, one: [steps[1] == 0, steps[2] == 0], y: out, n });
                scatter(out, y, steps[0], n);
            });
        }
    })
}

/// Errors unless all are f32.
pub(crate) fn all_f32(dtypes: &[DType]) -> Result<()> {
    if dtypes.iter().all(|&d| d == DType::F32) {
        Ok(())
    } else {
        Err(Error::unsupported(format!("dtypes are {dtypes:?}, f32 expected")))
    }
}

/// Calls `f(offsets of the row, part of the row)` for every row, in parallel.
pub(crate) fn rows<const K: usize>(
    pool: &Pool,
    walk: &Walk<K>,
    f: &(dyn Fn([usize; K], std::ops::Range<usize>) + Sync),
) -> Result<()> {
    let (rows, row) = (walk.rows(), walk.row());
    if rows * row == 0 {
        return Ok(());
    }
    let (tasks, parts) = split(rows * row, rows, row, pool.threads());
    let pieces = rows * parts;
    pool.run(tasks, &|task, _| {
        let mut piece = task * pieces / tasks;
        let end = (task + 1) * pieces / tasks;
        if parts == 1 {
            walk.each_row(piece..end, |at| f(at, 0..row));
            return;
        }
        while piece < end {
            let (r, part) = (piece / parts, piece % parts);
            let range = part * row / parts..(part + 1) * row / parts;
            walk.each_row(r..r + 1, |at| f(at, range.clone()));
            piece += 1;
        }
    })
}

/// Calls `f(first, count)` for the parts of a row: all of it if every operand is a run or a single number.
#[inline(always)]
pub(crate) fn pieces<const K: usize>(
    range: std::ops::Range<usize>,
    steps: [usize; K],
    mut f: impl FnMut(usize, usize),
) {
    let whole = steps[0] == 1 && steps[1..].iter().all(|&s| s <= 1);
    let chunk = if whole { range.len() } else { CHUNK };
    let mut i = range.start;
    while i < range.end {
        let n = chunk.min(range.end - i);
        f(i, n);
        i += n;
    }
}

/// The row as a run: itself, or a copy. A single number (stride 0) stays where it is.
///
/// # Safety
/// `p` must be readable at the places; strides above 1 take at most `CHUNK` of them.
#[inline(always)]
pub(crate) unsafe fn gather<T: Copy>(
    p: *const T,
    step: usize,
    n: usize,
    buffer: &mut [T; CHUNK],
) -> *const T {
    if step <= 1 {
        return p;
    }
    for i in 0..n {
        // SAFETY: the caller vouches for the places.
        buffer[i] = unsafe { *p.add(i * step) };
    }
    buffer.as_ptr()
}

/// # Safety
/// `to` must be writable at the `n` places, `from` readable for `n` floats.
#[inline(always)]
pub(crate) unsafe fn scatter<T: Copy>(from: *const T, to: *mut T, step: usize, n: usize) {
    if step != 1 {
        for i in 0..n {
            // SAFETY: the caller vouches for the places.
            unsafe { *to.add(i * step) = *from.add(i) };
        }
    }
}

struct UnaryRow<'a> {
    f: &'a Unary,
    x: *const f32,
    /// Whether x is one number for the whole row.
    one: bool,
    y: *mut f32,
    n: usize,
}

impl Kernel for UnaryRow<'_> {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        if let Some(a) = self.f.as_activation() {
            with_activation!(a, f => self.each(s, f));
            return;
        }
        match self.f {
            Unary::Exp => self.each(s, act::Exp),
            Unary::Sqrt => self.each(s, act::Sqrt),
            Unary::Floor => self.each(s, act::Floor),
            Unary::Round => self.each(s, act::Round),
            Unary::Neg => self.each(s, act::Neg),
            Unary::Abs => self.each(s, act::Abs),
            _ => self.each(s, act::Reciprocal),
        }
    }
}

impl UnaryRow<'_> {
    #[inline(always)]
    fn each<S: Simd, P: Pointwise>(&self, s: S, f: P) {
        // SAFETY: x and y are valid for n floats (x for one, if it is one number), as `unary` made them.
        unsafe {
            if self.one {
                let v = f.eval(s, s.splat(*self.x));
                each_vector::<S>(
                    self.n,
                    #[inline(always)]
                    |i, n| store(s, self.y.add(i), v, n),
                );
            } else {
                each_vector::<S>(
                    self.n,
                    #[inline(always)]
                    |i, n| {
                        store(s, self.y.add(i), f.eval(s, load(s, self.x.add(i), n)), n);
                    },
                );
            }
        }
    }
}

struct BinaryRow {
    f: BinaryKind,
    a: *const f32,
    b: *const f32,
    /// Whether a or b is one number for the whole row.
    one: [bool; 2],
    y: *mut f32,
    n: usize,
}

/// A function of two vectors.
trait Pair: Copy {
    fn eval<S: Simd>(self, s: S, a: S::F, b: S::F) -> S::F;
}

macro_rules! pairs {
    ($($name:ident = |$s:ident, $a:ident, $b:ident| $e:expr;)*) => {$(
        #[derive(Clone, Copy)]
        struct $name;
        impl Pair for $name {
            #[inline(always)]
            fn eval<S: Simd>(self, $s: S, $a: S::F, $b: S::F) -> S::F { $e }
        }
    )*};
}

pairs! {
    Add = |s, a, b| s.add(a, b);
    Sub = |s, a, b| s.sub(a, b);
    Mul = |s, a, b| s.mul(a, b);
    Div = |s, a, b| s.div(a, b);
    PRelu = |s, a, b| s.where_lt(a, s.splat(0.0), s.mul(a, b), a);
}

impl Kernel for BinaryRow {
    type Out = ();
    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        match self.f {
            BinaryKind::Add => self.each(s, Add),
            BinaryKind::Sub => self.each(s, Sub),
            BinaryKind::Mul => self.each(s, Mul),
            BinaryKind::Div => self.each(s, Div),
            _ => self.each(s, PRelu),
        }
    }
}

impl BinaryRow {
    #[inline(always)]
    fn each<S: Simd, P: Pair>(&self, s: S, f: P) {
        // SAFETY: a, b and y are valid for n floats (a single number for one), as `binary` made them.
        unsafe {
            match self.one {
                [false, false] => each_vector::<S>(
                    self.n,
                    #[inline(always)]
                    |i, n| {
                        let v = f.eval(s, load(s, self.a.add(i), n), load(s, self.b.add(i), n));
                        store(s, self.y.add(i), v, n);
                    },
                ),
                [true, false] => {
                    let a = s.splat(*self.a);
                    each_vector::<S>(
                        self.n,
                        #[inline(always)]
                        |i, n| {
                            store(s, self.y.add(i), f.eval(s, a, load(s, self.b.add(i), n)), n);
                        },
                    );
                }
                [false, true] => {
                    let b = s.splat(*self.b);
                    each_vector::<S>(
                        self.n,
                        #[inline(always)]
                        |i, n| {
                            store(s, self.y.add(i), f.eval(s, load(s, self.a.add(i), n), b), n);
                        },
                    );
                }
                [true, true] => {
                    let v = f.eval(s, s.splat(*self.a), s.splat(*self.b));
                    each_vector::<S>(
                        self.n,
                        #[inline(always)]
                        |i, n| store(s, self.y.add(i), v, n),
                    );
                }
            }
        }
    }
}

/// Calls `f(first, lanes)` for each whole vector and the rest.
#[inline(always)]
pub(crate) fn each_vector<S: Simd>(n: usize, mut f: impl FnMut(usize, usize)) {
    let mut i = 0;
    while i + S::LANES <= n {
        f(i, S::LANES);
        i += S::LANES;
    }
    if i < n {
        f(i, n - i);
    }
}

/// A whole vector, or the first `n` lanes.
///
/// # Safety
/// `p` must be readable for `n <= LANES` floats.
#[inline(always)]
pub(crate) unsafe fn load<S: Simd>(s: S, p: *const f32, n: usize) -> S::F {
    // SAFETY: the caller vouches for n floats.
    unsafe { if n == S::LANES { s.load(p) } else { s.load_n(p, n) } }
}

/// A whole vector, or the first `n` lanes.
///
/// # Safety
/// `p` must be writable for `n <= LANES` floats.
#[inline(always)]
pub(crate) unsafe fn store<S: Simd>(s: S, p: *mut f32, v: S::F, n: usize) {
    // SAFETY: the caller vouches for n floats.
    unsafe { if n == S::LANES { s.store(p, v) } else { s.store_n(p, v, n) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_models::graph::ops::{Binary, Operator};
    use saltica_tensor::{Layout, Shape};

    fn unaries() -> Vec<Unary> {
        use Unary::*;
        vec![
            Relu,
            Sigmoid,
            Silu,
            Tanh,
            Exp,
            Sqrt,
            Floor,
            Round,
            Neg,
            Abs,
            Reciprocal,
            HardSwish,
            LeakyRelu(0.1),
            HardSigmoid(0.2, 0.5),
        ]
    }

    proptest! {
        #[test]
        fn unary_functions_match_the_reference(
            dims in proptest::collection::vec(1usize..9, 0..5), a in any::<u64>(), b in any::<u64>(),
            which in 0usize..14, big in any::<bool>(),
        ) {
            let mut dims = dims;
            if big && !dims.is_empty() { dims[0] *= 300; }
            let shape = Shape::new(&dims).unwrap();
            let f = unaries()[which];
            let (lx, ly) = (layouts(shape, a), layouts(shape, b));
            let xs = spread(&noise(7, shape.elements()), &lx);
            let x = View::of_slice(&xs, lx).unwrap();
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let mut got = vec![f32::NAN; ly.span()];
                    unary(isa, &pool, &f, &x, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                    let mut want = vec![f32::NAN; ly.span()];
                    f.run(&[Some(x)], &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
                    close(&got, &want, 1e-6)?;
                }
            }
        }

        #[test]
        fn binary_functions_match_the_reference(
            dims in proptest::collection::vec(1usize..9, 0..5), strides in any::<[u64; 3]>(),
            ones in any::<[u8; 2]>(), drop in 0usize..5, which in 0usize..5, big in any::<bool>(),
        ) {
            let mut dims = dims;
            if big && !dims.is_empty() { dims[0] *= 300; }
            let kind = [BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul, BinaryKind::Div, BinaryKind::PRelu][which];
            let shape = Shape::new(&dims).unwrap();
            let part = |mask: u8, drop: usize| {
                let d: Vec<_> =
                    dims.iter().enumerate().map(|(i, &d)| if mask >> i & 1 == 1 { 1 } else { d }).collect();
                Shape::new(&d[drop.min(d.len())..]).unwrap()
            };
            // One operand may be smaller in every dim, the other only in those where the first is whole.
            let (sa, sb) = (part(ones[0], drop), part(ones[1] & !ones[0], 0));
            let (la, lb) = (layouts(sa, strides[0]), layouts(sb, strides[1]));
            let fits = |l: &Layout| l.broadcast_to(&shape).is_ok();
            prop_assume!(fits(&la) && fits(&lb));
            let ly = layouts(shape, strides[2]);
            let (xa, xb) = (spread(&noise(8, sa.elements()), &la), spread(&noise(9, sb.elements()), &lb));
            let (a, b) = (View::of_slice(&xa, la).unwrap(), View::of_slice(&xb, lb).unwrap());
            for isa in Isa::available() {
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let mut got = vec![f32::NAN; ly.span()];
                    binary(isa, &pool, kind, &a, &b, &mut ViewMut::of_slice(&mut got, ly).unwrap()).unwrap();
                    let mut want = vec![f32::NAN; ly.span()];
                    let mut y = ViewMut::of_slice(&mut want, ly).unwrap();
                    Binary { kind }.run(&[Some(a), Some(b)], std::slice::from_mut(&mut y)).unwrap();
                    // One rounding each: exact.
                    close(&got, &want, 0.0)?;
                }
            }
        }
    }
}
