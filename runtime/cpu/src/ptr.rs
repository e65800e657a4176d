//! Raw addresses that tasks of one loop share.

/// A pointer that may cross threads: the tasks that share it touch disjoint elements, or only read.
#[derive(Clone, Copy)]
pub(crate) struct Shared<T>(pub(crate) *mut T);

// SAFETY: whoever builds one vouches that concurrent uses touch disjoint elements or only read.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}
