//! Raw addresses that tasks of one loop share.

/// A pointer that may cross threads: the tasks that share it touch disjoint elements, or only read.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub(crate) *mut T);

// SAFETY: whoever builds one vouches that concurrent uses touch disjoint elements or only read.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    /// The address of element `i`. (A method, so that closures capture the whole and not the bare pointer.)
    #[inline(always)]
    pub(crate) fn at(self, i: usize) -> *mut T {
        self.0.wrapping_add(i)
    }
}
