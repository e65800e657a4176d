use crate::{Error, ErrorKind, MAX_RANK, Result, Shape};

/// A shape and where its elements lie: index `i` is at `sum(i[d] * stride[d])` elements from the start.
///
/// Strides are in elements and may be 0 (broadcast) for views that are only read. The logical order of the dims is
/// always the model's (NCHW for images); "NHWC" is a choice of strides, made by [`Layout::channels_last`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    shape: Shape,
    strides: [usize; MAX_RANK],
}

impl Layout {
    /// Row-major.
    pub fn contiguous(shape: Shape) -> Self {
        Layout { shape, strides: shape.row_major() }
    }

    /// For a rank-4 NCHW shape: N, H, W outer, channels innermost with `pixel_stride` elements from one pixel to the
    /// next (at least C; more when this is a channel range of a wider buffer).
    pub fn channels_last(shape: Shape, pixel_stride: usize) -> Result<Self> {
        let &[_, c, h, w] = shape.dims() else {
            return Err(Error::new(ErrorKind::Shape, format!("channels-last needs rank 4, found {shape}")));
        };
        if pixel_stride < c {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("pixel stride {pixel_stride} is below {c} channels"),
            ));
        }
        let mut strides = [0; MAX_RANK];
        let far = || {
            Error::new(ErrorKind::Size, format!("pixel stride {pixel_stride} reaches too far for {shape}"))
        };
        let row = w.checked_mul(pixel_stride).ok_or_else(far)?;
        let image = h.checked_mul(row).ok_or_else(far)?;
        strides[..4].copy_from_slice(&[image, 1, row, pixel_stride]);
        let layout = Layout { shape, strides };
        layout.checked_span()?;
        Ok(layout)
    }

    /// Any strides, one per dim.
    pub fn strided(shape: Shape, strides: &[usize]) -> Result<Self> {
        if strides.len() != shape.rank() {
            return Err(Error::new(ErrorKind::Shape, format!("{} strides for shape {shape}", strides.len())));
        }
        let mut s = [0; MAX_RANK];
        s[..strides.len()].copy_from_slice(strides);
        let layout = Layout { shape, strides: s };
        layout.checked_span()?;
        Ok(layout)
    }

    /// The shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Strides in elements, one per dim.
    pub fn strides(&self) -> &[usize] {
        &self.strides[..self.shape.rank()]
    }

    /// Elements from the first to one past the last (0 when empty): the memory the layout reaches over.
    pub fn span(&self) -> usize {
        if self.shape.elements() == 0 {
            return 0;
        }
        1 + self.shape.iter().zip(&self.strides).map(|(&d, &s)| (d - 1) * s).sum::<usize>()
    }

    fn checked_span(&self) -> Result<usize> {
        if self.shape.elements() == 0 {
            return Ok(0);
        }
        let mut span = 1usize;
        for (&d, &s) in self.shape.iter().zip(&self.strides) {
            span = (d - 1)
                .checked_mul(s)
                .and_then(|x| x.checked_add(span))
                .filter(|&x| x <= Shape::MAX_ELEMENTS)
                .ok_or_else(|| Error::new(ErrorKind::Size, format!("layout {self:?} reaches too far")))?;
        }
        Ok(span)
    }

    /// Element offset of an index (the first `rank` entries count).
    #[inline]
    pub fn offset(&self, index: &[usize]) -> usize {
        let mut o = 0;
        for d in 0..self.shape.rank() {
            o += index[d] * self.strides[d];
        }
        o
    }

    /// Whether elements lie row-major without gaps. Dims of size 1 have no say.
    pub fn is_contiguous(&self) -> bool {
        let mut s = 1;
        for d in (0..self.shape.rank()).rev() {
            if self.shape[d] != 1 && self.strides[d] != s {
                return false;
            }
            s *= self.shape[d];
        }
        true
    }

    /// If this is rank 4 with channels innermost (stride 1), rows and images packed: the pixel stride.
    pub fn pixel_stride(&self) -> Option<usize> {
        let &[n, c, h, w] = self.shape.dims() else { return None };
        let &[sn, sc, sh, sw] = self.strides() else { return None };
        if c > 1 && sc != 1 {
            return None;
        }
        // A dim of size 1 carries no information, so the pixel stride is read from the innermost dim that does.
        let ps = if w > 1 {
            sw
        } else if h > 1 {
            sh
        } else if n > 1 {
            sn
        } else {
            sw.max(c)
        };
        let fits =
            ps >= c && (w == 1 || sw == ps) && (h == 1 || sh == w * ps) && (n == 1 || sn == h * w * ps);
        fits.then_some(ps)
    }

    /// Dims reordered: dim `i` of the result is dim `perm[i]` of this.
    pub fn permuted(&self, perm: &[usize]) -> Result<Layout> {
        let rank = self.shape.rank();
        let mut seen = [false; MAX_RANK];
        if perm.len() != rank || !perm.iter().all(|&p| p < rank && !std::mem::replace(&mut seen[p], true)) {
            return Err(Error::new(ErrorKind::Shape, format!("{perm:?} is no permutation of rank {rank}")));
        }
        let mut dims = [0; MAX_RANK];
        let mut strides = [0; MAX_RANK];
        for (i, &p) in perm.iter().enumerate() {
            dims[i] = self.shape[p];
            strides[i] = self.strides[p];
        }
        Ok(Layout { shape: Shape::new(&dims[..rank])?, strides })
    }

    /// The sub-range `start..start+len*step` (step >= 1) of one dim: the layout and its offset in elements.
    pub fn sliced(&self, axis: usize, start: usize, len: usize, step: usize) -> Result<(Layout, usize)> {
        let d = *self.shape.get(axis).ok_or_else(|| {
            Error::new(ErrorKind::Shape, format!("axis {axis} is outside shape {}", self.shape))
        })?;
        let end = if len == 0 { start } else { start.saturating_add((len - 1).saturating_mul(step)) };
        if step == 0 || start > d || (len > 0 && end >= d) {
            return Err(Error::new(
                ErrorKind::Bounds,
                format!("range {start}+{len}x{step} leaves dimension {axis} of {}", self.shape),
            ));
        }
        let mut dims = [0; MAX_RANK];
        dims[..self.shape.rank()].copy_from_slice(&self.shape);
        dims[axis] = len;
        let mut strides = self.strides;
        let offset = if len == 0 { 0 } else { start * strides[axis] };
        // With at most one element the stride has no say, and the step may be any number.
        if len > 1 {
            strides[axis] *= step;
        }
        Ok((Layout { shape: Shape::new(&dims[..self.shape.rank()])?, strides }, offset))
    }

    /// The same elements in the same logical order under another shape, if strides can say it.
    pub fn reshaped(&self, shape: Shape) -> Option<Layout> {
        if shape.elements() != self.shape.elements() {
            return None;
        }
        if shape.elements() == 0 || self.is_contiguous() {
            return Some(Layout::contiguous(shape));
        }
        // Walk both shapes from the left, matching groups of dims with equal products; inside a group the old dims must
        // be mergeable (outer stride = inner stride * inner size).
        let mut kept = [(1, 0); MAX_RANK];
        let mut rank = 0;
        for (&d, &s) in self.shape.iter().zip(&self.strides).filter(|&(&d, _)| d != 1) {
            kept[rank] = (d, s);
            rank += 1;
        }
        let old = &kept[..rank];
        let mut strides = [0; MAX_RANK];
        let (mut i, mut j) = (0, 0);
        while i < old.len() {
            let (mut p_old, i0) = (old[i].0, i);
            while j < shape.rank() && shape[j] == 1 {
                j += 1;
            }
            let j0 = j;
            let mut p_new = *shape.get(j)?;
            while p_old != p_new {
                if p_old < p_new {
                    i += 1;
                    p_old *= old.get(i)?.0;
                } else {
                    j += 1;
                    p_new *= shape.get(j)?;
                }
            }
            for k in i0..i {
                if old[k].1 != old[k + 1].1 * old[k + 1].0 {
                    return None;
                }
            }
            let mut s = old[i].1;
            for k in (j0..=j).rev() {
                strides[k] = s;
                s *= shape[k];
            }
            i += 1;
            j += 1;
        }
        Some(Layout { shape, strides })
    }

    /// This layout seen with a larger, broadcast shape (numpy rules): repeated dims get stride 0.
    pub fn broadcast_to(&self, shape: &Shape) -> Result<Layout> {
        let lead = shape.rank().checked_sub(self.shape.rank()).ok_or_else(|| {
            Error::new(ErrorKind::Shape, format!("{} does not broadcast to {shape}", self.shape))
        })?;
        let mut strides = [0; MAX_RANK];
        for d in 0..self.shape.rank() {
            if self.shape[d] == shape[lead + d] {
                strides[lead + d] = self.strides[d];
            } else if self.shape[d] != 1 {
                return Err(Error::new(
                    ErrorKind::Shape,
                    format!("{} does not broadcast to {shape}", self.shape),
                ));
            }
        }
        Ok(Layout { shape: *shape, strides })
    }

    /// Whether two distinct indices can share an element (true for broadcast layouts). Conservative: may say true for
    /// exotic strides that do not overlap.
    pub fn may_self_overlap(&self) -> bool {
        // On the stack: views are made for every picture, and those must cost no allocation.
        let mut dims = [(0, 0); MAX_RANK];
        let mut n = 0;
        for (&s, &d) in self.strides().iter().zip(self.shape.iter()).filter(|&(_, &d)| d > 1) {
            dims[n] = (s, d);
            n += 1;
        }
        dims[..n].sort_unstable();
        let mut reach = 0;
        for &(s, d) in &dims[..n] {
            if s <= reach {
                return true;
            }
            reach += (d - 1) * s;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(d: &[usize]) -> Shape {
        Shape::new(d).unwrap()
    }

    #[test]
    fn channels_last_is_recognised_also_inside_a_wider_buffer() {
        let l = Layout::channels_last(shape(&[2, 3, 4, 5]), 8).unwrap();
        assert_eq!(l.pixel_stride(), Some(8));
        assert_eq!(l.strides(), &[160, 1, 40, 8]);
        assert_eq!(Layout::contiguous(shape(&[1, 3, 4, 5])).pixel_stride(), None);
        assert_eq!(Layout::contiguous(shape(&[1, 7, 1, 1])).pixel_stride(), Some(7));
    }

    #[test]
    fn reshape_follows_numpy_on_permuted_layouts() {
        let l = Layout::contiguous(shape(&[2, 3, 4])).permuted(&[1, 0, 2]).unwrap();
        assert!(l.reshaped(shape(&[6, 4])).is_none());
        assert_eq!(l.reshaped(shape(&[3, 2, 2, 2])).unwrap().strides(), &[4, 12, 2, 1]);
        assert_eq!(l.reshaped(shape(&[3, 1, 2, 4])).unwrap().strides()[2], 12);
    }

    #[test]
    fn slices_stay_inside() {
        let l = Layout::contiguous(shape(&[4, 6]));
        let (s, o) = l.sliced(1, 1, 3, 2).unwrap();
        assert_eq!((o, s.strides(), s.shape().dims()), (1, &[6, 2][..], &[4, 3][..]));
        assert!(l.sliced(1, 2, 3, 2).is_err());
    }

    #[test]
    fn overlap_is_seen() {
        assert!(Layout::strided(shape(&[2, 3]), &[0, 1]).unwrap().may_self_overlap());
        assert!(!Layout::channels_last(shape(&[1, 3, 4, 5]), 3).unwrap().may_self_overlap());
    }
}
