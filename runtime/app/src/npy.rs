//! Tensors in numpy's `.npy` format, versions 1.0 to 3.0
//! (<https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>).
//!
//! The header is a Python literal. Only the one form numpy writes is read, without recursion and within fixed limits, so
//! a hostile file costs no more memory than it has bytes.

use crate::{Error, ErrorKind, Result, output};
use saltica_tensor::{DType, Shape, Tensor};
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// numpy's headers are some hundred bytes; structured dtypes, which are refused anyway, may take more.
const MAX_HEADER: usize = 64 * 1024;
/// numpy aligns the data to this, for those who map the file.
const ALIGN: usize = 64;

/// Reads a file. Errors name the file and what was found in it.
pub fn read(path: &Path) -> Result<Tensor> {
    let file = File::open(path).map_err(|e| Error::io("read", path, &e))?;
    read_from(BufReader::new(file))
        .map_err(|e| Error::new(e.kind(), format!("cannot read {}: {e}", path.display())))
}

/// Reads one array; the stream must end with it. Big-endian and column-major (Fortran) data is brought into the
/// machine's and row-major order.
pub fn read_from(mut from: impl Read) -> Result<Tensor> {
    let header = Header::read(&mut from)?;
    let shape = Shape::new(&header.dims).map_err(|e| bad(e.to_string()))?;
    let size = header.dtype.size();
    let need = shape.elements() * size;
    // Grows with what is really there, whatever the header claims.
    let mut data = Vec::new();
    from.take(need as u64 + 1)
        .read_to_end(&mut data)
        .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    if data.len() != need {
        let found = if data.len() > need { "more".into() } else { format!("only {}", data.len()) };
        return Err(bad(format!(
            "{} {shape} takes {need} bytes after the header, {found} found",
            header.dtype
        )));
    }
    if header.big_endian {
        data.chunks_exact_mut(size).for_each(<[u8]>::reverse);
    }
    if header.fortran_order && shape.rank() > 1 {
        data = row_major(&data, &shape, size);
    }
    Tensor::from_shared(header.dtype, shape, Arc::new(data), 0, need).map_err(|e| bad(e.to_string()))
}

/// Writes a file (version 1.0, little-endian, row-major). It appears whole or not at all.
pub fn write(path: &Path, tensor: &Tensor) -> Result<()> {
    output::write_file(path, |to| write_to(to, tensor))
}

/// Writes one array.
pub fn write_to(mut to: impl Write, tensor: &Tensor) -> io::Result<()> {
    let dims: Vec<String> = tensor.shape().dims().iter().map(usize::to_string).collect();
    // One dimension needs the comma that makes it a tuple.
    let comma = if dims.len() == 1 { "," } else { "" };
    let mut header = format!(
        "{{'descr': '{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        descr(tensor.dtype()),
        dims.join(", ")
    );
    let before = MAGIC.len() + 4;
    let padded = (before + header.len() + 1).next_multiple_of(ALIGN) - before;
    header.extend(std::iter::repeat_n(' ', padded - 1 - header.len()));
    header.push('\n');
    to.write_all(MAGIC)?;
    to.write_all(&[1, 0])?;
    to.write_all(&(header.len() as u16).to_le_bytes())?;
    to.write_all(header.as_bytes())?;
    to.write_all(tensor.bytes())
}

fn bad(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Format, what)
}

const fn descr(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::F64 => "<f8",
        DType::I8 => "|i1",
        DType::U8 => "|u1",
        DType::I32 => "<i4",
        DType::I64 => "<i8",
        DType::Bool => "|b1",
    }
}

/// Elements of `size` bytes, first dimension fastest, put into row-major order.
fn row_major(data: &[u8], shape: &Shape, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len());
    for index in shape.indices() {
        let at = (0..shape.rank()).rev().fold(0, |at, d| at * shape[d] + index[d]) * size;
        out.extend_from_slice(&data[at..at + size]);
    }
    out
}

/// What stands before the data.
#[derive(Debug, PartialEq)]
struct Header {
    dtype: DType,
    big_endian: bool,
    fortran_order: bool,
    dims: Vec<usize>,
}

