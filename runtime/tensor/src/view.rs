//! Strided windows on memory that somebody else owns.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * A view's pointer is valid for `layout.span()` elements of its dtype, aligned for it, for the lifetime `'a`.
//! * Two live views may reach over the same address range (channel ranges of one interleaved buffer do), but no
//!   *element* of a [`ViewMut`] is reachable through any other live view. So views read and write single elements
//!   through raw pointers, and hand out slices only where the slice is exactly the view's elements.
//! * All bit patterns are valid for every [`Element`].

use crate::{DType, Element, Layout, MAX_RANK, Shape, Tensor, by_dtype};
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
        let mut at = [0; MAX_RANK];
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

    /// The same elements with dims reordered (dim `i` of the result is dim `perm[i]` of this).
    pub fn permuted(&self, perm: &[usize]) -> crate::Result<View<'a>> {
        Ok(View { layout: self.layout.permuted(perm)?, ..*self })
    }

    /// Every `step`-th element of `start..start + len * step` along `axis`. Errors if that leaves the dimension.
    pub fn sliced(&self, axis: usize, start: usize, len: usize, step: usize) -> crate::Result<View<'a>> {
        let (layout, offset) = self.layout.sliced(axis, start, len, step)?;
        Ok(View { ptr: self.ptr.wrapping_add(offset * self.dtype.size()), layout, ..*self })
    }

    /// The same elements seen with a larger, broadcast shape (numpy rules).
    pub fn broadcast_to(&self, shape: &Shape) -> crate::Result<View<'a>> {
        Ok(View { layout: self.layout.broadcast_to(shape)?, ..*self })
    }

    /// The same elements in the same row-major order under another shape, if strides can say it.
    pub fn reshaped(&self, shape: Shape) -> Option<View<'a>> {
        Some(View { layout: self.layout.reshaped(shape)?, ..*self })
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
        let mut at = [0; MAX_RANK];
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

    /// Writes `value(i)` to the `i`-th of `len` elements from `index` along dim `axis`, whatever its stride. For kernels
    /// that write channel by channel into interleaved pixels. Panics where the run leaves the shape.
    #[inline]
    pub fn set_run<T: Element>(
        &mut self,
        index: &[usize],
        axis: usize,
        len: usize,
        value: impl Fn(usize) -> T,
    ) {
        self.check::<T>();
        if len == 0 {
            return;
        }
        self.check_index(index);
        assert!(
            axis < self.shape().rank() && len <= self.shape()[axis] - index[axis],
            "{len} elements along dim {axis} from {index:?} of {}",
            self.shape()
        );
        let (start, step) = (self.layout.offset(index), self.layout.strides()[axis]);
        for i in 0..len {
            // SAFETY: `index` moved by `i < len` along `axis` is inside the shape, so its offset is inside the span.
            unsafe { *(self.ptr as *mut T).add(start + i * step) = value(i) }
        }
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

    /// Every `step`-th element of `start..start + len * step` along `axis`, writable (take it from a [`Self::reborrow`] to
    /// keep this view). Errors if that leaves the dimension.
    pub fn sliced(self, axis: usize, start: usize, len: usize, step: usize) -> crate::Result<ViewMut<'a>> {
        let (layout, offset) = self.layout.sliced(axis, start, len, step)?;
        Ok(ViewMut { ptr: self.ptr.wrapping_add(offset * self.dtype.size()), layout, ..self })
    }

    /// The same elements in the same row-major order under another shape, writable, if strides can say it.
    pub fn reshaped(self, shape: Shape) -> Option<ViewMut<'a>> {
        Some(ViewMut { layout: self.layout.reshaped(shape)?, ..self })
    }

    /// Copies one element of any dtype, bit for bit. Panics outside the shapes and on another dtype (a kernel's bug).
    #[inline]
    pub fn copy_element(&mut self, to: &[usize], from: &View<'_>, at: &[usize]) {
        by_dtype!(self.dtype, T => self.set::<T>(to, from.get::<T>(at)))
    }

    /// Copies every element of `from`, which must have the same dtype and shape (panics otherwise: a kernel's bug).
    pub fn copy_from(&mut self, from: &View<'_>) {
        assert_eq!(self.dtype, from.dtype);
        assert_eq!(self.shape(), from.shape());
        by_dtype!(self.dtype, T => self.copy_typed::<T>(from))
    }

    /// Copies every element of `from` in row-major order of both shapes, which must hold equally many elements of the
    /// same dtype (panics otherwise: a kernel's bug).
    pub fn copy_flat(&mut self, from: &View<'_>) {
        assert_eq!(self.dtype, from.dtype);
        assert_eq!(self.shape().elements(), from.shape().elements());
        if let Some(from) = from.reshaped(*self.shape()) {
            self.copy_from(&from);
        } else if let Some(mut to) = self.reborrow().reshaped(*from.shape()) {
            to.copy_from(from);
        } else {
            let (to, at) = (self.shape().indices(), from.shape().indices());
            to.zip(at).for_each(|(to, at)| self.copy_element(&to, from, &at));
        }
    }

    fn copy_typed<T: Element>(&mut self, from: &View<'_>) {
        if let (Some(src), Some(dst)) = (from.as_slice::<T>(), self.as_mut_slice::<T>()) {
            dst.copy_from_slice(src);
            return;
        }
        let loops = CopyLoops::new(&from.layout, &self.layout);
        let (src, dst) = (from.ptr as *const T, self.ptr as *mut T);
        // SAFETY: the loops visit only offsets of indices inside the shape that both views share.
        loops.run(
            |s, d| unsafe { *dst.add(d) = *src.add(s) },
            |s, d, n| {
                // SAFETY: as above for each of the run's elements; the two runs share none (module invariant).
                unsafe { std::ptr::copy_nonoverlapping(src.add(s), dst.add(d), n) }
            },
        );
    }
}

