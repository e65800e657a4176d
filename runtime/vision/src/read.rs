use std::io::Read;
use std::path::Path;

/// Reads a file of at most `most` bytes. The size a file system reports is no bound: a device has none.
pub(crate) fn read(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(std::io::Error::new(
            std::io::ErrorKind::FileTooLarge,
            format!("more than {most} bytes, which is all that is read of such a file"),
        ));
    }
    Ok(bytes)
}

/// Most bytes of a description or label file.
const TEXT_LIMIT: u64 = 1 << 20;

/// Reads a small text file.
pub(crate) fn text(path: &Path) -> std::io::Result<String> {
    let bytes = read(path, TEXT_LIMIT)?;
    String::from_utf8(bytes).map_err(|e| std::io::Error::new(std::io::ErrorKind::InvalidData, e.utf8_error()))
}
