//! What the movement and indexing ops share: short lists of integers read from tensors, axes, run-time indices.

use super::Fact;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{DType, MAX_RANK, Shape, View};
use std::ops::Deref;

/// Longest list of integers an op of these takes: begin and end of every axis.
const MAX_INTS: usize = 2 * MAX_RANK;

/// A short list of integers on the stack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ints {
    values: [i64; MAX_INTS],
    len: usize,
}

impl Ints {
    /// A copy of `values`. Errors if there are more than two for each possible axis.
    pub(super) fn new(values: &[i64], what: &str) -> Result<Self> {
        let mut out = Ints { values: [0; MAX_INTS], len: values.len() };
        out.values
            .get_mut(..values.len())
            .ok_or_else(|| {
                Error::shape(format!("{what} has {} numbers, at most {MAX_INTS} expected", values.len()))
            })?
            .copy_from_slice(values);
        Ok(out)
    }

    /// Reads an integer tensor of rank 0 or 1.
    pub(super) fn read(view: &View<'_>, what: &str) -> Result<Self> {
        let n = view.shape().elements();
        if view.shape().rank() > 1 || n > MAX_INTS {
            return Err(Error::shape(format!(
                "{what} is {}, a list of at most {MAX_INTS} numbers expected",
                view.shape()
            )));
        }
        check_integers(view.dtype(), what)?;
        let mut out = Ints { values: [0; MAX_INTS], len: n };
        for i in 0..n {
            out.values[i] = integer(view, i);
        }
        Ok(out)
    }

    /// Reads an input whose value decides a shape. Errors with [`ErrorKind::NeedsValue`] if it is unknown.
    pub(super) fn known(fact: &Fact<'_>, what: &str) -> Result<Self> {
        Self::read(&fact.known(what)?.view(), what)
    }
}

impl Deref for Ints {
    type Target = [i64];
    fn deref(&self) -> &[i64] {
        &self.values[..self.len]
    }
}

/// Errors unless the dtype is one that ONNX allows for indices and shapes.
pub(super) fn check_integers(dtype: DType, what: &str) -> Result<()> {
    if matches!(dtype, DType::I64 | DType::I32) {
        Ok(())
    } else {
        Err(Error::shape(format!("{what} is {dtype}, i64 or i32 expected")))
    }
}

/// Row-major element `i` of an integer tensor.
#[inline]
pub(super) fn integer(view: &View<'_>, i: usize) -> i64 {
    match view.dtype() {
        DType::I64 => view.at::<i64>(i),
        DType::I32 => view.at::<i32>(i).into(),
        _ => view.at_f64(i) as i64,
    }
}

/// The element of an integer tensor at an index.
#[inline]
pub(super) fn integer_at(view: &View<'_>, index: &[usize]) -> i64 {
    match view.dtype() {
        DType::I64 => view.get::<i64>(index),
        DType::I32 => view.get::<i32>(index).into(),
        _ => view.get_f64(index) as i64,
    }
}

/// The only element of an integer tensor (of rank 0, or any shape with one element).
pub(super) fn single(view: &View<'_>, what: &str) -> Result<i64> {
    check_integers(view.dtype(), what)?;
    if view.shape().elements() != 1 {
        return Err(Error::shape(format!("{what} is {}, one number expected", view.shape())));
    }
    Ok(integer(view, 0))
}

/// A run-time index into a dimension of size `dim`; negative ones count from the end. Errors if it is outside.
#[inline]
pub(super) fn wrap(index: i64, dim: usize) -> Result<usize> {
    let i = if index < 0 { index.wrapping_add(dim as i64) } else { index };
    if i >= 0 && (i as usize) < dim {
        Ok(i as usize)
    } else {
        Err(Error::new(ErrorKind::Value, format!("index {index} is outside a dimension of size {dim}")))
    }
}

/// A dimension from a model's number. Errors if it is negative.
pub(super) fn dim(value: i64, what: &str) -> Result<usize> {
    usize::try_from(value)
        .map_err(|_| Error::shape(format!("{what} holds {value}, a number of at least 0 expected")))
}

/// Which axes a list names: `true` at each. Errors on one outside the rank or named twice.
pub(super) fn axis_set(axes: &[i64], rank: usize) -> Result<[bool; MAX_RANK]> {
    let mut set = [false; MAX_RANK];
    for &a in axes {
        if std::mem::replace(&mut set[Shape::axis(a, rank)?], true) {
            return Err(Error::shape(format!("axis {a} is named twice in {axes:?}")));
        }
    }
    Ok(set)
}

/// Dims collected on the stack.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dims {
    dims: [usize; MAX_RANK],
    rank: usize,
}

impl Dims {
    /// Those of a shape.
    pub(super) fn of(shape: &[usize]) -> Result<Self> {
        let mut out = Dims::default();
        out.extend(shape)?;
        Ok(out)
    }

    /// Appends one. Errors past the largest rank.
    pub(super) fn push(&mut self, d: usize) -> Result<()> {
        *self
            .dims
            .get_mut(self.rank)
            .ok_or_else(|| Error::shape(format!("the result has a rank above {MAX_RANK}")))? = d;
        self.rank += 1;
        Ok(())
    }

    /// Appends several. Errors past the largest rank.
    pub(super) fn extend(&mut self, dims: &[usize]) -> Result<()> {
        dims.iter().try_for_each(|&d| self.push(d))
    }

    /// The shape of these dims.
    pub(super) fn shape(&self) -> Result<Shape> {
        Ok(Shape::new(&self.dims[..self.rank])?)
    }
}

impl Deref for Dims {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        &self.dims[..self.rank]
    }
}

impl std::ops::DerefMut for Dims {
    fn deref_mut(&mut self) -> &mut [usize] {
        &mut self.dims[..self.rank]
    }
}
