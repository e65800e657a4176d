//! Walking tensors element by element: any strides, in the order of the output's memory, whole rows at a time where the
//! strides allow it.

use crate::{Error, ErrorKind, Result};
use half::f16;
use saltica_tensor::{Bool, Element, Layout, MAX_RANK, Shape, View, ViewMut};

/// The dims of `layout` from the largest stride to the smallest (dims of size 1 first), so that walking them in this
/// order walks memory forwards. The first `rank` entries count.
pub(super) fn memory_order(layout: &Layout) -> [usize; MAX_RANK] {
    let (shape, strides) = (layout.shape(), layout.strides());
    let mut order = [0, 1, 2, 3, 4, 5, 6, 7];
    let key = |d: usize| if shape[d] == 1 { usize::MAX } else { strides[d] };
    // Insertion sort: stable, and rank is at most 8.
    for i in 1..shape.rank() {
        let mut j = i;
        while j > 0 && key(order[j - 1]) < key(order[j]) {
            order.swap(j - 1, j);
            j -= 1;
        }
    }
    order
}

/// The same elements with dims reordered.
pub(super) fn permuted<'a>(v: &View<'a>, order: &[usize]) -> Result<View<'a>> {
    let layout = v.layout().permuted(order)?;
    v.with_layout(0, layout).ok_or_else(|| Error::shape("a permuted view left its span"))
}

/// The view seen with a larger shape (numpy's rules); repeated dims have stride 0.
pub(super) fn broadcast<'a>(v: &View<'a>, shape: &Shape) -> Result<View<'a>> {
    let layout = v.layout().broadcast_to(shape)?;
    v.with_layout(0, layout).ok_or_else(|| Error::shape("a broadcast view left its span"))
}

/// Every index of the dims before the last one.
pub(super) fn rows(shape: &Shape) -> Result<impl Iterator<Item = [usize; MAX_RANK]> + use<>> {
    Ok(Shape::new(&shape.dims()[..shape.rank() - 1])?.indices())
}

/// y = f(x), element by element; same shapes.
pub(super) fn map<A: Element, B: Element>(
    x: &View<'_>,
    y: &mut ViewMut<'_>,
    f: impl Fn(A) -> B,
) -> Result<()> {
    let rank = y.shape().rank();
    if y.shape().elements() == 0 {
        return Ok(());
    }
    let order = memory_order(y.layout());
    let x = permuted(x, &order[..rank])?;
    let mut y = y.permuted(&order[..rank])?;
    if let (Some(x), Some(y)) = (x.as_slice::<A>(), y.as_mut_slice::<B>()) {
        y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(x));
        return Ok(());
    }
    for mut index in rows(y.shape())? {
        if let (Some(x), Some(y)) = (x.row::<A>(&index), y.row_mut::<B>(&index)) {
            y.iter_mut().zip(x).for_each(|(y, &x)| *y = f(x));
            continue;
        }
        for i in 0..y.shape()[rank - 1] {
            index[rank - 1] = i;
            y.set(&index, f(x.get(&index)));
        }
    }
    Ok(())
}

/// An operand's part in one row of the output.
enum Run<'a, T> {
    /// Neighbours in memory.
    Many(&'a [T]),
    /// One element for the whole row.
    One(T),
    /// Neither.
    Far,
}

fn run_at<'a, T: Element>(v: &View<'a>, index: &[usize; MAX_RANK]) -> Run<'a, T> {
    let last = v.shape().rank() - 1;
    if v.layout().strides()[last] == 0 {
        let mut first = *index;
        first[last] = 0;
        return Run::One(v.get(&first));
    }
    v.row(index).map_or(Run::Far, Run::Many)
}

