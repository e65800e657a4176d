//! Strided windows on memory that somebody else owns.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * A view's pointer is valid for `layout.span()` elements of its dtype, aligned for it, for the lifetime `'a`.
//! * Two live views may reach over the same address range (channel ranges of one interleaved buffer do), but no
//!   *element* of a [`ViewMut`] is reachable through any other live view. So views read and write single elements
//!   through raw pointers, and hand out slices only where the slice is exactly the view's elements.
//! * All bit patterns are valid for every [`Element`].

use crate::{Bool, DType, Element, Layout, Shape, Tensor};
use half::f16;
use std::marker::PhantomData;

/// A read-only strided window. All indices are checked against the shape.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    ptr: *const u8,
    dtype: DType,
    layout: Layout,
    life: PhantomData<&'a [u8]>,
}

/// A writable strided window; its elements are reachable through nothing else while it lives.
#[derive(Debug)]
pub struct ViewMut<'a> {
    ptr: *mut u8,
    dtype: DType,
    layout: Layout,
    life: PhantomData<&'a mut [u8]>,
}

// SAFETY: a View only reads, and nothing writes its elements while it lives.
unsafe impl Send for View<'_> {}
// SAFETY: as above.
unsafe impl Sync for View<'_> {}
// SAFETY: a ViewMut is the only way to its elements, and the elements are plain numbers.
unsafe impl Send for ViewMut<'_> {}
// SAFETY: through `&ViewMut` elements are only read.
unsafe impl Sync for ViewMut<'_> {}

macro_rules! by_dtype {
    ($dtype:expr, $t:ident => $e:expr) => {
        match $dtype {
            DType::F32 => {
                type $t = f32;
                $e
            }
            DType::F16 => {
                type $t = f16;
                $e
            }
            DType::F64 => {
                type $t = f64;
                $e
            }
            DType::I8 => {
                type $t = i8;
                $e
            }
            DType::U8 => {
                type $t = u8;
                $e
            }
            DType::I32 => {
                type $t = i32;
                $e
            }
            DType::I64 => {
                type $t = i64;
                $e
            }
            DType::Bool => {
                type $t = Bool;
                $e
            }
        }
    };
}

macro_rules! shared_reads {
    () => {
        /// The dtype.
        pub fn dtype(&self) -> DType {
            self.dtype
        }

        /// The shape.
        pub fn shape(&self) -> &Shape {
            self.layout.shape()
        }

        /// Shape and strides.
        pub fn layout(&self) -> &Layout {
            &self.layout
        }

        /// Address of the first element, for kernels that do their own indexing (valid for `layout().span()` elements).
        pub fn as_ptr<T: Element>(&self) -> *const T {
            debug_assert_eq!(T::DTYPE, self.dtype);
            self.ptr as *const T
        }

        /// Row-major index `i` turned into an element offset.
        #[inline]
        fn flat_offset(&self, mut i: usize) -> usize {
            let (shape, strides) = (self.layout.shape(), self.layout.strides());
            assert!(i < shape.elements(), "element {i} of {shape}");
            let mut o = 0;
            for d in (0..shape.rank()).rev() {
                o += (i % shape[d]) * strides[d];
                i /= shape[d];
            }
            o
        }

        #[inline]
        fn check<T: Element>(&self) {
            assert_eq!(T::DTYPE, self.dtype, "kernel asked for another dtype than the view has");
        }

        #[inline]
        fn check_index(&self, index: &[usize]) {
            let shape = self.layout.shape();
            for d in 0..shape.rank() {
                assert!(index[d] < shape[d], "index {index:?} of {shape}");
            }
        }

        /// The element at an index (the first `rank` entries count). Panics outside the shape or for another dtype:
        /// both are bugs of the calling kernel, never a matter of input.
        #[inline]
        pub fn get<T: Element>(&self, index: &[usize]) -> T {
            self.check::<T>();
            self.check_index(index);
            // SAFETY: the index is inside the shape, so the offset is inside the span.
            unsafe { *(self.ptr as *const T).add(self.layout.offset(index)) }
        }

        /// The `i`-th element in row-major order; same panics as [`Self::get`].
        #[inline]
        pub fn at<T: Element>(&self, i: usize) -> T {
            self.check::<T>();
            // SAFETY: flat_offset checked `i`.
            unsafe { *(self.ptr as *const T).add(self.flat_offset(i)) }
        }

        /// [`Self::get`] widened to f64, for any dtype.
        #[inline]
        pub fn get_f64(&self, index: &[usize]) -> f64 {
            by_dtype!(self.dtype, T => self.get::<T>(index).to_f64())
        }

        /// [`Self::at`] widened to f64, for any dtype.
        #[inline]
        pub fn at_f64(&self, i: usize) -> f64 {
            by_dtype!(self.dtype, T => self.at::<T>(i).to_f64())
        }
    };
}

