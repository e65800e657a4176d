//! 2-D convolution with a fused epilogue: weights packed once, no im2col buffer.

mod depthwise;
mod direct;
pub(crate) mod finish;
mod int8;
#[cfg(test)]
mod int8_tests;
mod int_depthwise;
mod int_finish;
mod int_kernel;
pub(crate) mod kernel;
mod pixels;
mod transpose;

use crate::pool::Pool;
use crate::ptr::Shared;
use crate::{Error, Isa, Result};
use depthwise::Depthwise;
use direct::Direct;
pub(crate) use int_kernel::{int_rows, is_dot};
pub use int8::{PackedConvInteger, PackedQuantConv};
use saltica_models::graph::Activation;
use saltica_models::graph::ops::{Conv, Residual, window::Window};
use saltica_tensor::storage::AlignedBytes;
use saltica_tensor::{DType, Layout, Tensor, View, ViewMut};
pub use transpose::PackedConvTranspose;

/// A convolution whose weights lie in the order its kernel reads them.
pub struct PackedConv {
    window: Window,
    /// Input channels, output channels.
    channels: [usize; 2],
    epilogue: Epilogue,
    kernel: Kind,
}

enum Kind {
    Direct(Direct),
    Depthwise(Depthwise),
}

/// What happens to a sum before it is stored.
#[derive(Clone, Copy)]
struct Epilogue {
    activation: Activation,
    residual: Residual,
}

/// Sizes and strides of one run. Strides are in floats, in the order N, C, H, W.
#[derive(Clone, Copy)]
struct Geometry {
    n: usize,
    h: usize,
    w: usize,
    oh: usize,
    ow: usize,
    kernel: [usize; 2],
    stride: [usize; 2],
    dilation: [usize; 2],
    /// Top, left.
    pads: [usize; 2],
    x: [usize; 4],
    y: [usize; 4],
    r: [usize; 4],
}

/// Addresses of one run: all elements of the views that the geometry describes.
#[derive(Clone, Copy)]
struct Io {
    x: Shared<f32>,
    r: Shared<f32>,
    y: Shared<f32>,
}

impl PackedConv {
    /// Packs weights `[O, C/group, kh, kw]` and a bias `[O]`, both f32, for `isa`. Errors if they do not fit the op.
    pub fn new(isa: Isa, conv: &Conv, weights: &Tensor, bias: Option<&Tensor>) -> Result<Self> {
        let window = conv.window_for(weights.shape())?;
        let (o, icg) = (weights.shape()[0], weights.shape()[1]);
        if conv.group == 0 || o == 0 || icg == 0 || !o.is_multiple_of(conv.group) {
            return Err(Error::shape(format!("weights {} do not fit group {}", weights.shape(), conv.group)));
        }
        if window.kernel.contains(&0) || window.stride.contains(&0) || window.dilation.contains(&0) {
            return Err(Error::shape(format!("a window with a zero: {window:?}")));
        }
        let w = weights.as_slice::<f32>()?;
        let bias = bias.map(|b| b.as_slice::<f32>()).transpose()?;
        if let Some(b) = bias
            && b.len() != o
        {
            return Err(Error::shape(format!("bias has {} elements, {o} expected", b.len())));
        }
        let taps = window.kernel[0] * window.kernel[1];
        let kernel = if icg == 1 && o == conv.group && o > 1 {
            Kind::Depthwise(Depthwise::pack(isa, o, taps, w, bias)?)
        } else {
            Kind::Direct(Direct::pack(isa, conv.group, [icg, o / conv.group], taps, w, bias)?)
        };
        Ok(PackedConv {
            window,
            channels: [icg * conv.group, o],
            epilogue: Epilogue { activation: conv.activation, residual: conv.residual },
            kernel,
        })
    }

    /// The table row that runs, for profiles: `conv avx512 14x32` (pixels by channels of a tile).
    pub fn label(&self) -> String {
        match &self.kernel {
            Kind::Direct(d) => d.label(),
            Kind::Depthwise(d) => d.label(),
        }
    }

    /// Bytes of packed weights and bias.
    pub fn bytes(&self) -> usize {
        match &self.kernel {
            Kind::Direct(d) => d.bytes(),
            Kind::Depthwise(d) => d.bytes(),
        }
    }

