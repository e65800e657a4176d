use std::fmt;

/// How often each pass changed something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    counts: Vec<(&'static str, usize)>,
}

impl Report {
    /// Adds `n` to the count under this name.
    pub fn add(&mut self, what: &'static str, n: usize) {
        match self.counts.iter_mut().find(|(name, _)| *name == what) {
            Some((_, count)) => *count += n,
            None => self.counts.push((what, n)),
        }
    }

    /// The count under this name, 0 if there is none.
    pub fn count(&self, what: &str) -> usize {
        self.counts.iter().find(|(name, _)| *name == what).map_or(0, |(_, n)| *n)
    }

    /// Names and counts, in the order in which the passes ran. Counts of 0 are left out.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, usize)> + '_ {
        self.counts.iter().copied().filter(|(_, n)| *n > 0)
    }
}

/// `silu fused: 57, convolution + activation: 57`, or `nothing to do`.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut any = false;
        for (name, n) in self.iter() {
            write!(f, "{}{name}: {n}", if any { ", " } else { "" })?;
            any = true;
        }
        if any { Ok(()) } else { f.write_str("nothing to do") }
    }
}
