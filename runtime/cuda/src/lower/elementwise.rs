//! Functions of one number from each operand, copies, casts and fills.

use super::dims::{Walk, signed};
use super::layout::spare_to;
use super::{Lowering, blocks, constant, input, int, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch, Ptr};
use crate::params::{self, dtype_code};
use crate::weights::Recipe;
use saltica_core::{Operand, StepDesc};
use saltica_models::graph::ops::{Binary, BinaryKind, Clip, Lookup, Table, Unary, Variadic, VariadicKind};
use saltica_tensor::{DType, Layout, Shape, Tensor};
use std::mem::offset_of;

/// Numbers of `ew`'s operations.
pub(super) const COPY: i32 = 0;
const CLIP: i32 = 29;
const LOOKUP: i32 = 30;
const ADD: i32 = 40;
const MUL: i32 = 42;
const MIN: i32 = 56;
const MAX: i32 = 57;
const WHERE: i32 = 70;
const CLIP3: i32 = 71;
const QUANTIZE: i32 = 73;
const DEQUANTIZE: i32 = 74;

/// An operand of an elementwise launch: where it is, its dtype, and its layout.
#[derive(Clone)]
pub(super) struct Arg {
    pub(super) ptr: Ptr,
    pub(super) dtype: DType,
    pub(super) layout: Layout,
    /// Bytes from an address that is aligned to 64.
    pub(super) offset: usize,
    /// Whether its buffer is its own.
    pub(super) owned: bool,
}

impl Arg {
    /// Input `i` of a step, constants put on the device.
    pub(super) fn input(low: &Lowering, step: &StepDesc<'_>, i: usize) -> Result<Arg> {
        let operand = input(step, i)?;
        Ok(match operand.constant {
            Some(t) => Arg::constant(low, t),
            None => Arg::at(Ptr::Input(i, 0), operand),
        })
    }

    /// An operand that is at this address.
    pub(super) fn at(ptr: Ptr, operand: &Operand<'_>) -> Arg {
        let Operand { dtype, layout, offset, owned, .. } = *operand;
        Arg { ptr, dtype, layout, offset, owned }
    }

    pub(super) fn constant(low: &Lowering, t: &Tensor) -> Arg {
        Arg {
            ptr: low.constant(Recipe::Raw(t.clone())),
            dtype: t.dtype(),
            layout: *t.view().layout(),
            offset: 0,
            owned: true,
        }
    }

    pub(super) fn output(step: &StepDesc<'_>) -> Result<Arg> {
        Arg::output_of(step, 0)
    }

    /// Output `o` of a step.
    pub(super) fn output_of(step: &StepDesc<'_>, o: usize) -> Result<Arg> {
        match (step.outputs.get(o), step.offsets.get(o)) {
            (Some((dtype, layout)), Some(offset)) => Ok(Arg {
                ptr: Ptr::Output(o, 0),
                dtype: *dtype,
                layout: *layout,
                offset: *offset,
                owned: step.owned.get(o) == Some(&true),
            }),
            _ => Err(unsupported(step, &format!("it has no output {o}"))),
        }
    }

    /// Elements from pixel to pixel, if some of them are spare channels of its own.
    pub(super) fn spare_to(&self) -> Option<usize> {
        spare_to(&self.layout, self.dtype, self.owned)
    }
}

/// Zeros in the spare channels of an output, if it has some: who multiplies them by zero must find finite numbers. Any
/// integer is one.
pub(super) fn spare(y: &Arg) -> Result<Option<Launch>> {
    let Some(pixel) = y.spare_to().filter(|_| y.dtype.is_float()) else { return Ok(None) };
    let &[n, _, h, w] = y.layout.shape().dims() else { return Ok(None) };
    fill(y.ptr.clone(), n * h * w * pixel, y.dtype.size(), 0).map(Some)
}

