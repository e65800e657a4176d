use half::f16;
use std::fmt;

/// Element types, named as in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// IEEE binary64.
    F64,
    /// Signed 8 bit.
    I8,
    /// Unsigned 8 bit.
    U8,
    /// Signed 32 bit.
    I32,
    /// Signed 64 bit.
    I64,
    /// One byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every dtype.
    pub const ALL: [DType; 8] =
        [DType::F32, DType::F16, DType::F64, DType::I8, DType::U8, DType::I32, DType::I64, DType::Bool];

    /// Bytes per element.
    pub const fn size(self) -> usize {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F16 => 2,
            DType::F32 | DType::I32 => 4,
            DType::F64 | DType::I64 => 8,
        }
    }

    /// Whether the type is a floating-point one.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::F64)
    }

    /// The lower-case name used in messages and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::F64 => "f64",
            DType::I8 => "i8",
            DType::U8 => "u8",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::Bool => "bool",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A boolean as ONNX stores it: one byte. Any non-zero byte reads as true, so foreign bytes are never undefined.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(transparent)]
pub struct Bool(u8);

impl Bool {
    /// The boolean's value.
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool {
    fn from(b: bool) -> Self {
        Bool(b as u8)
    }
}

impl PartialEq for Bool {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

/// A Rust type that is the element of a [`DType`].
pub trait Element: bytemuck::Pod + PartialEq + fmt::Debug + Send + Sync {
    /// The dtype whose elements this type is.
    const DTYPE: DType;
    /// Widened to f64 (exact except for large i64).
    fn to_f64(self) -> f64;
    /// From f64: floats round to nearest even, integers truncate and saturate, Bool is `v != 0`.
    fn from_f64(v: f64) -> Self;
}

macro_rules! element {
    ($($t:ty => $d:ident, $to:expr, $from:expr;)*) => {$(
        impl Element for $t {
            const DTYPE: DType = DType::$d;
            #[inline]
            fn to_f64(self) -> f64 { let to: fn($t) -> f64 = $to; to(self) }
            #[inline]
            fn from_f64(v: f64) -> Self { let from: fn(f64) -> $t = $from; from(v) }
        }
    )*};
}

element! {
    f32 => F32, |v| v as f64, |v| v as f32;
    f16 => F16, |v| v.to_f64(), f16::from_f64;
    f64 => F64, |v| v, |v| v;
    i8 => I8, |v| v as f64, |v| v as i8;
    u8 => U8, |v| v as f64, |v| v as u8;
    i32 => I32, |v| v as f64, |v| v as i32;
    i64 => I64, |v| v as f64, |v| v as i64;
    Bool => Bool, |v| v.get() as u8 as f64, |v| Bool::from(v != 0.0);
}

/// Evaluates an expression with a type name bound to the Rust type of a [`DType`]:
/// `by_dtype!(view.dtype(), T => view.get::<T>(&index).to_f64())`.
#[macro_export]
macro_rules! by_dtype {
    ($dtype:expr, $t:ident => $e:expr) => {
        match $dtype {
            $crate::DType::F32 => {
                type $t = f32;
                $e
            }
            $crate::DType::F16 => {
                type $t = $crate::f16;
                $e
            }
            $crate::DType::F64 => {
                type $t = f64;
                $e
            }
            $crate::DType::I8 => {
                type $t = i8;
                $e
            }
            $crate::DType::U8 => {
                type $t = u8;
                $e
            }
            $crate::DType::I32 => {
                type $t = i32;
                $e
            }
            $crate::DType::I64 => {
                type $t = i64;
                $e
            }
            $crate::DType::Bool => {
                type $t = $crate::Bool;
                $e
            }
        }
    };
}
