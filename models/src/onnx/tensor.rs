//! TensorProto to [`Tensor`]: sizes are checked against the dims before anything is allocated.

use super::external::Folder;
use super::proto::{TensorProto, data_type as onnx};
use super::wire::{Cursor, count_varints};
use super::{Fill, quote};
use crate::{Error, ErrorKind, Result};
use bytes::Bytes;
use half::f16;
use saltica_tensor::{Bool, DType, Element, MAX_RANK, Shape, Tensor};
use std::sync::Arc;

/// Largest single dimension; every tool in the ONNX world keeps below.
const MAX_DIM: i64 = i32::MAX as i64;

/// The dtype of an ONNX data type, or the name of one that Saltica has no dtype for.
pub(super) fn dtype(data_type: i32) -> std::result::Result<DType, String> {
    let name = match data_type {
        onnx::FLOAT => return Ok(DType::F32),
        onnx::UINT8 => return Ok(DType::U8),
        onnx::INT8 => return Ok(DType::I8),
        onnx::INT32 => return Ok(DType::I32),
        onnx::INT64 => return Ok(DType::I64),
        onnx::BOOL => return Ok(DType::Bool),
        onnx::FLOAT16 => return Ok(DType::F16),
        onnx::DOUBLE => return Ok(DType::F64),
        0 => "undefined",
        4 => "uint16",
        5 => "int16",
        8 => "string",
        12 => "uint32",
        13 => "uint64",
        14 => "complex64",
        15 => "complex128",
        16 => "bfloat16",
        17..=20 => "float8",
        21 => "uint4",
        22 => "int4",
        23 => "float4",
        24 => "float8",
        _ => return Err(format!("number {data_type}")),
    };
    Err(name.to_string())
}

/// The ONNX data type of a dtype.
pub(super) fn data_type(dtype: DType) -> i32 {
    match dtype {
        DType::F32 => onnx::FLOAT,
        DType::F16 => onnx::FLOAT16,
        DType::F64 => onnx::DOUBLE,
        DType::I8 => onnx::INT8,
        DType::U8 => onnx::UINT8,
        DType::I32 => onnx::INT32,
        DType::I64 => onnx::INT64,
        DType::Bool => onnx::BOOL,
    }
}

/// One dimension of a tensor or of a declared value. Errors if it is negative or huge.
pub(super) fn dimension(dim: i64) -> Result<usize> {
    if dim < 0 {
        return Err(Error::new(ErrorKind::Malformed, format!("a dimension is {dim}, 0 or more expected")));
    }
    if dim > MAX_DIM {
        return Err(Error::new(
            ErrorKind::Limit,
            format!("a dimension is {dim}, at most {MAX_DIM} is supported"),
        ));
    }
    Ok(dim as usize)
}

/// The numbers of a tensor. Kind Unsupported only if the dtype is one that Saltica does not have, which matters only where
/// the tensor is used.
pub(super) fn load(proto: &TensorProto, folder: &mut Folder, fill: Option<Fill<'_>>) -> Result<Tensor> {
    let malformed = |what: String| Error::new(ErrorKind::Malformed, what);
    let dtype = dtype(proto.data_type)
        .map_err(|name| Error::unsupported(format!("element type {name} is not supported")))?;
    if proto.segment.is_some() {
        return Err(malformed("the tensor is split into segments, which no ONNX version allows".into()));
    }
    if proto.dims.len() > MAX_RANK {
        let rank = proto.dims.len();
        return Err(Error::new(
            ErrorKind::Limit,
            format!("rank {rank} found, at most {MAX_RANK} is supported"),
        ));
    }
    let dims = proto.dims.iter().map(|d| dimension(*d)).collect::<Result<Vec<_>>>()?;
    let shape = Shape::new(&dims)?;
    let size = shape.elements() * dtype.size();

    let raw = proto.raw_data.as_ref().filter(|raw| !raw.is_empty());
    let typed = typed_field(dtype);
    let mut found = raw.map(|_| "raw_data").into_iter().collect::<Vec<_>>();
    for (name, chunks) in [
        ("float_data", &proto.float_data),
        ("int32_data", &proto.int32_data),
        ("int64_data", &proto.int64_data),
        ("double_data", &proto.double_data),
        ("uint64_data", &proto.uint64_data),
    ] {
        if chunks.iter().any(|c| !c.is_empty()) {
            found.push(name);
        }
    }
    let external = proto.data_location == 1;
    if external {
        found.push("external_data");
    }
    match found[..] {
        [] if size == 0 => Ok(Tensor::zeros(dtype, shape)?),
        [] => {
            let tensor = fill.and_then(|fill| fill(&proto.name, dtype, &shape)).ok_or_else(|| {
                malformed(format!("the tensor has no data, {size} bytes of {dtype} {shape} expected"))
            })?;
            if tensor.dtype() != dtype || tensor.shape() != &shape {
                return Err(Error::shape(format!(
                    "filled with {} {}, {dtype} {shape} expected",
                    tensor.dtype(),
                    tensor.shape()
                )));
            }
            Ok(tensor)
        }
        ["raw_data"] => shared(dtype, shape, raw.cloned().unwrap_or_default()),
        ["external_data"] => shared(dtype, shape, folder.read(&proto.external_data, size)?),
        [name] if name == typed => packed(proto, dtype, shape),
        _ => Err(malformed(format!(
            "a tensor of {dtype} with data in {}, one of raw_data, {typed} and external_data expected",
            found.join(" and ")
        ))),
    }
}

