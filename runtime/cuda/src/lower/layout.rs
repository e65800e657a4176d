//! How values lie on the device, where the plan is free to choose, and how kernels see what lies where.

use saltica_core::LayoutChoice;
use saltica_models::graph::{Op, OutFact};
use saltica_tensor::{DType, Layout};

/// Channels that a vector of 16 bytes holds; a picture's few channels take 4.
pub(super) fn unit(dtype: DType, channels: usize) -> usize {
    match dtype {
        _ if channels <= 4 => 4,
        DType::F16 => 8,
        DType::I8 | DType::U8 => 16,
        _ => 4,
    }
}

/// Elements from pixel to pixel in what a convolution reads.
pub(super) fn pixel_stride(fact: OutFact) -> Option<usize> {
    let channels = *fact.shape.get(1)?;
    Some(channels.next_multiple_of(unit(fact.dtype, channels)))
}

pub(super) fn choose(op: &Op, inputs: &[Option<OutFact>], output: OutFact) -> LayoutChoice {
    match op {
        Op::Conv(_)
        | Op::QuantConv(_)
        | Op::ConvInteger(_)
        | Op::ConvTranspose(_)
        | Op::Pool(_)
        | Op::Resize(_)
            if output.shape.rank() == 4 =>
        {
            LayoutChoice::ChannelsLast
        }
        // Element by element: as the operand that has the result's shape lies.
        Op::Unary(_)
        | Op::Binary(_)
        | Op::Clip(_)
        | Op::Softmax(_)
        | Op::Identity(_)
        | Op::Lookup(_)
        | Op::QuantizeLinear(_)
        | Op::DequantizeLinear(_)
        | Op::Where(_)
        | Op::Cast(_) => {
            let like = inputs.iter().position(|i| i.is_some_and(|i| i.shape == output.shape));
            like.map_or(LayoutChoice::Contiguous, LayoutChoice::Like)
        }
        _ => LayoutChoice::Contiguous,
    }
}

/// A picture with channels innermost: strides of image, row and pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nhwc {
    pub(super) image: usize,
    pub(super) row: usize,
    pub(super) pixel: usize,
}

/// The strides, if channels are innermost. Strides of dims of size 1 are made to fit.
pub(super) fn nhwc(layout: &Layout) -> Option<Nhwc> {
    let (&[n, c, h, w], &[sn, sc, sh, sw]) = (layout.shape().dims(), layout.strides()) else { return None };
    if c > 1 && sc != 1 {
        return None;
    }
    let pixel = if w > 1 {
        sw
    } else if let Some(packed) = layout.pixel_stride() {
        packed
    } else {
        c
    };
    let row = if h > 1 { sh } else { w * pixel };
    let image = if n > 1 { sn } else { h * row };
    Some(Nhwc { image, row, pixel })
}

/// As [`nhwc`], with rows that follow each other: what convolutions write.
pub(super) fn rows_packed(layout: &Layout) -> Option<Nhwc> {
    let w = layout.shape().get(3)?;
    nhwc(layout).filter(|s| s.row == w * s.pixel)
}

/// Elements from pixel to pixel, if there are spare channels in them and they belong to the value: its buffer is its own, and
/// the pixel stride is its channels rounded up to a unit. The stride alone says nothing: a part of a concat may have the same.
pub(super) fn spare_to(layout: &Layout, dtype: DType, owned: bool) -> Option<usize> {
    let &c = layout.shape().get(1)?;
    let pixel = layout.pixel_stride().filter(|_| owned)?;
    (pixel > c && pixel == c.next_multiple_of(unit(dtype, c))).then_some(pixel)
}
