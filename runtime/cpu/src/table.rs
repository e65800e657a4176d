//! The list of kernels, for tests, benches and `doctor`.

use crate::conv::kernel::{BLOCK, rows};
use crate::conv::{int_rows, is_dot};
use crate::{Isa, IsaKind};
use saltica_tensor::DType;
use std::fmt;

/// One kernel as it is compiled for an instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRow {
    /// What it computes: `conv`, `pool`, ...
    pub name: &'static str,
    /// The instruction set.
    pub isa: IsaKind,
    /// Whether it uses 8-bit dot products.
    pub dot: bool,
    /// What it reads.
    pub dtype: DType,
    /// Output pixels (rows of a matrix) by output channels (columns) that it makes at a time, where it has a tile.
    pub tile: Option<[usize; 2]>,
}

impl fmt::Display for KernelRow {
    /// As kernels are named in profiles: `conv f32 avx512 14x32`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dot = if self.dot { "+dot" } else { "" };
        write!(f, "{} {} {}{dot}", self.name, self.dtype, self.isa.name())?;
        if let Some([pixels, channels]) = self.tile {
            write!(f, " {pixels}x{channels}")?;
        }
        Ok(())
    }
}

/// Kernels without a tile: written once over the instruction sets' vectors.
const POINTWISE: &[(&str, DType)] = &[
    ("depthwise", DType::F32),
    ("depthwise", DType::U8),
    ("unary", DType::F32),
    ("binary", DType::F32),
    ("softmax", DType::F32),
    ("reduce", DType::F32),
    ("pool", DType::F32),
    ("pool", DType::U8),
    ("resize bilinear", DType::F32),
    ("quantize", DType::F32),
    ("dequantize", DType::U8),
    ("cast", DType::I32),
];

/// Every kernel that runs on `isa`. Matrix products and transposed convolutions run on the tiles of `conv`.
pub fn kernels(isa: Isa) -> Vec<KernelRow> {
    let kind = isa.kind();
    let floats = rows(kind).iter().map(|r| KernelRow {
        name: "conv",
        isa: kind,
        dot: false,
        dtype: DType::F32,
        tile: Some([r.pixels, r.blocks * BLOCK]),
    });
    let bytes = int_rows(isa).iter().map(|r| KernelRow {
        name: "conv",
        isa: kind,
        dot: is_dot(isa),
        dtype: DType::U8,
        tile: Some([r.pixels, r.blocks * BLOCK]),
    });
    let others =
        POINTWISE.iter().map(|&(name, dtype)| KernelRow { name, isa: kind, dot: false, dtype, tile: None });
    floats.chain(bytes).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_instruction_set_has_every_kernel() {
        for isa in Isa::available() {
            let all = kernels(isa);
            for (name, dtype) in POINTWISE.iter().chain(&[("conv", DType::F32), ("conv", DType::U8)]) {
                assert!(all.iter().any(|k| k.name == *name && k.dtype == *dtype), "{isa}: {name} {dtype}");
            }
            // A single pixel and the fewest channels can always be computed.
            for dtype in [DType::F32, DType::U8] {
                let single = |k: &KernelRow| k.dtype == dtype && k.tile == Some([1, BLOCK]);
                assert!(all.iter().any(single), "{isa} {dtype}");
            }
            let text: Vec<String> = all.iter().map(KernelRow::to_string).collect();
            assert!(text.iter().all(|t| t.contains(isa.kind().name())));
            let mut distinct = text.clone();
            distinct.sort();
            distinct.dedup();
            assert_eq!(distinct.len(), text.len(), "no row twice");
        }
    }
}
