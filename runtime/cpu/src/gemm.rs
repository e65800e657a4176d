//! Matrix products of f32: batches, any strides (so transposed operands too), with the convolution's microkernels.
//!
//! The rows of the left matrix take the place of pixels, the right matrix is packed like weights: once if it is constant,
//! else into the scratch block before each product.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * the packed matrix holds `[blocks][k][BLOCK]` floats, zero beyond the last column;
//! * tasks write disjoint elements: each owns a range of rows times a range of blocks.

use crate::conv::finish::Finish;
use crate::conv::kernel::{BLOCK, MAX_BLOCKS, MAX_PIXELS, Row, Tile, pick, rows, tile_pixels};
use crate::elementwise::all_f32;
use crate::isa::Isa;
use crate::pool::Pool;
use crate::ptr::Shared;
use crate::simd::{Kernel, Simd, dispatch};
use crate::{Error, Result};
use saltica_models::graph::Activation;
use saltica_models::graph::ops::Residual;
use saltica_tensor::storage::AlignedBytes;
use saltica_tensor::{MAX_RANK, Shape, View, ViewMut};

const TASKS_PER_THREAD: usize = 4;

/// A constant right operand `[k, n]` in the order the kernels read it, with an optional bias `[n]`.
pub struct PackedMatrix {
    isa: Isa,
    k: usize,
    n: usize,
    /// Packed matrix, then the bias.
    data: AlignedBytes,
}

impl PackedMatrix {
    /// Packs `factor * b` (`[k, n]`, any strides). Errors if shapes or dtypes do not fit.
    pub fn new(isa: Isa, b: &View<'_>, factor: f32, bias: Option<&[f32]>) -> Result<Self> {
        let &[k, n] = b.shape().dims() else {
            return Err(Error::shape(format!("b is {}, a matrix expected", b.shape())));
        };
        all_f32(&[b.dtype()])?;
        if let Some(bias) = bias
            && bias.len() != n
        {
            return Err(Error::shape(format!("bias has {} elements, {n} expected", bias.len())));
        }
        let blocks = n.div_ceil(BLOCK);
        let mut data = AlignedBytes::zeroed((blocks * BLOCK * k + blocks * BLOCK) * 4)?;
        let floats: &mut [f32] = bytemuck::cast_slice_mut(data.as_mut_slice());
        for i in 0..k {
            for j in 0..n {
                floats[(j / BLOCK * k + i) * BLOCK + j % BLOCK] = factor * b.get::<f32>(&[i, j]);
            }
        }
        if let Some(bias) = bias {
            floats[blocks * BLOCK * k..][..n].copy_from_slice(bias);
        }
        Ok(PackedMatrix { isa, k, n, data })
    }

    /// Bytes of the packed matrix and bias.
    pub fn bytes(&self) -> usize {
        self.data.len()
    }

    /// Bytes of scratch that [`Self::run`] needs.
    pub fn scratch_bytes(&self) -> usize {
        offsets_bytes(self.k) + 64
    }

    /// y = act(a b + bias + c): a is `[.., m, k]` of any rank from 1, y `[.., m, n]`, c broadcasts to y. Errors if shapes or
    /// dtypes do not fit.
    pub fn run(
        &self,
        pool: &Pool,
        a: &View<'_>,
        c: Option<&View<'_>>,
        activation: Activation,
        y: &mut ViewMut<'_>,
        scratch: &mut [u8],
    ) -> Result<()> {
        let b = Shape::new(&[self.k, self.n])?;
        let product = Product::new(a, &b, c, y)?;
        if scratch.len() < self.scratch_bytes() {
            return Err(Error::shape(format!(
                "{} bytes of scratch found, {} expected",
                scratch.len(),
                self.scratch_bytes()
            )));
        }
        let floats: &[f32] = bytemuck::cast_slice(self.data.as_slice());
        let packed = Packed {
            matrix: Shared(floats.as_ptr().cast_mut()),
            bias: Shared(floats[self.n.div_ceil(BLOCK) * BLOCK * self.k..].as_ptr().cast_mut()),
        };
        let (_, offsets) = lay_out(scratch, self.k, 0);
        for batch in product.batch.indices() {
            // SAFETY: `Product::new` has checked the shapes.
            unsafe { product.multiply(self.isa, pool, &batch, packed, offsets, activation)? };
        }
        Ok(())
    }
}

