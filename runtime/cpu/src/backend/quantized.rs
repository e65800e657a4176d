//! The steps of quantized graphs that have fast kernels.

use super::CpuBackend;
use super::kernels::{Choice, Step, at, conv_constants, dtype, layout, names, step};
use crate::quantize::Scale;
use crate::{PackedQuantConv, Result, quantize as kernel};
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
    let packed =
        cpu.quant_convs.get(op, &constants, || PackedQuantConv::new(isa, op, x_dtype, weights, bias))?;
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
