//! Matrix products.

use super::dims::{Walk, signed};
use super::elementwise::{Arg, spare};
use super::{Lowering, blocks, int, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch};
use crate::params::{self, dtype_code};
use saltica_core::StepDesc;
use saltica_models::graph::ops::Gemm;
use saltica_tensor::{DType, Layout, Shape};
use std::mem::offset_of;

/// A matrix or a batch of them: strides of the two matrix dims, and the batch dims as a layout.
struct Side {
    row: usize,
    col: usize,
    batch: Layout,
}

fn side(step: &StepDesc<'_>, layout: &Layout, batch: &[usize], vector_is_row: bool) -> Result<Side> {
    let bad = |e: saltica_tensor::Error| unsupported(step, &e.to_string());
    let (dims, strides) = (layout.shape().dims(), layout.strides());
    let (row, col, lead) = match (dims, strides) {
        ([_], &[s]) if vector_is_row => (0, s, 0),
        ([_], &[s]) => (s, 0, 0),
        ([lead @ .., _, _], [.., row, col]) => (*row, *col, lead.len()),
        _ => return Err(unsupported(step, "a scalar operand")),
    };
    let own = Layout::strided(Shape::new(&dims[..lead]).map_err(bad)?, &strides[..lead]).map_err(bad)?;
    let batch = own.broadcast_to(&Shape::new(batch).map_err(bad)?).map_err(bad)?;
    Ok(Side { row, col, batch })
}

/// The launch of a product, its kernel by the dtypes.
fn product(
    low: &Lowering,
    step: &StepDesc<'_>,
    [a, b, c]: [&Arg; 3],
    mut p: params::Matmul,
    batch: [usize; 2],
    bias: Option<&Arg>,
) -> Result<DeviceKernel> {
    (p.ta, p.tb, p.tc) = (dtype_code(a.dtype), dtype_code(b.dtype), dtype_code(c.dtype));
    p.tbias = bias.map_or(0, |b| dtype_code(b.dtype));
    p.batch1 = int(batch[1].max(1))?;
    let halves = a.dtype == DType::F16 && b.dtype == DType::F16;
    if !(halves || a.dtype == b.dtype && matches!(a.dtype, DType::F32 | DType::F16)) {
        return Err(unsupported(step, "two f32 or two f16 operands expected"));
    }
    let (kernel, tile, threads) = if halves && !low.target.is_volta() {
        ("matmul_f16_64x64", 64, 128)
    } else {
        ("matmul_any", 32, 256)
    };
    let z = blocks(batch[0].max(1) * batch[1].max(1), 1)?;
    let grid = [blocks(p.n as usize, tile)?, blocks(p.m as usize, tile)?, z];
    if z > 65_535 || grid[1] > 65_535 {
        return Err(unsupported(step, "more matrices than a grid holds"));
    }
    let mut launches: Vec<Launch> = spare(c)?.into_iter().collect();
    launches.push(
        Launch::new("matmul", kernel, grid, threads, &p)
            .at(offset_of!(params::Matmul, a), a.ptr.clone())
            .at(offset_of!(params::Matmul, b), b.ptr.clone())
            .at(offset_of!(params::Matmul, c), c.ptr.clone())
            .maybe(offset_of!(params::Matmul, bias), bias.map(|b| b.ptr.clone())),
    );
    Ok(DeviceKernel::new(kernel.replace('_', " "), launches))
}

pub(super) fn matmul(low: &Lowering, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (a, b, c) = (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::output(step)?);
    let (ad, bd) = (a.layout.shape().dims(), b.layout.shape().dims());
    let (Some(&k), false) = (ad.last(), bd.is_empty()) else {
        return Err(unsupported(step, "a scalar operand"));
    };
    let m = if ad.len() > 1 { ad[ad.len() - 2] } else { 1 };
    let n = if bd.len() > 1 { bd[bd.len() - 1] } else { 1 };
    // The output without the dims that vectors do not have.
    let cd = c.layout.shape().dims();
    let lead = cd.len() - usize::from(ad.len() > 1) - usize::from(bd.len() > 1);
    let batch = &cd[..lead];
    let (sa, sb) = (side(step, &a.layout, batch, true)?, side(step, &b.layout, batch, false)?);
    let cs = c.layout.strides();
    let c_row = if ad.len() > 1 { cs[lead] } else { 0 };
    let c_col = if bd.len() > 1 { cs[cd.len() - 1] } else { 0 };
    let walk =
        Walk::new(batch, &[signed(sa.batch.strides()), signed(sb.batch.strides()), signed(&cs[..lead])])
            .merged(2);
    let (dims, at) = match walk.dims.len() {
        0 => ([1, 1], [None, None]),
        1 => ([1, walk.dims[0]], [None, Some(0)]),
        2 => ([walk.dims[0], walk.dims[1]], [Some(0), Some(1)]),
        _ => return Err(unsupported(step, "more than two batch dims that do not merge")),
    };
    let stride = |operand: usize, d: usize| int(at[d].map_or(0, |d| walk.strides[operand][d] as usize));
    let p = params::Matmul {
        m: int(m)?,
        n: int(n)?,
        k: int(k)?,
        a_b0: stride(0, 0)?,
        a_b1: stride(0, 1)?,
        a_row: int(sa.row)?,
        a_col: int(sa.col)?,
        b_b0: stride(1, 0)?,
        b_b1: stride(1, 1)?,
        b_row: int(sb.row)?,
        b_col: int(sb.col)?,
        c_b0: stride(2, 0)?,
        c_b1: stride(2, 1)?,
        c_row: int(c_row)?,
        c_col: int(c_col)?,
        alpha: 1.0,
        ..Default::default()
    };
    product(low, step, [&a, &b, &c], p, dims, None)
}

pub(super) fn gemm(low: &Lowering, op: &Gemm, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (a, b, c) = (Arg::input(low, step, 0)?, Arg::input(low, step, 1)?, Arg::output(step)?);
    let turned = |l: &Layout, turn: bool| -> Result<[usize; 4]> {
        match (l.shape().dims(), l.strides(), turn) {
            (&[m, n], &[r, c], false) => Ok([m, n, r, c]),
            (&[m, n], &[r, c], true) => Ok([n, m, c, r]),
            _ => Err(unsupported(step, "two dims expected")),
        }
    };
    let ([m, k, a_row, a_col], [_, n, b_row, b_col]) =
        (turned(&a.layout, op.trans_a)?, turned(&b.layout, op.trans_b)?);
    let [_, _, c_row, c_col] = turned(&c.layout, false)?;
    let bias =
        step.inputs.get(2).is_some_and(Option::is_some).then(|| Arg::input(low, step, 2)).transpose()?;
    let mut p = params::Matmul {
        m: int(m)?,
        n: int(n)?,
        k: int(k)?,
        a_row: int(a_row)?,
        a_col: int(a_col)?,
        b_row: int(b_row)?,
        b_col: int(b_col)?,
        c_row: int(c_row)?,
        c_col: int(c_col)?,
        alpha: op.alpha,
        beta: op.beta,
        ..Default::default()
    };
    if let Some(bias) = &bias {
        let wide =
            bias.layout.broadcast_to(c.layout.shape()).map_err(|e| unsupported(step, &e.to_string()))?;
        (p.bias_row, p.bias_col) = (int(wide.strides()[0])?, int(wide.strides()[1])?);
    }
    product(low, step, [&a, &b, &c], p, [1, 1], bias.as_ref())
}
