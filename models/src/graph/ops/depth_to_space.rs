use super::from_node::{Built, case, node, t, text};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{Shape, View, ViewMut, f16};

/// Largest block side accepted: beyond any detector, and small enough to never overflow.
const MAX_BLOCK: i64 = 1 << 12;

fn block(node: &NodeInfo) -> Result<usize> {
    let missing = || Error::new(ErrorKind::Malformed, "attribute blocksize is missing");
    let b = node.int("blocksize")?.ok_or_else(missing)?;
    if (1..=MAX_BLOCK).contains(&b) {
        Ok(b as usize)
    } else {
        Err(Error::unsupported(format!("blocksize is {b}, 1 to {MAX_BLOCK} expected")))
    }
}

fn nchw(x: &Shape) -> Result<[usize; 4]> {
    <[usize; 4]>::try_from(x.dims()).map_err(|_| Error::shape(format!("x is {x}, rank 4 expected")))
}

/// Strides can always say dims that are split, so this never happens; it is an error rather than a panic.
fn unfit() -> Error {
    Error::shape("a view's dims cannot be split")
}

/// Channels turned into pixels, [ONNX DepthToSpace](https://onnx.ai/onnx/operators/onnx__DepthToSpace.html):
/// `[N, b*b*C, H, W]` to `[N, C, H*b, W*b]`. Any dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct DepthToSpace {
    /// Side of the block of pixels that one input pixel becomes.
    pub block: usize,
    /// Whether channels are counted outside the block (CRD) or inside it (DCR).
    pub channels_first: bool,
}

impl Operator for DepthToSpace {
    fn parse(node: &NodeInfo) -> Result<Self> {
        let channels_first = match node.string("mode")?.as_deref() {
            None | Some("DCR") => false,
            Some("CRD") => true,
            Some(other) => return Err(Error::unsupported(format!("mode is {other}, DCR or CRD expected"))),
        };
        Ok(DepthToSpace { block: block(node)?, channels_first })
    }

    fn name(&self) -> &str {
        "DepthToSpace"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let [n, c, h, w] = nchw(&x.shape)?;
        let b = self.block;
        if c % (b * b) != 0 {
            return Err(Error::shape(format!("{c} channels cannot fill blocks of {b}x{b}")));
        }
        let shape = Shape::new(&[n, c / (b * b), h.saturating_mul(b), w.saturating_mul(b)])?;
        Ok(vec![OutFact { dtype: x.dtype, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let [n, c, h, w] = nchw(x.shape())?;
        let b = self.block;
        let c = c / (b * b);
        let (apart, perm) = if self.channels_first {
            ([n, c, b, b, h, w], [0, 1, 4, 2, 5, 3])
        } else {
            ([n, b, b, c, h, w], [0, 3, 4, 1, 5, 2])
        };
        let x = x.reshaped(Shape::new(&apart)?).ok_or_else(unfit)?.permuted(&perm)?;
        let mut y = outputs[0].reborrow().reshaped(*x.shape()).ok_or_else(unfit)?;
        y.copy_from(&x);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let mode =
            |mode: &str| node("DepthToSpace", 13, vec![("blocksize", Attr::Int(2)), ("mode", text(mode))]);
        // [1, 8, 1, 2] holding channel * 10 + column.
        let x: Vec<i64> = (0..8).flat_map(|c| [c * 10, c * 10 + 1]).collect();
        let h: Vec<f16> = [0f32, 1., 2., 3.].map(f16::from_f32).to_vec();
        let build = || -> Built<Vec<Case>> {
            // By the reshape and transpose that the ONNX text gives, in numpy.
            Ok(vec![
                case(
                    "DCR",
                    mode("DCR"),
                    vec![t(&[1, 8, 1, 2], &x)],
                    vec![t(
                        &[1, 2, 2, 4],
                        &[0i64, 20, 1, 21, 40, 60, 41, 61, 10, 30, 11, 31, 50, 70, 51, 71],
                    )],
                )?,
                case(
                    "CRD",
                    mode("CRD"),
                    vec![t(&[1, 8, 1, 2], &x)],
                    vec![t(
                        &[1, 2, 2, 4],
                        &[0i64, 10, 1, 11, 20, 30, 21, 31, 40, 50, 41, 51, 60, 70, 61, 71],
                    )],
                )?,
                case(
                    "opset 9, f16",
                    node("DepthToSpace", 9, vec![("blocksize", Attr::Int(2))]),
                    vec![t(&[1, 4, 1, 1], &h)],
                    vec![t(&[1, 1, 2, 2], &h)],
                )?,
                case("empty", mode("DCR"), vec![t(&[0, 4, 1, 1], &h[..0])], vec![t(&[0, 1, 2, 2], &h[..0])])?,
            ])
        };
        super::built(build)
    }
}

/// Pixels turned into channels, [ONNX SpaceToDepth](https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html):
/// `[N, C, H, W]` to `[N, b*b*C, H/b, W/b]`; undoes [`DepthToSpace`] in DCR mode. Any dtype.
#[derive(Clone, Debug, PartialEq)]
pub struct SpaceToDepth {
    /// Side of the block of pixels that becomes one.
    pub block: usize,
}

impl Operator for SpaceToDepth {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(SpaceToDepth { block: block(node)? })
    }

    fn name(&self) -> &str {
        "SpaceToDepth"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let [n, c, h, w] = nchw(&x.shape)?;
        let b = self.block;
        if h % b != 0 || w % b != 0 {
            return Err(Error::shape(format!("{h}x{w} pixels cannot be cut into blocks of {b}x{b}")));
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: Shape::new(&[n, c.saturating_mul(b * b), h / b, w / b])? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let [n, c, h, w] = nchw(x.shape())?;
        let b = self.block;
        let x = x.reshaped(Shape::new(&[n, c, h / b, b, w / b, b])?).ok_or_else(unfit)?;
        let x = x.permuted(&[0, 3, 5, 1, 2, 4])?;
        let mut y = outputs[0].reborrow().reshaped(*x.shape()).ok_or_else(unfit)?;
        y.copy_from(&x);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let op = || node("SpaceToDepth", 13, vec![("blocksize", Attr::Int(2))]);
        let x: Vec<i64> = (0..8).map(|i| i + (1 << 60)).collect();
        let at = |list: [usize; 8]| list.map(|i| x[i]);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                // By the reshape and transpose that the ONNX text gives, in numpy.
                case(
                    "one channel",
                    op(),
                    vec![t(&[1, 1, 2, 4], &x)],
                    vec![t(&[1, 4, 1, 2], &at([0, 2, 1, 3, 4, 6, 5, 7]))],
                )?,
                case(
                    "two channels",
                    op(),
                    vec![t(&[1, 2, 2, 2], &x)],
                    vec![t(&[1, 8, 1, 1], &at([0, 4, 1, 5, 2, 6, 3, 7]))],
                )?,
                case("empty", op(), vec![t(&[1, 1, 0, 2], &x[..0])], vec![t(&[1, 4, 0, 1], &x[..0])])?,
            ])
        };
        super::built(build)
    }
}