/// Bytes of scratch that [`matmul`] needs for a right operand of these sizes.
pub fn matmul_scratch_bytes(k: usize, n: usize) -> usize {
    n.div_ceil(BLOCK) * BLOCK * (k + 1) * 4 + offsets_bytes(k) + 128
}

/// y = a b for `[.., m, k]` and `[.., k, n]` with numpy's rules for the leading dims and for vectors. Errors if shapes or
/// dtypes do not fit.
pub fn matmul(
    isa: Isa,
    pool: &Pool,
    a: &View<'_>,
    b: &View<'_>,
    y: &mut ViewMut<'_>,
    scratch: &mut [u8],
) -> Result<()> {
    all_f32(&[b.dtype()])?;
    let product = Product::new(a, b.shape(), None, y)?;
    let (k, n) = (product.k, product.n);
    let need = matmul_scratch_bytes(k, n);
    if scratch.len() < need {
        return Err(Error::shape(format!("{} bytes of scratch found, {need} expected", scratch.len())));
    }
    let blocks = n.div_ceil(BLOCK);
    let (matrix, offsets) = lay_out(scratch, k, blocks * BLOCK * (k + 1));
    let packed = Packed { matrix, bias: Shared(matrix.at(blocks * BLOCK * k)) };
    // SAFETY: the scratch has room for a bias of zeros behind the matrix.
    unsafe { std::slice::from_raw_parts_mut(packed.bias.0, blocks * BLOCK).fill(0.0) };
    let own = b.shape().rank();
    let (bk, bn) = match b.layout().strides() {
        [s] => (*s, 0),
        [.., r, c] => (*r, *c),
        [] => (0, 0),
    };
    let from = Shared(b.as_ptr::<f32>().cast_mut());
    let mut last = None;
    for batch in product.batch.indices() {
        let lead = product.batch.rank() - own.saturating_sub(2);
        let at: usize = (0..own.saturating_sub(2))
            .map(|d| if b.shape()[d] == 1 { 0 } else { batch[lead + d] * b.layout().strides()[d] })
            .sum();
        if last != Some(at) {
            last = Some(at);
            pool.run(blocks, &|block, _| {
                // SAFETY: each task fills its own block from elements of b.
                unsafe { pack_block(from.at(at), [bk, bn], k, n, block, matrix) };
            })?;
        }
        // SAFETY: `Product::new` has checked the shapes; the matrix is packed.
        unsafe { product.multiply(isa, pool, &batch, packed, offsets, Activation::None)? };
    }
    Ok(())
}

/// # Safety
/// The elements of b are readable, the block is the caller's.
unsafe fn pack_block(b: *const f32, strides: [usize; 2], k: usize, n: usize, block: usize, to: Shared<f32>) {
    let columns = BLOCK.min(n - block * BLOCK);
    let b = b.wrapping_add(block * BLOCK * strides[1]);
    let to = to.at(block * BLOCK * k);
    for i in 0..k {
        for j in 0..BLOCK {
            // SAFETY: element (i, j) of the block.
            unsafe {
                *to.add(i * BLOCK + j) =
                    if j < columns { *b.add(i * strides[0] + j * strides[1]) } else { 0.0 };
            }
        }
    }
}

fn offsets_bytes(k: usize) -> usize {
    (k.max(1) * size_of::<isize>()).next_multiple_of(64)
}

/// The scratch block as floats, and the table of offsets before them.
fn lay_out(scratch: &mut [u8], k: usize, floats: usize) -> (Shared<f32>, Shared<isize>) {
    let start = scratch.as_mut_ptr();
    let base = start.wrapping_add(start.align_offset(64));
    debug_assert!(offsets_bytes(k) + floats * 4 + 64 <= scratch.len());
    (Shared(base.wrapping_add(offsets_bytes(k)).cast()), Shared(base.cast()))
}

/// A right operand, packed: `[blocks][k][BLOCK]`, and `[blocks][BLOCK]`.
#[derive(Clone, Copy)]
struct Packed {
    matrix: Shared<f32>,
    bias: Shared<f32>,
}

/// Sizes and strides of a batch of products.
struct Product {
    batch: Shape,
    m: usize,
    k: usize,
    n: usize,
    a: Operand,
    c: Option<Operand>,
    y: Operand,
}

/// A batch of matrices: strides of rows and columns, and of the leading dims (0 where it is repeated).
struct Operand {
    data: Shared<f32>,
    row: usize,
    column: usize,
    batch: [usize; MAX_RANK],
}

