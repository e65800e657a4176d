//! A look over the whole file before anything is decoded: is it protobuf, do the fields have the types of onnx.proto, is
//! text UTF-8, and how much memory would the decoded messages take? It allocates nothing, and it knows the byte at which
//! something is wrong, which the decoder does not.
//!
//! [Protobuf encoding](https://protobuf.dev/programming-guides/encoding/): a message is a list of (field number, wire type,
//! value).

use crate::{Error, ErrorKind, Result};

/// Most bytes of memory that nodes, attributes, names and the graph made of them may take, by the estimates below. A
/// detector takes one or two; a file that needs more was made to exhaust memory.
pub(super) const MAX_COST: usize = 64 << 20;

/// Longest name; exporters that write symbolic dims as formulas reach a few thousand bytes.
const MAX_NAME: usize = 1 << 16;

/// Reads varints and the like; positions are relative to the slice.
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Cursor { bytes, at: 0 }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.at >= self.bytes.len()
    }

    /// A base-128 number of at most 64 bits, None if it is longer or cut off.
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            let low = u64::from(byte & 0x7f);
            if shift == 63 && low > 1 {
                return None;
            }
            value |= low << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, n: u64) -> Option<&'a [u8]> {
        let end = self.at.checked_add(usize::try_from(n).ok()?)?;
        let part = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(part)
    }
}

/// How many base-128 numbers a packed field holds, None if the last one is cut off.
pub(super) fn count_varints(packed: &[u8]) -> Option<usize> {
    match packed.last() {
        Some(last) if *last >= 0x80 => None,
        _ => Some(packed.iter().filter(|b| **b < 0x80).count()),
    }
}

/// What a field holds.
enum Kind {
    Message(&'static Schema),
    /// Text that messages may show: of bounded length.
    Name,
    Text,
    Blob,
    Int,
    Float,
    /// Numbers, packed or each with its own tag.
    Ints,
    /// Likewise.
    Floats,
    /// Numbers, packed.
    Packed,
}

struct Schema {
    /// Estimated memory of an empty one: the decoded struct and what the graph makes of it, in a growing vector.
    cost: usize,
    fields: &'static [(u32, &'static str, Kind)],
}

static MODEL: Schema = Schema {
    cost: 0,
    fields: &[
        (1, "ir_version", Kind::Int),
        (2, "producer_name", Kind::Name),
        (3, "producer_version", Kind::Name),
        (7, "graph", Kind::Message(&GRAPH)),
        (8, "opset_import", Kind::Message(&OPSET)),
        (14, "metadata_props", Kind::Message(&ENTRY)),
        (25, "functions", Kind::Message(&FUNCTION)),
    ],
};
static OPSET: Schema = Schema { cost: 128, fields: &[(1, "domain", Kind::Name), (2, "version", Kind::Int)] };
static ENTRY: Schema = Schema { cost: 256, fields: &[(1, "key", Kind::Name), (2, "value", Kind::Text)] };
static FUNCTION: Schema =
    Schema { cost: 256, fields: &[(1, "name", Kind::Name), (10, "domain", Kind::Name)] };
static GRAPH: Schema = Schema {
    cost: 0,
    fields: &[
        (1, "node", Kind::Message(&NODE)),
        (2, "name", Kind::Name),
        (5, "initializer", Kind::Message(&TENSOR)),
        (11, "input", Kind::Message(&VALUE)),
        (12, "output", Kind::Message(&VALUE)),
        (15, "sparse_initializer", Kind::Message(&SPARSE)),
    ],
};
static NODE: Schema = Schema {
    cost: 1024,
    fields: &[
        (1, "input", Kind::Name),
        (2, "output", Kind::Name),
        (3, "name", Kind::Name),
        (4, "op_type", Kind::Name),
        (5, "attribute", Kind::Message(&ATTRIBUTE)),
        (7, "domain", Kind::Name),
    ],
};
static ATTRIBUTE: Schema = Schema {
    cost: 1024,
    fields: &[
        (1, "name", Kind::Name),
        (2, "f", Kind::Float),
        (3, "i", Kind::Int),
        (4, "s", Kind::Blob),
        (5, "t", Kind::Message(&TENSOR)),
        (6, "g", Kind::Blob),
        (7, "floats", Kind::Floats),
        (8, "ints", Kind::Ints),
        (9, "strings", Kind::Blob),
        (11, "graphs", Kind::Blob),
        (20, "type", Kind::Int),
        (21, "ref_attr_name", Kind::Name),
    ],
};
static TENSOR: Schema = Schema {
    cost: 1024,
    fields: &[
        (1, "dims", Kind::Ints),
        (2, "data_type", Kind::Int),
        (3, "segment", Kind::Blob),
        (4, "float_data", Kind::Packed),
        (5, "int32_data", Kind::Packed),
        (7, "int64_data", Kind::Packed),
        (8, "name", Kind::Name),
        (9, "raw_data", Kind::Blob),
        (10, "double_data", Kind::Packed),
        (11, "uint64_data", Kind::Packed),
        (13, "external_data", Kind::Message(&ENTRY)),
        (14, "data_location", Kind::Int),
    ],
};
static SPARSE: Schema = Schema { cost: 128, fields: &[(1, "values", Kind::Message(&NAMED))] };
static NAMED: Schema = Schema { cost: 0, fields: &[(8, "name", Kind::Name)] };
static VALUE: Schema =
    Schema { cost: 1024, fields: &[(1, "name", Kind::Name), (2, "type", Kind::Message(&TYPE))] };