/// y = f(a, b), element by element; a and b broadcast to y's shape.
pub(super) fn zip<A: Element, B: Element, C: Element>(
    a: &View<'_>,
    b: &View<'_>,
    y: &mut ViewMut<'_>,
    f: impl Fn(A, B) -> C,
) -> Result<()> {
    let rank = y.shape().rank();
    if y.shape().elements() == 0 {
        return Ok(());
    }
    let order = memory_order(y.layout());
    let operand = |v: &View<'_>| v.shape().elements() == 1;
    let (one_a, one_b) = (operand(a), operand(b));
    let a = permuted(&broadcast(a, y.shape())?, &order[..rank])?;
    let b = permuted(&broadcast(b, y.shape())?, &order[..rank])?;
    let mut y = y.permuted(&order[..rank])?;
    if let Some(y) = y.as_mut_slice::<C>() {
        let first = [0; MAX_RANK];
        match (a.as_slice::<A>(), b.as_slice::<B>()) {
            (Some(a), Some(b)) => {
                y.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (&a, &b))| *y = f(a, b));
                return Ok(());
            }
            (Some(a), None) if one_b => {
                let b = b.get(&first);
                y.iter_mut().zip(a).for_each(|(y, &a)| *y = f(a, b));
                return Ok(());
            }
            (None, Some(b)) if one_a => {
                let a = a.get(&first);
                y.iter_mut().zip(b).for_each(|(y, &b)| *y = f(a, b));
                return Ok(());
            }
            _ => {}
        }
    }
    for mut index in rows(y.shape())? {
        if let Some(y) = y.row_mut::<C>(&index) {
            match (run_at::<A>(&a, &index), run_at::<B>(&b, &index)) {
                (Run::Many(a), Run::Many(b)) => {
                    y.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (&a, &b))| *y = f(a, b));
                    continue;
                }
                (Run::Many(a), Run::One(b)) => {
                    y.iter_mut().zip(a).for_each(|(y, &a)| *y = f(a, b));
                    continue;
                }
                (Run::One(a), Run::Many(b)) => {
                    y.iter_mut().zip(b).for_each(|(y, &b)| *y = f(a, b));
                    continue;
                }
                (Run::One(a), Run::One(b)) => {
                    y.fill(f(a, b));
                    continue;
                }
                _ => {}
            }
        }
        for i in 0..y.shape()[rank - 1] {
            index[rank - 1] = i;
            y.set(&index, f(a.get(&index), b.get(&index)));
        }
    }
    Ok(())
}

/// Arithmetic as ONNX means it: integers wrap, f16 is computed in f32 and rounded once.
pub(super) trait Number: Element + PartialOrd {
    fn add(self, o: Self) -> Self;
    fn sub(self, o: Self) -> Self;
    fn mul(self, o: Self) -> Self;
    /// Integers truncate; the divisor is not 0 (see [`refuse_zeros`]).
    fn div(self, o: Self) -> Self;
    /// Remainder with the dividend's sign (C's `fmod`); an integer divisor is not 0.
    fn fmod(self, o: Self) -> Self;
    /// Remainder with the divisor's sign (Python's `%`); an integer divisor is not 0.
    fn modulo(self, o: Self) -> Self;

    /// The smaller one; NaN if there is one.
    #[inline]
    #[allow(clippy::eq_op)]
    fn least(self, o: Self) -> Self {
        if self < o || self != self { self } else { o }
    }

    /// The larger one; NaN if there is one.
    #[inline]
    #[allow(clippy::eq_op)]
    fn greatest(self, o: Self) -> Self {
        if self > o || self != self { self } else { o }
    }
}

macro_rules! number {
    (int $($t:ty)*) => {$(
        impl Number for $t {
            #[inline]
            fn add(self, o: Self) -> Self { self.wrapping_add(o) }
            #[inline]
            fn sub(self, o: Self) -> Self { self.wrapping_sub(o) }
            #[inline]
            fn mul(self, o: Self) -> Self { self.wrapping_mul(o) }
            #[inline]
            fn div(self, o: Self) -> Self { self.wrapping_div(o) }
            #[inline]
            fn fmod(self, o: Self) -> Self { self.wrapping_rem(o) }
            #[inline]
            #[allow(unused_comparisons)]
            fn modulo(self, o: Self) -> Self {
                let r = self.wrapping_rem(o);
                if r != 0 && (r < 0) != (o < 0) { r.wrapping_add(o) } else { r }
            }
        }
    )*};
    (float $($t:ty, $wide:expr, $narrow:expr;)*) => {$(
        impl Number for $t {
            #[inline]
            fn add(self, o: Self) -> Self { $narrow($wide(self) + $wide(o)) }
            #[inline]
            fn sub(self, o: Self) -> Self { $narrow($wide(self) - $wide(o)) }
            #[inline]
            fn mul(self, o: Self) -> Self { $narrow($wide(self) * $wide(o)) }
            #[inline]
            fn div(self, o: Self) -> Self { $narrow($wide(self) / $wide(o)) }
            #[inline]
            fn fmod(self, o: Self) -> Self { $narrow($wide(self) % $wide(o)) }
            #[inline]
            fn modulo(self, o: Self) -> Self {
                let r = $wide(self) % $wide(o);
                $narrow(if r != 0.0 && (r < 0.0) != ($wide(o) < 0.0) { r + $wide(o) } else { r })
            }
        }
    )*};
}

