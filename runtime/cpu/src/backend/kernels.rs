//! The steps that have fast kernels. Each function looks at a step's operands and answers with a kernel, or `None` if the
//! fast kernel does not take them.

use super::CpuBackend;
use crate::gemm::PackedMatrix;
use crate::reduce::Fold;
use crate::resize::Tap;
use crate::{Isa, PackedConv, PackedConvTranspose, Pool, Result};
use crate::{copy as copying, elementwise, gemm as product, pooling};
use saltica_core::{Error, ErrorKind, Kernel, StepDesc};
use saltica_models::graph::ops as model;
use saltica_models::graph::{Activation, Op};
use saltica_tensor::{DType, Layout, Shape, StepViews, Tensor, View, ViewMut};
use std::sync::Arc;

/// A kernel ready to run.
pub(super) type Choice = Box<dyn Kernel>;

/// A kernel made of a function over a step's views.
pub(super) struct Step<F> {
    pub(super) label: String,
    pub(super) scratch: usize,
    pub(super) weights: usize,
    /// Inputs that were packed and are not read again.
    pub(super) packed: Vec<usize>,
    pub(super) run: F,
}

impl<F> Kernel for Step<F>
where
    F: Fn(&[Option<View<'_>>], &mut [ViewMut<'_>], &mut [u8]) -> Result<()> + Send + Sync,
{
    fn label(&self) -> String {
        self.label.clone()
    }

    fn scratch_bytes(&self) -> usize {
        self.scratch
    }

    fn weight_bytes(&self) -> usize {
        self.weights
    }

    fn reads(&self, input: usize) -> bool {
        !self.packed.contains(&input)
    }

    fn run(&self, io: StepViews<'_>) -> saltica_core::Result<()> {
        (self.run)(io.inputs, io.outputs, io.scratch)
            .map_err(|e| Error::new(ErrorKind::Run, format!("{}: {e}", self.label)))
    }
}

pub(super) fn step<F>(label: String, run: F) -> Step<F>
where
    F: Fn(&[Option<View<'_>>], &mut [ViewMut<'_>], &mut [u8]) -> Result<()> + Send + Sync,
{
    Step { label, scratch: 0, weights: 0, packed: Vec::new(), run }
}

/// Input `i` of a step that has one (the planner and the shape rules have seen to it).
pub(super) fn at<'v, 'a>(inputs: &'v [Option<View<'a>>], i: usize) -> Result<&'v View<'a>> {
    inputs.get(i).and_then(Option::as_ref).ok_or_else(|| crate::Error::shape(format!("input {i} is missing")))
}

pub(super) fn dtype(step: &StepDesc<'_>, i: usize) -> Option<DType> {
    step.inputs.get(i)?.as_ref().map(|o| o.dtype)
}

/// Whether all present inputs and outputs are f32.
fn all_f32(step: &StepDesc<'_>) -> bool {
    step.inputs.iter().flatten().all(|o| o.dtype == DType::F32)
        && step.outputs.iter().all(|(d, _)| *d == DType::F32)
}

pub(super) fn layout(step: &StepDesc<'_>, i: usize) -> Option<Layout> {
    step.inputs.get(i)?.as_ref().map(|o| o.layout)
}

pub(super) fn names(cpu: &CpuBackend) -> (Isa, Arc<Pool>, String) {
    (cpu.isa, Arc::clone(&cpu.pool), format!("{}", cpu.isa))
}

/// The constants of a convolution, weights and bias; `None` if one of them is computed.
pub(super) fn conv_constants<'t>(desc: &StepDesc<'t>) -> Option<(&'t Tensor, Option<&'t Tensor>)> {
    let constant = |i: usize| desc.inputs.get(i).and_then(Option::as_ref).map(|o| o.constant);
    let weights = constant(1)??;
    match constant(2) {
        None => Some((weights, None)),
        Some(bias) => Some((weights, Some(bias?))),
    }
}

