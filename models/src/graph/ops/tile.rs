use super::from_node::{Built, case, node, t};
use super::indexing::{Dims, Ints, dim};
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{View, ViewMut, f16};

/// The input laid side by side with itself, [ONNX Tile](https://onnx.ai/onnx/operators/onnx__Tile.html).
///
/// Inputs: x, any dtype; repeats, i64 `[rank of x]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tile;

impl Operator for Tile {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Ok(Tile)
    }

    fn name(&self) -> &str {
        "Tile"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        let repeats = Ints::known(&required(inputs, 1, "repeats")?, "repeats")?;
        if repeats.len() != x.shape.rank() {
            return Err(Error::shape(format!(
                "{} repeats for {}, one for each dim expected",
                repeats.len(),
                x.shape
            )));
        }
        let mut dims = Dims::default();
        for (&d, &n) in x.shape.iter().zip(repeats.iter()) {
            let tiled = d.checked_mul(dim(n, "repeats")?);
            dims.push(tiled.ok_or_else(|| {
                Error::new(
                    ErrorKind::Limit,
                    format!("{} tiled {:?} times is too large", x.shape, &repeats[..]),
                )
            })?)?;
        }
        Ok(vec![OutFact { dtype: x.dtype, shape: dims.shape()? }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        if y.shape().elements() == 0 {
            return Ok(());
        }
        // y is a grid of tiles, each a copy of x.
        let mut tiles = Dims::default();
        for (&from, &to) in x.shape().iter().zip(y.shape().iter()) {
            tiles.push(to / from)?;
        }
        for tile in tiles.shape()?.indices() {
            let mut part = y.reborrow();
            for (axis, &d) in x.shape().iter().enumerate() {
                part = part.sliced(axis, tile[axis] * d, d, 1)?;
            }
            part.copy_from(&x);
        }
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let tile = || node("Tile", 13, vec![]);
        let h = [0.5f32, 1.5].map(f16::from_f32);
        let build = || -> Built<Vec<Case>> {
            // numpy.tile
            Ok(vec![
                case(
                    "both axes",
                    tile(),
                    vec![t(&[2, 2], &[1i64, 2, 3, 1 << 60]), t(&[2], &[2i64, 2])],
                    vec![t(
                        &[4, 4],
                        &[1i64, 2, 1, 2, 3, 1 << 60, 3, 1 << 60, 1, 2, 1, 2, 3, 1 << 60, 3, 1 << 60],
                    )],
                )?,
                case(
                    "rank 5, opset 9",
                    node("Tile", 9, vec![]),
                    vec![t(&[1, 2, 1, 1, 1], &h), t(&[5], &[1i64, 1, 1, 2, 1])],
                    vec![t(&[1, 2, 1, 2, 1], &[h[0], h[0], h[1], h[1]])],
                )?,
                case(
                    "zero times",
                    tile(),
                    vec![t(&[2, 1], &[1u8, 2]), t(&[2], &[1i64, 0])],
                    vec![t(&[2, 0], &[0u8; 0])],
                )?,
                case("scalar", tile(), vec![t(&[], &[3f32]), t(&[0], &[0i64; 0])], vec![t(&[], &[3f32])])?,
            ])
        };
        super::built(build)
    }
}