impl Header {
    fn read(from: &mut impl Read) -> Result<Header> {
        let mut take = |n: usize, what: &str| {
            let mut bytes = vec![0; n];
            match from.read_exact(&mut bytes) {
                Ok(()) => Ok(bytes),
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    Err(bad(format!("it ends within {what}")))
                }
                Err(e) => Err(Error::new(ErrorKind::Io, e.to_string())),
            }
        };
        let start = take(8, "the first 8 bytes")?;
        if !start.starts_with(MAGIC) {
            return Err(bad("no .npy file (it does not start with \\x93NUMPY)"));
        }
        let len = match start[6] {
            1 => take(2, "the header's length")?.iter().rev().fold(0, |n, &b| n << 8 | b as usize),
            2 | 3 => take(4, "the header's length")?.iter().rev().fold(0, |n, &b| n << 8 | b as usize),
            v => return Err(bad(format!("format version {v}.{} found, 1.0 to 3.0 expected", start[7]))),
        };
        if len > MAX_HEADER {
            return Err(bad(format!("a header of {len} bytes found, at most {MAX_HEADER} expected")));
        }
        let text = take(len, "the header")?;
        let text = std::str::from_utf8(&text).map_err(|_| bad("the header is not text"))?;
        Self::parse(text)
    }

    /// Parses `{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }`, keys in any order.
    fn parse(text: &str) -> Result<Header> {
        let mut at = Cursor(text.trim());
        let (mut kind, mut fortran_order, mut dims) = (None, None, None);
        at.expect('{')?;
        while !at.eat('}') {
            let key = at.string()?;
            at.expect(':')?;
            match key {
                "descr" if at.peek('[') || at.peek('(') => {
                    return Err(bad("a structured dtype found, a plain one expected: save one field of it"));
                }
                "descr" => kind = Some(at.string()?),
                "fortran_order" if at.word("True") => fortran_order = Some(true),
                "fortran_order" if at.word("False") => fortran_order = Some(false),
                "shape" => dims = Some(at.tuple()?),
                _ => return Err(bad(format!("the header's entry {key:?} is not understood"))),
            }
            if !at.eat(',') && !at.peek('}') {
                return Err(at.error("`,` or `}`"));
            }
        }
        match (kind, fortran_order, dims) {
            (Some(kind), Some(fortran_order), Some(dims)) if at.0.is_empty() => {
                let (dtype, big_endian) = dtype_of(kind)?;
                Ok(Header { dtype, big_endian, fortran_order, dims })
            }
            (Some(_), Some(_), Some(_)) => Err(at.error("the end")),
            _ => Err(bad("the header lacks one of descr, fortran_order and shape")),
        }
    }
}

fn dtype_of(descr: &str) -> Result<(DType, bool)> {
    let (order, kind) = match descr.chars().next() {
        Some(c @ ('<' | '>' | '|' | '=')) => (c, &descr[1..]),
        _ => ('=', descr),
    };
    let dtype = DType::ALL.into_iter().find(|&d| self::descr(d)[1..] == *kind).ok_or_else(|| {
        bad(format!(
            "dtype {descr:?} found; f2, f4, f8, i1, u1, i4, i8 and b1 are supported: convert it, as in \
             `a.astype(numpy.float32)`"
        ))
    })?;
    let native_is_big = cfg!(target_endian = "big");
    Ok((dtype, dtype.size() > 1 && (order == '>') != native_is_big && order != '='))
}

/// What is left of the header's text.
struct Cursor<'a>(&'a str);