pub(super) fn conv(cpu: &CpuBackend, op: &model::Conv, desc: &StepDesc<'_>) -> Result<Option<Choice>> {
    let (pool, isa) = (Arc::clone(&cpu.pool), cpu.isa);
    let (Some((weights, bias)), Some(x)) = (conv_constants(desc), layout(desc, 0)) else { return Ok(None) };
    if !all_f32(desc) {
        return Ok(None);
    }
    let constants: Vec<&Tensor> = std::iter::once(weights).chain(bias).collect();
    let packed = cpu.convs.get(op, &constants, || PackedConv::new(isa, op, weights, bias))?;
    Ok(Some(Box::new(Step {
        label: packed.label(),
        scratch: packed.scratch_bytes(&x, pool.threads()),
        weights: packed.bytes(),
        packed: vec![1, 2],
        run: move |inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>], scratch: &mut [u8]| {
            let residual = inputs.get(3).and_then(Option::as_ref);
            packed.run(&pool, at(inputs, 0)?, residual, &mut outputs[0], scratch)
        },
    })))
}

pub(super) fn conv_transpose(
    cpu: &CpuBackend,
    op: &model::ConvTranspose,
    desc: &StepDesc<'_>,
) -> Result<Option<Choice>> {
    let (Some((weights, bias)), Some(x), Some((_, y))) =
        (conv_constants(desc), layout(desc, 0), desc.outputs.first())
    else {
        return Ok(None);
    };
    let (&[_, _, h, w], &[_, _, oh, ow]) = (x.shape().dims(), y.shape().dims()) else { return Ok(None) };
    if !all_f32(desc) {
        return Ok(None);
    }
    let pool = Arc::clone(&cpu.pool);
    let Some(packed) = PackedConvTranspose::new(cpu.isa, op, weights, bias, [h, w], [oh, ow])? else {
        return Ok(None);
    };
    Ok(Some(Box::new(Step {
        label: packed.label(),
        scratch: packed.scratch_bytes(&x, pool.threads()),
        weights: packed.bytes(),
        packed: vec![1, 2],
        run: move |inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>], scratch: &mut [u8]| {
            packed.run(&pool, at(inputs, 0)?, &mut outputs[0], scratch)
        },
    })))
}

pub(super) fn reduce(cpu: &CpuBackend, op: &model::Reduce, desc: &StepDesc<'_>) -> Option<Choice> {
    let fold = match op.kind {
        model::ReduceKind::Sum => Fold::Sum,
        model::ReduceKind::Mean => Fold::Mean,
        model::ReduceKind::Max => Fold::Max,
        model::ReduceKind::Min => Fold::Min,
        _ => return None,
    };
    let x = layout(desc, 0)?;
    let rank = x.shape().rank();
    let axes: Vec<i64> = match desc.inputs.get(1).and_then(Option::as_ref) {
        Some(axes) => axes.constant?.as_slice::<i64>().ok()?.to_vec(),
        None => op.axes.clone().unwrap_or_default(),
    };
    let mut gone = vec![axes.is_empty() && !op.noop_with_empty_axes; rank];
    for axis in axes {
        gone[Shape::axis(axis, rank).ok()?] = true;
    }
    folding(cpu, fold, gone, desc)
}

pub(super) fn global_pool(cpu: &CpuBackend, op: &model::GlobalPool, desc: &StepDesc<'_>) -> Option<Choice> {
    let rank = layout(desc, 0)?.shape().rank();
    let gone = (0..rank).map(|d| d >= 2).collect();
    folding(cpu, if op.max { Fold::Max } else { Fold::Mean }, gone, desc)
}

