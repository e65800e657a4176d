//! The kernels that come in several tile sizes, as `kernels/variants.tsv` lists them.

use std::sync::OnceLock;

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    /// Name of the kernel.
    pub(crate) name: &'static str,
    /// The file it is in.
    pub(crate) unit: &'static str,
    /// Rows and columns of the output a block makes, and the steps its sum goes in.
    pub(crate) tile: [usize; 3],
    /// Parts of a block that share the sum.
    pub(crate) parts: usize,
    /// Threads a block.
    pub(crate) threads: u32,
    /// Bytes of dynamic shared memory.
    pub(crate) shared: u32,
}

impl Variant {
    /// `conv_f16c4` of `conv_f16c4_128x16x32_k1_s3`.
    pub(crate) fn family(&self) -> &'static str {
        let tile = self.name.rsplit('_').find(|part| part.contains('x')).unwrap_or_default();
        self.name.find(&format!("_{tile}")).map_or(self.name, |at| &self.name[..at])
    }

    /// The tile as in labels: `128x16x32 k1 s3`.
    pub(crate) fn shape(&self) -> String {
        self.name[self.family().len() + 1..].replace('_', " ")
    }
}

/// All of them.
pub(crate) fn variants() -> &'static [Variant] {
    static ALL: OnceLock<Vec<Variant>> = OnceLock::new();
    ALL.get_or_init(|| include_str!("../kernels/variants.tsv").lines().filter_map(line).collect())
}

fn line(line: &'static str) -> Option<Variant> {
    if line.starts_with('#') {
        return None;
    }
    let f: Vec<&str> = line.split('\t').collect();
    let &[name, unit, _, bm, bn, bk, wk, threads, shared] = &f[..] else { return None };
    let n = |t: &str| t.parse::<usize>().ok();
    Some(Variant {
        name,
        unit,
        tile: [n(bm)?, n(bn)?, n(bk)?],
        parts: n(wk)?,
        threads: threads.parse().ok()?,
        shared: shared.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_fits_an_orin() {
        let lines = include_str!("../kernels/variants.tsv").lines().filter(|l| !l.starts_with('#')).count();
        assert_eq!(variants().len(), lines);
        for v in variants() {
            // Compute capability 8.7: 163 KB a block.
            assert!(v.shared <= 163 << 10, "{v:?}");
            assert!(v.threads <= 1024 && v.threads.is_multiple_of(32), "{v:?}");
            assert!(!v.family().contains('x') || v.family().is_empty(), "{v:?}: {}", v.family());
        }
    }

    #[test]
    fn families_are_names_without_tiles() {
        let v = variants().iter().find(|v| v.name == "conv_f16c4_128x16x32_k1_s3").unwrap();
        assert_eq!((v.family(), v.shape().as_str()), ("conv_f16c4", "128x16x32 k1 s3"));
    }
}
