use super::from_node::{Built, case, ints, node, t, text};
use super::indexing::{Dims, Ints};
use super::number::{Number, Wide};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{Bool, Element, Layout, MAX_RANK, Shape, View, ViewMut, by_dtype, f16};

/// What stands in the border.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadMode {
    /// One value.
    Constant,
    /// The inside mirrored at its outermost elements, which are not repeated.
    Reflect,
    /// The outermost element.
    Edge,
    /// The inside continued from the other end (opset 19).
    Wrap,
}

/// A border put around, or with negative numbers cut away, [ONNX Pad](https://onnx.ai/onnx/operators/onnx__Pad.html).
///
/// Inputs: x, any dtype; from opset 11 pads, i64 `[2 * axes]` (all begins, then all ends), the constant (one number of x's
/// dtype, default 0), and from opset 18 axes, i64 or i32 (default all).
#[derive(Clone, Debug, PartialEq)]
pub struct Pad {
    /// What stands in the border.
    pub mode: PadMode,
    /// Pads given as an attribute (before opset 11).
    pub pads: Option<Vec<i64>>,
    /// The constant given as an attribute (before opset 11).
    pub value: f32,
}

impl Pad {
    /// Begin and end of each axis; the views are those of inputs 1 and 3.
    pub fn resolve(
        &self,
        rank: usize,
        pads: Option<View<'_>>,
        axes: Option<View<'_>>,
    ) -> Result<[[i64; 2]; MAX_RANK]> {
        let pads = match (&self.pads, pads) {
            (Some(pads), _) => Ints::new(pads, "pads")?,
            (None, Some(view)) => Ints::read(&view, "pads")?,
            (None, None) => return Err(Error::new(ErrorKind::Malformed, "input 1 (pads) is missing")),
        };
        let axes = axes.map(|view| Ints::read(&view, "axes")).transpose()?;
        let n = axes.map_or(rank, |a| a.len());
        if pads.len() != 2 * n {
            return Err(Error::shape(format!(
                "{} pads found, {} expected (two for each axis)",
                pads.len(),
                2 * n
            )));
        }
        let mut out = [[0; 2]; MAX_RANK];
        let mut seen = [false; MAX_RANK];
        for i in 0..n {
            let axis = axes.map_or(Ok(i), |a| Shape::axis(a[i], rank))?;
            if std::mem::replace(&mut seen[axis], true) {
                return Err(Error::shape(format!("axis {axis} is padded twice")));
            }
            out[axis] = [pads[i], pads[n + i]];
        }
        Ok(out)
    }

    /// The element of a dimension that stands at `at` (which may lie outside); `None` where the constant does.
    fn source(&self, at: i64, dim: usize) -> Option<usize> {
        let d = dim as i64;
        Some(match self.mode {
            PadMode::Constant if (0..d).contains(&at) => at,
            PadMode::Constant => return None,
            PadMode::Edge => at.clamp(0, d - 1),
            PadMode::Wrap => at.rem_euclid(d),
            PadMode::Reflect => {
                let period = (2 * d - 2).max(1);
                let at = at.rem_euclid(period);
                at.min(period - at)
            }
        } as usize)
    }
}