impl<'a> View<'a> {
    shared_reads!();

    pub(crate) fn of_bytes(bytes: &'a [u8], dtype: DType, layout: Layout) -> Self {
        assert!(layout.span() * dtype.size() <= bytes.len());
        assert!(bytes.as_ptr().align_offset(dtype.size()) == 0);
        View { ptr: bytes.as_ptr(), dtype, layout, life: PhantomData }
    }

    pub(crate) fn as_raw(&self) -> *const u8 {
        self.ptr
    }

    /// # Safety
    /// The pointer must satisfy the module's invariants for `'a`.
    pub(crate) unsafe fn from_raw(ptr: *const u8, dtype: DType, layout: Layout) -> Self {
        View { ptr, dtype, layout, life: PhantomData }
    }

    /// A view of a slice as this layout. None if the layout reaches past the slice.
    pub fn of_slice<T: Element>(data: &'a [T], layout: Layout) -> Option<Self> {
        (layout.span() <= data.len()).then_some(View {
            ptr: data.as_ptr() as *const u8,
            dtype: T::DTYPE,
            layout,
            life: PhantomData,
        })
    }

    /// The elements as a slice if they lie row-major without gaps.
    pub fn as_slice<T: Element>(&self) -> Option<&'a [T]> {
        (T::DTYPE == self.dtype && self.layout.is_contiguous()).then(|| {
            // SAFETY: contiguous, so the slice is exactly the view's elements, valid for 'a.
            unsafe { std::slice::from_raw_parts(self.ptr as *const T, self.layout.shape().elements()) }
        })
    }

    /// The innermost run at `index` (last entry ignored) as a slice, if the last dim has stride 1. For channels-last
    /// kernels: permute the view so that channels are the last dim first.
    pub fn row<T: Element>(&self, index: &[usize]) -> Option<&'a [T]> {
        let rank = self.shape().rank();
        if rank == 0 || T::DTYPE != self.dtype || self.layout.strides()[rank - 1] != 1 {
            return None;
        }
        let mut at = [0; crate::MAX_RANK];
        at[..rank - 1].copy_from_slice(&index[..rank - 1]);
        if self.shape().elements() == 0 {
            return Some(&[]);
        }
        self.check_index(&at);
        // SAFETY: the run lies inside the view and consists of its own elements only.
        Some(unsafe {
            std::slice::from_raw_parts(
                (self.ptr as *const T).add(self.layout.offset(&at)),
                self.shape()[rank - 1],
            )
        })
    }

    /// The same memory through another layout that must not reach further than this one's span.
    /// None if it does.
    pub fn with_layout(&self, offset: usize, layout: Layout) -> Option<View<'a>> {
        if layout.shape().elements() == 0 {
            return Some(View { layout, ..*self });
        }
        (offset.checked_add(layout.span())? <= self.layout.span()).then(|| View {
            ptr: self.ptr.wrapping_add(offset * self.dtype.size()),
            layout,
            ..*self
        })
    }

    /// A contiguous copy.
    pub fn to_tensor(&self) -> crate::Result<Tensor> {
        let mut out = Tensor::zeros(self.dtype, *self.shape())?;
        out.view_mut()?.copy_from(self);
        Ok(out)
    }
}

impl<'a> ViewMut<'a> {
    shared_reads!();

    pub(crate) fn of_bytes(bytes: &'a mut [u8], dtype: DType, layout: Layout) -> Self {
        assert!(layout.span() * dtype.size() <= bytes.len());
        assert!(bytes.as_ptr().align_offset(dtype.size()) == 0);
        ViewMut { ptr: bytes.as_mut_ptr(), dtype, layout, life: PhantomData }
    }

    /// # Safety
    /// The pointer must satisfy the module's invariants for `'a`, and the layout must not overlap itself.
    pub(crate) unsafe fn from_raw(ptr: *mut u8, dtype: DType, layout: Layout) -> Self {
        ViewMut { ptr, dtype, layout, life: PhantomData }
    }

    /// A writable view of a slice as this layout. None if the layout reaches past the slice or overlaps itself.
    pub fn of_slice<T: Element>(data: &'a mut [T], layout: Layout) -> Option<Self> {
        (layout.span() <= data.len() && !layout.may_self_overlap()).then_some(ViewMut {
            ptr: data.as_mut_ptr() as *mut u8,
            dtype: T::DTYPE,
            layout,
            life: PhantomData,
        })
    }

