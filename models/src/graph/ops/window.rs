//! The sliding window that convolutions and poolings share.

use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};

/// How padding is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoPad {
    /// By numbers.
    Explicit,
    /// output = ceil(input / stride), the odd pixel at the end.
    SameUpper,
    /// output = ceil(input / stride), the odd pixel at the start.
    SameLower,
    /// None.
    Valid,
}

/// A 2-D window: kernel size, stride, dilation and padding, each as (height, width).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Kernel size.
    pub kernel: [usize; 2],
    /// Stride, at least 1.
    pub stride: [usize; 2],
    /// Dilation, at least 1.
    pub dilation: [usize; 2],
    /// Padding as top, left, bottom, right; counts when `auto_pad` is explicit.
    pub pads: [usize; 4],
    /// How padding is given.
    pub auto_pad: AutoPad,
    /// Whether the last, partial window counts (poolings).
    pub ceil_mode: bool,
}

/// Largest kernel side, stride, dilation or padding accepted: beyond any detector, and small enough to never overflow.
const MAX_SIDE: i64 = 1 << 15;

impl Window {
    /// Reads `kernel_shape`, `strides`, `dilations`, `pads`, `auto_pad`. The kernel may be absent (convolutions take it
    /// from the weights); it is 0x0 then.
    pub fn parse(node: &NodeInfo) -> Result<Self> {
        let side = |name: &str, v: i64, least: i64| {
            if (least..=MAX_SIDE).contains(&v) {
                Ok(v as usize)
            } else {
                Err(Error::unsupported(format!("{name} holds {v}, {least} to {MAX_SIDE} expected")))
            }
        };
        let pair = |name: &str, default: usize| -> Result<[usize; 2]> {
            match node.ints(name)?.as_deref() {
                None => Ok([default; 2]),
                Some(&[h, w]) => Ok([side(name, h, 1)?, side(name, w, 1)?]),
                Some(other) => {
                    Err(Error::unsupported(format!("{name} is {other:?}, two numbers expected (2-D)")))
                }
            }
        };
        let pads = match node.ints("pads")?.as_deref() {
            None => [0; 4],
            Some(&[a, b, c, d]) => {
                [side("pads", a, 0)?, side("pads", b, 0)?, side("pads", c, 0)?, side("pads", d, 0)?]
            }
            Some(other) => {
                return Err(Error::unsupported(format!("pads is {other:?}, four numbers expected (2-D)")));
            }
        };
        let auto_pad = match node.string("auto_pad")?.as_deref() {
            None | Some("NOTSET") => AutoPad::Explicit,
            Some("SAME_UPPER") => AutoPad::SameUpper,
            Some("SAME_LOWER") => AutoPad::SameLower,
            Some("VALID") => AutoPad::Valid,
            Some(other) => return Err(Error::unsupported(format!("auto_pad is {other}"))),
        };
        let ceil_mode = node.int("ceil_mode")?.unwrap_or(0) != 0;
        Ok(Window {
            kernel: pair("kernel_shape", 0)?,
            stride: pair("strides", 1)?,
            dilation: pair("dilations", 1)?,
            pads,
            auto_pad,
            ceil_mode,
        })
    }

    /// The kernel's reach with dilation, (height, width).
    pub fn reach(&self) -> [usize; 2] {
        [0, 1].map(|i| (self.kernel[i].max(1) - 1) * self.dilation[i] + 1)
    }

    /// Padding (top, left, bottom, right) for an input of this height and width.
    pub fn pads_for(&self, input: [usize; 2]) -> [usize; 4] {
        let total = |i: usize| {
            let out = input[i].div_ceil(self.stride[i]);
            (out.saturating_sub(1) * self.stride[i] + self.reach()[i]).saturating_sub(input[i])
        };
        match self.auto_pad {
            AutoPad::Explicit => self.pads,
            AutoPad::Valid => [0; 4],
            AutoPad::SameUpper => {
                let (h, w) = (total(0), total(1));
                [h / 2, w / 2, h - h / 2, w - w / 2]
            }
            AutoPad::SameLower => {
                let (h, w) = (total(0), total(1));
                [h - h / 2, w - w / 2, h / 2, w / 2]
            }
        }
    }

    /// Output height and width for an input of this height and width. Errors if the window does not fit once.
    pub fn output(&self, input: [usize; 2]) -> Result<[usize; 2]> {
        let pads = self.pads_for(input);
        let mut out = [0; 2];
        for i in 0..2 {
            let padded = input[i] + pads[i] + pads[i + 2];
            let missing = self.reach()[i].saturating_sub(padded);
            if self.ceil_mode && missing > 0 && missing < self.stride[i] && padded > 0 {
                // Rounded up, one window that hangs out counts.
                out[i] = 1;
                continue;
            }
            let room = padded.checked_sub(self.reach()[i]).ok_or_else(|| {
                Error::shape(format!(
                    "a window of {:?} (dilated) does not fit an input of {input:?} padded by {pads:?}",
                    self.reach()
                ))
            })?;
            out[i] = if self.ceil_mode {
                let n = room.div_ceil(self.stride[i]) + 1;
                // A window must start inside the input or its left padding.
                if (n - 1) * self.stride[i] >= input[i] + pads[i] { n - 1 } else { n }
            } else {
                room / self.stride[i] + 1
            };
        }
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// onnxruntime 1.32: AveragePool 2x2, stride 2, ceil_mode 1 on 1x1x1x6 gives 1x1x1x3.
    #[test]
    fn rounded_up_a_window_may_hang_out_of_the_input() {
        let window = |ceil_mode| Window {
            kernel: [2, 2],
            stride: [2, 2],
            dilation: [1, 1],
            pads: [0; 4],
            auto_pad: AutoPad::Explicit,
            ceil_mode,
        };
        assert_eq!(window(true).output([1, 6]).unwrap(), [1, 3]);
        assert!(window(false).output([1, 6]).is_err());
    }
}
