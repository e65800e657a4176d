//! The most frames that any schedule could answer in time, had it known the future.
//!
//! With one objective for all, a frame that comes later is due later. Then some best schedule runs frames in the order in
//! which they come (swapping two frames of which the later is run first delays neither), and of the frames that could
//! stand in a batch with last member `j`, the latest `b` are the ones due last. So a schedule is a walk over the frames
//! that skips one or takes the next `b`, and for every number of frames skipped only the earliest time at which the machine
//! is free matters. That is exact, and takes frames x skips x sizes steps.

use super::{Machine, Trace};

/// Frames answered in time by the best schedule; `None` if the frames are not due in the order in which they come.
pub fn most_in_time(trace: &Trace, machine: &Machine) -> Option<usize> {
    let frames = &trace.frames;
    if !frames.is_sorted_by_key(|f| f.captured) || !frames.is_sorted_by_key(|f| f.deadline) {
        return None;
    }
    let mut skips = 8;
    loop {
        if let Some(skipped) = fewest_skips(trace, machine, skips.min(frames.len())) {
            return Some(frames.len() - skipped);
        }
        skips *= 2;
    }
}

/// Fewest frames skipped, if `limit` suffices.
fn fewest_skips(trace: &Trace, machine: &Machine, limit: usize) -> Option<usize> {
    const NEVER: u64 = u64::MAX;
    let frames = &trace.frames;
    let width = limit + 1;
    // free[i * width + m]: when the machine is free after the first i frames, m of which were skipped.
    let mut free = vec![NEVER; (frames.len() + 1) * width];
    free[0] = 0;
    let times: Vec<u64> = (0..=machine.most()).map(|b| machine.time(b).as_nanos() as u64).collect();
    for i in 0..frames.len() {
        for m in 0..width {
            let at = free[i * width + m];
            if at == NEVER {
                continue;
            }
            if m < limit {
                let next = &mut free[(i + 1) * width + m + 1];
                *next = at.min(*next);
            }
            let due = frames[i].deadline.nanos();
            for b in 1..=machine.most().min(frames.len() - i) {
                let end = at.max(frames[i + b - 1].captured.nanos()) + times[b];
                if end > due {
                    break;
                }
                let next = &mut free[(i + b) * width + m];
                *next = end.min(*next);
            }
        }
    }
    free[frames.len() * width..].iter().position(|&t| t != NEVER)
}
