//! Offsets of blocks in an arena, from their lifetimes.
//!
//! Finding the smallest arena is NP-hard (it is dynamic storage allocation); placing blocks greedily, largest first, each
//! at the lowest gap that holds it, is within a few percent in practice. Several orders are tried and, while the result
//! is above the lower bound, small random changes of the best order. All deterministic.

use saltica_tensor::storage::ALIGN;

/// A block of memory: bytes, and the first and last step at which it must exist (both inclusive).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Bytes; 0 is fine.
    pub bytes: usize,
    /// First step that touches it.
    pub first: usize,
    /// Last step that touches it.
    pub last: usize,
}

impl Block {
    fn meets(&self, other: &Block) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// The largest sum of bytes alive at one step: no arena can be smaller, since no op works in place.
pub fn lower_bound(blocks: &[Block]) -> usize {
    let mut changes: Vec<(usize, bool, usize)> = Vec::with_capacity(blocks.len() * 2);
    for b in blocks {
        changes.push((b.first, true, b.bytes));
        changes.push((b.last + 1, false, b.bytes));
    }
    // At equal steps, ends (false) come before starts (true).
    changes.sort_unstable();
    let (mut now, mut most) = (0usize, 0usize);
    for (_, starts, bytes) in changes {
        if starts {
            now += bytes;
            most = most.max(now);
        } else {
            now -= bytes;
        }
    }
    most
}

/// An offset (a multiple of 64) for each block so that blocks alive together do not overlap, and the bytes in all.
pub fn assign(blocks: &[Block]) -> (Vec<usize>, usize) {
    let bound = lower_bound(blocks);
    let by_key = |key: &dyn Fn(&Block) -> (usize, usize)| {
        let mut order: Vec<usize> = (0..blocks.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(key(&blocks[i])));
        order
    };
    let orders = [
        by_key(&|b| (b.bytes, b.last - b.first)),
        by_key(&|b| (b.last - b.first, b.bytes)),
        by_key(&|b| (b.bytes.saturating_mul(b.last - b.first + 1), b.bytes)),
        by_key(&|b| (usize::MAX - b.first, b.bytes)),
    ];
    let mut best: Option<(Vec<usize>, Vec<usize>, usize)> = None;
    let keep = |order: Vec<usize>, best: &mut Option<(Vec<usize>, Vec<usize>, usize)>| {
        let (offsets, total) = place(blocks, &order);
        if best.as_ref().is_none_or(|b| total < b.2) {
            *best = Some((order, offsets, total));
        }
    };
    for order in orders {
        keep(order, &mut best);
    }
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    // Each try is quadratic in the blocks: unfused graphs of thousands get fewer.
    let tries = ((1usize << 26) / (blocks.len() * blocks.len()).max(1)).min(256);
    for _ in 0..tries {
        let Some((order, _, total)) = &best else { break };
        // Every block is rounded up to the alignment, so the bound is met when nothing above that rounding is left.
        if *total <= bound + ALIGN || blocks.len() < 3 {
            break;
        }
        let mut next = order.clone();
        for _ in 0..2 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let i = (random >> 33) as usize % next.len();
            let j = (random >> 13) as usize % next.len();
            let moved = next.remove(i);
            next.insert(j.min(next.len()), moved);
        }
        keep(next, &mut best);
    }
    best.map(|(_, offsets, total)| (offsets, total)).unwrap_or_default()
}

/// Places blocks in this order, each at the lowest gap between those already placed that it meets.
fn place(blocks: &[Block], order: &[usize]) -> (Vec<usize>, usize) {
    let mut offsets = vec![0; blocks.len()];
    // Placed blocks by offset: (offset, end, index).
    let mut placed: Vec<(usize, usize, usize)> = Vec::with_capacity(blocks.len());
    let mut total = 0;
    for &i in order {
        let bytes = blocks[i].bytes.next_multiple_of(ALIGN);
        let mut at = 0;
        for &(start, end, j) in &placed {
            if blocks[i].meets(&blocks[j]) {
                if start >= at + bytes {
                    break;
                }
                at = at.max(end);
            }
        }
        offsets[i] = at;
        total = total.max(at + bytes);
        let position = placed.partition_point(|&(start, ..)| start < at);
        placed.insert(position, (at, at + bytes, i));
    }
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_chain_needs_its_two_largest_neighbours() {
        let sizes = [640, 1280, 320, 64];
        let blocks: Vec<Block> =
            sizes.iter().enumerate().map(|(i, &bytes)| Block { bytes, first: i, last: i + 1 }).collect();
        assert_eq!(lower_bound(&blocks), 1920);
        assert_eq!(assign(&blocks).1, 1920);
    }

    proptest! {
        #[test]
        fn blocks_alive_together_never_overlap(
            raw in proptest::collection::vec((0usize..5000, 0usize..40, 0usize..12), 1..60)
        ) {
            let blocks: Vec<Block> =
                raw.iter().map(|&(bytes, first, len)| Block { bytes, first, last: first + len }).collect();
            let (offsets, total) = assign(&blocks);
            prop_assert!(total >= lower_bound(&blocks));
            for i in 0..blocks.len() {
                prop_assert_eq!(offsets[i] % ALIGN, 0);
                prop_assert!(offsets[i] + blocks[i].bytes <= total);
                for j in 0..i {
                    let apart = offsets[i] + blocks[i].bytes <= offsets[j]
                        || offsets[j] + blocks[j].bytes <= offsets[i];
                    prop_assert!(apart || !blocks[i].meets(&blocks[j]));
                }
            }
        }
    }
}
