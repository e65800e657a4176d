//! How many frames to run now, or how long to wait for more.
//!
//! The rule that keeps a lightly loaded device fast is the simple one: as soon as the device is free, run all that waits.
//! Batches grow by themselves when runs take longer than frames take to come. The planner follows this rule as long as the
//! rule answers every waiting and every expected frame in time. When it does not, something has to give, and the planner
//! compares what it could do now by playing each choice forward over the frames it knows of:
//!
//! * run the most frames that all end in time, dropping the oldest that stand in the way;
//! * run fewer, so that the oldest still make it;
//! * wait for one of the next expected frames.
//!
//! After the choice, play goes on by one of two simple rules (drop the oldest and keep batches large, or keep the oldest and
//! make batches small); the better one counts. A choice costs one for each frame that comes too late, plus the time by
//! which it leaves the device busy beyond the last known frame, at the price of [`Pressure::price`]: nothing on a device that
//! will catch up, as many frames as it answers in that time on one that will not. Without that price an overloaded device
//! would run small batches for ever to save old frames, and pay beyond the horizon.
//!
//! Choosing by simulating a simple rule ahead is rollout (Bertsekas, Tsitsiklis and Wu 1997): never worse than the rule
//! itself as far as the frames come as expected. Everything is bounded, so is the time it takes.

use super::arrivals::Expected;
use super::curve::MAX_BATCH;

/// Waiting frames that are looked at.
pub(super) const MAX_WAITING: usize = 2 * MAX_BATCH;
/// Expected frames that are looked at.
pub(super) const MAX_EXPECTED: usize = 32;
/// Expected frames that are worth a wait: so many.
const WAITS: usize = 4;
/// A wait must save so many frames, since what is expected may not come.
const WAIT_MARGIN: f64 = 0.1;
/// On an overloaded device, a choice other than the largest batch must save so many frames: the comparison of two ways that
/// go on for ever is off by about this much wherever it is cut.
const CHOICE_MARGIN: f64 = 0.5;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Frames to give up, the ones due first.
    pub(super) skip: usize,
    /// Frames to run after those; 0 when none can be answered in time.
    pub(super) size: usize,
    /// When to run them, in nanoseconds; later than asked: wait, and plan again.
    pub(super) start: u64,
}

/// How scarce the device's time is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pressure {
    /// Frames a nanosecond that the device can answer for long.
    pub(super) rate: f64,
    /// Frames lost for each nanosecond of its time: between 0 and `rate`.
    pub(super) price: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Job {
    at: u64,
    due: u64,
}

/// Room for the frames of one decision.
#[derive(Debug)]
pub(super) struct Planner {
    jobs: [Job; MAX_WAITING + MAX_EXPECTED],
    count: usize,
}

/// How play goes on after the choice.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// The oldest frames are dropped until all others end in time.
    Large,
    /// The batch is cut until its oldest frame ends in time.
    Small,
}

/// The curve and its limits, for one decision.
struct Device<'a> {
    times: &'a [u64],
    cap: usize,
    pressure: Pressure,
    /// The last expected frame, or the present.
    known_until: u64,
}

impl Planner {
    pub(super) fn new() -> Planner {
        Planner { jobs: [Job::default(); MAX_WAITING + MAX_EXPECTED], count: 0 }
    }

    /// Plans for a device that is free at `now`. `waiting` are the deadlines of the waiting frames, the earliest first;
    /// `times[b]` is the run time of `b` frames and `cap` the largest batch.
    pub(super) fn plan(
        &mut self,
        now: u64,
        waiting: impl Iterator<Item = u64>,
        expected: &[Expected],
        times: &[u64],
        cap: usize,
        pressure: Pressure,
    ) -> Plan {
        self.count = 0;
        for due in waiting.take(MAX_WAITING) {
            self.jobs[self.count] = Job { at: 0, due };
            self.count += 1;
        }
        let n = self.count;
        let mut due = self.jobs[n.saturating_sub(1)].due;
        for frame in expected.iter().take(MAX_EXPECTED) {
            // Play takes frames in this order; a deadline before those in front is taken as theirs.
            due = due.max(frame.due);
            self.jobs[self.count] = Job { at: frame.at, due };
            self.count += 1;
        }
        if n == 0 {
            return Plan { skip: 0, size: 0, start: now };
        }
        let known_until = self.jobs[self.count - 1].at.max(now);
        let device = Device { times, cap: cap.min(times.len() - 1).max(1), pressure, known_until };
        if self.all_in_time(now, &device) {
            return Plan { skip: 0, size: n.min(device.cap), start: now };
        }
        self.choose(now, n, &device)
    }

