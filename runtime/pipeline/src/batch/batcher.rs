//! The batcher: what waits, what runs, and what is given up.

use std::collections::VecDeque;
use std::time::Duration;

use super::arrivals::{ArrivalModel, Expected};
use super::curve::{MAX_BATCH, RunTimes};
use super::memory::{MemoryGovernor, MemoryLimits, MemoryState};
use super::plan::{MAX_EXPECTED, MAX_WAITING, Planner, Pressure};
use super::queue::{Queue, Ticket};
use crate::clock::Time;
use crate::{Error, ErrorKind, Result};

/// What is wanted of one stream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Objective {
    /// A result is of use until so long after the frame's capture; none: whenever it comes.
    pub latency: Option<Duration>,
    /// Results a second that are enough; none: every frame.
    pub rate: Option<f64>,
}

/// What to do when not every frame can be answered in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shedding {
    /// Frames are dropped, the oldest first, so that as many as possible are answered.
    DropOldest,
    /// Each stream keeps every second, third, ... frame evenly, so that results come at regular distances.
    LowerRate,
    /// The model runs on smaller pictures; frames are dropped where that is not enough.
    SmallerInput,
    /// Nothing is dropped: late is better than never.
    KeepAll,
}

/// Why a frame was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No run could still answer it in time.
    Late,
    /// Answering it would have made more frames late.
    Overload,
    /// Newer frames of its stream took its place.
    Replaced,
    /// Its stream's rate was lowered, or is above what was asked for.
    Rate,
    /// It is no newer than one that came before, or of an unknown stream.
    OutOfOrder,
}

/// Number of [`Reason`]s.
const REASONS: usize = 5;

/// What the batcher wants now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Run the frames of [`Batcher::batch`].
    Launch,
    /// Ask again at this time, or when a frame comes or a run ends, whichever is first.
    Wait(Time),
}

/// A run that goes on while the next is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    level: usize,
    size: usize,
    parts: usize,
}

/// What the batcher is to do.
#[derive(Clone, Debug)]
pub struct BatcherConfig {
    /// What is wanted of each stream.
    pub streams: Vec<Objective>,
    /// What to do when not all can be answered.
    pub shedding: Shedding,
    /// Frames of one stream that may wait; the oldest is dropped for the next one.
    pub waiting: usize,
    /// The largest batch, besides what the model, its memory and its run times allow.
    pub most: usize,
    /// Whether expected frames are taken into account.
    pub lookahead: bool,
    /// Bytes of a run by number of frames, from 0; empty: memory sets no limit.
    pub bytes: Vec<u64>,
    /// Bytes a run may take.
    pub budget: u64,
    /// When to give way for lack of memory.
    pub memory: MemoryLimits,
}

impl BatcherConfig {
    /// `streams` streams of which every frame is due `latency` after its capture; three frames of each may wait.
    pub fn new(streams: usize, latency: Option<Duration>) -> BatcherConfig {
        BatcherConfig {
            streams: vec![Objective { latency, rate: None }; streams],
            shedding: Shedding::DropOldest,
            waiting: 3,
            most: MAX_BATCH,
            lookahead: true,
            bytes: Vec::new(),
            budget: u64::MAX,
            memory: MemoryLimits::default(),
        }
    }
}

#[derive(Clone, Debug)]
struct Stream {
    objective: Objective,
    newest: Option<u64>,
    waiting: usize,
    /// When the next frame of the wanted rate is due to be taken.
    next: Time,
    /// Frames that its lowered rate has saved up: one is kept for each whole one.
    credit: f64,
}

/// A model at one input size.
#[derive(Clone, Debug)]
struct Level {
    curve: RunTimes,
    /// [`RunTimes::knee`] within all limits.
    cap: usize,
}

/// Decides which frames are run together, and when. See the [module](super) for the rules.
///
/// Pure: it knows no clock and no thread, and allocates nothing after it was made. The caller says what happens
/// ([`offer`](Self::offer), [`finished`](Self::finished), [`memory`](Self::memory)) and asks [`decide`](Self::decide);
/// frames that were given up come out of [`shed`](Self::shed).
#[derive(Debug)]
pub struct Batcher {
    shedding: Shedding,
    lookahead: bool,
    most: usize,
    room: usize,
    streams: Vec<Stream>,
    queue: Queue,
    arrivals: ArrivalModel,
    levels: Vec<Level>,
    level: usize,
    governor: Option<MemoryGovernor>,
    pressure: Pressure,
    shortest_latency: Duration,
    /// Part of the frames that each stream keeps.
    keep: f64,
    reviewed: Time,
    roomy_since: Option<Time>,
    planner: Planner,
    expected: [Expected; MAX_EXPECTED],
    batch: Vec<Ticket>,
    /// Input size and number of parts.
    running: Option<(usize, usize)>,
    given_up: VecDeque<(Ticket, Reason)>,
    /// Room in it.
    tell: usize,
    dropped: [u64; REASONS],
}