    /// Address of the first element, for kernels that do their own indexing.
    pub fn as_mut_ptr<T: Element>(&mut self) -> *mut T {
        debug_assert_eq!(T::DTYPE, self.dtype);
        self.ptr as *mut T
    }

    /// The elements as a slice if they lie row-major without gaps.
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        (T::DTYPE == self.dtype && self.layout.is_contiguous()).then(|| {
            // SAFETY: contiguous, so the slice is exactly the view's elements, which only this view reaches.
            unsafe { std::slice::from_raw_parts_mut(self.ptr as *mut T, self.layout.shape().elements()) }
        })
    }

    /// The innermost run at `index` (last entry ignored) as a slice, if the last dim has stride 1.
    pub fn row_mut<T: Element>(&mut self, index: &[usize]) -> Option<&mut [T]> {
        let rank = self.shape().rank();
        if rank == 0 || T::DTYPE != self.dtype || self.layout.strides()[rank - 1] != 1 {
            return None;
        }
        let mut at = [0; crate::MAX_RANK];
        at[..rank - 1].copy_from_slice(&index[..rank - 1]);
        if self.shape().elements() == 0 {
            return Some(&mut []);
        }
        self.check_index(&at);
        // SAFETY: the run lies inside the view and consists of its own elements only.
        Some(unsafe {
            std::slice::from_raw_parts_mut(
                (self.ptr as *mut T).add(self.layout.offset(&at)),
                self.shape()[rank - 1],
            )
        })
    }

    /// Writes the element at an index; same panics as [`Self::get`].
    #[inline]
    pub fn set<T: Element>(&mut self, index: &[usize], value: T) {
        self.check::<T>();
        self.check_index(index);
        // SAFETY: the index is inside the shape, so the offset is inside the span.
        unsafe { *(self.ptr as *mut T).add(self.layout.offset(index)) = value }
    }

    /// Writes the `i`-th element in row-major order; same panics as [`Self::get`].
    #[inline]
    pub fn put<T: Element>(&mut self, i: usize, value: T) {
        self.check::<T>();
        // SAFETY: flat_offset checked `i`.
        unsafe { *(self.ptr as *mut T).add(self.flat_offset(i)) = value }
    }

    /// [`Self::set`] from f64 for any dtype ([`Element::from_f64`]'s rules).
    #[inline]
    pub fn set_f64(&mut self, index: &[usize], value: f64) {
        by_dtype!(self.dtype, T => self.set::<T>(index, T::from_f64(value)))
    }

    /// [`Self::put`] from f64 for any dtype.
    #[inline]
    pub fn put_f64(&mut self, i: usize, value: f64) {
        by_dtype!(self.dtype, T => self.put::<T>(i, T::from_f64(value)))
    }

    /// Reads what this view holds.
    pub fn as_view(&self) -> View<'_> {
        View { ptr: self.ptr, dtype: self.dtype, layout: self.layout, life: PhantomData }
    }

    /// A shorter-lived writable view of the same elements.
    pub fn reborrow(&mut self) -> ViewMut<'_> {
        ViewMut { ptr: self.ptr, dtype: self.dtype, layout: self.layout, life: PhantomData }
    }

    /// The same elements with dims reordered (dim `i` of the result is dim `perm[i]` of this).
    pub fn permuted(&mut self, perm: &[usize]) -> crate::Result<ViewMut<'_>> {
        let layout = self.layout.permuted(perm)?;
        Ok(ViewMut { ptr: self.ptr, dtype: self.dtype, layout, life: PhantomData })
    }

    /// Copies every element of `from`, which must have the same dtype and shape (panics otherwise: a kernel's bug).
    pub fn copy_from(&mut self, from: &View<'_>) {
        assert_eq!(self.dtype, from.dtype);
        assert_eq!(self.shape(), from.shape());
        by_dtype!(self.dtype, T => self.copy_typed::<T>(from))
    }

    fn copy_typed<T: Element>(&mut self, from: &View<'_>) {
        if let (Some(src), Some(dst)) = (from.as_slice::<T>(), self.as_mut_slice::<T>()) {
            dst.copy_from_slice(src);
            return;
        }
        for index in self.shape().indices() {
            // SAFETY: `indices` stays inside the shape, which both views share.
            unsafe {
                *(self.ptr as *mut T).add(self.layout.offset(&index)) =
                    *(from.ptr as *const T).add(from.layout.offset(&index));
            }
        }
    }
}