impl Operand {
    fn at(&self, batch: &[usize; MAX_RANK]) -> *mut f32 {
        self.data.at((0..MAX_RANK).map(|d| batch[d] * self.batch[d]).sum())
    }
}

impl Product {
    fn new(a: &View<'_>, b: &Shape, c: Option<&View<'_>>, y: &mut ViewMut<'_>) -> Result<Self> {
        all_f32(&[a.dtype(), c.map_or(y.dtype(), |c| c.dtype()), y.dtype()])?;
        let misfit = || Error::shape(format!("{} times {b} does not give {}", a.shape(), y.shape()));
        let (ra, rb) = (a.shape().rank(), b.rank());
        if ra == 0 || rb == 0 {
            return Err(misfit());
        }
        let (m, k) = if ra == 1 { (1, a.shape()[0]) } else { (a.shape()[ra - 2], a.shape()[ra - 1]) };
        let (kb, n) = if rb == 1 { (b[0], 1) } else { (b[rb - 2], b[rb - 1]) };
        let lead_a = Shape::new(&a.shape()[..ra.saturating_sub(2)])?;
        let batch = lead_a.broadcast(&Shape::new(&b[..rb.saturating_sub(2)])?)?;
        let mut dims = [0; MAX_RANK + 2];
        let mut rank = batch.rank();
        dims[..rank].copy_from_slice(&batch);
        for (d, present) in [(m, ra > 1), (n, rb > 1)] {
            if present {
                dims[rank] = d;
                rank += 1;
            }
        }
        if k != kb || y.shape().dims() != &dims[..rank] {
            return Err(misfit());
        }
        let lead = |strides: &[usize], shape: &[usize]| {
            let mut out = [0; MAX_RANK];
            let from = batch.rank() - shape.len();
            for (d, &size) in shape.iter().enumerate() {
                out[from + d] = if size == 1 { 0 } else { strides[d] };
            }
            out
        };
        let matrix = |strides: &[usize]| {
            let tail = &strides[batch.rank()..];
            match (ra > 1, rb > 1) {
                (true, true) => (tail[0], tail[1]),
                (true, false) => (tail[0], 1),
                (false, true) => (0, tail[0]),
                (false, false) => (0, 1),
            }
        };
        let sa = a.layout().strides();
        let operand_a = Operand {
            data: Shared(a.as_ptr::<f32>().cast_mut()),
            row: if ra > 1 { sa[ra - 2] } else { 0 },
            column: sa[ra - 1],
            batch: lead(&sa[..lead_a.rank()], &lead_a),
        };
        let c = c
            .map(|c| {
                let layout = c.layout().broadcast_to(y.shape())?;
                let (row, column) = matrix(layout.strides());
                let batch = lead(&layout.strides()[..batch.rank()], &batch);
                Ok::<_, Error>(Operand { data: Shared(c.as_ptr::<f32>().cast_mut()), row, column, batch })
            })
            .transpose()?;
        let (row, column) = matrix(y.layout().strides());
        let lead_y = lead(&y.layout().strides()[..batch.rank()], &batch);
        let y = Operand { data: Shared(y.as_mut_ptr::<f32>()), row, column, batch: lead_y };
        Ok(Product { batch, m, k, n, a: operand_a, c, y })
    }