/// Given-up frames that wait to be fetched, at least: as many as can wait and be given up at once are always told, and beyond that
/// the oldest are only counted.
const GIVEN_UP: usize = 1024;
/// Rate and input size are looked at again after this long.
const REVIEW: Duration = Duration::from_millis(250);
/// A larger input must fit for this long before it is taken.
const ROOMY: Duration = Duration::from_secs(3);
/// Part of what the device can sustain that a lowered rate, or an input size, may ask for.
const FILL: f64 = 0.9;

impl Batcher {
    /// A batcher for a model with these run times: one entry for each input size, the largest first.
    pub fn new(config: &BatcherConfig, levels: Vec<RunTimes>) -> Result<Batcher> {
        let bad = |what: &str| Err(Error::new(ErrorKind::Value, what));
        if levels.is_empty() {
            return bad("no run times: those of at least one input size are needed");
        }
        if config.streams.is_empty() {
            return bad("no streams: at least one is needed");
        }
        if config.waiting == 0 || config.most == 0 {
            return bad("no frame may wait or none may run: at least one expected");
        }
        if config.streams.iter().any(|s| s.rate.is_some_and(|r| !(r > 0.0 && r.is_finite()))) {
            return bad("a rate that is not a number above zero");
        }
        let latency = |s: &Objective| s.latency.unwrap_or(Duration::from_secs(3600));
        let latencies: Vec<Duration> = config.streams.iter().map(latency).collect();
        let room = config.streams.len().saturating_mul(config.waiting).min(1 << 16);
        let governor = (!config.bytes.is_empty())
            .then(|| MemoryGovernor::new(config.memory, &config.bytes, config.budget));
        // All that wait, and the one that is offered.
        let tell = GIVEN_UP.max(room + 1);
        let stream = |objective: &Objective| Stream {
            objective: *objective,
            newest: None,
            waiting: 0,
            next: Time::ZERO,
            credit: 1.0,
        };
        let mut batcher = Batcher {
            shedding: config.shedding,
            lookahead: config.lookahead && config.shedding != Shedding::KeepAll,
            most: config.most.min(MAX_BATCH),
            room: config.waiting,
            streams: config.streams.iter().map(stream).collect(),
            queue: Queue::new(room),
            arrivals: ArrivalModel::new(&latencies),
            levels: levels.into_iter().map(|curve| Level { curve, cap: 1 }).collect(),
            level: 0,
            governor,
            pressure: Pressure::default(),
            shortest_latency: latencies.iter().copied().min().unwrap_or_default(),
            keep: 1.0,
            reviewed: Time::ZERO,
            roomy_since: None,
            planner: Planner::new(),
            expected: [Expected { at: 0, due: 0 }; MAX_EXPECTED],
            batch: Vec::with_capacity(MAX_BATCH),
            running: None,
            given_up: VecDeque::with_capacity(tell),
            tell,
            dropped: [0; REASONS],
        };
        batcher.set_caps();
        Ok(batcher)
    }

    /// Ticket `id` of stream `source`, taken at `captured`, is there. Ids grow within a stream, and so do capture times.
    pub fn offer(&mut self, now: Time, source: u32, id: u64, captured: Time) {
        let mut frame = Ticket { source, id, captured, deadline: Time::NEVER };
        let place = source as usize;
        let Some(stream) = self.streams.get_mut(place) else {
            return self.give_up(frame, Reason::OutOfOrder);
        };
        if stream.newest.is_some_and(|newest| id <= newest) {
            return self.give_up(frame, Reason::OutOfOrder);
        }
        stream.newest = Some(id);
        if let Some(latency) = stream.objective.latency {
            frame.deadline = captured + latency;
        }
        if let Some(rate) = stream.objective.rate {
            // A frame that comes slightly early is the one that was meant.
            let period = Duration::from_secs_f64(1.0 / rate);
            if captured + period / 8 < stream.next {
                return self.give_up(frame, Reason::Rate);
            }
            let slot = if captured > stream.next + period { captured } else { stream.next.max(Time::ZERO) };
            stream.next = slot + period;
        }
        self.arrivals.arrived(source, captured, now);
        self.review(now);
        if self.shedding == Shedding::LowerRate {
            let stream = &mut self.streams[place];
            stream.credit += self.keep;
            if stream.credit < 1.0 {
                return self.give_up(frame, Reason::Rate);
            }
            stream.credit -= 1.0;
        }
        if self.streams[place].waiting >= self.room {
            let oldest = self.queue.iter().position(|f| f.source == source);
            self.drop_at(oldest.unwrap_or(0), Reason::Replaced);
        }
        if self.queue.push(frame) {
            self.streams[place].waiting += 1;
        } else {
            self.give_up(frame, Reason::Replaced);
        }
    }