pub(super) fn fill(y: Ptr, count: usize, size: usize, bits: u64) -> Result<Launch> {
    let p = params::Fill { bits, count: int(count)?, size: int(size)?, ..Default::default() };
    Ok(Launch::new("move", "fill", [blocks(count, 256)?, 1, 1], 256, &p).at(offset_of!(params::Fill, y), y))
}

/// One launch of `ew` over the output's elements; operands broadcast to it.
pub(super) fn ew(op: i32, args: &[Arg], y: &Arg, numbers: [f32; 2]) -> Result<Launch> {
    let shape = *y.layout.shape();
    let mut strides = Vec::new();
    for a in args {
        let wide = a
            .layout
            .broadcast_to(&shape)
            .map_err(|e| crate::Error::new(crate::ErrorKind::Unsupported, e.to_string()))?;
        strides.push(signed(wide.strides()));
    }
    strides.push(signed(y.layout.strides()));
    let walk = Walk::new(&shape, &strides).merged(args.len());
    let of = |i: usize| if i < args.len() { walk.six_strides(i) } else { Ok([0; 6]) };
    let code = |i: usize| args.get(i).map_or(0, |a| dtype_code(a.dtype));
    let count = walk.count();
    let p = params::Ew {
        dims: walk.six()?,
        sa: of(0)?,
        sb: of(1)?,
        sc: of(2)?,
        sy: walk.six_strides(args.len())?,
        ta: code(0),
        tb: code(1),
        tc: code(2),
        ty: dtype_code(y.dtype),
        op,
        count: int(count)?,
        p0: numbers[0],
        p1: numbers[1],
        ..Default::default()
    };
    let launch = match dense(op, args, y, &walk) {
        Some((kernel, per)) => Launch::new("ew", kernel, [blocks(count.div_ceil(per), 256)?, 1, 1], 256, &p),
        None if in_rows(op, args, y, &walk) => {
            Launch::new("ew", "ew_rows", [blocks(count / ROW_PIECE, 256)?, 1, 1], 256, &p)
        }
        None => Launch::new("ew", "ew", [blocks(count, 256)?, 1, 1], 256, &p),
    };
    let pointer = |i: usize| args.get(i).map(|a| a.ptr.clone());
    Ok(launch
        .maybe(offset_of!(params::Ew, a), pointer(0))
        .maybe(offset_of!(params::Ew, b), pointer(1))
        .maybe(offset_of!(params::Ew, c), pointer(2))
        .at(offset_of!(params::Ew, y), y.ptr.clone()))
}

/// The kernel for operands that all lie alike without gaps, and how many elements a thread of it takes.
fn dense(op: i32, args: &[Arg], y: &Arg, walk: &Walk) -> Option<(&'static str, usize)> {
    let (kernel, per) = match y.dtype {
        DType::F16 => ("ew_dense_f16", 8),
        DType::F32 => ("ew_dense_f32", 4),
        _ => return None,
    };
    let known = matches!(op, ADD | 41 | MUL | 1 | 3 | 2 | MAX);
    let alike = walk.dims.len() == 1
        && walk.dims[0].is_multiple_of(per)
        && walk.strides.iter().all(|s| s[0] == 1)
        && args.iter().chain([y]).all(|a| a.dtype == y.dtype && a.offset.is_multiple_of(16));
    (known && alike).then_some((kernel, per))
}

/// Elements that a thread of `ew_rows` takes.
const ROW_PIECE: usize = 8;

/// Whether operands and result are floats that lie in rows of whole pieces, aligned to 16 bytes.
fn in_rows(op: i32, args: &[Arg], y: &Arg, walk: &Walk) -> bool {
    let known = matches!(op, COPY | ADD | 41 | MUL | 1 | 2 | 3);
    let rank = walk.dims.len();
    let aligned = |a: &Arg, strides: &[i64]| {
        let size = a.dtype.size() as i64;
        matches!(a.dtype, DType::F16 | DType::F32)
            && a.offset.is_multiple_of(16)
            && strides[rank - 1] == 1
            && strides[..rank - 1].iter().all(|s| s * size % 16 == 0)
    };
    known
        && (1..=2).contains(&rank)
        && walk.dims[rank - 1].is_multiple_of(ROW_PIECE)
        && args.iter().chain([y]).zip(&walk.strides).all(|(a, strides)| aligned(a, strides))
}