/// Side of the square blocks in which a transposing copy walks its two innermost dims, so that both sides stay in cache.
const BLOCK: usize = 32;

/// The loops of a strided copy: dims as (length, source stride, destination stride), outermost first, without dims of
/// size 1, neighbours merged where strides allow.
struct CopyLoops {
    dims: [(usize, usize, usize); MAX_RANK],
    rank: usize,
    empty: bool,
}

impl CopyLoops {
    /// For two layouts of one shape.
    fn new(from: &Layout, to: &Layout) -> Self {
        let shape = to.shape();
        let mut all = [(1, 0, 0); MAX_RANK];
        let mut rank = 0;
        for d in (0..shape.rank()).filter(|&d| shape[d] != 1) {
            all[rank] = (shape[d], from.strides()[d], to.strides()[d]);
            rank += 1;
        }
        // Any order is right; writing in address order is fast.
        all[..rank].sort_unstable_by_key(|&(_, _, to)| std::cmp::Reverse(to));
        let mut dims = [(1, 0, 0); MAX_RANK];
        let mut kept = 0usize;
        for &(n, s, d) in &all[..rank] {
            match kept.checked_sub(1).map(|i| &mut dims[i]) {
                Some(outer) if outer.1 == s * n && outer.2 == d * n => *outer = (outer.0 * n, s, d),
                _ => {
                    dims[kept] = (n, s, d);
                    kept += 1;
                }
            }
        }
        // A transposing copy: bring the dim that is innermost in the source next to the one innermost in the destination.
        if kept > 1
            && dims[kept - 1].1 != 1
            && let Some(i) = dims[..kept - 1].iter().position(|&(_, s, _)| s == 1)
        {
            dims[i..kept - 1].rotate_left(1);
        }
        CopyLoops { dims, rank: kept, empty: shape.elements() == 0 }
    }

