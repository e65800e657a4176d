//! The steps of quantized graphs that have fast kernels.

use super::CpuBackend;
use super::kernels::{Choice, Step, at, conv_constants, dtype, layout, names, step};
use crate::quantize::Scale;
use crate::{PackedConvInteger, PackedQuantConv, Result, quantize as kernel};
use saltica_core::StepDesc;
use saltica_models::graph::ops as model;
use saltica_tensor::{DType, Tensor, View, ViewMut};
use std::sync::Arc;

pub(super) fn conv(cpu: &CpuBackend, op: &model::QuantConv, desc: &StepDesc<'_>) -> Result<Option<Choice>> {
    let (Some((weights, bias)), Some(x), Some(x_dtype)) =
        (conv_constants(desc), layout(desc, 0), dtype(desc, 0))
    else {
        return Ok(None);
    };
    let (isa, pool) = (cpu.isa, Arc::clone(&cpu.pool));
    let constants: Vec<&Tensor> = std::iter::once(weights).chain(bias).collect();
    let packed = cpu
        .quant_convs
        .get(&(op.clone(), x_dtype), &constants, || PackedQuantConv::new(isa, op, x_dtype, weights, bias))?;
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

/// A convolution whose zero point of x is found by an earlier step.
pub(super) fn integer_conv(
    cpu: &CpuBackend,
    op: &model::ConvInteger,
    desc: &StepDesc<'_>,
) -> Result<Option<Choice>> {
    let constant = |i: usize| desc.inputs.get(i).and_then(Option::as_ref).map(|o| o.constant);
    let (Some(Some(weights)), Some(x), Some(x_dtype)) = (constant(1), layout(desc, 0), dtype(desc, 0)) else {
        return Ok(None);
    };
    let zeros = match constant(3) {
        None => None,
        Some(None) => return Ok(None),
        Some(zeros) => zeros,
    };
    let (isa, pool) = (cpu.isa, Arc::clone(&cpu.pool));
    let constants: Vec<&Tensor> = std::iter::once(weights).chain(zeros).collect();
    let packed = cpu.integer_convs.get(&(*op, x_dtype), &constants, || {
        PackedConvInteger::new(isa, op, x_dtype, weights, zeros)
    })?;
    Ok(Some(Box::new(Step {
        label: packed.label(),
        scratch: packed.scratch_bytes(&x, pool.threads()),
        weights: packed.bytes(),
        packed: vec![1, 3],
        run: move |inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>], scratch: &mut [u8]| {
            let zero = inputs.get(2).and_then(Option::as_ref).map_or(0, |z| z.at_f64(0) as i32);
            packed.run(&pool, at(inputs, 0)?, zero, &mut outputs[0], scratch)
        },
    })))
}

pub(super) fn dynamic(cpu: &CpuBackend, desc: &StepDesc<'_>) -> Option<Choice> {
    if dtype(desc, 0) != Some(DType::F32) {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    Some(Box::new(step(format!("quantize by range {name}"), move |inputs, outputs, _| {
        let by = kernel::dynamic(isa, &pool, at(inputs, 0)?, &mut outputs[0])?;
        if let Some(scale) = outputs.get_mut(1) {
            scale.put(0, by.scale);
        }
        if let Some(zero) = outputs.get_mut(2) {
            zero.put(0, by.zero as u8);
        }
        Ok(())
    })))
}

pub(super) fn cast(cpu: &CpuBackend, desc: &StepDesc<'_>) -> Option<Choice> {
    if dtype(desc, 0) != Some(DType::I32) || desc.outputs.first()?.0 != DType::F32 {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    Some(Box::new(step(format!("cast {name}"), move |inputs, outputs, _| {
        kernel::from_i32(isa, &pool, at(inputs, 0)?, &mut outputs[0])
    })))
}

/// The one scale and zero point of a Quantize- or DequantizeLinear, if they are constants for the whole tensor.
fn scale(desc: &StepDesc<'_>) -> Option<Scale> {
    let single = |i: usize| {
        let constant = desc.inputs.get(i)?.as_ref()?.constant?;
        if constant.shape().elements() == 1 { constant.get_f64(0) } else { None }
    };
    let zero = match desc.inputs.get(2).and_then(Option::as_ref) {
        None => 0.0,
        Some(_) => single(2)?,
    };
    Some(Scale { scale: single(1)? as f32, zero: zero as i32 })
}

pub(super) fn quantize(cpu: &CpuBackend, desc: &StepDesc<'_>) -> Option<Choice> {
    let by = scale(desc)?;
    let bytes = matches!(desc.outputs.first()?.0, DType::I8 | DType::U8);
    if dtype(desc, 0) != Some(DType::F32) || !bytes {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    Some(Box::new(step(format!("quantize {name}"), move |inputs, outputs, _| {
        kernel::quantize(isa, &pool, by, at(inputs, 0)?, &mut outputs[0])
    })))
}

pub(super) fn dequantize(cpu: &CpuBackend, desc: &StepDesc<'_>) -> Option<Choice> {
    let by = scale(desc)?;
    if !matches!(dtype(desc, 0), Some(DType::I8 | DType::U8)) || desc.outputs.first()?.0 != DType::F32 {
        return None;
    }
    let (isa, pool, name) = names(cpu);
    Some(Box::new(step(format!("dequantize {name}"), move |inputs, outputs, _| {
        kernel::dequantize(isa, &pool, by, at(inputs, 0)?, &mut outputs[0])
    })))
}

pub(super) fn lookup(cpu: &CpuBackend, op: &model::Lookup, desc: &StepDesc<'_>) -> Option<Choice> {
    if !matches!(dtype(desc, 0), Some(DType::I8 | DType::U8)) {
        return None;
    }
    let (op, pool) = (op.clone(), Arc::clone(&cpu.pool));
    Some(Box::new(step("lookup".to_string(), move |inputs, outputs, _| {
        kernel::lookup(&pool, &op, at(inputs, 0)?, &mut outputs[0])
    })))
}