/// A step of one launch of `ew`, with the output's spare channels zeroed.
fn step_of(label: &str, op: i32, args: &[Arg], y: &Arg, numbers: [f32; 2]) -> Result<DeviceKernel> {
    let mut launches: Vec<Launch> = spare(y)?.into_iter().collect();
    launches.push(ew(op, args, y, numbers)?);
    Ok(DeviceKernel::new(format!("{label} {}", y.dtype), launches))
}

/// Moves elements as they are: through shared memory where rows become columns, in groups of 16 bytes where both lie in
/// rows, else one by one.
pub(super) fn copy(x: &Arg, y: &Arg) -> Result<Vec<Launch>> {
    let mut launches: Vec<Launch> = Vec::new();
    let shape = *y.layout.shape();
    let wide = x
        .layout
        .broadcast_to(&shape)
        .map_err(|e| crate::Error::new(crate::ErrorKind::Unsupported, e.to_string()))?;
    let walk = Walk::new(&shape, &[signed(wide.strides()), signed(y.layout.strides())]).merged(1);
    if let Some(launch) = transposed(x, y, &walk)? {
        return Ok(vec![launch]);
    }
    launches.extend(spare(y)?);
    if x.dtype != y.dtype {
        launches.push(ew(COPY, std::slice::from_ref(x), y, [0.0; 2])?);
        return Ok(launches);
    }
    let (walk, size) = grouped(walk, x.dtype.size(), [x.offset, y.offset]);
    launches.push(strided(&walk, size, &x.ptr, &y.ptr)?);
    Ok(launches)
}

/// One launch that copies pieces of `size` bytes, one for each place of the walk; its strides are x's and y's.
pub(super) fn strided(walk: &Walk, size: usize, x: &Ptr, y: &Ptr) -> Result<Launch> {
    let p = params::Copy {
        dims: walk.six()?,
        sx: walk.six_strides(0)?,
        sy: walk.six_strides(1)?,
        count: int(walk.count())?,
        ..Default::default()
    };
    Ok(Launch::new("move", format!("copy_b{size}"), [blocks(walk.count(), 256)?, 1, 1], 256, &p)
        .at(offset_of!(params::Copy, x), x.clone())
        .at(offset_of!(params::Copy, y), y.clone()))
}

/// Bytes that a thread moves at once where it can.
pub(super) const PIECE: usize = 16;

/// The walk in pieces of 16 bytes, if both sides lie in rows that keep them aligned; and the size of a piece.
pub(super) fn grouped(walk: Walk, size: usize, offsets: [usize; 2]) -> (Walk, usize) {
    let (n, last) = (PIECE / size, walk.dims.len().wrapping_sub(1));
    let fits = !walk.dims.is_empty()
        && walk.dims[last].is_multiple_of(n)
        && offsets.iter().all(|o| o.is_multiple_of(PIECE))
        && walk.strides.iter().all(|s| s[last] == 1 && s[..last].iter().all(|&s| s % n as i64 == 0));
    if !fits {
        return (walk, size);
    }
    let mut walk = walk;
    walk.dims[last] /= n;
    for s in &mut walk.strides {
        s[..last].iter_mut().for_each(|s| *s /= n as i64);
    }
    (walk, PIECE)
}

