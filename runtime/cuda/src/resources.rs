//! What kernels of a compiled image take, read from its ELF sections.
//!
//! `.nv.info` holds attributes: a byte that says where the value is, a byte that says what it is, and two bytes of value or of
//! its length. Registers (0x2f) and stack (0x11) are given by symbol; the names are those that cuobjdump shows.

use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Registers a thread, static shared memory a block and stack a thread (spills), in bytes but for the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resources {
    /// Registers a thread.
    pub registers: u32,
    /// Bytes of static shared memory a block.
    pub shared: u32,
    /// Bytes of stack a thread: more than 0 means spills or arrays that are not in registers.
    pub stack: u32,
}

fn bytes<const N: usize>(image: &[u8], at: usize) -> Result<[u8; N]> {
    let found = at.checked_add(N).and_then(|end| image.get(at..end)).and_then(|b| b.try_into().ok());
    found.ok_or_else(|| Error::new(ErrorKind::Compile, format!("image ends before byte {at}")))
}

fn u16_at(image: &[u8], at: usize) -> Result<usize> {
    Ok(u16::from_le_bytes(bytes(image, at)?).into())
}

fn u32_at(image: &[u8], at: usize) -> Result<u32> {
    Ok(u32::from_le_bytes(bytes(image, at)?))
}

fn u64_at(image: &[u8], at: usize) -> Result<usize> {
    usize::try_from(u64::from_le_bytes(bytes(image, at)?))
        .map_err(|_| Error::new(ErrorKind::Compile, "an offset beyond memory"))
}

struct Section {
    name: usize,
    offset: usize,
    size: usize,
    link: usize,
}

fn text(image: &[u8], table: &Section, at: usize) -> String {
    let rest = image.get(table.offset.saturating_add(at)..).unwrap_or_default();
    let end = rest.iter().position(|b| *b == 0).unwrap_or(0);
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

/// The kernels of a cubin by name. Errors if it is no 64-bit ELF.
pub fn resources(image: &[u8]) -> Result<BTreeMap<String, Resources>> {
    if image.get(..5) != Some(&[0x7F, b'E', b'L', b'F', 2]) {
        return Err(Error::new(ErrorKind::Compile, "a 64-bit ELF image expected"));
    }
    let (table, size, count, names) =
        (u64_at(image, 40)?, u16_at(image, 58)?, u16_at(image, 60)?, u16_at(image, 62)?);
    let sections = (0..count)
        .map(|i| {
            let at = table.saturating_add(i * size);
            Ok(Section {
                name: u32_at(image, at)? as usize,
                offset: u64_at(image, at + 24)?,
                size: u64_at(image, at + 32)?,
                link: u32_at(image, at + 40)? as usize,
            })
        })
        .collect::<Result<Vec<_>>>()?;
    let missing = |what: &str| Error::new(ErrorKind::Compile, format!("the image has no {what}"));
    let strings = sections.get(names).ok_or_else(|| missing("section names"))?;
    let named: Vec<(String, &Section)> = sections.iter().map(|s| (text(image, strings, s.name), s)).collect();
    let mut found: BTreeMap<String, Resources> = BTreeMap::new();
    for (name, _) in &named {
        if let Some(kernel) = name.strip_prefix(".text.") {
            found.insert(kernel.to_owned(), Resources::default());
        }
    }
    for (name, section) in &named {
        if let Some(r) = name.strip_prefix(".nv.shared.").and_then(|k| found.get_mut(k)) {
            r.shared = section.size as u32;
        }
    }
    let (_, symbols) = named.iter().find(|(n, _)| n == ".symtab").ok_or_else(|| missing(".symtab"))?;
    let symbol_names = sections.get(symbols.link).ok_or_else(|| missing("symbol names"))?;
    let (_, info) = named.iter().find(|(n, _)| n == ".nv.info").ok_or_else(|| missing(".nv.info"))?;
    let (mut at, end) = (info.offset, info.offset.saturating_add(info.size));
    while at + 4 <= end {
        let [format, attribute, ..]: [u8; 4] = bytes(image, at)?;
        let len = if format == 4 { u16_at(image, at + 2)? } else { 0 };
        if format == 4 && len >= 8 && matches!(attribute, 0x11 | 0x2F) {
            let (symbol, value) = (u32_at(image, at + 4)? as usize, u32_at(image, at + 8)?);
            let name = u32_at(image, symbols.offset.saturating_add(symbol * 24))? as usize;
            if let Some(r) = found.get_mut(&text(image, symbol_names, name)) {
                if attribute == 0x2F {
                    r.registers = value;
                } else {
                    r.stack = value;
                }
            }
        }
        at += 4 + len;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_images_are_errors() {
        assert!(resources(b"").is_err());
        assert!(resources(b"// PTX").is_err());
        let mut cut = vec![0x7F, b'E', b'L', b'F', 2];
        cut.resize(70, 0xFF);
        assert!(resources(&cut).is_err());
    }
}
