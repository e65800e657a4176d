use super::elementwise::map;
use super::literal::*;
use super::quantize::byte_range;
use super::{Case, Fact, Op, Operator, OutFact, required};
use crate::graph::attrs::NodeInfo;
use crate::{Error, Result};
use saltica_tensor::{DType, Element, View, ViewMut};

/// 256 bytes that stand for i8 or u8 numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByteTable {
    dtype: DType,
    bytes: Box<[u8; 256]>,
}

impl ByteTable {
    /// A table whose entry `i` is the result for the input byte `i` (an i8 input -1 is byte 255); an i8 result is stored as
    /// its two's complement. Errors if `dtype` is neither I8 nor U8.
    pub fn new(dtype: DType, bytes: [u8; 256]) -> Result<Self> {
        byte_range(dtype)?;
        Ok(ByteTable { dtype, bytes: Box::new(bytes) })
    }

    /// Type of the results, I8 or U8.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The results by input byte.
    pub fn bytes(&self) -> &[u8; 256] {
        &self.bytes
    }
}

/// What a [`Lookup`] finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Table {
    /// 8-bit numbers.
    Bytes(ByteTable),
    /// Floats.
    Floats(Box<[f32; 256]>),
}

/// A function of one 8-bit number, applied to every element through a table of its 256 results.
///
/// No ONNX op: the import of quantized graphs folds chains of pointwise ops between a DequantizeLinear and a QuantizeLinear
/// into it, so that they cost one read a number and agree to the last bit on every device.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup {
    /// The results by input byte.
    pub table: Table,
}

impl Lookup {
    fn apply<A: Element>(&self, x: &View<'_>, y: &mut ViewMut<'_>, byte: impl Fn(A) -> u8) -> Result<()> {
        match &self.table {
            Table::Floats(t) => map(x, y, |v: A| t[byte(v) as usize]),
            Table::Bytes(t) if t.dtype == DType::I8 => map(x, y, |v: A| t.bytes[byte(v) as usize] as i8),
            Table::Bytes(t) => map(x, y, |v: A| t.bytes[byte(v) as usize]),
        }
    }
}

impl Operator for Lookup {
    fn parse(_: &NodeInfo) -> Result<Self> {
        Err(Error::unsupported("Lookup is made by passes and read from no file"))
    }

    fn name(&self) -> &str {
        "Lookup"
    }

    fn infer(&self, inputs: &[Option<Fact<'_>>]) -> Result<Vec<OutFact>> {
        let x = required(inputs, 0, "x")?;
        byte_range(x.dtype)?;
        let dtype = match &self.table {
            Table::Bytes(t) => t.dtype,
            Table::Floats(_) => DType::F32,
        };
        Ok(vec![OutFact { dtype, shape: x.shape }])
    }

    fn run(&self, inputs: &[Option<View<'_>>], outputs: &mut [ViewMut<'_>]) -> Result<()> {
        let x = &required(inputs, 0, "x")?;
        let y = &mut outputs[0];
        match x.dtype() {
            DType::I8 => self.apply(x, y, |v: i8| v as u8),
            _ => self.apply(x, y, |v: u8| v),
        }
    }

    fn cases() -> Vec<Case> {
        // By hand: the tables are formulas.
        let bytes = |dtype: DType, f: fn(u8) -> u8| {
            let bytes = Box::new(std::array::from_fn(|i| f(i as u8)));
            Op::Lookup(Lookup { table: Table::Bytes(ByteTable { dtype, bytes }) })
        };
        let halves = Box::new(std::array::from_fn(|i| i as f32 * 0.5));
        let halves = Op::Lookup(Lookup { table: Table::Floats(halves) });
        vec![
            case(
                "u8 to i8: x - 128",
                bytes(DType::I8, |b| b ^ 0x80),
                vec![u8s(&[2, 2], &[0, 127, 128, 255])],
                vec![i8s(&[2, 2], &[-128, -1, 0, 127])],
                EXACT,
            ),
            case(
                "i8 to u8: x + 128",
                bytes(DType::U8, |b| b ^ 0x80),
                vec![i8s(&[4], &[-128, -1, 0, 127])],
                vec![u8s(&[4], &[0, 127, 128, 255])],
                EXACT,
            ),
            case(
                "i8 to i8: relu",
                bytes(DType::I8, |b| if b < 128 { b } else { 0 }),
                vec![i8s(&[1, 1, 2, 2], &[-5, 0, 5, 127])],
                vec![i8s(&[1, 1, 2, 2], &[0, 0, 5, 127])],
                EXACT,
            ),
            case(
                "u8 to f32: halves",
                halves.clone(),
                vec![u8s(&[3], &[0, 3, 255])],
                vec![f32s(&[3], &[0.0, 1.5, 127.5])],
                EXACT,
            ),
            case(
                "i8 to f32: halves of the byte",
                halves.clone(),
                vec![i8s(&[3], &[0, 3, -1])],
                vec![f32s(&[3], &[0.0, 1.5, 127.5])],
                EXACT,
            ),
            case("no elements", halves, vec![u8s(&[0, 2], &[])], vec![f32s(&[0, 2], &[])], EXACT),
        ]
    }
}