static TYPE: Schema = Schema {
    cost: 0,
    fields: &[
        (1, "tensor_type", Kind::Message(&TENSOR_TYPE)),
        (4, "sequence_type", Kind::Blob),
        (5, "map_type", Kind::Blob),
        (8, "sparse_tensor_type", Kind::Blob),
        (9, "optional_type", Kind::Blob),
    ],
};
static TENSOR_TYPE: Schema =
    Schema { cost: 0, fields: &[(1, "elem_type", Kind::Int), (2, "shape", Kind::Message(&SHAPE))] };
static SHAPE: Schema = Schema { cost: 0, fields: &[(1, "dim", Kind::Message(&DIMENSION))] };
static DIMENSION: Schema =
    Schema { cost: 192, fields: &[(1, "dim_value", Kind::Int), (2, "dim_param", Kind::Name)] };

/// A fault and where it is.
struct Fault {
    kind: ErrorKind,
    at: usize,
    what: String,
    /// Field names, innermost first.
    path: Vec<&'static str>,
}

/// Checks an encoded ModelProto. Errors say the byte and the field.
pub(super) fn check(file: &[u8]) -> Result<()> {
    let mut cost = 0;
    walk(file, 0, &MODEL, &mut cost).map_err(|fault| {
        let path: Vec<_> = fault.path.into_iter().rev().collect();
        let field = if path.is_empty() { "model".to_string() } else { path.join(".") };
        Error::new(fault.kind, format!("byte {} ({field}): {}", fault.at, fault.what))
    })
}

fn walk(bytes: &[u8], base: usize, schema: &Schema, cost: &mut usize) -> std::result::Result<(), Box<Fault>> {
    let mut cursor = Cursor::new(bytes);
    while !cursor.is_at_end() {
        let at = base + cursor.at;
        let fault = |what: String| Box::new(Fault { kind: ErrorKind::Malformed, at, what, path: Vec::new() });
        let key = cursor
            .varint()
            .filter(|k| *k <= u64::from(u32::MAX) && k >> 3 != 0)
            .ok_or_else(|| fault("no valid protobuf tag".into()))?;
        let (number, wire) = ((key >> 3) as u32, key & 7);
        let field = schema.fields.iter().find(|f| f.0 == number);
        let inside = |mut fault: Box<Fault>| {
            fault.path.extend(field.map(|f| f.1));
            fault
        };
        let mut payload: &[u8] = &[];
        let complete = match wire {
            0 => cursor.varint().map(|_| ()),
            1 => cursor.take(8).map(|_| ()),
            5 => cursor.take(4).map(|_| ()),
            2 => match cursor.varint() {
                None => None,
                Some(len) => {
                    let left = bytes.len() - cursor.at;
                    payload = cursor.take(len).ok_or_else(|| {
                        inside(fault(format!(
                            "a field of {len} bytes, {left} are left: the file is cut off or damaged"
                        )))
                    })?;
                    Some(())
                }
            },
            _ => return Err(inside(fault(format!("wire type {wire}, which ONNX does not use")))),
        };
        complete
            .ok_or_else(|| inside(fault("the field ends early: the file is cut off or damaged".into())))?;
        let Some((_, _, kind)) = field else { continue };
        let start = base + cursor.at - payload.len();
        let allowed = match kind {
            Kind::Message(_) | Kind::Name | Kind::Text | Kind::Blob | Kind::Packed => wire == 2,
            Kind::Int => wire == 0,
            Kind::Float => wire == 5,
            Kind::Ints => wire == 0 || wire == 2,
            Kind::Floats => wire == 5 || wire == 2,
        };
        if !allowed {
            return Err(inside(fault(format!("wire type {wire} does not fit this field"))));
        }
        *cost += match kind {
            Kind::Message(inner) => inner.cost,
            // A name is kept by the decoded message, the value, the node and the table of names.
            Kind::Name | Kind::Text => 128 + 4 * payload.len(),
            Kind::Blob | Kind::Packed => 96,
            Kind::Int | Kind::Float => 0,
            Kind::Ints | Kind::Floats if wire != 2 => 24,
            Kind::Ints => {
                24 * count_varints(payload)
                    .ok_or_else(|| inside(fault("the last number is cut off".into())))?
            }
            Kind::Floats => 3 * payload.len(),
        };
        if *cost > MAX_COST {
            let what = format!(
                "the nodes, attributes and names up to here take more than {} MiB of memory, the limit",
                MAX_COST >> 20
            );
            return Err(inside(Box::new(Fault { kind: ErrorKind::Limit, at, what, path: Vec::new() })));
        }
        match kind {
            Kind::Message(inner) => walk(payload, start, inner, cost).map_err(inside)?,
            Kind::Name | Kind::Text => {
                if matches!(kind, Kind::Name) && payload.len() > MAX_NAME {
                    let what = format!("a name of {} bytes, at most {MAX_NAME} are supported", payload.len());
                    return Err(inside(Box::new(Fault {
                        kind: ErrorKind::Limit,
                        at,
                        what,
                        path: Vec::new(),
                    })));
                }
                std::str::from_utf8(payload).map_err(|e| {
                    let mut fault = fault("text that is not UTF-8".into());
                    fault.at = start + e.valid_up_to();
                    inside(fault)
                })?;
            }
            _ => {}
        }
    }
    Ok(())
}