/// The kernel that folds the dims that are `gone`; of none it would make what the reference says.
fn folding(cpu: &CpuBackend, fold: Fold, gone: Vec<bool>, desc: &StepDesc<'_>) -> Option<Choice> {
    let x = layout(desc, 0)?;
    let floats = dtype(desc, 0) == Some(DType::F32) && desc.outputs.first()?.0 == DType::F32;
    if !floats || x.shape().elements() == 0 {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    Some(Box::new(step(format!("reduce {name}"), move |inputs, outputs, _| {
        crate::reduce::reduce(isa, &pool, fold, &gone, at(inputs, 0)?, &mut outputs[0])
    })))
}

pub(super) fn gather(cpu: &CpuBackend, op: &model::Gather, desc: &StepDesc<'_>) -> Option<Choice> {
    /// Slices that are copied one after another; more are better walked together.
    const MOST: usize = 64;
    let (x, indices) = (layout(desc, 0)?, layout(desc, 1)?);
    let axis = Shape::axis(op.axis, x.shape().rank()).ok()?;
    if indices.shape().rank() > 1 || indices.shape().elements() > MOST {
        return None;
    }
    let pool = Arc::clone(&cpu.pool);
    Some(Box::new(step("gather copy".to_string(), move |inputs, outputs, _| {
        copying::gather(&pool, axis, at(inputs, 0)?, at(inputs, 1)?, &mut outputs[0])
    })))
}

pub(super) fn unary(cpu: &CpuBackend, op: &model::Unary, desc: &StepDesc<'_>) -> Option<Choice> {
    if !all_f32(desc) || !elementwise::has_unary(op) {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    let op = *op;
    Some(Box::new(step(format!("unary {name}"), move |inputs, outputs, _| {
        elementwise::unary(isa, &pool, &op, at(inputs, 0)?, &mut outputs[0])
    })))
}

pub(super) fn binary(cpu: &CpuBackend, op: &model::Binary, desc: &StepDesc<'_>) -> Option<Choice> {
    if !all_f32(desc) || !elementwise::has_binary(op.kind) {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    let kind = op.kind;
    Some(Box::new(step(format!("binary {name}"), move |inputs, outputs, _| {
        elementwise::binary(isa, &pool, kind, at(inputs, 0)?, at(inputs, 1)?, &mut outputs[0])
    })))
}

pub(super) fn pool(cpu: &CpuBackend, op: &model::Pool, desc: &StepDesc<'_>) -> Option<Choice> {
    if !pooling::has_pool(op, dtype(desc, 0)?) || desc.outputs.len() != 1 {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    let op = *op;
    Some(Box::new(step(format!("pool {name}"), move |inputs, outputs, _| {
        pooling::pool(isa, &pool, &op, at(inputs, 0)?, &mut outputs[0])
    })))
}

pub(super) fn softmax(cpu: &CpuBackend, op: &model::Softmax, desc: &StepDesc<'_>) -> Option<Choice> {
    let rank = layout(desc, 0)?.shape().rank();
    let axis = Shape::axis(op.axis, rank).ok()?;
    // Flattened to two dims, the softmax runs over all dims from the axis on: the same thing for the last axis.
    if !all_f32(desc) || op.log || (op.flatten && axis + 1 != rank) {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    Some(Box::new(step(format!("softmax {name}"), move |inputs, outputs, _| {
        crate::softmax::softmax(isa, &pool, axis, at(inputs, 0)?, &mut outputs[0])
    })))
}

pub(super) fn resize(cpu: &CpuBackend, op: &model::Resize, desc: &StepDesc<'_>) -> Result<Option<Choice>> {
    let (Some(x), Some((_, y))) = (layout(desc, 0), desc.outputs.first()) else { return Ok(None) };
    let constant = |i: usize| match desc.inputs.get(i).and_then(Option::as_ref) {
        None => Some(None),
        Some(o) => o.constant.map(|t| Some(t.view())),
    };
    let (Some(scales), Some(sizes)) = (constant(op.scales_input), constant(op.scales_input + 1)) else {
        return Ok(None);
    };
    let axes = op.resolve(x.shape(), scales, sizes)?;
    if x.shape().rank() != 4 || axes[0].scale != 1.0 || axes[1].scale != 1.0 || y.shape().elements() == 0 {
        return Ok(None);
    }
    let (isa, pool, name) = names(cpu);
    let nearest =
        |d: usize| (0..axes[d].output).map(|o| op.nearest_source(&axes[d], o)).collect::<Option<Vec<_>>>();
    if let (Some(rows), Some(columns)) = (nearest(2), nearest(3)) {
        return Ok(Some(Box::new(step(format!("resize nearest {name}"), move |inputs, outputs, _| {
            crate::resize::nearest(&pool, at(inputs, 0)?, &rows, &columns, &mut outputs[0])
        }))));
    }
    let linear = |d: usize| {
        (0..axes[d].output)
            .map(|o| op.linear_source(&axes[d], o).map(|(from, weight)| Tap { from, weight }))
            .collect::<Option<Vec<_>>>()
    };
    match (linear(2), linear(3)) {
        (Some(rows), Some(columns)) if dtype(desc, 0) == Some(DType::F32) => {
            Ok(Some(Box::new(step(format!("resize bilinear {name}"), move |inputs, outputs, _| {
                crate::resize::bilinear(isa, &pool, at(inputs, 0)?, &rows, &columns, &mut outputs[0])
            }))))
        }
        _ => Ok(None),
    }
}

pub(super) fn matmul(cpu: &CpuBackend, desc: &StepDesc<'_>) -> Result<Option<Choice>> {
    let (Some(a), Some(Some(b))) = (layout(desc, 0), desc.inputs.get(1)) else { return Ok(None) };
    if !all_f32(desc) || a.shape().rank() == 0 {
        return Ok(None);
    }
    let (isa, pool, name) = names(cpu);
    if let Some(constant) = b.constant
        && constant.shape().rank() == 2
    {
        let packed = PackedMatrix::new(isa, &constant.view(), 1.0, None)?;
        return Ok(Some(Box::new(Step {
            label: format!("matmul packed {name}"),
            scratch: packed.scratch_bytes(),
            weights: packed.bytes(),
            packed: vec![1],
            run: move |inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>], scratch: &mut [u8]| {
                packed.run(&pool, at(inputs, 0)?, None, Activation::None, &mut outputs[0], scratch)
            },
        })));
    }
    let dims = b.layout.shape().dims();
    let (k, n) = match *dims {
        [] => return Ok(None),
        [k] => (k, 1),
        [.., k, n] => (k, n),
    };
    Ok(Some(Box::new(Step {
        label: format!("matmul {name}"),
        scratch: product::matmul_scratch_bytes(k, n),
        weights: 0,
        packed: Vec::new(),
        run: move |inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>], scratch: &mut [u8]| {
            product::matmul(isa, &pool, at(inputs, 0)?, at(inputs, 1)?, &mut outputs[0], scratch)
        },
    })))
}

pub(super) fn gemm(cpu: &CpuBackend, op: &model::Gemm, desc: &StepDesc<'_>) -> Result<Option<Choice>> {
    let Some(Some(constant)) = desc.inputs.get(1).map(|b| b.as_ref().and_then(|b| b.constant)) else {
        return Ok(None);
    };
    if !all_f32(desc) || op.trans_a || op.beta != 1.0 {
        return Ok(None);
    }
    let (isa, pool, name) = names(cpu);
    let b = constant.view();
    let turned = if op.trans_b { b.layout().permuted(&[1, 0])? } else { *b.layout() };
    let Some(b) = b.with_layout(0, turned) else { return Ok(None) };
    let packed = PackedMatrix::new(isa, &b, op.alpha, None)?;
    Ok(Some(Box::new(Step {
        label: format!("gemm {name}"),
        scratch: packed.scratch_bytes(),
        weights: packed.bytes(),
        packed: vec![1],
        run: move |inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>], scratch: &mut [u8]| {
            let c = inputs.get(2).and_then(Option::as_ref);
            packed.run(&pool, at(inputs, 0)?, c, Activation::None, &mut outputs[0], scratch)
        },
    })))
}

/// Steps that only move elements: what the plan could not say by strides.
pub(super) fn copy(cpu: &CpuBackend, desc: &StepDesc<'_>) -> Option<Choice> {
    let x = layout(desc, 0)?;
    let perm: Option<Vec<usize>> = match desc.op {
        Op::Transpose(op) => Some(op.perm_for(x.shape().rank())[..x.shape().rank()].to_vec()),
        _ => None,
    };
    let turned = match &perm {
        Some(perm) => x.permuted(perm).ok()?,
        None => x,
    };
    let pool = Arc::clone(&cpu.pool);
    Some(Box::new(step("copy".to_string(), move |inputs, outputs, _| {
        let x = at(inputs, 0)?;
        let x = x
            .with_layout(0, turned)
            .ok_or_else(|| crate::Error::shape(format!("{} cannot be turned", x.shape())))?;
        copying::copy(&pool, &x, &mut outputs[0])
    })))
}