/// A batch of 2-D transposes, if it is one: the walk's last dim steps by one in y, and another dim steps by one in x.
fn transposed(x: &Arg, y: &Arg, walk: &Walk) -> Result<Option<Launch>> {
    let rank = walk.dims.len();
    if !(2..=3).contains(&rank) || walk.strides[1][rank - 1] != 1 || walk.strides[0].iter().any(|&s| s < 0) {
        return Ok(None);
    }
    // Rows of x: the last dim of y. Columns: the dim that steps by one in x.
    let Some(cols) = (0..rank - 1).find(|&d| walk.strides[0][d] == 1) else { return Ok(None) };
    let batch = (0..rank - 1).find(|&d| d != cols);
    let rows = rank - 1;
    let of = |d: Option<usize>, operand: usize| d.map_or(0, |d| walk.strides[operand][d] as usize);
    let takes = |t: DType| matches!(t, DType::F32 | DType::F16 | DType::I8 | DType::U8);
    let kernel = match (x.dtype == y.dtype, x.dtype.size()) {
        (true, size @ (1 | 2 | 4)) => format!("transpose_b{size}"),
        (false, _) if takes(x.dtype) && takes(y.dtype) => "transpose_cast".into(),
        _ => return Ok(None),
    };
    // Spare channels are written along.
    let channels_inside = y.layout.shape().get(1) == Some(&walk.dims[rows]);
    let fill_rows = y.spare_to().filter(|_| channels_inside).unwrap_or(walk.dims[rows]);
    let (b, r, c) = (batch.map_or(1, |d| walk.dims[d]), walk.dims[rows], walk.dims[cols]);
    let p = params::Transpose {
        batch: int(b)?,
        rows: int(r)?,
        cols: int(c)?,
        x_batch: int(of(batch, 0))?,
        x_row: int(of(Some(rows), 0))?,
        y_batch: int(of(batch, 1))?,
        y_row: int(of(Some(cols), 1))?,
        fill_rows: int(fill_rows)?,
        tx: dtype_code(x.dtype),
        ty: dtype_code(y.dtype),
        ..Default::default()
    };
    let picture = fill_rows == 4 && takes(x.dtype) && takes(y.dtype);
    let (kernel, grid) = if picture {
        ("planes_to_pixels".to_owned(), [blocks(c, 256)?, 1, blocks(b, 1)?])
    } else {
        (kernel, [blocks(c, 32)?, blocks(fill_rows, 32)?, blocks(b, 1)?])
    };
    if grid[1] > 65_535 || grid[2] > 65_535 {
        return Ok(None);
    }
    Ok(Some(
        Launch::new("move", kernel, grid, 256, &p)
            .at(offset_of!(params::Transpose, x), x.ptr.clone())
            .at(offset_of!(params::Transpose, y), y.ptr.clone()),
    ))
}

/// Identity, casts, expansions, and what reshapes could not say by strides.
pub(super) fn moved(low: &Lowering, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let label = if x.dtype == y.dtype { "copy".into() } else { format!("cast {}", x.dtype) };
    Ok(DeviceKernel::new(format!("{label} {}", y.dtype), copy(&x, &y)?))
}

/// A transpose that places could not express.
pub(super) fn transpose(low: &Lowering, perm: &[usize], step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let layout = x.layout.permuted(perm).map_err(|e| unsupported(step, &e.to_string()))?;
    Ok(DeviceKernel::new(format!("transpose {}", y.dtype), copy(&Arg { layout, ..x }, &y)?))
}

/// A reshape that places could not express: x in its own order, y contiguous or not.
pub(super) fn reshape(low: &Lowering, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    // One of both must be seen with the other's shape.
    if let Some(layout) = y.layout.reshaped(*x.layout.shape()) {
        let y = Arg { layout, ..y };
        return Ok(DeviceKernel::new(format!("reshape {}", y.dtype), copy(&x, &y)?));
    }
    match x.layout.reshaped(*y.layout.shape()) {
        Some(layout) => {
            Ok(DeviceKernel::new(format!("reshape {}", y.dtype), copy(&Arg { layout, ..x }, &y)?))
        }
        None => Err(unsupported(step, "neither side can be seen with the other's shape")),
    }
}