number!(int i8 u8 i32 i64);
number!(float f32, std::convert::identity, std::convert::identity;
              f64, std::convert::identity, std::convert::identity;
              f16, f16::to_f32, f16::from_f32;);

/// Errors if there is a 0 among integers that something is to be divided by.
pub(super) fn refuse_zeros(b: &View<'_>) -> Result<()> {
    if !b.dtype().is_float() && (0..b.shape().elements()).any(|i| b.at_f64(i) == 0.0) {
        return Err(Error::new(ErrorKind::Value, "an integer is divided by 0"));
    }
    Ok(())
}

/// Runs `$e` with `$t` bound to the numeric element type of `$dtype`; Bool is `$otherwise`.
macro_rules! numbers {
    ($dtype:expr, $t:ident => $e:expr, $otherwise:expr) => {
        match $dtype {
            saltica_tensor::DType::F32 => {
                type $t = f32;
                $e
            }
            saltica_tensor::DType::F16 => {
                type $t = half::f16;
                $e
            }
            saltica_tensor::DType::F64 => {
                type $t = f64;
                $e
            }
            saltica_tensor::DType::I8 => {
                type $t = i8;
                $e
            }
            saltica_tensor::DType::U8 => {
                type $t = u8;
                $e
            }
            saltica_tensor::DType::I32 => {
                type $t = i32;
                $e
            }
            saltica_tensor::DType::I64 => {
                type $t = i64;
                $e
            }
            saltica_tensor::DType::Bool => $otherwise,
        }
    };
}
pub(super) use numbers;

/// Runs `$e` with `$t` bound to the float type of `$dtype`; anything else is `$otherwise`.
macro_rules! floats {
    ($dtype:expr, $t:ident => $e:expr, $otherwise:expr) => {
        match $dtype {
            saltica_tensor::DType::F32 => {
                type $t = f32;
                $e
            }
            saltica_tensor::DType::F16 => {
                type $t = half::f16;
                $e
            }
            saltica_tensor::DType::F64 => {
                type $t = f64;
                $e
            }
            _ => $otherwise,
        }
    };
}
pub(super) use floats;

/// y = f(x) in f32 for f32 and f16, in f64 for f64. Errors on other dtypes.
pub(super) fn map_floats(
    x: &View<'_>,
    y: &mut ViewMut<'_>,
    f: impl Fn(f32) -> f32,
    wide: impl Fn(f64) -> f64,
) -> Result<()> {
    use saltica_tensor::DType;
    match x.dtype() {
        DType::F32 => map(x, y, f),
        DType::F16 => map(x, y, |v: f16| f16::from_f32(f(v.to_f32()))),
        DType::F64 => map(x, y, wide),
        other => Err(Error::shape(format!("input is {other}, a float type expected"))),
    }
}

/// y = f(a, b) on truth values.
pub(super) fn zip_bools(
    a: &View<'_>,
    b: &View<'_>,
    y: &mut ViewMut<'_>,
    f: impl Fn(bool, bool) -> bool,
) -> Result<()> {
    zip(a, b, y, |a: Bool, b: Bool| Bool::from(f(a.get(), b.get())))
}

/// Reads an integer element as i64 (floats truncate).
pub(super) fn int_at(v: &View<'_>, index: &[usize]) -> i64 {
    match v.dtype() {
        saltica_tensor::DType::I64 => v.get(index),
        _ => v.get_f64(index) as i64,
    }
}
