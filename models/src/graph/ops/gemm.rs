use super::elementwise::{broadcast, floats, permuted};
use super::literal::*;
use super::matmul::products;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{Element, Shape, View, ViewMut};

/// alpha * a' * b' + beta * c, [ONNX Gemm](https://onnx.ai/onnx/operators/onnx__Gemm.html).
///
/// a' is a `[m,k]` or its transpose, b' is b `[k,n]` or its transpose, c (optional) broadcasts to `[m,n]`. Floats, summed in f64
/// and rounded once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Factor of the product.
    pub alpha: f32,
    /// Factor of c.
    pub beta: f32,
    /// Whether a is stored `[k,m]`.
    pub trans_a: bool,
    /// Whether b is stored `[n,k]`.
    pub trans_b: bool,
}

fn turned<'a>(v: &View<'a>, transposed: bool) -> Result<View<'a>> {
    permuted(v, if transposed { &[1, 0] } else { &[0, 1] })
}

impl Gemm {
    fn size(&self, a: &Shape, b: &Shape) -> Result<Shape> {
        let (&[a0, a1], &[b0, b1]) = (a.dims(), b.dims()) else {
            return Err(Error::shape(format!("a is {a} and b is {b}, two matrices expected")));
        };
        let (m, k) = if self.trans_a { (a1, a0) } else { (a0, a1) };
        let (rows, n) = if self.trans_b { (b1, b0) } else { (b0, b1) };
        if k != rows {
            return Err(Error::shape(format!("a {a} and b {b} do not fit: {k} columns, {rows} rows")));
        }
        Ok(Shape::new(&[m, n])?)
    }
}

