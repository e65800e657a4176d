use super::from_node::{Built, case, node, t};
use super::{Case, Fact, Operator, OutFact, required};
use crate::Result;
use crate::graph::attrs::{Attr, NodeInfo};
use saltica_tensor::{Bool, DType, View, ViewMut};

/// The dims of the input as numbers, [ONNX Shape](https://onnx.ai/onnx/operators/onnx__Shape.html).
///
/// Inputs: x, any dtype. Result: i64 `[number of dims in the range]`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeOf {
    /// First dim of the range; negative ones count from the end (opset 15).
    pub start: i64,
    /// One past the last dim of the range; absent means through the last.
    pub end: Option<i64>,
}

impl ShapeOf {
    /// The range inside a rank.
    fn range(&self, rank: usize) -> std::ops::Range<usize> {
        let r = rank as i64;
        let inside = |v: i64| if v < 0 { v.saturating_add(r) } else { v }.clamp(0, r) as usize;
        let start = inside(self.start);
        start..self.end.map_or(rank, inside).max(start)
    }
}

impl Operator for ShapeOf {
    fn parse(node: &NodeInfo) -> Result<Self> {
        Ok(ShapeOf { start: node.int("start")?.unwrap_or(0), end: node.int("end")? })
    }

    fn name(&self) -> &str {
        "Shape"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let shape = saltica_tensor::Shape::new(&[self.range(x.shape.rank()).len()])?;
        Ok(vec![OutFact { dtype: DType::I64, shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        for (i, &d) in x.shape()[self.range(x.shape().rank())].iter().enumerate() {
            outputs[0].put(i, d as i64);
        }
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let range = |attrs: Vec<(&str, i64)>| {
            node("Shape", 15, attrs.into_iter().map(|(k, v)| (k, Attr::Int(v))).collect())
        };
        let x = || t(&[2, 1, 3], &[1u8; 6]);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case("all", node("Shape", 9, vec![]), vec![x()], vec![t(&[3], &[2i64, 1, 3])])?,
                case("start -1", range(vec![("start", -1)]), vec![x()], vec![t(&[1], &[3i64])])?,
                case("end -1", range(vec![("end", -1)]), vec![x()], vec![t(&[2], &[2i64, 1])])?,
                case(
                    "outside is clamped",
                    range(vec![("start", -10), ("end", 10)]),
                    vec![x()],
                    vec![t(&[3], &[2i64, 1, 3])],
                )?,
                case(
                    "empty range",
                    range(vec![("start", 2), ("end", 1)]),
                    vec![x()],
                    vec![t(&[0], &[0i64; 0])],
                )?,
                case("scalar", range(vec![]), vec![t(&[], &[1f32])], vec![t(&[0], &[0i64; 0])])?,
                case(
                    "of an empty tensor",
                    range(vec![]),
                    vec![t::<Bool>(&[0, 4], &[])],
                    vec![t(&[2], &[0i64, 4])],
                )?,
            ])
        };
        super::built(build)
    }
}

/// How many elements the input has, [ONNX Size](https://onnx.ai/onnx/operators/onnx__Size.html): an i64 scalar.
#[derive(Clone, Debug, PartialEq)]
pub struct Size;

impl Operator for Size {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(Size)
    }

    fn name(&self) -> &str {
        "Size"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        required(inputs, 0, "x")?;
        Ok(vec![OutFact { dtype: DType::I64, shape: saltica_tensor::Shape::scalar() }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        outputs[0].put(0, required(inputs, 0, "x")?.shape().elements() as i64);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let size = || node("Size", 13, vec![]);
        let build = || -> Built<Vec<Case>> {
            Ok(vec![
                case("rank 2", size(), vec![t(&[2, 3], &[1f32; 6])], vec![t(&[], &[6i64])])?,
                case("empty", size(), vec![t(&[2, 0], &[1f32; 0])], vec![t(&[], &[0i64])])?,
                case("scalar", size(), vec![t(&[], &[1i64])], vec![t(&[], &[1i64])])?,
            ])
        };
        super::built(build)
    }
}
