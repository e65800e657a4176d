use super::elementwise::{floats, int_at};
use super::literal::*;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Element, Layout, MAX_RANK, Shape, View, ViewMut};

/// Matrix product with numpy's rules, [ONNX MatMul](https://onnx.ai/onnx/operators/onnx__MatMul.html).
///
/// a `[..,m,k]` times b `[..,k,n]` gives `[..,m,n]`; the leading dims broadcast; a rank-1 operand is a row (a) or a column (b)
/// whose dim the result lacks. Floats are summed in f64 and rounded once; i32 and i64 wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatMul;

/// Columns of the product that are summed together.
const TILE: usize = 64;

/// The products of a row-major family of matrices: for each row i of a `[m,k]` and each column j of b `[k,n]`, `put(i, j, sum)`.
/// Both views have rank 2.
pub(super) fn products<T: Element>(
    a: &View<'_>,
    b: &View<'_>,
    mut put: impl FnMut(usize, usize, f64),
) -> Result<()> {
    let (m, k, n) = (a.shape()[0], a.shape()[1], b.shape()[1]);
    // Columns of b as runs, where b is stored transposed.
    let columns = b.with_layout(0, b.layout().permuted(&[1, 0])?);
    for i in 0..m {
        let whole = a.row::<T>(&[i, 0]);
        if let (Some(a), Some(b)) = (whole, columns)
            && k > 1
            && b.layout().strides()[1] == 1
            && b.layout().strides()[0] != 1
        {
            for j in 0..n {
                put(i, j, dot(a, b.row::<T>(&[j, 0]).unwrap_or_default()));
            }
            continue;
        }
        for from in (0..n).step_by(TILE) {
            let count = TILE.min(n - from);
            let mut sums = [0f64; TILE];
            for l in 0..k {
                let v = a.get::<T>(&[i, l]).to_f64();
                match b.row::<T>(&[l, 0]) {
                    Some(row) => {
                        sums.iter_mut()
                            .zip(&row[from..from + count])
                            .for_each(|(s, &w)| *s += v * w.to_f64());
                    }
                    None => {
                        for j in 0..count {
                            sums[j] += v * b.get::<T>(&[l, from + j]).to_f64();
                        }
                    }
                }
            }
            for (j, &sum) in sums[..count].iter().enumerate() {
                put(i, from + j, sum);
            }
        }
    }
    Ok(())
}