pub(super) fn unary(low: &Lowering, op: &Unary, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (code, numbers) = match *op {
        Unary::Relu => (1, [0.0; 2]),
        Unary::Sigmoid => (2, [0.0; 2]),
        Unary::Silu => (3, [0.0; 2]),
        Unary::Tanh => (4, [0.0; 2]),
        Unary::Exp => (5, [0.0; 2]),
        Unary::Log => (6, [0.0; 2]),
        Unary::Sqrt => (7, [0.0; 2]),
        Unary::Erf => (8, [0.0; 2]),
        Unary::Floor => (9, [0.0; 2]),
        Unary::Ceil => (10, [0.0; 2]),
        Unary::Round => (11, [0.0; 2]),
        Unary::Cos => (12, [0.0; 2]),
        Unary::Sin => (13, [0.0; 2]),
        Unary::Neg => (14, [0.0; 2]),
        Unary::Abs => (15, [0.0; 2]),
        Unary::Not => (16, [0.0; 2]),
        Unary::Reciprocal => (17, [0.0; 2]),
        Unary::Sign => (18, [0.0; 2]),
        Unary::Softplus => (19, [0.0; 2]),
        Unary::LeakyRelu(slope) => (20, [slope, 0.0]),
        Unary::HardSigmoid(alpha, beta) => (21, [alpha, beta]),
        Unary::HardSwish => (22, [0.0; 2]),
        Unary::Elu(alpha) => (23, [alpha, 0.0]),
        Unary::Mish => (24, [0.0; 2]),
        Unary::Gelu => (25, [0.0; 2]),
        Unary::GeluTanh => (26, [0.0; 2]),
        Unary::IsNan => (27, [0.0; 2]),
        Unary::IsInf(negative, positive) => {
            (28, [f32::from(u8::from(negative)), f32::from(u8::from(positive))])
        }
    };
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    if x.dtype == DType::F64 {
        return Err(unsupported(step, "f64"));
    }
    step_of(step.op.name(), code, &[x], &y, numbers)
}

fn binary_code(kind: BinaryKind) -> i32 {
    match kind {
        BinaryKind::Add => ADD,
        BinaryKind::Sub => 41,
        BinaryKind::Mul => MUL,
        BinaryKind::Div => 43,
        BinaryKind::Pow => 44,
        BinaryKind::Mod => 45,
        BinaryKind::Fmod => 46,
        BinaryKind::And => 47,
        BinaryKind::Or => 48,
        BinaryKind::Xor => 49,
        BinaryKind::Equal => 50,
        BinaryKind::Less => 51,
        BinaryKind::LessOrEqual => 52,
        BinaryKind::Greater => 53,
        BinaryKind::GreaterOrEqual => 54,
        BinaryKind::PRelu => 55,
    }
}

pub(super) fn binary(low: &Lowering, op: &Binary, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let args = [Arg::input(low, step, 0)?, Arg::input(low, step, 1)?];
    step_of(step.op.name(), binary_code(op.kind), &args, &Arg::output(step)?, [0.0; 2])
}

pub(super) fn variadic(low: &Lowering, op: &Variadic, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let code = match op.kind {
        VariadicKind::Min => MIN,
        VariadicKind::Max => MAX,
        VariadicKind::Sum => ADD,
        VariadicKind::Mean => return Err(unsupported(step, "Mean of several tensors")),
    };
    let y = Arg::output(step)?;
    if step.inputs.len() != 2 {
        return Err(unsupported(step, "two operands expected"));
    }
    step_of(step.op.name(), code, &[Arg::input(low, step, 0)?, Arg::input(low, step, 1)?], &y, [0.0; 2])
}

