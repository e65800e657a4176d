use crate::{Error, ErrorKind, Result};
use std::fmt;

/// The largest rank a tensor may have.
pub const MAX_RANK: usize = 8;

/// Dimensions of a tensor, outermost first, kept inline (no allocation). Rank 0 is a scalar.
#[derive(Clone, Copy)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl Shape {
    /// Most elements a shape may have: any index and any byte count up to 8 bytes an element fits an `isize`.
    pub const MAX_ELEMENTS: usize = isize::MAX as usize / 16;

    /// A shape of these dims. Errors if there are more than [`MAX_RANK`] or their product is too large.
    pub fn new(dims: &[usize]) -> Result<Self> {
        if dims.len() > MAX_RANK {
            return Err(Error::new(
                ErrorKind::Shape,
                format!("rank {} found, at most {MAX_RANK} is supported", dims.len()),
            ));
        }
        // A zero may stand anywhere, so the others are bounded on their own.
        let mut product = 1usize;
        for &d in dims {
            product =
                product.checked_mul(d.max(1)).filter(|&p| p <= Self::MAX_ELEMENTS).ok_or_else(|| {
                    Error::new(ErrorKind::Size, format!("dims {dims:?} have too many elements"))
                })?;
        }
        let mut out = [0; MAX_RANK];
        out[..dims.len()].copy_from_slice(dims);
        Ok(Shape { dims: out, rank: dims.len() as u8 })
    }

    /// The shape of a scalar.
    pub const fn scalar() -> Self {
        Shape { dims: [0; MAX_RANK], rank: 0 }
    }

    /// The dimensions.
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Number of elements (1 for a scalar).
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// Row-major strides in elements.
    pub fn row_major(&self) -> [usize; MAX_RANK] {
        let mut strides = [0; MAX_RANK];
        let mut s = 1;
        for i in (0..self.rank()).rev() {
            strides[i] = s;
            s *= self.dims[i].max(1);
        }
        strides
    }

    /// Every index, row-major (last dimension fastest), without allocating.
    pub fn indices(&self) -> Indices {
        Indices { shape: *self, next: [0; MAX_RANK], left: self.elements() }
    }

    /// Resolves an axis that may be negative (-1 is the last). `rank` is the rank it counts in.
    pub fn axis(axis: i64, rank: usize) -> Result<usize> {
        let r = rank as i64;
        let a = if axis < 0 { axis + r } else { axis };
        if (0..r).contains(&a) {
            Ok(a as usize)
        } else {
            Err(Error::new(ErrorKind::Shape, format!("axis {axis} is outside -{rank}..{rank}")))
        }
    }

    /// Numpy's multidirectional broadcast of two shapes.
    pub fn broadcast(&self, other: &Shape) -> Result<Shape> {
        let rank = self.rank().max(other.rank());
        let mut dims = [1; MAX_RANK];
        for i in 0..rank {
            let at = |s: &Shape| if i + s.rank() >= rank { s.dims[i + s.rank() - rank] } else { 1 };
            dims[i] = match (at(self), at(other)) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => {
                    return Err(Error::new(
                        ErrorKind::Shape,
                        format!("shapes {self} and {other} do not broadcast (dimension {i} of {rank})"),
                    ));
                }
            };
        }
        Shape::new(&dims[..rank])
    }
}

impl TryFrom<&[usize]> for Shape {
    type Error = Error;
    fn try_from(dims: &[usize]) -> Result<Self> {
        Shape::new(dims)
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.dims() == other.dims()
    }
}
impl Eq for Shape {}

impl std::hash::Hash for Shape {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl std::ops::Deref for Shape {
    type Target = [usize];
    fn deref(&self) -> &[usize] {
        self.dims()
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

/// `1x3x640x640`, or `scalar`.
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rank == 0 {
            return f.write_str("scalar");
        }
        for (i, d) in self.dims().iter().enumerate() {
            if i > 0 {
                f.write_str("x")?;
            }
            write!(f, "{d}")?;
        }
        Ok(())
    }
}

/// Iterator of [`Shape::indices`]: arrays of which the first `rank` entries count.
#[derive(Clone, Debug)]
pub struct Indices {
    shape: Shape,
    next: [usize; MAX_RANK],
    left: usize,
}

impl Iterator for Indices {
    type Item = [usize; MAX_RANK];
    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let now = self.next;
        for i in (0..self.shape.rank()).rev() {
            self.next[i] += 1;
            if self.next[i] < self.shape.dims[i] {
                break;
            }
            self.next[i] = 0;
        }
        Some(now)
    }
}
