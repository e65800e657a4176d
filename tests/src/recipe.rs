//! Numbers from recipes: weights and inputs are made from seeds by the rules of the test data's README.

use crate::Result;
use half::f16;
use saltica_tensor::{DType, Shape, Tensor};
use serde::Deserialize;

/// The 64-bit hash of element `i` under `seed` (SplitMix64).
pub fn hash(seed: u64, i: u64) -> u64 {
    let mut z = seed.wrapping_add(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn top24(seed: u64, i: u64) -> u64 {
    hash(seed, i) >> 40
}

/// Uniform in [0, 1), exact in f32.
pub fn uniform(seed: u64, i: u64) -> f32 {
    top24(seed, i) as f32 * (1.0 / 16_777_216.0)
}

/// An f32 tensor of uniform noise in [0, 1).
pub fn noise(seed: u64, dims: &[usize]) -> Result<Tensor> {
    let count: usize = dims.iter().product();
    let values: Vec<f32> = (0..count as u64).map(|i| uniform(seed, i)).collect();
    Ok(Tensor::from_slice(dims, &values)?)
}

/// How a tensor's numbers are made.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Kind {
    Hash {
        seed: u64,
        #[serde(default)]
        scale: f64,
        #[serde(default)]
        shift: f64,
    },
    Affine {
        pieces: Vec<Piece>,
    },
}

#[derive(Clone, Debug, Deserialize)]
struct Piece {
    start: usize,
    step: usize,
    count: usize,
    div: usize,
    r#mod: usize,
    mul: f64,
    add: f64,
}

/// The recipe of one tensor.
#[derive(Clone, Debug, Deserialize)]
pub struct Recipe {
    /// Name in the graph.
    pub name: String,
    /// Dims.
    pub dims: Vec<usize>,
    dtype: String,
    crc32: u32,
    #[serde(flatten)]
    kind: Kind,
}

impl Recipe {
    /// The dtype.
    pub fn dtype(&self) -> Result<DType> {
        match self.dtype.as_str() {
            "f32" => Ok(DType::F32),
            "f16" => Ok(DType::F16),
            "i8" => Ok(DType::I8),
            other => Err(format!("{}: dtype {other} has no recipe", self.name).into()),
        }
    }

    /// The numbers, checked against the recipe's CRC-32.
    pub fn make(&self) -> Result<Tensor> {
        let dtype = self.dtype()?;
        let shape = Shape::new(&self.dims)?;
        let n = shape.elements();
        let tensor = match (&self.kind, dtype) {
            (Kind::Hash { seed, .. }, DType::I8) => {
                let values: Vec<i8> =
                    (0..n as u64).map(|i| (((top24(*seed, i) * 255) >> 24) as i64 - 127) as i8).collect();
                Tensor::from_slice(&self.dims, &values)?
            }
            (Kind::Hash { seed, scale, shift }, _) => {
                let (scale, shift) = (*scale as f32, *shift as f32);
                // Each step rounds on its own; Rust never fuses them.
                let value = |i| {
                    let a = uniform(*seed, i) * 2.0 - 1.0;
                    let b = a * scale;
                    b + shift
                };
                self.floats(dtype, (0..n as u64).map(value).collect())?
            }
            (Kind::Affine { pieces }, _) => {
                let mut values = vec![f32::NAN; n];
                for p in pieces {
                    for k in 0..p.count {
                        let at = p.start + k * p.step;
                        let to = values
                            .get_mut(at)
                            .ok_or_else(|| format!("{}: element {at} of {n} is in the recipe", self.name))?;
                        *to = ((k / p.div) % p.r#mod) as f32 * p.mul as f32 + p.add as f32;
                    }
                }
                if values.iter().any(|v| v.is_nan()) {
                    return Err(format!("{}: the recipe's pieces leave a gap", self.name).into());
                }
                self.floats(dtype, values)?
            }
        };
        let crc = crc32fast::hash(tensor.bytes());
        if crc != self.crc32 {
            return Err(format!("{}: CRC-32 {crc:08x}, {:08x} expected", self.name, self.crc32).into());
        }
        Ok(tensor)
    }

    fn floats(&self, dtype: DType, values: Vec<f32>) -> Result<Tensor> {
        match dtype {
            DType::F16 => {
                let values: Vec<f16> = values.into_iter().map(f16::from_f32).collect();
                Ok(Tensor::from_slice(&self.dims, &values)?)
            }
            DType::F32 => Ok(Tensor::from_slice(&self.dims, &values)?),
            other => Err(format!("{}: no recipe makes {other}", self.name).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The check values of the data's README, for seed 42.
    #[test]
    fn the_check_values() {
        let z: Vec<u64> = (0..4).map(|i| hash(42, i)).collect();
        assert_eq!(z, [0xa759ea27d4727622, 0xbdd732262feb6e95, 0x28efe333b266f103, 0x47526757130f9f52]);
        let recipe = |dtype: &str, crc32| Recipe {
            name: "w".into(),
            dims: vec![4],
            dtype: dtype.into(),
            crc32,
            kind: Kind::Hash { seed: 42, scale: 0.3, shift: 0.1 },
        };
        let bits: Vec<u8> = [0x3e44d7ccu32, 0x3e7ad146, 0xbdd51a25, 0xbd06828a]
            .iter()
            .flat_map(|b| b.to_le_bytes())
            .collect();
        assert_eq!(recipe("f32", crc32fast::hash(&bits)).make().unwrap().bytes(), bits);
        let bits: Vec<u8> =
            [0x3227u16, 0x33d7, 0xaea9, 0xa834].iter().flat_map(|b| b.to_le_bytes()).collect();
        assert_eq!(recipe("f16", crc32fast::hash(&bits)).make().unwrap().bytes(), bits);
        let bits: Vec<u8> = [39i8, 62, -87, -56].iter().map(|v| *v as u8).collect();
        assert_eq!(recipe("i8", crc32fast::hash(&bits)).make().unwrap().bytes(), bits);
        let e = recipe("i8", 1).make().unwrap_err().to_string();
        assert!(e.contains("CRC-32"), "{e}");
    }
}