impl<'a> Cursor<'a> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start();
    }

    fn peek(&mut self, c: char) -> bool {
        self.skip_space();
        self.0.starts_with(c)
    }

    fn eat(&mut self, c: char) -> bool {
        let found = self.peek(c);
        if found {
            self.0 = &self.0[c.len_utf8()..];
        }
        found
    }

    fn word(&mut self, word: &str) -> bool {
        self.skip_space();
        self.0.strip_prefix(word).inspect(|rest| self.0 = rest).is_some()
    }

    fn expect(&mut self, c: char) -> Result<()> {
        if self.eat(c) { Ok(()) } else { Err(self.error(&format!("`{c}`"))) }
    }

    fn string(&mut self) -> Result<&'a str> {
        let quote = if self.eat('\'') { '\'' } else { self.expect('"').map(|()| '"')? };
        let (inside, rest) = self.0.split_once(quote).ok_or_else(|| self.error("a closing quote"))?;
        self.0 = rest;
        Ok(inside)
    }

    fn tuple(&mut self) -> Result<Vec<usize>> {
        let mut dims = Vec::new();
        self.expect('(')?;
        while !self.eat(')') {
            self.skip_space();
            let digits = self.0.len() - self.0.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let dim = self.0[..digits].parse().map_err(|_| self.error("a dimension"))?;
            // Python 2 wrote long integers as `3L`.
            self.0 = self.0[digits..].strip_prefix('L').unwrap_or(&self.0[digits..]);
            dims.push(dim);
            if !self.eat(',') && !self.peek(')') {
                return Err(self.error("`,` or `)`"));
            }
        }
        Ok(dims)
    }

    fn error(&self, expected: &str) -> Error {
        let rest: String = self.0.chars().take(24).collect();
        bad(format!("the header has {rest:?} where {expected} was expected"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend([version, 0]);
        match version {
            1 => out.extend((header.len() as u16).to_le_bytes()),
            _ => out.extend((header.len() as u32).to_le_bytes()),
        }
        out.extend(header.bytes());
        out.extend(data);
        out
    }

    #[test]
    fn every_dtype_survives_a_round_trip() {
        for dtype in DType::ALL {
            for dims in [&[][..], &[0], &[3], &[2, 3], &[1, 2, 1, 4]] {
                let values = Tensor::from_slice(
                    dims,
                    &(0..dims.iter().product()).map(|i| i as f64 - 1.0).collect::<Vec<_>>(),
                )
                .unwrap();
                let tensor = values.cast(dtype).unwrap();
                let mut file = Vec::new();
                write_to(&mut file, &tensor).unwrap();
                assert_eq!((file.len() - tensor.bytes().len()) % ALIGN, 0);
                assert_eq!(read_from(&file[..]).unwrap(), tensor, "{dtype} {dims:?}");
            }
        }
    }

    #[test]
    fn the_header_is_numpys() {
        // numpy 2.4: io.BytesIO of numpy.save(b, numpy.arange(3, dtype=numpy.int32)), b.getvalue().
        let mut numpys =
            b"\x93NUMPY\x01\x00v\x00{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }".to_vec();
        numpys.resize(127, b' ');
        numpys.extend(b"\n\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00");
        let tensor = Tensor::from_slice(&[3], &[0i32, 1, 2]).unwrap();
        let mut ours = Vec::new();
        write_to(&mut ours, &tensor).unwrap();
        assert_eq!(read_from(&numpys[..]).unwrap(), tensor);
        // numpy reserves room to grow the first dimension in place; the text before the padding is the same.
        assert_eq!(ours[10..66], numpys[10..66]);
    }

    #[test]
    fn column_major_and_big_endian_data_is_put_in_order() {
        let h = "{'descr': '>i4', 'fortran_order': True, 'shape': (2, 3)}";
        let data: Vec<u8> = [0i32, 10, 1, 11, 2, 12].iter().flat_map(|v| v.to_be_bytes()).collect();
        let t = read_from(&bytes(2, h, &data)[..]).unwrap();
        assert_eq!(t, Tensor::from_slice(&[2, 3], &[0i32, 1, 2, 10, 11, 12]).unwrap());
    }

    #[test]
    fn errors_say_what_was_found() {
        let ok = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        for (file, part) in [
            (vec![], "ends within the first 8 bytes"),
            (b"PK\x03\x04....".to_vec(), "no .npy file"),
            (bytes(4, ok, &[]), "format version 4.0"),
            (bytes(1, ok, &[0; 7]), "takes 8 bytes after the header, only 7"),
            (bytes(1, ok, &[0; 9]), "takes 8 bytes after the header, more"),
            (bytes(2, &" ".repeat(70_000), &[]), "at most 65536"),
            (bytes(2, ok, &[])[..20].to_vec(), "ends within the header"),
            (bytes(1, &"(".repeat(60_000), &[]), "where `{` was expected"),
            (bytes(1, "{'descr': [('a', '<f4')], }", &[]), "a structured dtype"),
            (bytes(1, &ok.replace("f4", "c8"), &[]), "\"<c8\" found"),
            (bytes(1, &ok.replace("f4", "é"), &[]), "found"),
            (bytes(1, &ok.replace("2,", "-2,"), &[]), "a dimension"),
            (bytes(1, &ok.replace("2,", &"9".repeat(30)), &[]), "a dimension"),
            (bytes(1, &ok.replace("2,", "1099511627776, 1099511627776"), &[]), "too many elements"),
            (bytes(1, &ok.replace("2,", "1, 1, 1, 1, 1, 1, 1, 1, 1"), &[]), "rank 9"),
            (bytes(1, &ok.replace("2,", "1099511627776"), &[0; 64]), "only 64 found"),
            (bytes(1, "{'shape': (2,), }", &[]), "lacks one of"),
            (bytes(1, "{'what': 1, }", &[]), "\"what\""),
        ] {
            let e = read_from(&file[..]).unwrap_err().to_string();
            assert!(e.contains(part), "expected {part:?} in {e:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(version in 1u8..4, header in "[{}()\\[\\]'\":,0-9L <>|=a-zA-Zé_]{0,80}", data in any::<Vec<u8>>()) {
            let _ = read_from(&bytes(version, &header, &data)[..]);
            let _ = read_from(&data[..]);
        }

        #[test]
        fn a_flipped_byte_never_panics(at in 0usize..140, with in any::<u8>()) {
            let mut file = Vec::new();
            write_to(&mut file, &Tensor::from_slice(&[3, 4], &[1.5f32; 12]).unwrap()).unwrap();
            if let Some(b) = file.get_mut(at) { *b = with; }
            let _ = read_from(&file[..]);
        }
    }
}