/// Borrowed where the address is aligned for the dtype, else copied.
fn shared(dtype: DType, shape: Shape, bytes: Bytes) -> Result<Tensor> {
    let (want, len) = (shape.elements() * dtype.size(), bytes.len());
    if len != want {
        return Err(Error::new(
            ErrorKind::Malformed,
            format!("the data has {len} bytes, {dtype} {shape} takes {want}"),
        ));
    }
    Ok(Tensor::from_shared(dtype, shape, Arc::new(bytes), 0, len)?)
}

fn typed_field(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "float_data",
        DType::F64 => "double_data",
        DType::I64 => "int64_data",
        DType::I32 | DType::I8 | DType::U8 | DType::Bool | DType::F16 => "int32_data",
    }
}

fn packed(proto: &TensorProto, dtype: DType, shape: Shape) -> Result<Tensor> {
    let small = &proto.int32_data;
    match dtype {
        DType::F32 => fixed::<f32, 4>(&proto.float_data, shape, f32::from_le_bytes),
        DType::F64 => fixed::<f64, 8>(&proto.double_data, shape, f64::from_le_bytes),
        DType::I64 => varints(&proto.int64_data, shape, Some),
        DType::I32 => varints(small, shape, |v| i32::try_from(v).ok()),
        DType::I8 => varints(small, shape, |v| i8::try_from(v).ok()),
        DType::U8 => varints(small, shape, |v| u8::try_from(v).ok()),
        DType::Bool => varints(small, shape, |v| Some(Bool::from(v != 0))),
        // The bits of the number, in the low half.
        DType::F16 => varints(small, shape, |v| u16::try_from(v).ok().map(f16::from_bits)),
    }
}

fn counted(found: usize, shape: &Shape) -> Result<()> {
    let want = shape.elements();
    if found == want {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Malformed, format!("the data has {found} numbers, {shape} takes {want}")))
}

fn fixed<T: Element, const N: usize>(chunks: &[Bytes], shape: Shape, of: fn([u8; N]) -> T) -> Result<Tensor> {
    if chunks.iter().any(|c| c.len() % N != 0) {
        return Err(Error::new(ErrorKind::Malformed, format!("packed numbers of {N} bytes are cut off")));
    }
    counted(chunks.iter().map(|c| c.len() / N).sum(), &shape)?;
    let mut tensor = Tensor::zeros(T::DTYPE, shape)?;
    let numbers = chunks.iter().flat_map(|c| c.as_chunks::<N>().0);
    for (to, from) in tensor.as_mut_slice::<T>()?.iter_mut().zip(numbers) {
        *to = of(*from);
    }
    Ok(tensor)
}

fn varints<T: Element>(chunks: &[Bytes], shape: Shape, of: impl Fn(i64) -> Option<T>) -> Result<Tensor> {
    let malformed = |what: String| Error::new(ErrorKind::Malformed, what);
    let mut count = 0;
    for chunk in chunks {
        count += count_varints(chunk).ok_or_else(|| malformed("packed numbers are cut off".into()))?;
    }
    counted(count, &shape)?;
    let mut tensor = Tensor::zeros(T::DTYPE, shape)?;
    let mut to = tensor.as_mut_slice::<T>()?.iter_mut();
    for chunk in chunks {
        let mut cursor = Cursor::new(chunk);
        while !cursor.is_at_end() {
            let value =
                cursor.varint().ok_or_else(|| malformed("a packed number is longer than 64 bits".into()))?;
            let value = value as i64;
            let element =
                of(value).ok_or_else(|| malformed(format!("{value} is out of the range of {}", T::DTYPE)))?;
            if let Some(to) = to.next() {
                *to = element;
            }
        }
    }
    Ok(tensor)
}

/// The same error, saying which tensor it is about.
pub(super) fn named(e: Error, what: &str, name: &str) -> Error {
    Error::new(e.kind(), format!("{what} {}: {e}", quote(name)))
}
