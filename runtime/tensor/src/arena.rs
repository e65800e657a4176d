//! One block of memory in which every value of a plan has a fixed place.
//!
//! A [`Workspace`] is an arena plus the steps that will run over it: which slots each step reads and writes. Bounds and
//! overlaps are proven once, when it is built; running a step is then free of checks and of allocation.
//!
//! Invariants (the reason this file may use `unsafe`):
//! * every slot of every step lies inside the arena and is aligned for its dtype;
//! * within one step no element of an output (or of the scratch block) is an element of any input, other output or the
//!   scratch block; outputs do not overlap themselves;
//! * views leave this module only through `&mut Workspace`, one step at a time, so two steps never run at once.

use crate::storage::{ALIGN, AlignedBytes};
use crate::{DType, Error, ErrorKind, Layout, Result, Tensor, View, ViewMut};

/// A place in an arena: byte offset of the first element, dtype and layout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// Bytes from the arena's start to the first element.
    pub offset: usize,
    /// Element type.
    pub dtype: DType,
    /// Shape and strides (in elements).
    pub layout: Layout,
}

impl Slot {
    /// One past the last byte, unless that is more than memory can hold.
    fn end(&self) -> Option<usize> {
        self.offset.checked_add(self.layout.span().checked_mul(self.dtype.size())?)
    }

    /// The bytes it reaches over, for slots that passed [`Arena::check`].
    fn bytes(&self) -> std::ops::Range<usize> {
        self.offset..self.offset + self.layout.span() * self.dtype.size()
    }

    /// For a channels-last slot: pixel stride, first channel within it, channels. All other strides are multiples of the
    /// pixel stride, so the element offsets modulo it tell slots of one interleaved buffer apart.
    fn channels(&self) -> Option<(usize, usize, usize)> {
        let pixel = self.layout.pixel_stride()?;
        let (first, count) = ((self.offset / self.dtype.size()) % pixel.max(1), self.layout.shape()[1]);
        (first + count <= pixel).then_some((pixel, first, count))
    }

    /// Whether any byte belongs to both.
    fn overlaps(&self, other: &Slot) -> bool {
        let (a, b) = (self.bytes(), other.bytes());
        if a.start >= b.end || b.start >= a.end {
            return false;
        }
        // Interleaved channel ranges of one buffer: the ranges meet, the elements need not.
        if let (Some((p, a, m)), Some((q, b, n))) = (self.channels(), other.channels())
            && (p, self.dtype) == (q, other.dtype)
            && (a + m <= b || b + n <= a)
        {
            return false;
        }
        // Anything else: mark one, probe the other.
        let from = a.start.min(b.start);
        let mut marked = vec![false; a.end.max(b.end) - from];
        for index in self.layout.shape().indices() {
            let at = self.offset + self.layout.offset(&index) * self.dtype.size() - from;
            marked[at..at + self.dtype.size()].fill(true);
        }
        other.layout.shape().indices().any(|index| {
            let at = other.offset + other.layout.offset(&index) * other.dtype.size() - from;
            marked[at..at + other.dtype.size()].iter().any(|&m| m)
        })
    }
}

/// Where a step's input comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A place in the arena.
    Arena(Slot),
    /// A constant.
    Constant(Tensor),
    /// The optional input is absent.
    Absent,
}

/// What one step reads and writes.
#[derive(Clone, Debug, Default)]
pub struct StepIo {
    /// Inputs in the op's order.
    pub inputs: Vec<Source>,
    /// Outputs in the op's order.
    pub outputs: Vec<Slot>,
    /// Scratch bytes: offset (aligned to 64) and length.
    pub scratch: Option<(usize, usize)>,
}

/// Aligned bytes of fixed size and address.
pub struct Arena {
    bytes: AlignedBytes,
}

impl Arena {
    /// An arena of `len` zero bytes. Errors when the memory cannot be had.
    pub fn new(len: usize) -> Result<Self> {
        Ok(Arena { bytes: AlignedBytes::zeroed(len)? })
    }

    /// Bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn check(&self, slot: &Slot) -> Result<()> {
        let inside = slot.end().is_some_and(|end| end <= self.len());
        if !slot.offset.is_multiple_of(slot.dtype.size()) || !inside {
            return Err(Error::new(
                ErrorKind::Bounds,
                format!("slot {slot:?} is misaligned or leaves the arena of {} bytes", self.len()),
            ));
        }
        Ok(())
    }

    /// Reads a slot.
    pub fn view(&self, slot: &Slot) -> Result<View<'_>> {
        self.check(slot)?;
        Ok(View::of_bytes(&self.bytes.as_slice()[slot.offset..], slot.dtype, slot.layout))
    }

    /// Writes a slot.
    pub fn view_mut(&mut self, slot: &Slot) -> Result<ViewMut<'_>> {
        self.check(slot)?;
        if slot.layout.may_self_overlap() {
            return Err(Error::new(ErrorKind::Bounds, format!("slot {slot:?} overlaps itself")));
        }
        Ok(ViewMut::of_bytes(&mut self.bytes.as_mut_slice()[slot.offset..], slot.dtype, slot.layout))
    }
}

