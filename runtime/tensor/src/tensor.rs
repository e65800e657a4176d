use crate::storage::AlignedBytes;
use crate::{DType, Element, Error, ErrorKind, Layout, Result, Shape, View, ViewMut};
use std::fmt;
use std::sync::Arc;

/// What holds a tensor's bytes: an aligned block of our own, or anything that lends bytes for good (a mapped file).
#[derive(Clone)]
enum Storage {
    Owned(Arc<AlignedBytes>),
    Shared { owner: Arc<dyn AsRef<[u8]> + Send + Sync>, start: usize, len: usize },
}

/// Contiguous, row-major numbers. Cloning shares the bytes.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    storage: Storage,
}

impl Tensor {
    /// All zeros. Errors when the memory cannot be had.
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Self> {
        let bytes = AlignedBytes::zeroed(shape.elements() * dtype.size())?;
        Ok(Tensor { dtype, shape, storage: Storage::Owned(Arc::new(bytes)) })
    }

    /// A copy of `data`, which must have as many elements as `dims` say.
    pub fn from_slice<T: Element>(dims: &[usize], data: &[T]) -> Result<Self> {
        Self::from_bytes(T::DTYPE, Shape::new(dims)?, bytemuck::cast_slice(data))
    }

    /// A scalar.
    pub fn scalar<T: Element>(value: T) -> Result<Self> {
        Self::from_slice(&[], &[value])
    }

    /// A copy of little-endian bytes.
    pub fn from_bytes(dtype: DType, shape: Shape, data: &[u8]) -> Result<Self> {
        check_len(dtype, &shape, data.len())?;
        let mut bytes = AlignedBytes::zeroed(data.len())?;
        bytes.as_mut_slice().copy_from_slice(data);
        Ok(Tensor { dtype, shape, storage: Storage::Owned(Arc::new(bytes)) })
    }

    /// Bytes borrowed from `owner` for good (`owner[start..start + len]`), without a copy where their address is
    /// aligned for the dtype, else copied.
    pub fn from_shared(
        dtype: DType,
        shape: Shape,
        owner: Arc<dyn AsRef<[u8]> + Send + Sync>,
        start: usize,
        len: usize,
    ) -> Result<Self> {
        check_len(dtype, &shape, len)?;
        let all = (*owner).as_ref();
        let part = start.checked_add(len).and_then(|end| all.get(start..end)).ok_or_else(|| {
            Error::new(ErrorKind::Bounds, format!("bytes {start}+{len} of a block of {}", all.len()))
        })?;
        if part.as_ptr().align_offset(dtype.size()) == 0 {
            Ok(Tensor { dtype, shape, storage: Storage::Shared { owner, start, len } })
        } else {
            Self::from_bytes(dtype, shape, part)
        }
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// All bytes, row-major.
    pub fn bytes(&self) -> &[u8] {
        match &self.storage {
            Storage::Owned(b) => b.as_slice(),
            // An `AsRef` could answer another length each time, so the range is checked at each call.
            Storage::Shared { owner, start, len } => {
                (**owner).as_ref().get(*start..*start + *len).unwrap_or_default()
            }
        }
    }

    /// The elements. Errors if `T` is not of this dtype.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        check_dtype(T::DTYPE, self.dtype)?;
        bytemuck::try_cast_slice(self.bytes())
            .map_err(|e| Error::new(ErrorKind::Bounds, format!("tensor storage changed under us: {e}")))
    }

    /// The elements, writable: copies first if the bytes are shared. Errors if `T` is not of this dtype.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        check_dtype(T::DTYPE, self.dtype)?;
        Ok(bytemuck::cast_slice_mut(self.bytes_mut()?))
    }

    /// The bytes, writable: copies first if they are shared.
    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        let unique = matches!(&self.storage, Storage::Owned(b) if Arc::strong_count(b) == 1);
        if !unique {
            *self = Self::from_bytes(self.dtype, self.shape, self.bytes())?;
        }
        match &mut self.storage {
            Storage::Owned(b) => Arc::get_mut(b).map(AlignedBytes::as_mut_slice),
            Storage::Shared { .. } => None,
        }
        .ok_or_else(|| Error::new(ErrorKind::Bounds, "a tensor's bytes are shared while they are written"))
    }

    /// A view of all elements.
    pub fn view(&self) -> View<'_> {
        View::of_bytes(self.bytes(), self.dtype, Layout::contiguous(self.shape))
    }

    /// A writable view: copies first if the bytes are shared.
    pub fn view_mut(&mut self) -> Result<ViewMut<'_>> {
        let (dtype, layout) = (self.dtype, Layout::contiguous(self.shape));
        Ok(ViewMut::of_bytes(self.bytes_mut()?, dtype, layout))
    }

    /// The same elements under another shape of as many elements.
    pub fn reshaped(&self, shape: Shape) -> Result<Tensor> {
        check_len(self.dtype, &shape, self.bytes().len())?;
        Ok(Tensor { shape, ..self.clone() })
    }

    /// Element `i` (row-major) widened to f64; None past the end.
    pub fn get_f64(&self, i: usize) -> Option<f64> {
        (i < self.shape.elements()).then(|| self.view().at_f64(i))
    }

    /// All elements as i64 (floats truncate), for shape-like inputs.
    pub fn to_i64_vec(&self) -> Vec<i64> {
        match self.as_slice::<i64>() {
            Ok(s) => s.to_vec(),
            Err(_) => (0..self.shape.elements()).map(|i| self.view().at_f64(i) as i64).collect(),
        }
    }

    /// All elements as f32, for scales, coordinates and the like.
    pub fn to_f32_vec(&self) -> Vec<f32> {
        match self.as_slice::<f32>() {
            Ok(s) => s.to_vec(),
            Err(_) => (0..self.shape.elements()).map(|i| self.view().at_f64(i) as f32).collect(),
        }
    }

    /// The same values in another dtype ([`Element::from_f64`]'s rules).
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype {
            return Ok(self.clone());
        }
        let mut out = Tensor::zeros(dtype, self.shape)?;
        let from = self.view();
        let mut to = out.view_mut()?;
        for i in 0..self.shape.elements() {
            to.put_f64(i, from.at_f64(i));
        }
        Ok(out)
    }
}

fn check_dtype(asked: DType, found: DType) -> Result<()> {
    if asked == found {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::DType, format!("dtype {found} found, {asked} expected")))
    }
}

fn check_len(dtype: DType, shape: &Shape, len: usize) -> Result<()> {
    let want = shape.elements() * dtype.size();
    if want == len {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Size, format!("{len} bytes found, {dtype} {shape} takes {want}")))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} [", self.dtype, self.shape)?;
        let n = self.shape.elements();
        for i in 0..n.min(16) {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, self.view().at_f64(i))?;
        }
        f.write_str(if n > 16 { ", ...]" } else { "]" })
    }
}

/// Same dtype, shape and values (NaN differs from itself).
impl PartialEq for Tensor {
    fn eq(&self, other: &Self) -> bool {
        self.dtype == other.dtype
            && self.shape == other.shape
            && (0..self.shape.elements()).all(|i| self.view().at_f64(i) == other.view().at_f64(i))
    }
}