    /// One product of the batch.
    ///
    /// # Safety
    /// `packed` holds a matrix of k rows and n columns; `offsets` has room for k entries.
    unsafe fn multiply(
        &self,
        isa: Isa,
        pool: &Pool,
        batch: &[usize; MAX_RANK],
        packed: Packed,
        offsets: Shared<isize>,
        activation: Activation,
    ) -> Result<()> {
        if self.m * self.n == 0 {
            return Ok(());
        }
        // A left matrix whose rows are runs is read as such, any other element by element.
        let scattered = self.a.column != 1 && self.k > 1;
        for i in 0..if scattered { self.k } else { 1 } {
            // SAFETY: inside the table.
            unsafe { *offsets.at(i) = (i * self.a.column) as isize };
        }
        let rows = rows(isa.kind());
        let blocks = self.n.div_ceil(BLOCK);
        let unit = rows.iter().map(|r| r.blocks).max().unwrap_or(1);
        let high = tile_pixels(rows, blocks);
        let (tiles, panels) = (self.m.div_ceil(high), blocks.div_ceil(unit));
        let light = self.m * self.n * self.k < 1 << 16;
        let want = if pool.threads() == 1 || light { 1 } else { pool.threads() * TASKS_PER_THREAD };
        let chunks = want.min(tiles);
        let pieces = want.div_ceil(chunks).min(panels);
        let job = Job {
            product: self,
            packed,
            offsets,
            activation,
            rows,
            high,
            scattered,
            a: Shared(self.a.at(batch)),
            c: self.c.as_ref().map(|c| Shared(c.at(batch))),
            y: Shared(self.y.at(batch)),
        };
        pool.run(chunks * pieces, &|task, _| {
            let (piece, chunk) = (task / chunks, task % chunks);
            let panel = |i: usize| (i * panels / pieces * unit).min(blocks);
            let tile = |i: usize| (i * tiles / chunks * high).min(self.m);
            let work = Work {
                job: &job,
                blocks: [panel(piece), panel(piece + 1)],
                rows: [tile(chunk), tile(chunk + 1)],
            };
            dispatch(isa, work);
        })
    }
}

struct Job<'a> {
    product: &'a Product,
    packed: Packed,
    offsets: Shared<isize>,
    activation: Activation,
    rows: &'static [Row],
    /// Rows of a whole tile.
    high: usize,
    scattered: bool,
    a: Shared<f32>,
    c: Option<Shared<f32>>,
    y: Shared<f32>,
}

/// One task: a range of rows times a range of blocks of columns.
struct Work<'a> {
    job: &'a Job<'a>,
    blocks: [usize; 2],
    rows: [usize; 2],
}