struct Bound {
    inputs: Vec<Option<View<'static>>>,
    outputs: Vec<ViewMut<'static>>,
    /// What `outputs` are made from, anew for each run.
    slots: Vec<Slot>,
    scratch: (*mut u8, usize),
    /// Keeps the constants alive that `inputs` point into.
    _constants: Vec<Tensor>,
}

// SAFETY: the pointers lead into the workspace's own arena or constants, which move with it (their blocks do not move
// in memory), and are reached only through `&mut Workspace`.
unsafe impl Send for Bound {}
// SAFETY: nothing is reachable through `&Bound`.
unsafe impl Sync for Bound {}

/// An arena and the steps that run over it, checked once.
pub struct Workspace {
    arena: Arena,
    steps: Vec<Bound>,
}

/// What a kernel gets to work on.
pub struct StepViews<'a> {
    /// Inputs in the op's order; `None` for an absent optional one.
    pub inputs: &'a [Option<View<'a>>],
    /// Outputs in the op's order.
    pub outputs: &'a mut [ViewMut<'a>],
    /// Scratch bytes, aligned to 64; contents are whatever the last user left.
    pub scratch: &'a mut [u8],
}

impl Workspace {
    /// Checks every step against the arena and fixes the addresses. Errors name the step.
    pub fn new(arena: Arena, steps: Vec<StepIo>) -> Result<Self> {
        let mut bound = Vec::with_capacity(steps.len());
        for (i, step) in steps.iter().enumerate() {
            let bad = |what: String| Error::new(ErrorKind::Bounds, format!("step {i}: {what}"));
            let mut written: Vec<Slot> = Vec::new();
            if let Some((offset, len)) = step.scratch {
                let slot =
                    Slot { offset, dtype: DType::U8, layout: Layout::contiguous(crate::Shape::new(&[len])?) };
                arena.check(&slot)?;
                if offset % ALIGN != 0 {
                    return Err(bad(format!("scratch offset {offset} is not a multiple of {ALIGN}")));
                }
                written.push(slot);
            }
            for slot in &step.outputs {
                arena.check(slot)?;
                if slot.layout.may_self_overlap() {
                    return Err(bad(format!("output {slot:?} overlaps itself")));
                }
                if let Some(other) = written.iter().find(|w| w.overlaps(slot)) {
                    return Err(bad(format!("outputs {slot:?} and {other:?} overlap")));
                }
                written.push(*slot);
            }
            let (mut inputs, mut constants) = (Vec::new(), Vec::new());
            for source in &step.inputs {
                inputs.push(match source {
                    Source::Absent => None,
                    Source::Constant(t) => {
                        constants.push(t.clone());
                        let v = t.view();
                        // SAFETY: the clone in `constants` shares the bytes and keeps them alive and unchanged as
                        // long as this step lives (`as_mut_slice` copies shared bytes first).
                        Some(unsafe { View::from_raw(v.as_raw(), v.dtype(), *v.layout()) })
                    }
                    Source::Arena(slot) => {
                        arena.check(slot)?;
                        if let Some(other) = written.iter().find(|w| w.overlaps(slot)) {
                            return Err(bad(format!("input {slot:?} and output {other:?} overlap")));
                        }
                        // SAFETY: bounds and alignment checked; disjoint from all that this step writes; the arena's
                        // block never moves and lives as long as the workspace.
                        Some(unsafe {
                            View::from_raw(arena.bytes.base().add(slot.offset), slot.dtype, slot.layout)
                        })
                    }
                });
            }
            let outputs = step
                .outputs
                .iter()
                // SAFETY: as for inputs; no self-overlap, and disjoint from every other slot of the step.
                .map(|s| unsafe { ViewMut::from_raw(arena.bytes.base().add(s.offset), s.dtype, s.layout) })
                .collect();
            let scratch = match step.scratch {
                // SAFETY: inside the arena (checked).
                Some((offset, len)) => (unsafe { arena.bytes.base().add(offset) }, len),
                None => (std::ptr::NonNull::<u8>::dangling().as_ptr(), 0),
            };
            bound.push(Bound {
                inputs,
                outputs,
                slots: step.outputs.clone(),
                scratch,
                _constants: constants,
            });
        }
        Ok(Workspace { arena, steps: bound })
    }

