//! Which instruction set kernels use: found at run time, or forced through `SALTICA_ISA` for tests.
//!
//! An [`Isa`] can only be had for instructions this processor has, so holding one is the proof that calling a function
//! compiled for them is sound.

use crate::{Error, ErrorKind, Result};
use std::fmt;

/// Families of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IsaKind {
    /// Plain Rust for any processor.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL and DQ.
    Avx512,
    /// AArch64.
    Neon,
}

impl IsaKind {
    /// Every family, slowest first.
    pub const ALL: [IsaKind; 4] = [IsaKind::Scalar, IsaKind::Avx2, IsaKind::Avx512, IsaKind::Neon];

    /// The name `SALTICA_ISA` and reports use.
    pub const fn name(self) -> &'static str {
        match self {
            IsaKind::Scalar => "scalar",
            IsaKind::Avx2 => "avx2",
            IsaKind::Avx512 => "avx512",
            IsaKind::Neon => "neon",
        }
    }
}

/// Instructions this processor is known to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Isa {
    kind: IsaKind,
    dot: bool,
}

impl Isa {
    /// The family, if this processor has it.
    pub fn new(kind: IsaKind) -> Option<Isa> {
        match kind {
            IsaKind::Scalar => Some(Isa { kind, dot: false }),
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx2 => (is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c"))
            .then_some(Isa { kind, dot: false }),
            #[cfg(target_arch = "x86_64")]
            IsaKind::Avx512 => (Isa::new(IsaKind::Avx2).is_some()
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512dq"))
            .then(|| Isa { kind, dot: is_x86_feature_detected!("avx512vnni") }),
            #[cfg(target_arch = "aarch64")]
            IsaKind::Neon => std::arch::is_aarch64_feature_detected!("neon")
                .then(|| Isa { kind, dot: std::arch::is_aarch64_feature_detected!("dotprod") }),
            #[allow(unreachable_patterns)]
            _ => None,
        }
    }

    /// All that this processor has, slowest first.
    pub fn available() -> impl Iterator<Item = Isa> {
        IsaKind::ALL.into_iter().filter_map(Isa::new)
    }

    /// The fastest this processor has.
    pub fn best() -> Isa {
        Isa::available().last().unwrap_or(Isa { kind: IsaKind::Scalar, dot: false })
    }

    /// What `SALTICA_ISA` names, or the fastest. Errors if the name is unknown or this processor lacks it.
    pub fn from_env() -> Result<Isa> {
        match std::env::var("SALTICA_ISA") {
            Err(_) => Ok(Isa::best()),
            Ok(name) => Isa::named(&name),
        }
    }

    /// The family of this name. Errors if the name is unknown or this processor lacks it.
    pub fn named(name: &str) -> Result<Isa> {
        let kind = IsaKind::ALL.into_iter().find(|k| k.name() == name).ok_or_else(|| {
            let names = IsaKind::ALL.map(IsaKind::name).join(", ");
            Error::new(ErrorKind::Config, format!("SALTICA_ISA is '{name}', one of {names} expected"))
        })?;
        Isa::new(kind).ok_or_else(|| {
            let names: Vec<_> = Isa::available().map(|i| i.kind.name()).collect();
            Error::new(
                ErrorKind::Config,
                format!("SALTICA_ISA is '{name}', which this processor lacks; it has {}", names.join(", ")),
            )
        })
    }

    /// The family.
    pub fn kind(self) -> IsaKind {
        self.kind
    }

    /// Whether 8-bit dot products are one instruction (AVX-512 VNNI, NEON dotprod).
    pub fn has_dot(self) -> bool {
        self.dot
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.dot { f.write_str("+dot") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood_or_refused() {
        assert_eq!(Isa::named("scalar").unwrap().kind(), IsaKind::Scalar);
        let e = Isa::named("sse9").unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Config);
        assert!(e.to_string().contains("avx512"), "{e}");
        let foreign = if cfg!(target_arch = "x86_64") { "neon" } else { "avx2" };
        assert!(Isa::named(foreign).unwrap_err().to_string().contains("scalar"));
        assert!(Isa::available().any(|i| i == Isa::best()));
    }
}