    /// What to do at `now`. While a run is on its way, the answer is to wait.
    pub fn decide(&mut self, now: Time) -> Decision {
        self.decide_for(now, now)
    }

    /// What to do at `now` for a device that is free at `start`: the next batch can be made ready during a run.
    pub fn decide_for(&mut self, now: Time, start: Time) -> Decision {
        if self.running.is_some() {
            return Decision::Wait(Time::NEVER);
        }
        let start = start.max(now);
        let level = &self.levels[self.level];
        let cap = level.cap;
        if self.shedding == Shedding::KeepAll {
            return self.launch(0, self.queue.len().min(cap));
        }
        let single = level.curve.nanos(1);
        while self.queue.first().is_some_and(|f| f.deadline.nanos() < start.nanos() + single) {
            self.drop_at(0, Reason::Late);
        }
        let Some(first) = self.queue.first() else { return Decision::Wait(Time::NEVER) };
        let due = first.deadline;
        let n = self.queue.len();
        let mut foreseen = 0;
        if self.lookahead {
            let until = start + self.shortest_latency;
            foreseen = self.arrivals.expected(start, until, &mut self.expected);
        }
        let level = &self.levels[self.level];
        let times = level.curve.table();
        let waiting = self.queue.iter().map(|f| f.deadline.nanos());
        let expected = &self.expected[..foreseen];
        let plan = self.planner.plan(start.nanos(), waiting, expected, times, cap, self.pressure);
        if plan.start > start.nanos() {
            return Decision::Wait(Time::from_nanos(plan.start));
        }
        if self.lookahead && plan.skip == 0 && plan.size == n && n < cap {
            // Frames that come together are run together: a hundredth of a run is waited for the next one.
            let moment = Duration::from_nanos(single / 100);
            let until = self.arrivals.last() + moment;
            let fits = until.nanos() + times[n + 1] <= due.nanos();
            if until > start && fits && self.arrivals.close_together(moment) {
                return Decision::Wait(until);
            }
        }
        self.launch(plan.skip, plan.size)
    }

    /// The frames to run, after [`Decision::Launch`]: in the order of their deadlines, each stream's in order.
    pub fn batch(&self) -> &[Ticket] {
        &self.batch
    }

    /// Which input size to run them at: 0 is the largest.
    pub fn level(&self) -> usize {
        self.running.map_or(self.level, |(level, _)| level)
    }

    /// The batch in the parts that fit into memory now: one, unless memory shrank since it was decided.
    pub fn parts(&self) -> impl Iterator<Item = &[Ticket]> {
        self.batch.chunks(self.memory_limit())
    }

    /// The run has ended. It took `took`, or failed, if none.
    pub fn finished(&mut self, took: Option<Duration>) {
        if let Some(run) = self.detach() {
            self.ran(run, took);
        }
    }

    /// Lets go of the launched run, so that the next can be decided while it goes on; [`Self::ran`] is told of its end.
    pub fn detach(&mut self) -> Option<Run> {
        let (level, parts) = self.running.take()?;
        Some(Run { level, size: self.batch.len(), parts })
    }

    /// A detached run has ended. It took `took`, or failed, if none.
    pub fn ran(&mut self, run: Run, took: Option<Duration>) {
        if let Some(took) = took
            && run.parts == 1
        {
            self.levels[run.level].curve.observe(run.size, took);
            self.set_caps();
        }
    }

    /// What the system's memory looks like.
    pub fn memory(&mut self, now: Time, state: MemoryState) {
        if self.governor.as_mut().is_some_and(|g| g.observe(now, state)) {
            self.set_caps();
        }
    }