pub(super) fn select(low: &Lowering, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let args = [0, 1, 2].map(|i| Arg::input(low, step, i)).into_iter().collect::<Result<Vec<_>>>()?;
    step_of("where", WHERE, &args, &Arg::output(step)?, [0.0; 2])
}

pub(super) fn clip(low: &Lowering, op: &Clip, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let (x, y) = (Arg::input(low, step, 0)?, Arg::output(step)?);
    let present = |i: usize| step.inputs.get(i).is_some_and(Option::is_some);
    let known = |i: usize, attribute: Option<f32>, open: f32| -> Option<f32> {
        match (attribute, present(i)) {
            (Some(v), _) => Some(v),
            (None, false) => Some(open),
            (None, true) => constant(step, i)?.get_f64(0).map(|v| v as f32),
        }
    };
    let (lo, hi) = (known(1, op.lo, f32::NEG_INFINITY), known(2, op.hi, f32::INFINITY));
    match (lo, hi) {
        (Some(lo), Some(hi)) if x.dtype.is_float() && x.dtype != DType::F64 => {
            step_of("clip", CLIP, &[x], &y, [lo, hi])
        }
        _ if present(1) && present(2) => {
            let args = [x, Arg::input(low, step, 1)?, Arg::input(low, step, 2)?];
            step_of("clip", CLIP3, &args, &y, [0.0; 2])
        }
        _ => Err(unsupported(step, "both bounds expected")),
    }
}

pub(super) fn lookup(low: &Lowering, op: &Lookup, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let Table::Bytes(table) = &op.table else {
        return Err(unsupported(step, "a table of floats"));
    };
    let x = Arg::input(low, step, 0)?;
    let bytes = table.bytes().to_vec();
    let one = Shape::new(&[1]).map_err(|e| unsupported(step, &e.to_string()))?;
    let unused = Arg { layout: Layout::contiguous(one), ..x.clone() };
    let table = Arg {
        ptr: low.constant(Recipe::Bytes(bytes)),
        dtype: DType::U8,
        layout: Layout::contiguous(one),
        offset: 0,
        owned: true,
    };
    step_of("lookup", LOOKUP, &[x, unused, table], &Arg::output(step)?, [0.0; 2])
}

/// A constant of one entry, or one an index of an axis, shaped to broadcast over x.
fn along(low: &Lowering, step: &StepDesc<'_>, i: usize, axis: i64) -> Result<Option<Arg>> {
    if step.inputs.get(i).is_none_or(Option::is_none) {
        return Ok(None);
    }
    let t = constant(step, i).ok_or_else(|| unsupported(step, "scale and zero point are computed"))?;
    let rank = input(step, 0)?.layout.shape().rank();
    let mut dims = vec![1; rank];
    if t.shape().elements() > 1 {
        let bad = |e: saltica_tensor::Error| unsupported(step, &e.to_string());
        if t.shape().rank() > 1 {
            return Err(unsupported(step, "blocked quantization"));
        }
        dims[Shape::axis(axis, rank).map_err(bad)?] = t.shape().elements();
    }
    let shape = Shape::new(&dims).map_err(|e| unsupported(step, &e.to_string()))?;
    let ptr = low.constant(Recipe::Raw(t.clone()));
    Ok(Some(Arg { ptr, dtype: t.dtype(), layout: Layout::contiguous(shape), offset: 0, owned: true }))
}

pub(super) fn quantize(low: &Lowering, axis: i64, forth: bool, step: &StepDesc<'_>) -> Result<DeviceKernel> {
    let x = Arg::input(low, step, 0)?;
    let scale = along(low, step, 1, axis)?.ok_or_else(|| unsupported(step, "no scale"))?;
    let mut args = vec![x, scale];
    args.extend(along(low, step, 2, axis)?);
    let (name, code) = if forth { ("quantize", QUANTIZE) } else { ("dequantize", DEQUANTIZE) };
    step_of(name, code, &args, &Arg::output(step)?, [0.0; 2])
}
