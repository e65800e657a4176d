use super::from_node::{Built, case, node, t};
use super::number::Number;
use super::{Case, Fact, Operator, OutFact, required};
use crate::graph::attrs::{Attr, NodeInfo};
use crate::{Error, ErrorKind, Result};
use saltica_tensor::{Bool, DType, View, ViewMut, by_dtype, f16};

/// Another dtype for the same numbers, [ONNX Cast](https://onnx.ai/onnx/operators/onnx__Cast.html).
///
/// Inputs: x, any dtype. ONNX leaves some casts undefined; here they are: an integer to a narrower one keeps the low bits;
/// a float to an integer truncates toward zero, saturates outside the range, and NaN becomes 0. To bool, NaN is true.
#[derive(Clone, Debug, PartialEq)]
pub struct Cast {
    /// The result's dtype.
    pub to: DType,
}

/// The dtype with this number in ONNX's `TensorProto.DataType`.
fn data_type(code: i64) -> Result<DType> {
    Ok(match code {
        1 => DType::F32,
        2 => DType::U8,
        3 => DType::I8,
        6 => DType::I32,
        7 => DType::I64,
        9 => DType::Bool,
        10 => DType::F16,
        11 => DType::F64,
        _ => {
            return Err(Error::unsupported(format!(
                "ONNX data type {code}; float32 (1), uint8 (2), int8 (3), int32 (6), int64 (7), bool (9), float16 (10) \
                 and float64 (11) are supported"
            )));
        }
    })
}

/// An attribute that names a dtype.
pub(super) fn dtype_attribute(node: &NodeInfo, name: &str) -> Result<Option<DType>> {
    node.int(name)?.map(data_type).transpose()
}

/// Writes every element of x, converted.
pub(super) fn convert(x: &View<'_>, y: &mut ViewMut<'_>) {
    if x.dtype() == y.dtype() {
        return y.copy_from(x);
    }
    by_dtype!(x.dtype(), From => by_dtype!(y.dtype(), To => convert_typed::<From, To>(x, y)));
}

fn convert_typed<From: Number, To: Number>(x: &View<'_>, y: &mut ViewMut<'_>) {
    if let (Some(x), Some(y)) = (x.as_slice::<From>(), y.as_mut_slice::<To>()) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = To::from_wide(x.to_wide());
        }
        return;
    }
    for i in y.shape().indices() {
        y.set(&i, To::from_wide(x.get::<From>(&i).to_wide()));
    }
}

impl Operator for Cast {
    fn parse(node: &NodeInfo) -> Result<Self> {
        // Counts for 8-bit floats only.
        node.ignore("saturate");
        let missing = || Error::new(ErrorKind::Malformed, "attribute to is missing (Cast needs it)");
        Ok(Cast { to: dtype_attribute(node, "to")?.ok_or_else(missing)? })
    }

    fn name(&self) -> &str {
        "Cast"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        Ok(vec![OutFact { dtype: self.to, shape: required(inputs, 0, "x")?.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        convert(&required(inputs, 0, "x")?, &mut outputs[0]);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let cast = |to| node("Cast", 13, vec![("to", Attr::Int(to))]);
        let b = |v: &[u8]| v.iter().map(|&v| Bool::from(v != 0)).collect::<Vec<_>>();
        let h = |v: &[f32]| v.iter().map(|&v| f16::from_f32(v)).collect::<Vec<_>>();
        let build = || -> Built<Vec<Case>> {
            // numpy's astype, except for the casts that this op's description defines.
            Ok(vec![
                case(
                    "i64 to f32 rounds once",
                    cast(1),
                    vec![t(&[4], &[7i64, (1 << 24) + 1, (1 << 60) + (1 << 36) + 1, -3])],
                    vec![t(&[4], &[7f32, 16777216.0, 1.1529217e18, -3.0])],
                )?,
                case(
                    "f32 to u8 truncates and saturates",
                    cast(2),
                    vec![t(&[6], &[1.9f32, 254.99, 255.0, 300.0, -0.9, f32::NAN])],
                    vec![t(&[6], &[1u8, 254, 255, 255, 0, 0])],
                )?,
                case(
                    "f32 to i64",
                    cast(7),
                    vec![t(&[2, 2], &[-1.9f32, 1.9, 1e18, 0.0])],
                    vec![t(&[2, 2], &[-1i64, 1, 999999984306749440, 0])],
                )?,
                case(
                    "f32 to bool",
                    cast(9),
                    vec![t(&[4], &[0.0f32, -0.0, 0.5, -1e-40])],
                    vec![t(&[4], &b(&[0, 0, 1, 1]))],
                )?,
                case(
                    "f32 to f16 rounds to nearest even",
                    cast(10),
                    vec![t(&[4], &[1.0f32, 2049.0, 2051.0, 1e6])],
                    vec![t(&[4], &h(&[1.0, 2048.0, 2052.0, f32::INFINITY]))],
                )?,
                case("f16 to f32", cast(1), vec![t(&[2], &h(&[0.5, -3.0]))], vec![t(&[2], &[0.5f32, -3.0])])?,
                case("bool to i64", cast(7), vec![t(&[2], &b(&[1, 0]))], vec![t(&[2], &[1i64, 0])])?,
                case(
                    "i64 to i32 wraps",
                    cast(6),
                    vec![t(&[2], &[(1i64 << 32) + 5, -1])],
                    vec![t(&[2], &[5i32, -1])],
                )?,
                case("u8 to i8 wraps", cast(3), vec![t(&[2], &[200u8, 100])], vec![t(&[2], &[-56i8, 100])])?,
                case("same dtype", cast(7), vec![t(&[], &[i64::MAX])], vec![t(&[], &[i64::MAX])])?,
                case(
                    "i32 to f64, opset 9, empty",
                    node("Cast", 9, vec![("to", Attr::Int(11))]),
                    vec![t(&[0], &[0i32; 0])],
                    vec![t(&[0], &[0f64; 0])],
                )?,
            ])
        };
        super::built(build)
    }
}

/// Cast to the dtype of another tensor, [ONNX CastLike](https://onnx.ai/onnx/operators/onnx__CastLike.html).
///
/// Inputs: x; a tensor whose dtype the result has. Rules as for [`Cast`].
#[derive(Clone, Debug, PartialEq)]
pub struct CastLike;

impl Operator for CastLike {
    fn parse(node: &NodeInfo) -> Result<Self> {
        node.ignore("saturate");
        Ok(CastLike)
    }

    fn name(&self) -> &str {
        "CastLike"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let like = required(inputs, 1, "the tensor to be like")?;
        Ok(vec![OutFact { dtype: like.dtype, shape: required(inputs, 0, "x")?.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        convert(&required(inputs, 0, "x")?, &mut outputs[0]);
        Ok(())
    }

    fn cases() -> Vec<Case> {
        let build = || -> Built<Vec<Case>> {
            Ok(vec![case(
                "f32 like i64",
                node("CastLike", 15, vec![]),
                vec![t(&[2], &[1.5f32, -2.5]), t(&[0], &[0i64; 0])],
                vec![t(&[2], &[1i64, -2])],
            )?])
        };
        super::built(build)
    }
}
