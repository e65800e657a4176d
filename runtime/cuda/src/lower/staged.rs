//! Convolutions whose operands lie in an order their kernels do not take: copied into pixels and back, through scratch.

use super::elementwise::{Arg, copy};
use super::layout::{nhwc, rows_packed, spare_to, unit};
use super::{countable, unsupported};
use crate::Result;
use crate::launch::{DeviceKernel, Launch, Ptr};
use saltica_core::{Compiled, Operand, StepDesc};
use saltica_tensor::{DType, Layout};

const ALIGN: usize = 256;

/// Channels-last with whole vectors of channels.
fn pixels(step: &StepDesc<'_>, layout: &Layout, dtype: DType) -> Result<Layout> {
    let shape = *layout.shape();
    let channels = shape.get(1).copied().unwrap_or(1);
    let layout = Layout::channels_last(shape, channels.next_multiple_of(unit(dtype, channels)))
        .map_err(|e| unsupported(step, &e.to_string()))?;
    countable(step, &layout)?;
    Ok(layout)
}

/// Whether a kernel can read whole vectors of channels from it.
fn is_read_well(x: &Operand<'_>) -> bool {
    let channels = x.layout.shape().get(1).copied().unwrap_or(0);
    let lanes = unit(x.dtype, channels);
    nhwc(&x.layout).is_some_and(|s| {
        [s.pixel, s.row, s.image].iter().all(|s| s.is_multiple_of(lanes))
            && x.offset.is_multiple_of(lanes * x.dtype.size())
            && (channels.is_multiple_of(lanes) || spare_to(&x.layout, x.dtype, x.owned).is_some())
            && (channels > 4 || s.pixel == lanes)
    })
}

/// Lowers a step after bringing what is in the way into pixels.
pub(super) fn in_pixels(
    step: &StepDesc<'_>,
    lower: &dyn Fn(&StepDesc<'_>) -> Result<DeviceKernel>,
) -> Result<DeviceKernel> {
    let mut inner = step.clone();
    // Input or output number, and where it begins among the staged bytes.
    let (mut inputs, mut output, mut bytes) = (Vec::new(), None, 0);
    let mut room = |layout: &Layout, dtype: DType| {
        let at = bytes;
        let pixels = layout.shape().elements() / layout.shape()[1].max(1);
        let stride = layout.pixel_stride().unwrap_or(1);
        bytes += (pixels * stride * dtype.size()).next_multiple_of(ALIGN);
        at
    };
    for i in [0, 3] {
        let Some(Some(x)) = inner.inputs.get_mut(i) else { continue };
        if x.constant.is_some() || x.layout.shape().rank() != 4 || x.layout.shape().elements() == 0 {
            continue;
        }
        let fine = if i == 0 { is_read_well(x) } else { rows_packed(&x.layout).is_some() };
        if !fine {
            x.layout = pixels(step, &x.layout, x.dtype)?;
            (x.offset, x.owned) = (0, true);
            inputs.push((i, room(&x.layout, x.dtype)));
        }
    }
    if let (Some((dtype, layout)), Some(offset)) = (inner.outputs.first_mut(), inner.offsets.first_mut())
        && layout.shape().rank() == 4
        && rows_packed(layout).is_none()
    {
        *layout = pixels(step, layout, *dtype)?;
        *offset = 0;
        inner.owned = vec![true];
        output = Some(room(layout, *dtype));
    }
    let kernel = lower(&inner)?;
    if inputs.is_empty() && output.is_none() {
        return Ok(kernel);
    }
    let base = kernel.scratch_bytes().next_multiple_of(ALIGN);
    let place = |ptr: &Ptr| match ptr {
        Ptr::Input(i, more) => {
            let (_, at) = inputs.iter().find(|(staged, _)| staged == i)?;
            Some(Ptr::Scratch(base + at + more))
        }
        Ptr::Output(0, more) => output.map(|at| Ptr::Scratch(base + at + more)),
        _ => None,
    };
    let kernel = kernel.redirected(&place);
    let mut before: Vec<Launch> = Vec::new();
    for &(i, at) in &inputs {
        if let (Some(Some(from)), Some(Some(to))) = (step.inputs.get(i), inner.inputs.get(i)) {
            let x = Arg::at(Ptr::Input(i, 0), from);
            let y = Arg::at(Ptr::Scratch(base + at), to);
            before.extend(copy(&x, &y)?);
        }
    }
    let mut after: Vec<Launch> = Vec::new();
    if let (Some(at), Some((dtype, layout))) = (output, inner.outputs.first()) {
        let x = Arg { ptr: Ptr::Scratch(base + at), dtype: *dtype, layout: *layout, offset: 0, owned: true };
        after.extend(copy(&x, &Arg::output(step)?)?);
    }
    Ok(kernel.between(&before, &after, base + bytes))
}