    /// A frame that was given up, and why; each comes out once.
    pub fn shed(&mut self) -> Option<(Ticket, Reason)> {
        self.given_up.pop_front()
    }

    /// Frames given up for `reason` so far.
    pub fn dropped(&self, reason: Reason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Whether another frame of stream `source` can wait without replacing one.
    pub fn has_room(&self, source: u32) -> bool {
        self.streams.get(source as usize).is_some_and(|s| s.waiting < self.room)
    }

    /// Frames that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The largest batch at present, by the model, its run times and memory.
    pub fn cap(&self) -> usize {
        self.levels[self.level].cap
    }

    /// The part of the frames that each stream keeps, 0..1, where the rate is lowered.
    pub fn kept_rate(&self) -> f64 {
        self.keep
    }

    /// Run times as they are known now, at the present input size.
    pub fn curve(&self) -> &RunTimes {
        &self.levels[self.level].curve
    }

    /// The most frames that memory allows in one run.
    pub fn memory_limit(&self) -> usize {
        self.governor.as_ref().map_or(MAX_BATCH, MemoryGovernor::limit)
    }

    fn launch(&mut self, skip: usize, size: usize) -> Decision {
        for _ in 0..skip {
            self.drop_at(0, Reason::Overload);
        }
        self.batch.clear();
        for _ in 0..size {
            if let Some(frame) = self.queue.pop() {
                self.streams[frame.source as usize].waiting -= 1;
                self.batch.push(frame);
            }
        }
        if self.batch.is_empty() {
            return Decision::Wait(Time::NEVER);
        }
        let parts = self.batch.len().div_ceil(self.memory_limit());
        self.running = Some((self.level, parts));
        Decision::Launch
    }

    fn drop_at(&mut self, place: usize, reason: Reason) {
        if let Some(frame) = self.queue.remove(place) {
            self.streams[frame.source as usize].waiting -= 1;
            self.give_up(frame, reason);
        }
    }

    fn give_up(&mut self, frame: Ticket, reason: Reason) {
        self.dropped[reason as usize] += 1;
        if self.given_up.len() == self.tell {
            self.given_up.pop_front();
        }
        self.given_up.push_back((frame, reason));
    }

    fn set_caps(&mut self) {
        let limit = self.most.min(self.memory_limit());
        for level in &mut self.levels {
            level.cap = level.curve.knee(limit);
        }
        self.set_pressure();
    }

    /// What the device can sustain at an input size, frames a second, for what comes now.
    fn sustained(&self, level: usize, arriving: f64) -> f64 {
        let Level { curve, cap } = &self.levels[level];
        curve.sustained(arriving, self.shortest_latency, *cap)
    }

    fn set_pressure(&mut self) {
        let arriving =
            self.arrivals.rate() * if self.shedding == Shedding::LowerRate { self.keep } else { 1.0 };
        let rate = self.sustained(self.level, arriving);
        // Time has its price from where chance alone makes queues grow.
        let overload = ((arriving / rate - 0.8) / 0.2).clamp(0.0, 1.0);
        self.pressure = Pressure { rate: rate / 1e9, price: overload * rate / 1e9 };
    }

    /// Looks at load, rate and input size again, now and then.
    fn review(&mut self, now: Time) {
        if now.since(self.reviewed) < REVIEW.min(self.shortest_latency) {
            return;
        }
        self.reviewed = now;
        let arriving = self.arrivals.rate();
        match self.shedding {
            Shedding::LowerRate if arriving > 0.0 => {
                let wanted = (FILL * self.sustained(self.level, arriving) / arriving).min(1.0);
                // Down at once, up slowly.
                self.keep = if wanted < self.keep { wanted } else { self.keep + 0.1 * (wanted - self.keep) };
                if self.keep > 0.99 {
                    self.keep = 1.0;
                }
            }
            Shedding::SmallerInput => {
                if arriving > FILL * self.sustained(self.level, arriving)
                    && self.level + 1 < self.levels.len()
                {
                    self.level += 1;
                    self.roomy_since = None;
                } else if self.level > 0 && arriving < 0.8 * FILL * self.sustained(self.level - 1, arriving) {
                    let since = *self.roomy_since.get_or_insert(now);
                    if now.since(since) >= ROOMY {
                        self.level -= 1;
                        self.roomy_since = None;
                    }
                } else {
                    self.roomy_since = None;
                }
            }
            _ => {}
        }
        self.set_pressure();
    }
}

const _: () = assert!(MAX_WAITING >= MAX_BATCH);