    /// Whether running all that waits whenever the device is free answers every frame in time.
    fn all_in_time(&self, now: u64, device: &Device) -> bool {
        let jobs = &self.jobs[..self.count];
        let (mut i, mut free) = (0, now);
        while i < jobs.len() {
            free = free.max(jobs[i].at);
            let mut b = 1;
            while b < device.cap && i + b < jobs.len() && jobs[i + b].at <= free {
                b += 1;
            }
            free = free.saturating_add(device.times[b]);
            if free > jobs[i].due {
                return false;
            }
            i += b;
        }
        true
    }

    fn choose(&self, now: u64, n: usize, device: &Device) -> Plan {
        let times = device.times;
        let mut best = Plan { skip: n, size: 0, start: now };
        let mut least = f64::MAX;
        let overload =
            if device.pressure.rate > 0.0 { device.pressure.price / device.pressure.rate } else { 0.0 };
        let mut margin = CHOICE_MARGIN * overload;
        let mut skip = n;
        for size in (1..=n.min(device.cap)).rev() {
            if least < f64::MAX && !worth_trying(size) {
                continue;
            }
            // A smaller batch ends earlier and loses fewer.
            let end = now + times[size];
            while skip > 0 && self.jobs[skip - 1].due >= end {
                skip -= 1;
            }
            if skip + size > n {
                continue;
            }
            let largest = least == f64::MAX;
            for rule in [Rule::Large, Rule::Small] {
                let below = if largest || best.size == 0 { least } else { least - margin - 1e-9 };
                if let Some(cost) = self.play(skip + size, end, rule, skip as f64, below, device) {
                    least = cost;
                    if !largest {
                        margin = 0.0;
                    }
                    best = Plan { skip, size, start: now };
                }
            }
        }
        for k in n..self.count.min(n + WAITS).min(device.cap) {
            let at = self.jobs[k].at;
            for rule in [Rule::Large, Rule::Small] {
                if let Some(cost) = self.play(0, at, rule, 0.0, least - WAIT_MARGIN, device) {
                    least = cost;
                    best = Plan { skip: 0, size: 0, start: at };
                }
            }
        }
        best
    }

    /// The cost of going on by `rule` from frame `i` with the device free at `free`, if it stays below `below`.
    fn play(
        &self,
        mut i: usize,
        mut free: u64,
        rule: Rule,
        lost: f64,
        below: f64,
        device: &Device,
    ) -> Option<f64> {
        let Device { times, cap, pressure, .. } = device;
        let jobs = &self.jobs[..self.count];
        if lost >= below {
            return None;
        }
        let mut cost = lost;
        let mut j = i;
        while i < jobs.len() {
            free = free.max(jobs[i].at);
            j = j.max(i);
            while j < jobs.len() && jobs[j].at <= free {
                j += 1;
            }
            let mut b = (j - i).min(*cap);
            match rule {
                Rule::Large => {
                    while b > 0 && jobs[i].due < free + times[b] {
                        cost += 1.0;
                        i += 1;
                        b = (j - i).min(*cap);
                    }
                }
                Rule::Small => {
                    while i < j && jobs[i].due < free + times[1] {
                        cost += 1.0;
                        i += 1;
                    }
                    b = (j - i).min(*cap);
                    while b > 1 && jobs[i].due < free + times[b] {
                        b -= 1;
                    }
                }
            }
            if cost >= below {
                return None;
            }
            if b == 0 {
                continue;
            }
            if i + b == jobs.len() && pressure.rate > 0.0 {
                // The last frames would share their run with later ones that are not known yet.
                free += (b as f64 / pressure.rate) as u64;
                break;
            }
            free += times[b];
            i += b;
        }
        cost += (free as f64 - device.known_until as f64) * pressure.price;
        (cost < below).then_some(cost)
    }
}

/// Two sizes in each doubling are enough to choose from.
fn worth_trying(size: usize) -> bool {
    size <= 2 || size.is_multiple_of(1 << (size.ilog2() - 1))
}