    /// Runs `f` on step `i`'s views; None if there is no such step.
    pub fn step<R>(&mut self, i: usize, f: impl FnOnce(StepViews<'_>) -> R) -> Option<R> {
        let step = self.steps.get_mut(i)?;
        // The list is lent to kernels, which might leave other views in it (swapped ones, or one of the scratch block).
        for (view, s) in step.outputs.iter_mut().zip(&step.slots) {
            // SAFETY: the slots were checked in `new`; whatever the last kernel left here is replaced.
            *view = unsafe { ViewMut::from_raw(self.arena.bytes.base().add(s.offset), s.dtype, s.layout) };
        }
        // SAFETY: `&mut self` makes this the only step in flight; the pointer and length were checked, and the scratch
        // block is disjoint from the other slots of the step.
        let scratch = unsafe { std::slice::from_raw_parts_mut(step.scratch.0, step.scratch.1) };
        // SAFETY: shortens 'static to the borrow of self, which owns the memory; nothing with the longer lifetime
        // leaves, because `f` must accept any lifetime.
        let (inputs, outputs) = unsafe {
            (
                std::mem::transmute::<&[Option<View<'static>>], &[Option<View<'_>>]>(&step.inputs[..]),
                std::mem::transmute::<&mut [ViewMut<'static>], &mut [ViewMut<'_>]>(&mut step.outputs[..]),
            )
        };
        Some(f(StepViews { inputs, outputs, scratch }))
    }

    /// The arena, to fill inputs and read outputs between runs.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// The arena, writable.
    pub fn arena_mut(&mut self) -> &mut Arena {
        &mut self.arena
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn slot(offset: usize, layout: Layout) -> Slot {
        Slot { offset, dtype: DType::F32, layout }
    }

    #[test]
    fn interleaved_channel_ranges_are_disjoint_and_shifted_ones_are_not() {
        let wide = Layout::channels_last(Shape::new(&[1, 2, 3, 3]).unwrap(), 4).unwrap();
        let io = |out: usize| StepIo {
            inputs: vec![Source::Arena(slot(0, wide))],
            outputs: vec![slot(out, wide)],
            scratch: None,
        };
        assert!(Workspace::new(Arena::new(256).unwrap(), vec![io(8)]).is_ok());
        assert!(Workspace::new(Arena::new(256).unwrap(), vec![io(4)]).is_err());
        let mut w = Workspace::new(Arena::new(256).unwrap(), vec![io(8)]).unwrap();
        let input = slot(0, wide);
        w.arena_mut().view_mut(&input).unwrap().set(&[0, 1, 2, 2], 7.0f32);
        w.step(0, |s| s.outputs[0].copy_from(s.inputs[0].as_ref().unwrap())).unwrap();
        assert_eq!(w.arena().view(&slot(8, wide)).unwrap().get::<f32>(&[0, 1, 2, 2]), 7.0);
    }

    #[test]
    fn views_that_a_kernel_leaves_behind_are_gone_at_the_next_run() {
        let l = Layout::contiguous(Shape::new(&[4]).unwrap());
        let io = StepIo { inputs: vec![], outputs: vec![slot(0, l), slot(64, l)], scratch: Some((128, 64)) };
        let mut w = Workspace::new(Arena::new(192).unwrap(), vec![io]).unwrap();
        w.step(0, |s| s.outputs.swap(0, 1)).unwrap();
        w.step(0, |s| s.outputs[0].set(&[0], 5.0f32)).unwrap();
        assert_eq!(w.arena().view(&slot(0, l)).unwrap().get::<f32>(&[0]), 5.0);
    }

    #[test]
    fn offsets_and_strides_that_wrap_around_are_refused() {
        let scalar = Layout::contiguous(Shape::scalar());
        assert!(Arena::new(64).unwrap().view(&slot(usize::MAX - 3, scalar)).is_err());
        assert!(Layout::channels_last(Shape::new(&[1, 1, 3, 1]).unwrap(), 1 << 63).is_err());
    }

    #[test]
    fn slots_outside_the_arena_are_refused() {
        let l = Layout::contiguous(Shape::new(&[16]).unwrap());
        assert!(Arena::new(63).unwrap().view(&slot(0, l)).is_err());
        assert!(Arena::new(66).unwrap().view(&slot(2, l)).is_err());
    }
}