impl Kernel for Work<'_> {
    type Out = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let job = self.job;
        let p = job.product;
        let mut buffer = [0f32; MAX_PIXELS * MAX_BLOCKS * BLOCK];
        let mut at = self.rows[0];
        while at < self.rows[1] {
            let count = job.high.min(self.rows[1] - at);
            let ptrs: [*const f32; MAX_PIXELS] = std::array::from_fn(|m| {
                job.a.at((at + if m < count { m } else { 0 }) * p.a.row).cast_const()
            });
            let mut b = self.blocks[0];
            while b < self.blocks[1] {
                let row = pick(job.rows, self.blocks[1] - b, count);
                let tile = Tile {
                    taps: if job.scattered { p.k } else { 1 },
                    ic: if job.scattered { 1 } else { p.k },
                    ptrs: ptrs.as_ptr(),
                    ptr_step: 0,
                    offs: job.offsets.0,
                    off_step: 1,
                    w: job.packed.matrix.at(b * BLOCK * p.k),
                    w_block: p.k * BLOCK,
                    bias: job.packed.bias.at(b * BLOCK),
                    out: buffer.as_mut_ptr(),
                };
                // SAFETY: the list is that of the instruction set this runs on; the addresses are rows of a, the packed
                // matrix and bias hold `row.blocks` blocks from here, the buffer the largest tile.
                unsafe { (if job.scattered { row.scattered } else { row.run })(&tile) };
                let column = b * BLOCK;
                let y: [*mut f32; MAX_PIXELS] = std::array::from_fn(|m| {
                    job.y.at((at + m.min(count - 1)) * p.y.row + column * p.y.column)
                });
                let (mut r, mut r_column) = ([std::ptr::null(); MAX_PIXELS], 1);
                if let (Some(c), Some(data)) = (&p.c, job.c) {
                    r = std::array::from_fn(|m| {
                        data.at((at + m.min(count - 1)) * c.row + column * c.column).cast_const()
                    });
                    r_column = c.column;
                }
                let finish = Finish {
                    tile: &buffer,
                    row: row.blocks * BLOCK,
                    channels: (row.blocks * BLOCK).min(p.n - column),
                    y: &y[..count],
                    y_first: 0,
                    y_channel: p.y.column,
                    r: &r[..count],
                    r_first: 0,
                    r_channel: r_column,
                    activation: job.activation,
                    residual: if p.c.is_some() { Residual::BeforeActivation } else { Residual::None },
                };
                // SAFETY: the elements are this task's own.
                unsafe { finish.store(s) };
                b += row.blocks;
            }
            at += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{close, layouts, noise, spread};
    use proptest::prelude::*;
    use saltica_models::graph::ops::{MatMul, Operator};

    proptest! {
        #[test]
        fn products_match_the_reference(
            m in 1usize..40, k in 1usize..50, n in 1usize..70, lead in [1usize..3, 1..4], ranks in [1usize..5, 1..5],
            ones in any::<[bool; 2]>(), seeds in any::<[u64; 3]>(),
        ) {
            let all = |r: usize, ones: bool, last: [usize; 2]| {
                let lead = if ones { [1, lead[1]] } else { lead };
                let four = [lead[0], lead[1], last[0], last[1]];
                Shape::new(&four[4 - r..]).unwrap()
            };
            let sa = if ranks[0] == 1 { Shape::new(&[k]).unwrap() } else { all(ranks[0], ones[0], [m, k]) };
            let sb = if ranks[1] == 1 { Shape::new(&[k]).unwrap() } else { all(ranks[1], ones[1], [k, n]) };
            let fact = |shape| Some(saltica_models::graph::Fact { dtype: saltica_tensor::DType::F32, shape, value: None });
            let sy = MatMul.infer(&[fact(sa), fact(sb)]).unwrap()[0].shape;
            let (la, lb, ly) = (layouts(sa, seeds[0]), layouts(sb, seeds[1]), layouts(sy, seeds[2]));
            let (xa, xb) = (spread(&noise(8, sa.elements()), &la), spread(&noise(9, sb.elements()), &lb));
            let (a, b) = (View::of_slice(&xa, la).unwrap(), View::of_slice(&xb, lb).unwrap());
            let mut want = vec![f32::NAN; ly.span()];
            MatMul.run(&[Some(a), Some(b)], &mut [ViewMut::of_slice(&mut want, ly).unwrap()]).unwrap();
            for isa in Isa::available() {
                let mut one = Vec::new();
                for threads in [1, 3] {
                    let pool = Pool::new(threads).unwrap();
                    let mut got = vec![f32::NAN; ly.span()];
                    let mut scratch = vec![0; matmul_scratch_bytes(k, n)];
                    let mut y = ViewMut::of_slice(&mut got, ly).unwrap();
                    matmul(isa, &pool, &a, &b, &mut y, &mut scratch).unwrap();
                    close(&got, &want, 4e-6)?;
                    if threads == 1 {
                        one = got;
                    } else {
                        prop_assert!(one.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()));
                    }
                }
            }
        }

        #[test]
        fn packed_products_add_bias_and_c(
            m in 1usize..40, k in 1usize..50, n in 1usize..70, seeds in any::<[u64; 3]>(), which in 0usize..4,
        ) {
            let shape = |d: &[usize]| Shape::new(d).unwrap();
            let (la, lb, ly) = (layouts(shape(&[m, k]), seeds[0]), layouts(shape(&[k, n]), seeds[1]), layouts(shape(&[m, n]), seeds[2]));
            let (xa, xb) = (spread(&noise(8, m * k), &la), spread(&noise(9, k * n), &lb));
            let (a, b) = (View::of_slice(&xa, la).unwrap(), View::of_slice(&xb, lb).unwrap());
            let bias = noise(10, n);
            let lc = saltica_tensor::Layout::contiguous(shape([&[m, n][..], &[1, n], &[m, 1], &[1]][which]));
            let xc = noise(11, lc.span());
            let c = View::of_slice(&xc, lc).unwrap();
            let wide = lc.broadcast_to(ly.shape()).unwrap();
            let mut want = vec![f32::NAN; ly.span()];
            for i in ly.shape().indices() {
                let sum: f64 = (0..k).map(|j| a.get::<f32>(&[i[0], j]) as f64 * 0.5 * b.get::<f32>(&[j, i[1]]) as f64).sum();
                let v = sum + bias[i[1]] as f64 + xc[wide.offset(&i)] as f64;
                want[ly.offset(&i)] = v.max(0.0) as f32;
            }
            let pool = Pool::new(2).unwrap();
            for isa in Isa::available() {
                let packed = PackedMatrix::new(isa, &b, 0.5, Some(&bias)).unwrap();
                let mut scratch = vec![0; packed.scratch_bytes()];
                let mut got = vec![f32::NAN; ly.span()];
                let mut y = ViewMut::of_slice(&mut got, ly).unwrap();
                packed.run(&pool, &a, Some(&c), Activation::Relu, &mut y, &mut scratch).unwrap();
                close(&got, &want, 4e-6)?;
            }
        }
    }
}