    /// Bytes of scratch that [`Self::run`] needs for an input of this layout on this many threads.
    pub fn scratch_bytes(&self, x: &Layout, threads: usize) -> usize {
        match &self.kernel {
            Kind::Direct(d) => d.scratch_bytes(x, threads),
            Kind::Depthwise(_) => 0,
        }
    }

    /// Computes y from x (and the residual, if the op has one). All f32; any strides; channels-last is fast. Errors if
    /// shapes or dtypes do not fit, or the scratch is smaller than [`Self::scratch_bytes`] says.
    pub fn run(
        &self,
        pool: &Pool,
        x: &View<'_>,
        residual: Option<&View<'_>>,
        y: &mut ViewMut<'_>,
        scratch: &mut [u8],
    ) -> Result<()> {
        let g = self.geometry(x, residual, y)?;
        let need = self.scratch_bytes(x.layout(), pool.threads());
        if scratch.len() < need {
            return Err(Error::shape(format!("{} bytes of scratch found, {need} expected", scratch.len())));
        }
        if g.n * g.oh * g.ow == 0 {
            return Ok(());
        }
        let io = Io {
            x: Shared(x.as_ptr::<f32>().cast_mut()),
            r: Shared(residual.map_or(std::ptr::null_mut(), |r| r.as_ptr::<f32>().cast_mut())),
            y: Shared(y.as_mut_ptr::<f32>()),
        };
        // SAFETY: `geometry` has checked shapes and dtypes, so the addresses are those of the views' elements.
        unsafe {
            match &self.kernel {
                Kind::Direct(d) => d.run(pool, &g, io, self.epilogue, scratch),
                Kind::Depthwise(d) => d.run(pool, &g, io, self.epilogue),
            }
        }
    }

    fn geometry(&self, x: &View<'_>, residual: Option<&View<'_>>, y: &ViewMut<'_>) -> Result<Geometry> {
        let [c, o] = self.channels;
        let &[n, xc, h, w] = x.shape().dims() else {
            return Err(Error::shape(format!("x is {}, rank 4 expected", x.shape())));
        };
        if xc != c {
            return Err(Error::shape(format!("x has {xc} channels, {c} expected")));
        }
        let [oh, ow] = self.window.output([h, w])?;
        let want = [n, o, oh, ow];
        let pads = self.window.pads_for([h, w]);
        if y.shape().dims() != want {
            return Err(Error::shape(format!("y is {}, {want:?} expected", y.shape())));
        }
        let residual = match (self.epilogue.residual, residual) {
            (Residual::None, None) => None,
            (Residual::None, Some(_)) => {
                return Err(Error::shape("a residual was given to an op without one"));
            }
            (_, Some(r)) if r.shape().dims() == want => Some(r),
            (_, Some(r)) => {
                return Err(Error::shape(format!("residual is {}, {want:?} expected", r.shape())));
            }
            (_, None) => return Err(Error::shape("the residual is missing")),
        };
        let dtypes = [x.dtype(), y.dtype(), residual.map_or(DType::F32, |r| r.dtype())];
        if dtypes != [DType::F32; 3] {
            return Err(Error::unsupported(format!("dtypes (x, y, residual) are {dtypes:?}, f32 expected")));
        }
        Ok(Geometry {
            n,
            h,
            w,
            oh,
            ow,
            kernel: self.window.kernel,
            stride: self.window.stride,
            dilation: self.window.dilation,
            pads: [pads[0], pads[1]],
            x: strides(x.layout()),
            y: strides(y.layout()),
            r: residual.map_or([0; 4], |r| strides(r.layout())),
        })
    }
}

/// The four strides; that of a single channel carries no information and is called 1.
fn strides(layout: &Layout) -> [usize; 4] {
    let mut s = [0; 4];
    s.copy_from_slice(layout.strides());
    if layout.shape()[1] == 1 {
        s[1] = 1;
    }
    s
}

/// Zeroed floats, aligned to a cache line.
struct Floats(AlignedBytes);

impl Floats {
    fn zeroed(len: usize) -> Result<Self> {
        let bytes = len
            .checked_mul(4)
            .ok_or_else(|| Error::shape(format!("{len} packed weights are more than memory can hold")))?;
        Ok(Floats(AlignedBytes::zeroed(bytes)?))
    }

    fn get(&self) -> &[f32] {
        bytemuck::cast_slice(self.0.as_slice())
    }

    fn get_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(self.0.as_mut_slice())
    }

    fn bytes(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests;