    /// Calls `one` for each pair of offsets, or `run` for runs that are contiguous on both sides.
    fn run(&self, mut one: impl FnMut(usize, usize), mut run: impl FnMut(usize, usize, usize)) {
        if self.empty {
            return;
        }
        let inner = self.rank.saturating_sub(2);
        let (a, b) = match self.dims[inner..self.rank] {
            [a, b] => (a, b),
            [b] => ((1, 0, 0), b),
            _ => ((1, 0, 0), (1, 0, 0)),
        };
        let mut at = [0; MAX_RANK];
        let (mut s, mut d) = (0, 0);
        loop {
            if b.1 == 1 && b.2 == 1 {
                for i in 0..a.0 {
                    run(s + i * a.1, d + i * a.2, b.0);
                }
            } else {
                for i0 in (0..a.0).step_by(BLOCK) {
                    for j0 in (0..b.0).step_by(BLOCK) {
                        for i in i0..a.0.min(i0 + BLOCK) {
                            for j in j0..b.0.min(j0 + BLOCK) {
                                one(s + i * a.1 + j * b.1, d + i * a.2 + j * b.2);
                            }
                        }
                    }
                }
            }
            // The next index of the outer dims, kept as a pair of offsets.
            let mut k = inner;
            loop {
                if k == 0 {
                    return;
                }
                k -= 1;
                let (n, src, dst) = self.dims[k];
                at[k] += 1;
                if at[k] < n {
                    (s, d) = (s + src, d + dst);
                    break;
                }
                at[k] = 0;
                (s, d) = (s - (n - 1) * src, d - (n - 1) * dst);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(d: &[usize]) -> Shape {
        Shape::new(d).unwrap()
    }

    /// The plain definition that the copy loops must equal.
    fn by_index(from: &View<'_>) -> Vec<i64> {
        from.shape().indices().map(|i| from.get::<i64>(&i)).collect()
    }

    #[test]
    fn runs_go_along_any_dim() {
        let shape = Shape::new(&[1, 3, 2, 4]).unwrap();
        let layout = Layout::channels_last(shape, 5).unwrap();
        let mut data = vec![0u8; layout.span()];
        let mut v = ViewMut::of_slice(&mut data, layout).unwrap();
        v.set_run(&[0, 1, 1, 1], 3, 3, |i| 10 + i as u8);
        v.set_run(&[0, 0, 0, 2], 1, 3, |i| 20 + i as u8);
        v.set_run(&[0, 2, 1, 3], 3, 0, |_| 99u8);
        assert_eq!([v.get::<u8>(&[0, 1, 1, 1]), v.get(&[0, 1, 1, 3]), v.get(&[0, 2, 0, 2])], [10, 12, 22]);
        assert_eq!(data.iter().filter(|&&b| b != 0).count(), 6);
    }

    #[test]
    #[should_panic(expected = "4 elements along dim 3")]
    fn runs_stay_inside() {
        let mut data = [0u8; 8];
        let mut v =
            ViewMut::of_slice(&mut data, Layout::contiguous(Shape::new(&[1, 1, 2, 4]).unwrap())).unwrap();
        v.set_run(&[0, 0, 0, 1], 3, 4, |_| 1u8);
    }

    #[test]
    fn strided_copies_equal_the_plain_definition() {
        let data: Vec<i64> = (0..2 * 35 * 3 * 40).collect();
        let all = View::of_slice(&data, Layout::contiguous(shape(&[2, 35, 3, 40]))).unwrap();
        for perm in [[0, 1, 2, 3], [0, 2, 3, 1], [3, 2, 1, 0], [1, 0, 3, 2], [0, 3, 1, 2]] {
            let view = all.permuted(&perm).unwrap().sliced(1, 0, 2, 1).unwrap().sliced(3, 0, 1, 1).unwrap();
            assert_eq!(view.to_tensor().unwrap().to_i64_vec(), by_index(&view), "{perm:?} sliced");
            let view = all.permuted(&perm).unwrap();
            assert_eq!(view.to_tensor().unwrap().to_i64_vec(), by_index(&view), "{perm:?}");
            let mut out = vec![-1i64; data.len()];
            let mut to = ViewMut::of_slice(&mut out, Layout::contiguous(shape(&[2, 35, 3, 40]))).unwrap();
            to.permuted(&perm).unwrap().copy_from(&view);
            assert_eq!(out, data, "{perm:?} written back");
        }
        let row = View::of_slice(&data[..40], Layout::contiguous(shape(&[40, 1]))).unwrap();
        let wide = row.broadcast_to(&shape(&[2, 40, 3])).unwrap();
        assert_eq!(wide.to_tensor().unwrap().to_i64_vec(), by_index(&wide));
    }

    #[test]
    fn flat_copies_keep_row_major_order_where_no_stride_can_say_it() {
        let data: Vec<i64> = (0..24).collect();
        let from = View::of_slice(&data, Layout::contiguous(shape(&[2, 3, 4]))).unwrap();
        let from = from.permuted(&[2, 0, 1]).unwrap();
        let mut out = vec![0i64; 24];
        let mut to = ViewMut::of_slice(&mut out, Layout::contiguous(shape(&[8, 3]))).unwrap();
        to.permuted(&[1, 0]).unwrap().copy_flat(&from);
        let got: Vec<i64> = (0..3).flat_map(|i| (0..8).map(move |j| j * 3 + i)).map(|i| out[i]).collect();
        assert_eq!(got, by_index(&from));
    }

    #[test]
    fn sub_views_write_where_they_say() {
        let mut out = vec![0u8; 12];
        let mut to = ViewMut::of_slice(&mut out, Layout::contiguous(shape(&[3, 4]))).unwrap();
        let one = [7u8];
        let one = View::of_slice(&one, Layout::contiguous(Shape::scalar())).unwrap();
        to.reborrow().sliced(1, 1, 2, 2).unwrap().copy_from(&one.broadcast_to(&shape(&[3, 2])).unwrap());
        assert_eq!(out, [0, 7, 0, 7, 0, 7, 0, 7, 0, 7, 0, 7]);
        let mut to = ViewMut::of_slice(&mut out, Layout::contiguous(shape(&[3, 4]))).unwrap();
        assert!(to.reborrow().sliced(1, 2, 2, 2).is_err());
        let (a, b) = ([1u8], [9u8; 2]);
        let from = View::of_slice(&a, Layout::contiguous(shape(&[1]))).unwrap();
        to.copy_element(&[2, 3], &from, &[0]);
        assert_eq!(out[11], 1);
        let empty = View::of_slice(&b, Layout::contiguous(shape(&[2, 0]))).unwrap();
        assert_eq!(empty.permuted(&[1, 0]).unwrap().to_tensor().unwrap().shape().dims(), [0, 2]);
    }
}