fn dot<T: Element>(a: &[T], b: &[T]) -> f64 {
    // Eight partial sums let the compiler use vector registers.
    let mut sums = [0f64; 8];
    let (ac, bc) = (a.chunks_exact(8), b.chunks_exact(8));
    let rest: f64 = ac.remainder().iter().zip(bc.remainder()).map(|(x, y)| x.to_f64() * y.to_f64()).sum();
    for (x, y) in ac.zip(bc) {
        for l in 0..8 {
            sums[l] += x[l].to_f64() * y[l].to_f64();
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// The shapes that the operands are worked on with: (leading dims of the result, a as `[m,k]`, b as `[k,n]`, result).
struct Plan {
    batch: Shape,
    m: usize,
    k: usize,
    n: usize,
    out: Shape,
}

/// Dims of a matrix operand with a rank-1 one made a row (`first`) or a column.
fn matrix(shape: &Shape, first: bool) -> Result<([usize; MAX_RANK], usize)> {
    let mut dims = [1; MAX_RANK];
    match shape.rank() {
        0 => Err(Error::shape("MatMul does not take scalars")),
        1 => {
            dims[first as usize] = shape[0];
            Ok((dims, 2))
        }
        r => {
            dims[..r].copy_from_slice(shape);
            Ok((dims, r))
        }
    }
}

/// The shape rule of MatMul, which the quantized products share.
pub(super) fn matmul_shape(a: &Shape, b: &Shape) -> Result<Shape> {
    Ok(plan(a, b)?.out)
}

fn plan(a: &Shape, b: &Shape) -> Result<Plan> {
    let (da, ra) = matrix(a, true)?;
    let (db, rb) = matrix(b, false)?;
    let (m, k, n) = (da[ra - 2], da[ra - 1], db[rb - 1]);
    if k != db[rb - 2] {
        return Err(Error::shape(format!(
            "matrices {a} and {b} do not fit: {k} columns, {} rows",
            db[rb - 2]
        )));
    }
    let batch = Shape::new(&da[..ra - 2])?.broadcast(&Shape::new(&db[..rb - 2])?)?;
    let mut dims = [0; MAX_RANK];
    let mut rank = batch.rank();
    if rank + 2 > MAX_RANK {
        return Err(Error::shape(format!("matrices {a} and {b} have too many dims")));
    }
    dims[..rank].copy_from_slice(&batch);
    for (d, present) in [(m, a.rank() > 1), (n, b.rank() > 1)] {
        if present {
            dims[rank] = d;
            rank += 1;
        }
    }
    Ok(Plan { batch, m, k, n, out: Shape::new(&dims[..rank])? })
}

/// Calls `f(batch, a, b)` for each pair of matrices (rank-2 views) of a product, with the index of the leading dims.
fn matrices(
    a: &View<'_>,
    b: &View<'_>,
    plan: &Plan,
    mut f: impl FnMut(&[usize; MAX_RANK], &View<'_>, &View<'_>) -> Result<()>,
) -> Result<()> {
    let left = || Error::shape("a matrix left its tensor");
    for batch in plan.batch.indices() {
        let pick = |v: &View<'_>, rows: usize, columns: usize, first: bool| -> Result<Layout> {
            let strides = v.layout().strides();
            let two = match strides {
                [s] if first => [0, *s],
                [s] => [*s, 0],
                _ => [strides[strides.len() - 2], strides[strides.len() - 1]],
            };
            Ok(Layout::strided(Shape::new(&[rows, columns])?, &two)?)
        };
        let offset = |v: &View<'_>| {
            let own = v.shape().rank().saturating_sub(2);
            let lead = plan.batch.rank() - own;
            (0..own)
                .map(|d| if v.shape()[d] == 1 { 0 } else { batch[lead + d] * v.layout().strides()[d] })
                .sum()
        };
        let a2 = a.with_layout(offset(a), pick(a, plan.m, plan.k, true)?).ok_or_else(left)?;
        let b2 = b.with_layout(offset(b), pick(b, plan.k, plan.n, false)?).ok_or_else(left)?;
        f(&batch, &a2, &b2)?;
    }
    Ok(())
}

/// Where element (i, j) of a product lies in the result.
fn place(
    plan: &Plan,
    a: &Shape,
    b: &Shape,
    batch: &[usize; MAX_RANK],
    i: usize,
    j: usize,
) -> [usize; MAX_RANK] {
    let mut at = *batch;
    let mut rank = plan.batch.rank();
    for (d, present) in [(i, a.rank() > 1), (j, b.rank() > 1)] {
        if present {
            at[rank] = d;
            rank += 1;
        }
    }
    at
}

/// Integer matrix product: `put(index, sum of (a - zero_a(i)) * (b - zero_b(j)))` for every element of the result, where i
/// is the row and j the column. Sums wrap at 64 bits.
pub(super) fn int_products(
    a: &View<'_>,
    b: &View<'_>,
    zero_a: impl Fn(usize) -> i64,
    zero_b: impl Fn(usize) -> i64,
    mut put: impl FnMut(&[usize; MAX_RANK], usize, i64),
) -> Result<()> {
    let plan = plan(a.shape(), b.shape())?;
    let (sa, sb) = (*a.shape(), *b.shape());
    matrices(a, b, &plan, |batch, a, b| {
        for i in 0..plan.m {
            for j in 0..plan.n {
                let (za, zb) = (zero_a(i), zero_b(j));
                let mut sum = 0i64;
                for l in 0..plan.k {
                    let (x, w) = (int_at(a, &[i, l]).wrapping_sub(za), int_at(b, &[l, j]).wrapping_sub(zb));
                    sum = sum.wrapping_add(x.wrapping_mul(w));
                }
                put(&place(&plan, &sa, &sb, batch, i, j), j, sum);
            }
        }
        Ok(())
    })
}

impl Operator for MatMul {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(MatMul)
    }

    fn name(&self) -> &str {
        "MatMul"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let (a, b) = (required(inputs, 0, "a")?, required(inputs, 1, "b")?);
        let known = a.dtype.is_float() || matches!(a.dtype, DType::I32 | DType::I64);
        if a.dtype != b.dtype || !known {
            return Err(Error::shape(format!("MatMul does not take {} and {}", a.dtype, b.dtype)));
        }
        Ok(vec![OutFact { dtype: a.dtype, shape: matmul_shape(&a.shape, &b.shape)? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let (a, b) = (&required(inputs, 0, "a")?, &required(inputs, 1, "b")?);
        let y = &mut outputs[0];
        if !a.dtype().is_float() {
            let long = a.dtype() == DType::I64;
            return int_products(
                a,
                b,
                |_| 0,
                |_| 0,
                |at, _, sum| {
                    if long { y.set(at, sum) } else { y.set(at, sum as i32) }
                },
            );
        }
        let plan = plan(a.shape(), b.shape())?;
        let (sa, sb) = (*a.shape(), *b.shape());
        matrices(a, b, &plan, |batch, a, b| {
            floats!(a.dtype(), T => products::<T>(a, b, |i, j, sum| {
                y.set(&place(&plan, &sa, &sb, batch, i, j), T::from_f64(sum));
            }), Ok(()))
        })
    }

    #[rustfmt::skip] // tables of numbers
    #[allow(clippy::approx_constant)] // they only look alike
    fn cases() -> Vec<Case> {
        // Expected values: onnxruntime 1.32, where nothing else is said.
        vec![
            case("(2, 3) by (3, 2)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 3], &[-0.42, 0.02, 1.51,
                0.69, -1.62, -1.45]), f32s(&[3, 2], &[1.96, -1.88, -0.8, 1.84, -1.94, -1.35])], vec![f32s(&[2,
                2], &[-3.7686, -1.2121, 5.4614, -2.3205])], CLOSE),
            case("(3) by (3)", node("MatMul", 13, 2, vec![]), vec![f32s(&[3], &[-1.15, -1.65, -0.11]),
                f32s(&[3], &[0.37, -0.73, -1.57])], vec![f32s(&[], &[0.9516999])], CLOSE),
            case("(3) by (3, 2)", node("MatMul", 13, 2, vec![]), vec![f32s(&[3], &[1.24, 1.22, 0.25]),
                f32s(&[3, 2], &[-1.45, 0.17, 0.52, -0.29, 1.46, -0.44])], vec![f32s(&[2], &[-0.7986001,
                -0.253])], CLOSE),
            case("(2, 3) by (3)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 3], &[0.04, -1.54, 0.25, 1.07,
                0.93, -0.97]), f32s(&[3], &[1.97, 0.88, -0.3])], vec![f32s(&[2], &[-1.3514, 3.2173])], CLOSE),
            case("(2, 2, 3) by (3, 2)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 2, 3], &[-0.34, 1.12,
                -1.3, 0.56, 0.88, 0.07, 1.49, -0.13, -0.14, -0.86, 1.68, -0.73]), f32s(&[3, 2], &[0.78, -0.36,
                1.74, 1.79, -1.88, 1.98])], vec![f32s(&[2, 2, 2], &[4.1276, -0.44680005, 1.8363999, 1.5121999,
                1.1992, -1.0463, 3.6248, 1.8713999])], CLOSE),
            case("(2, 3) by (2, 3, 2)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 3], &[0.42, -1.7, -0.01,
                -1.8, 0.2, -1.26]), f32s(&[2, 3, 2], &[-0.53, -0.78, 0.41, 1.29, 1.75, -0.68, 0.28, -1.98,
                -0.51, 1.84, -1.52, 1.48])], vec![f32s(&[2, 2, 2], &[-0.9371, -2.5138001, -1.1690001, 2.5188,
                0.9998, -3.9744003, 1.3091999, 2.0672])], CLOSE),
            case("(2, 1, 2, 3) by (3, 3, 2)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 1, 2, 3], &[0.61,
                -0.82, 1.11, -0.84, 1.58, -1.67, -1.52, 1., -0.2, -1.41, 0.05, -0.81]), f32s(&[3, 3, 2],
                &[0.2, 0.97, 1.43, -1.76, 0.37, 1.93, -0.16, 1.08, -1.61, 1.49, 0.33, 1.55, 1.15, 1.48, -1.77,
                0.86, -1.21, -0.94])], vec![f32s(&[2, 3, 2, 2], &[-0.6398999, 4.1772, 1.4734999, -6.8187,
                1.5889, 1.1575, -2.9605, -1.1414998, 0.8097999, -0.8458, -1.7419, 1.6854001, 1.0519999,
                -3.6204, -0.5102, -3.019, -1.4328, -0.4616, -0.12220003, -2.7038, -3.2759998, -1.2016,
                -0.7298999, -1.2823999])], CLOSE),
            case("(1, 2, 2, 3) by (1, 2, 3, 2)", node("MatMul", 13, 2, vec![]), vec![f32s(&[1, 2, 2, 3],
                &[-0.7, 0.37, 0.51, 1.73, -1.95, -1.23, -0.55, 1.27, 0.2, 0.05, 1.04, 0.62]), f32s(&[1, 2, 3,
                2], &[-0.84, -1.65, -0.15, 1.52, 0.39, -1.79, -0.24, -0.46, 0.33, 0.35, 1.81, -0.65])],
                vec![f32s(&[1, 2, 2, 2], &[0.73139995, 0.8045, -1.6403999, -3.6168, 0.9131, 0.5675, 1.4534,
                -0.062])], CLOSE),
            case("(3) by (2, 3, 2)", node("MatMul", 13, 2, vec![]), vec![f32s(&[3], &[-0.37, 0.45, 1.55]),
                f32s(&[2, 3, 2], &[0.82, -0.12, 1.26, -0.06, 1.85, -0.87, -1.49, 1.32, -0.81, 1.39, 0.44,
                0.04])], vec![f32s(&[2, 2], &[3.1311, -1.3311, 0.8688, 0.19909994])], CLOSE),
            case("(2, 2, 3) by (3)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 2, 3], &[-1.65, 1.15,
                -1.74, 1.86, 1.51, -0.79, -1.49, 1.54, -0.08, -1.5, -0.01, -1.01]), f32s(&[3], &[-0.37, 0.56,
                1.66])], vec![f32s(&[2, 2], &[-1.6338999, -1.154, 1.2809, -1.1271999])], CLOSE),
            case("(1, 1) by (1, 1)", node("MatMul", 13, 2, vec![]), vec![f32s(&[1, 1], &[1.2]), f32s(&[1, 1],
                &[-1.36])], vec![f32s(&[1, 1], &[-1.6320001])], CLOSE),
            case("(2, 0) by (0, 3)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 0], &[]), f32s(&[0, 3],
                &[])], vec![f32s(&[2, 3], &[0., 0., 0., 0., 0., 0.])], CLOSE),
            case("(0, 2) by (2, 3)", node("MatMul", 13, 2, vec![]), vec![f32s(&[0, 2], &[]), f32s(&[2, 3],
                &[-0.09, -0.03, 1.96, -1.65, 0.04, 1.66])], vec![f32s(&[0, 3], &[])], CLOSE),
            case("(2, 20) by (20, 3)", node("MatMul", 13, 2, vec![]), vec![f32s(&[2, 20], &[-0.4, -0.95, 0.22,
                -0.72, 1.71, -1.66, -1.17, -1.66, 0.85, -0.83, 1.6, 1.57, 1.75, -0.98, -2., -0.45, 1.85, 1.05,
                -1.76, 0.81, 1.67, 1.87, 0.86, 1.45, 1.37, -0.57, -1.6, 0.91, -1.45, -0.46, 1.98, 0.24, 0.09,
                1.79, -0.86, 2., 1.65, -0.54, -0.69, -1.49]), f32s(&[20, 3], &[1.66, -1.26, -1.96, 1.56, 0.39,
                0.69, 0.93, -1.83, -1.63, -0., -1.8, 0.02, 0.95, 0.63, 0.47, -1.81, -1.05, 1.59, -1.51, 0.13,
                -1.8, 1.76, -1.31, -0.36, 0.19, 0.87, 1.75, 0.95, -0.61, -1.7, 0.83, 1.89, -1.93, 1.1, -1.3,
                -0.16, 0.09, 0.46, 1.96, 0.75, -0.43, 0.86, -0.13, -0.35, -0.54, -0.03, -0.88, -1.03, -1.41,
                -0.24, -0.83, 1.35, 1.39, -0.62, 0.48, 1.61, -0.56, 0.22, -0.23, 0.6])], vec![f32s(&[2, 3],
                &[1.7991998, 8.416499, 3.5984998, 11.722798, -7.15, -8.1031])], CLOSE),
            case("i32", node("MatMul", 17, 2, vec![]), vec![i32s(&[2, 3], &[-7, 5, 9, 5, -7, -9]), i32s(&[3,
                2], &[9, 6, 3, -5, 6, -7])], vec![i32s(&[2, 2], &[6, -130, -30, 128])], EXACT),
            case("i64", node("MatMul", 17, 2, vec![]), vec![i64s(&[2, 3], &[3, -2, 7, 3, -3, 6]), i64s(&[3,
                2], &[4, -5, -4, -2, 0, -4])], vec![i64s(&[2, 2], &[20, -39, 24, -33])], EXACT),
            // In f64, rounded once (numpy).
            case("f16", node("MatMul", 13, 2, vec![]), vec![f16s(&[2, 5], &[-1.2, -1.76, 1.16, 1.24, 0.66,
                -0.71, 0.63, -1.66, 0.65, 0.3]), f16s(&[5, 3], &[0.47, -0.21, -1.1, 0.9, -0.14, 0.98, -0.54,
                -1.65, 0.17, 0.49, 1.69, 1.55, -1.77, 1.09, -0.95])], vec![f16s(&[2, 3], &[-3.334, 1.399,
                1.087, 0.917, 4.227, 1.838])], EXACT),
            case("f64", node("MatMul", 17, 2, vec![]), vec![tensor::<f64>(&[2, 2], &[0.79, -0.48, -0.71,
                -0.05]), tensor::<f64>(&[2, 2], &[0.12, 0.78, 0.55, 0.71])], vec![tensor::<f64>(&[2, 2],
                &[-0.16920000000000002, 0.2754000000000001, -0.11270000000000001, -0.5892999999999999])],
                CLOSE),
        ]
    }
}