impl Operator for Gemm {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(Gemm {
            alpha: node.float("alpha")?.unwrap_or(1.0),
            beta: node.float("beta")?.unwrap_or(1.0),
            trans_a: node.int("transA")?.unwrap_or(0) != 0,
            trans_b: node.int("transB")?.unwrap_or(0) != 0,
        })
    }

    fn name(&self) -> &str {
        "Gemm"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (a, b) = (required(inputs, 0, "a")?, required(inputs, 1, "b")?);
        let c = inputs.get(2).copied().flatten();
        if !a.dtype.is_float() || b.dtype != a.dtype || c.is_some_and(|c| c.dtype != a.dtype) {
            return Err(Error::shape("Gemm takes tensors of one float type"));
        }
        let shape = self.size(&a.shape, &b.shape)?;
        if let Some(c) = c
            && shape.broadcast(&c.shape)? != shape
        {
            return Err(Error::shape(format!("c is {}, it does not broadcast to {shape}", c.shape)));
        }
        Ok(vec![OutFact { dtype: a.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let a = required(inputs, 0, "a")?;
        let b = required(inputs, 1, "b")?;
        let shape = self.size(a.shape(), b.shape())?;
        let y = &mut outputs[0];
        let c = inputs.get(2).copied().flatten().map(|c| broadcast(&c, &shape)).transpose()?;
        let (a, b) = (turned(&a, self.trans_a)?, turned(&b, self.trans_b)?);
        let (alpha, beta) = (self.alpha as f64, self.beta as f64);
        floats!(a.dtype(), T => products::<T>(&a, &b, |i, j, sum| {
            let c = c.as_ref().map_or(0.0, |c| beta * c.get::<T>(&[i, j]).to_f64());
            y.set(&[i, j], T::from_f64(alpha * sum + c));
        }), Err(Error::shape("Gemm takes floats")))
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("plain", node("Gemm", 9, 3, vec![]), vec![f32s(&[2, 3], &[-0.46, 0.71, -0.62, 0.43, -0.16,
                0.25]), f32s(&[3, 4], &[-1.93, -0., -1.12, -0.46, -1.7, 0.63, 1.57, -0.58, -1.58, 0.48, -1.49,
                1.57]), f32s(&[4], &[-1.51, -0.55, -0.02, -1.53])], vec![f32s(&[2, 4], &[-0.84959996,
                -0.40030003, 2.5337, -2.7036, -2.4629, -0.5308, -1.1252999, -1.2425])], CLOSE),
            case("transB, as exported", node("Gemm", 17, 3, vec![float("alpha", 1.), float("beta", 1.),
                int("transB", 1), int("transA", 0)]), vec![f32s(&[2, 3], &[-0.46, 0.71, -0.62, 0.43, -0.16,
                0.25]), f32s(&[4, 3], &[-1.93, -1.7, -1.58, -0., 0.63, 0.48, -1.12, 1.57, -1.49, -0.46, -0.58,
                1.57]), f32s(&[4], &[-0.73, -0.9, 0.85, 1.95])], vec![f32s(&[2, 4], &[-0.069599986, -0.7503,
                3.4036999, 0.7764001, -1.6829, -0.8808, -0.25529993, 2.2375])], CLOSE),
            case("transA, factors", node("Gemm", 17, 3, vec![float("alpha", 0.5), float("beta", 0.25),
                int("transA", 1)]), vec![f32s(&[3, 2], &[-0.46, 0.43, 0.71, -0.16, -0.62, 0.25]), f32s(&[3,
                4], &[-1.93, -0., -1.12, -0.46, -1.7, 0.63, 1.57, -0.58, -1.58, 0.48, -1.49, 1.57]), f32s(&[2,
                1], &[-0.55, 1.16])], vec![f32s(&[2, 4], &[0.19270001, -0.06265001, 1.1393499, -0.72429997,
                -0.18644997, 0.2996, -0.26264998, 0.43374997])], CLOSE),
            case("both transposed, no c", node("Gemm", 17, 2, vec![int("transA", 1), int("transB", 1)]),
                vec![f32s(&[3, 2], &[-0.46, 0.43, 0.71, -0.16, -0.62, 0.25]), f32s(&[4, 3], &[-1.93, -1.7,
                -1.58, -0., 0.63, 0.48, -1.12, 1.57, -1.49, -0.46, -0.58, 1.57])], vec![f32s(&[2, 4],
                &[0.66040003, 0.14969999, 2.5537, -1.1736, -0.95289993, 0.019199997, -1.1053, 0.2875])],
                CLOSE),
            case("scalar c", node("Gemm", 17, 3, vec![]), vec![f32s(&[2, 3], &[-0.46, 0.71, -0.62, 0.43,
                -0.16, 0.25]), f32s(&[3, 4], &[-1.93, -0., -1.12, -0.46, -1.7, 0.63, 1.57, -0.58, -1.58, 0.48,
                -1.49, 1.57]), f32s(&[], &[1.5])], vec![f32s(&[2, 4], &[2.1604, 1.6496999, 4.0537, 0.32640004,
                0.54710007, 1.5192, 0.39470005, 1.7875])], CLOSE),
            case("full c", node("Gemm", 17, 3, vec![float("beta", 2.)]), vec![f32s(&[2, 3], &[-0.46, 0.71,
                -0.62, 0.43, -0.16, 0.25]), f32s(&[3, 4], &[-1.93, -0., -1.12, -0.46, -1.7, 0.63, 1.57, -0.58,
                -1.58, 0.48, -1.49, 1.57]), f32s(&[2, 4], &[-1.44, 0.32, -0.27, -0.85, 1.29, 0.99, -1.46,
                -0.83])], vec![f32s(&[2, 4], &[-2.2196002, 0.7897, 2.0137, -2.8736, 1.6271, 1.9992, -4.0253,
                -1.3725])], CLOSE),
            case("long rows", node("Gemm", 17, 3, vec![int("transB", 1)]), vec![f32s(&[1, 19], &[1.28, 1.97,
                0.45, 1.49, 1.94, 0.96, 0.58, -1.12, -0.52, 0.49, 1.71, -0.79, -0.42, -1.91, 0.79, -0.23,
                1.19, -1.07, 0.64]), f32s(&[3, 19], &[0.69, -0.14, -1.25, -0.39, 0.98, -1.24, -1.64, -0.15,
                -1.06, 1.2, 1.27, 1.78, 1.36, 0.59, -1.25, 1.29, 0.91, 0.99, 0.79, 1.32, -0.81, 0.69, 0.07,
                -0.65, -0.69, -1.38, -0.03, -0.53, -0.31, 1.41, 0.73, 0.72, 1.94, -1.13, 0.03, -1.63, -0.43,
                1.8, -1.66, 1.03, 1.46, 0.04, 1.19, -0.24, -0.59, 0.02, -1.22, -0.77, -0.78, 1.95, -0.66,
                -1.08, 1.76, -1.45, 1.86, 1.41, 0.59]), f32s(&[3], &[-0.29, -1.21, -1.58])], vec![f32s(&[1,
                3], &[-1.4469995, -6.6684003, 3.2835002])], CLOSE),
            case("nothing to sum", node("Gemm", 17, 3, vec![]), vec![f32s(&[2, 0], &[]), f32s(&[0, 3], &[]),
                f32s(&[3], &[-1.59, -0.6, -0.37])], vec![f32s(&[2, 3], &[-1.59, -0.6, -0.37, -1.59, -0.6,
                -0.37])], CLOSE),
        ]
    }
}