impl Operator for Pad {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let mode = match node.string("mode")?.as_deref() {
            None | Some("constant") => PadMode::Constant,
            Some("reflect") => PadMode::Reflect,
            Some("edge") => PadMode::Edge,
            Some("wrap") if node.opset >= 19 => PadMode::Wrap,
            Some(other) => {
                return Err(Error::unsupported(format!(
                    "mode is {other}; constant, reflect, edge and (from opset 19) wrap are supported"
                )));
            }
        };
        if node.opset >= 11 {
            return Ok(Pad { mode, pads: None, value: 0.0 });
        }
        let missing = || Error::new(ErrorKind::Malformed, "attribute pads is missing (Pad needs it)");
        let pads = Some(node.ints("pads")?.ok_or_else(missing)?);
        Ok(Pad { mode, pads, value: node.float("value")?.unwrap_or(0.0) })
    }

    fn name(&self) -> &str {
        "Pad"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let known = |i: usize, what: &str| -> Result<Option<View<'_>>> {
            inputs.get(i).copied().flatten().map(|f| Ok(f.known(what)?.view())).transpose()
        };
        if let Some(value) = inputs.get(2).copied().flatten()
            && (value.dtype != x.dtype || value.shape.elements() != 1)
        {
            return Err(Error::shape(format!(
                "the constant is {} {}, one number of {} expected",
                value.dtype, value.shape, x.dtype
            )));
        }
        let pads = self.resolve(x.shape.rank(), known(1, "pads")?, known(3, "axes")?)?;
        let mut dims = Dims::of(&x.shape)?;
        for (d, [begin, end]) in dims.iter_mut().zip(pads) {
            let padded = (*d as i64).checked_add(begin).and_then(|v| v.checked_add(end));
            let misfit =
                || Error::shape(format!("pads {begin} and {end} do not fit a dimension of size {d}"));
            let padded = usize::try_from(padded.ok_or_else(misfit)?).map_err(|_| misfit())?;
            if *d == 0 && padded > 0 && self.mode != PadMode::Constant {
                return Err(Error::shape(format!("{:?} cannot fill a border around nothing", self.mode)));
            }
            *d = padded;
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let input = |i: usize| inputs.get(i).copied().flatten();
        let pads = self.resolve(x.shape().rank(), input(1), input(3))?;
        let y = &mut outputs[0];
        by_dtype!(y.dtype(), T => {
            let value = match input(2) {
                Some(v) => v.at::<T>(0),
                None => T::from_wide(Wide::Float(self.value.into())),
            };
            if self.mode == PadMode::Constant {
                pad_constant::<T>(&x, y, &pads, value)
            } else {
                self.pad_from_inside::<T>(&x, y, &pads);
                Ok(())
            }
        })
    }

    fn cases() -> Vec<Case> {
        let pad = |opset, mode: &str| node("Pad", opset, vec![("mode", text(mode))]);
        let x = [1f32, 2., 3., 4., 5., 6.];
        let l = |v: &[i64]| t(&[v.len()], v);
        let h = [0.5f32, 9.0].map(f16::from_f32);
        let build = || -> Built<Vec<Case>> {
            // numpy.pad
            Ok(vec![
                case(
                    "opset 9 attributes",
                    node("Pad", 9, vec![("pads", ints(&[0, 1, 1, 0])), ("value", Attr::Float(-7.0))]),
                    vec![t(&[1, 2], &x[..2])],
                    vec![t(&[2, 3], &[-7f32, 1., 2., -7., -7., -7.])],
                )?,
                case(
                    "constant 0 by default",
                    pad(13, "constant"),
                    vec![t(&[1, 1, 1, 2], &x[..2]), l(&[0, 0, 1, 0, 0, 0, 0, 2])],
                    vec![t(&[1, 1, 2, 4], &[0f32, 0., 0., 0., 1., 2., 0., 0.])],
                )?,
                case(
                    "constant given, one side cropped",
                    pad(13, "constant"),
                    vec![t(&[2, 3], &x), l(&[0, -1, 0, 2]), t(&[], &[9f32])],
                    vec![t(&[2, 4], &[2f32, 3., 9., 9., 5., 6., 9., 9.])],
                )?,
                case(
                    "axes, negative, i64 beyond 2^53",
                    pad(18, "constant"),
                    vec![t(&[1, 1], &[1i64 << 60]), l(&[1, 0]), t(&[], &[i64::MIN]), t(&[1], &[-1i32])],
                    vec![t(&[1, 2], &[i64::MIN, 1 << 60])],
                )?,
                case(
                    "reflect",
                    pad(11, "reflect"),
                    vec![t(&[2, 3], &x), l(&[0, 2, 1, 1])],
                    vec![t(
                        &[3, 6],
                        &[3f32, 2., 1., 2., 3., 2., 6., 5., 4., 5., 6., 5., 3., 2., 1., 2., 3., 2.],
                    )],
                )?,
                case(
                    "edge",
                    pad(13, "edge"),
                    vec![t(&[1, 3], &x[..3]), l(&[1, 2, 0, 1])],
                    vec![t(&[2, 6], &[1f32, 1., 1., 2., 3., 3., 1., 1., 1., 2., 3., 3.])],
                )?,
                case(
                    "wrap",
                    pad(19, "wrap"),
                    vec![t(&[3], &[1u8, 2, 3]), l(&[2, 1])],
                    vec![t(&[6], &[2u8, 3, 1, 2, 3, 1])],
                )?,
                case(
                    "empty",
                    pad(13, "constant"),
                    vec![t(&[0], &h[..0]), l(&[1, 0]), t(&[], &h[1..])],
                    vec![t(&[1], &h[1..])],
                )?,
                case(
                    "bool, rank 5, nothing to do",
                    pad(13, "constant"),
                    vec![t(&[1, 1, 1, 1, 1], &[Bool::from(true)]), l(&[0; 10])],
                    vec![t(&[1, 1, 1, 1, 1], &[Bool::from(true)])],
                )?,
            ])
        };
        super::built(build)
    }
}

impl Pad {
    fn pad_from_inside<T: Element>(&self, x: &View<'_>, y: &mut ViewMut<'_>, pads: &[[i64; 2]; MAX_RANK]) {
        for to in y.shape().indices() {
            let mut from = to;
            for (d, &dim) in x.shape().iter().enumerate() {
                from[d] = self.source((to[d] as i64).wrapping_sub(pads[d][0]), dim).unwrap_or(0);
            }
            y.set::<T>(&to, x.get::<T>(&from));
        }
    }
}

/// The value everywhere, then x (as far as it is not cropped) in its place.
fn pad_constant<T: Element>(
    x: &View<'_>,
    y: &mut ViewMut<'_>,
    pads: &[[i64; 2]; MAX_RANK],
    value: T,
) -> Result<()> {
    let value = [value];
    if let Some(value) = View::of_slice(&value, Layout::contiguous(Shape::scalar())) {
        y.copy_from(&value.broadcast_to(y.shape())?);
    }
    let (mut from, mut to) = (*x, y.reborrow());
    for (axis, &d) in x.shape().iter().enumerate() {
        // Where x starts in y; negative where its first elements are cropped.
        let begin = pads[axis][0];
        let (skip, at) = (begin.min(0).unsigned_abs() as usize, begin.max(0) as usize);
        let len = d.saturating_sub(skip).min(to.shape()[axis].saturating_sub(at));
        if len == 0 {
            return Ok(());
        }
        from = from.sliced(axis, skip, len, 1)?;
        to = to.sliced(axis, at, len, 1)?;
    }
    to.copy_from(&from);
    Ok(())
}
